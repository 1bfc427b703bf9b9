r"""Bounds of jobs at given prices with multipliers of their own.

The bound (3) of `formulations/hindsight/price_bound.py` holds for any multipliers; those of
`best_prices.py` come from a family with two parameters. Here every job gets some that are better
where it matters: in the interval that decides its bound, :math:`\min\{v(\text{start}),
v(\text{end})\}` is maximised over all :math:`\mu > 0`, smoothed, by L-BFGS-B (SciPy) over their
logarithms; then in the interval that decides it now, and so on. New multipliers are listed with the
others of the training, so that the certificate has the same form, and serve all of its jobs.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize

from goodalloc.formulations.hindsight.price_bound import Multipliers
from goodalloc.solvers.hindsight.active_jobs import hull_corners
from goodalloc.solvers.hindsight.phase_earnings import FAR, intervals_that_count, phase_earnings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int

    from goodalloc.models.hindsight.offline_problem import OfflineJob, OfflineProblem, Training
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.hindsight.best_prices import HindsightBound

#: Smoothing of h, in weights of a job, and of the minimum over both ends, in seconds of the job;
#: steps with each, and intervals of a job in which multipliers are improved.
SMOOTHING, STEPS, INTERVALS = ((0.03, 5.0), (0.005, 1.0)), 25, 6

#: Relative gain below which the next interval is not tried.
LEAST_GAIN = 1e-4

#: Least multiplier from which it climbs, in weights of a job.
LEAST = 1e-12


def with_free_multipliers(problem: OfflineProblem, bound: HindsightBound) -> HindsightBound:
    """Return a bound with the same prices and further multipliers, no smaller.

    Parameters
    ----------
    problem
        The problem.
    bound
        Bound on its schedules.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> from goodalloc.solvers.hindsight import hindsight_bound, with_free_multipliers
    >>> rates = np.array([[[1.0, 1.5], [1.0, 1.1]]])
    >>> training = Training("two", np.array([600.0, 900.0]), np.array([1.0, 2.0]), rates)
    >>> jobs = (OfflineJob("a", "two", 0.0, 0.0), OfflineJob("b", "two", 0.0, 0.0))
    >>> problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 2.0}))
    >>> bound = hindsight_bound(problem)
    >>> with_free_multipliers(problem, bound).value >= bound.value
    True
    """
    found, multipliers = bound.job_bounds.copy(), dict(bound.multipliers)
    for training in problem.trainings:
        rows = problem.jobs_of(training.name).tolist()
        if not rows:
            continue
        told = bound.multipliers[training.name]
        known, fresh = _Rows(training, bound, told.values), []
        for row in rows:
            job, far = problem.jobs[row], FAR * found[row] / problem.jobs[row].weight
            fresh += _improved(known, job, far)
        values = np.concatenate([told.values, *fresh])
        every = _Rows(training, bound, values)
        for row in rows:
            job, far = problem.jobs[row], FAR * found[row] / problem.jobs[row].weight
            found[row] = max(found[row], every.bound(job, far))
        multipliers[training.name] = Multipliers.of(training, values, told.grid)
    value = bound.value + float((found - bound.job_bounds).sum())
    # the rows of `patterns` are those of the old multipliers, which come first
    return replace(bound, value=value, job_bounds=found, multipliers=multipliers)


class _Part(NamedTuple):
    """Part of the intervals of a job, from the one in which it begins.

    Attributes
    ----------
    first
        Index of that one.
    lengths
        Seconds of the job in each.
    cost
        Its weighted completion time at the start and at the end of each; shape (2, intervals).
    behind
        Least cost of a job that ends behind them.
    """

    first: int
    lengths: Float[Floats, " intervals"]
    cost: Float[Floats, "ends intervals"]
    behind: float


class _Rows:
    """Multipliers of a training, with what they earn."""

    def __init__(self, training: Training, bound: HindsightBound, values: Floats) -> None:
        self.training, self.edges, self.prices = training, bound.edges, bound.prices
        self.values = values
        self._earned = phase_earnings(training, values, bound.prices, slice(None))

    def part(self, job: OfflineJob, far: float) -> _Part:
        """Return the intervals of a job that may matter."""
        edges = self.edges
        first, stop, behind = intervals_that_count(job, edges, far)
        starts, ends = np.maximum(edges[first:stop], job.begin), edges[first + 1 : stop + 1]
        cost = job.weight * (np.stack([starts, ends]) - job.release)
        return _Part(first, ends - starts, cost, behind)

    def values_of(self, part: _Part) -> Float[Floats, "patterns intervals"]:
        """Return the bound of a job that ends in each interval, under each multipliers."""
        own = self._earned[:, part.first : part.first + part.lengths.size]
        return line_values(self.values @ self.training.work, own, part)

    def bound(self, job: OfflineJob, far: float) -> float:
        """Return the bound of a job."""
        part = self.part(job, far)
        if not part.lengths.size:
            return part.behind
        return min(part.behind, float(self.values_of(part).max(axis=0).min()))


def line_values(
    worth: Float[Floats, " patterns"], earned: Float[Floats, "patterns intervals"], part: _Part
) -> Float[Floats, "patterns intervals"]:
    """Return the smaller of v at the start and at the end of each interval."""
    total = np.cumsum(earned * part.lengths, axis=1)
    at_start = part.cost[0] + worth[:, None] - total + earned * part.lengths
    return np.asarray(np.minimum(at_start, part.cost[1] + worth[:, None] - total))


def _improved(rows: _Rows, job: OfflineJob, far: float) -> list[Float[Floats, "one phases"]]:
    """Return better multipliers for a job."""
    part = rows.part(job, far)
    if not part.lengths.size:
        return []
    each = rows.values_of(part)
    best, start = each.max(axis=0), rows.values[each.argmax(axis=0)]
    pieces = _Pieces.of(rows.training)
    fresh: list[Floats] = []
    for _ in range(INTERVALS):
        end = int(best.argmin())
        if best[end] >= part.behind:
            break
        prices = rows.prices[part.first : part.first + end + 1]
        values = _climbed(pieces, rows.training, start[end], prices, _until(part, end), job.weight)
        earned = phase_earnings(
            rows.training,
            values[None],
            rows.prices[part.first : part.first + part.lengths.size],
            slice(None),
        )
        value = line_values(values[None] @ rows.training.work, earned, part)[0]
        if value[end] <= best[end] * (1 + LEAST_GAIN):
            break
        fresh.append(values[None])
        start[value > best] = values
        best = np.maximum(best, value)
    return fresh


def _until(part: _Part, end: int) -> _Part:
    """Return the intervals up to one."""
    stop = end + 1
    return _Part(part.first, part.lengths[:stop], part.cost[:, :stop], part.behind)


class _Pieces(NamedTuple):
    """Numbers of GPUs that can be best in some phase at some price: linear pieces of h.

    Attributes
    ----------
    phase, row
        Phase, and type of GPU.
    gpus, rate
        Number of GPUs, and progress a second.
    """

    phase: Int[Indices, " pieces"]
    row: Int[Indices, " pieces"]
    gpus: Float[Floats, " pieces"]
    rate: Float[Floats, " pieces"]

    @classmethod
    def of(cls, training: Training) -> _Pieces:
        """Return the corners of the concave hulls of all rates."""
        found = [
            (phase, row, float(training.gpus[column]), float(rates[column]))
            for row, own in enumerate(training.rates)
            for phase, rates in enumerate(own)
            for column in hull_corners(training.gpus, rates)
        ]
        phase, row, gpus, rate = zip(*found, strict=True)
        return cls(np.array(phase), np.array(row), np.array(gpus), np.array(rate))


def _climbed(
    pieces: _Pieces,
    training: Training,
    values: Float[Floats, " phases"],
    prices: Float[Floats, "intervals types"],
    part: _Part,
    weight: float,
) -> Float[Floats, " phases"]:
    """Return better multipliers for a job that ends in the last of some intervals."""
    paid = prices[:, pieces.row] * pieces.gpus / weight
    lengths, cost = part.lengths, part.cost[:, -1] / weight
    phases, work = training.num_phases, training.work
    starts = np.flatnonzero(np.diff(pieces.phase, prepend=-1))
    parts = _ascending(pieces.phase[starts])

    def lost(logarithms: Floats, smoothing: tuple[float, float]) -> tuple[float, Floats]:
        now = np.exp(logarithms)
        surplus = now[pieces.phase] * pieces.rate - paid
        top = np.maximum(surplus.max(axis=1), 0.0)
        part_of = np.exp((surplus - top[:, None]) / smoothing[0])
        whole = part_of.sum(axis=1) + np.exp(-top / smoothing[0])
        earned = (top + smoothing[0] * np.log(whole)) * lengths
        busy = part_of * (lengths / whole)[:, None] * pieces.rate
        done = _by_phase(busy, starts, parts, phases)
        at = cost + now @ work - earned.sum() + np.array([earned[-1], 0.0])
        share = np.exp(-(at - at.min()) / smoothing[1])
        value = float(at.min() - smoothing[1] * np.log(share.mean()))
        first = share[0] / share.sum()  # the part in which the last interval is not there
        slope = work - done.sum(axis=0) + first * done[-1]
        return -value, -slope * now

    logarithms = np.log(np.maximum(values / weight, LEAST))
    for smoothing in SMOOTHING:
        found = minimize(
            lost,
            logarithms,
            args=(smoothing,),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": STEPS, "maxfun": 2 * STEPS},
        )
        logarithms = found.x
    return np.asarray(weight * np.exp(logarithms))


def _ascending(phase: Int[Indices, " runs"]) -> list[tuple[slice, Int[Indices, " runs"]]]:
    """Return parts of ascending phases, at most as many as types of GPU, and the phases of each."""
    ends = [0, *(np.flatnonzero(np.diff(phase) <= 0) + 1).tolist(), phase.size]
    return [(slice(*part), phase[slice(*part)]) for part in pairwise(ends)]


def _by_phase(
    busy: Float[Floats, "intervals pieces"],
    starts: Int[Indices, " runs"],
    parts: Sequence[tuple[slice, Int[Indices, " runs"]]],
    phases: int,
) -> Float[Floats, "intervals phases"]:
    """Return sums over the pieces of every phase."""
    found = np.zeros((len(busy), phases))
    sums = np.add.reduceat(busy, starts, axis=1)
    for part, own in parts:
        found[:, own] += sums[:, part]
    return found
