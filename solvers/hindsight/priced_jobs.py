r"""Bound (3) of `formulations/hindsight/price_bound.py` for all jobs at once, and its slope.

The minimum of a job over the intervals in which it may end has corners in the prices. For the
search of prices it is smoothed: :math:`-\tau \log \sum_t e^{-v_t / \tau}`, which is below the
minimum by at most :math:`\tau` times the logarithm of the number of intervals, and whose gradient
is a mean over schedules: with what probability the job ends when, and on how many GPUs it is.

One jitted operation over (jobs, intervals) for every pattern of multipliers.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int

    from goodalloc.formulations.hindsight.price_bound import Multipliers
    from goodalloc.models.hindsight.offline_problem import OfflineJob
    from goodalloc.models.support.array_types import Floats, Indices

#: Jobs of a jitted call, so that it is compiled once.
CHUNK = 8

#: Probability of a schedule that counts as none.
NEVER = 1e-9


class PricedJobs(NamedTuple):
    """Jobs of one training under given prices.

    Attributes
    ----------
    bounds
        Bound (3) of every job.
    smoothed
        The smoothed bound.
    gpu_seconds
        GPU-seconds of all of them in every interval, mean over the schedules of the smoothed bound.
    ends
        Index of the interval in which the schedule of the bound ends; the number of intervals for
        one that ends behind them.
    patterns
        Its multipliers; -1 where it ends behind the intervals.
    """

    bounds: Float[Floats, " jobs"]
    smoothed: Float[Floats, " jobs"]
    gpu_seconds: Float[Floats, "intervals types"]
    ends: Int[Indices, " jobs"]
    patterns: Int[Indices, " jobs"]


def price_jobs(
    jobs: Sequence[OfflineJob],
    multipliers: Multipliers,
    edges: Float[Floats, " edges"],
    prices: Float[Floats, "intervals types"],
    smoothing: float,
) -> PricedJobs:
    """Return the bounds of jobs of one training, and what they take of the GPUs.

    Parameters
    ----------
    jobs
        The jobs.
    multipliers
        Multipliers of their training.
    edges, prices
        Seconds between intervals, and prices of a GPU-second in each.
    smoothing
        The parameter tau of the smoothed minimum, in units of the objective; above 0.
    """
    lengths = np.diff(edges)
    earned, used = multipliers.earnings(prices)
    total = np.zeros((len(earned), edges.size))
    np.cumsum(earned * lengths, axis=1, out=total[:, 1:])
    release, begin, weight = (
        np.array([getattr(job, name) for job in jobs]) for name in ("release", "begin", "weight")
    )
    first = np.clip(np.searchsorted(edges, begin, side="right") - 1, 0, lengths.size - 1)
    before = begin - edges[first]
    at_begin = total[:, first] + earned[:, first] * before
    lines = _Lines(edges, total, multipliers.work_worth, at_begin, release, begin, weight, first)
    value = _values(lines)
    behind = weight * (edges[-1] - release)
    inside = value.min(axis=1)
    bounds = np.minimum(inside, behind)
    chance = np.exp((bounds[:, None] - value) / smoothing)
    whole = chance.sum(axis=1) + np.exp((bounds - behind) / smoothing)
    chance /= whole[:, None]
    ends = np.where(inside <= behind, value.argmin(axis=1), lengths.size)
    likely = chance > NEVER
    likely[np.arange(len(jobs)), ends.clip(max=lengths.size - 1)] = True
    row, column = np.nonzero(likely)
    pattern, stop = lines.best(row, column)
    covered = _covered(lines, _Schedules(row, pattern, stop, chance[row, column]))
    seconds = (covered[None] * used * lengths).sum(axis=1).T
    best = np.full(len(jobs), -1)
    at_bound = ends[row] == column
    best[row[at_bound]] = pattern[at_bound]
    return PricedJobs(bounds, bounds - smoothing * np.log(whole), seconds, ends, best)


class _Lines(NamedTuple):
    """Lines (2) of jobs of one training, for every pattern linear in each interval.

    Attributes
    ----------
    edges
        Seconds between the intervals.
    total
        Earnings up to each edge; shape (patterns, edges).
    worth
        Worth of the work; shape (patterns,).
    at_begin
        Earnings up to the begin of each job; shape (patterns, jobs).
    release, begin, weight
        Of the jobs.
    first
        Interval in which each begins.
    """

    edges: Float[Floats, " edges"]
    total: Float[Floats, "patterns edges"]
    worth: Float[Floats, " patterns"]
    at_begin: Float[Floats, "patterns jobs"]
    release: Float[Floats, " jobs"]
    begin: Float[Floats, " jobs"]
    weight: Float[Floats, " jobs"]
    first: Int[Indices, " jobs"]

    def best(
        self, row: Int[Indices, " pairs"], column: Int[Indices, " pairs"]
    ) -> tuple[Int[Indices, " pairs"], Int[Indices, " pairs"]]:
        """Return the best pattern for pairs of job and interval, and the edge at which it ends."""
        starts = column == self.first[row]
        left = np.where(starts, self.begin[row], self.edges[column])
        at_begin, weight = self.at_begin[:, row], self.weight[row]
        before = np.where(starts, at_begin, self.total[:, column])
        offset = self.worth[:, None] + at_begin
        at_left = weight * left + offset - before
        at_right = weight * self.edges[column + 1] + offset - self.total[:, column + 1]
        pattern = np.minimum(at_left, at_right).argmax(axis=0)
        pair = np.arange(row.size)
        later = at_right[pattern, pair] < at_left[pattern, pair]
        return pattern, column + later


class _Schedules(NamedTuple):
    """Schedules of jobs.

    Attributes
    ----------
    row, pattern, stop
        Job, its multipliers, and the edge at which it ends.
    chance
        Probability of the schedule.
    """

    row: Int[Indices, " schedules"]
    pattern: Int[Indices, " schedules"]
    stop: Int[Indices, " schedules"]
    chance: Float[Floats, " schedules"]


def _covered(lines: _Lines, schedules: _Schedules) -> Float[Floats, "patterns intervals"]:
    """Return how many jobs train with each pattern in each interval, on the mean over schedules."""
    row, pattern, stop, chance = schedules
    begin, shape = lines.first[row], lines.total.shape
    edges, size = shape[1], lines.total.size
    weight = np.where(stop > begin, chance, 0.0)
    missed = (lines.begin - lines.edges[lines.first]) / np.diff(lines.edges)[lines.first]
    starts = np.bincount(pattern * edges + begin, weight, size)
    stops = np.bincount(pattern * edges + stop, weight, size)
    late = np.bincount(pattern * edges + begin, weight * missed[row], size)
    covered = np.cumsum((starts - stops).reshape(shape), axis=1) - late.reshape(shape)
    return np.asarray(covered[:, :-1], dtype=np.float64)


def _values(lines: _Lines) -> Float[Floats, "jobs intervals"]:
    """Return the bound of each job if it ends in an interval; infinity before its first."""
    import jax

    jobs = lines.release.size
    own = _Job(lines.at_begin.T, *lines[4:])
    operation = _compiled()
    parts: list[Floats] = []
    with jax.enable_x64(True):
        for start in range(0, jobs, CHUNK):
            rows = np.arange(start, start + CHUNK).clip(max=jobs - 1)
            chunk = _Job(*(array[rows] for array in own))
            parts.append(np.asarray(operation(*lines[:3], chunk)))
    return np.concatenate(parts)[:jobs]


class _Job(NamedTuple):
    """One job, or the columns of several: fields of `_Lines`."""

    at_begin: Any
    release: Any
    begin: Any
    weight: Any
    first: Any


@cache
def _compiled() -> Any:
    import jax

    return jax.jit(jax.vmap(_one, (None, None, None, 0)))


def _one(edges: Any, total: Any, worth: Any, job: _Job) -> Any:
    """Return the bound of one job if it ends in each interval."""
    import jax.numpy as jnp

    index = jnp.arange(edges.size - 1)
    starts = index == job.first
    left = jnp.where(starts, job.begin, edges[:-1])
    before = jnp.where(starts[None], job.at_begin[:, None], total[:, :-1])
    offset = (worth + job.at_begin)[:, None]
    at_left = job.weight * (left - job.release)[None] + offset - before
    at_right = job.weight * (edges[1:] - job.release)[None] + offset - total[:, 1:]
    value = jnp.minimum(at_left, at_right).max(axis=0)
    return jnp.where(index < job.first, jnp.inf, value)
