r"""Bounds of jobs at given prices whose GPUs change between rounds only, and cost a restart.

At the prices :math:`\lambda(t)` of a bound, a job that lives by `Rounds` of :math:`\Delta` seconds
has a cheapest schedule. It is found by dynamic programming over rounds and progress. Let
:math:`V_k(t, p)` be the least cost from the beginning *t* of a round on of a job that has done *p*
and is on option *k* (a type and a number of GPUs), :math:`V_0` without GPUs, :math:`A_k(p, x)` what
it has done after *x* seconds of training more, and *d* the seconds of a restart. Then

.. math::

    D(t, p) &= \min \Bigl\{ V_0(t + \Delta, p), \; \min_k \bigl[ \lambda k \Delta
        + V_k(t + \Delta, A_k(p, \Delta - d)) \bigr] \Bigr\},                                 (1) \\
    V_k(t, p) &= \min \bigl\{ \lambda k \Delta + V_k(t + \Delta, A_k(p, \Delta)),
        \; D(t, p) \bigr\}, \qquad V_0 = D,                                                   (2)

where a job that ends after *x* seconds of a round costs :math:`w (t + x) + \lambda k x` from there
on, and one that has not ended by the last edge *T* at least :math:`w T`. The cost of a job is
:math:`D - w r` at its first round, in which it does not train before its begin. This lifts all
relaxations of a job alone: order of the phases, whole numbers of GPUs, rounds, restarts. No
multipliers are needed, and jobs of the same training and weight share one programme.

*V* is kept at nodes of progress, among them the ends of the phases, and is a line between two. The
lines are never above it: :math:`V_k(A_k(p))` is a chain of lines again, with corners where
:math:`A_k(p)` is a node; where its chord between two nodes would be above a corner, the value at
the first of them is lowered. Of several chains the chord of the least values is below all. So any
nodes make it a bound; with more of them it loses less.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float, Int

    from goodalloc.models.hindsight.offline_problem import OfflineJob, OfflineProblem, Training
    from goodalloc.models.hindsight.rounds import Rounds
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.hindsight.best_prices import HindsightBound

#: Most seconds between two nodes of a training at its greatest rates, and least number of nodes.
SPACING, NODES = 4.0, 200

#: Part of its greatest rate with which a phase advances where it cannot run: a bound still.
SLOWEST = 1e-6

#: Most pairs of an option and a node whose costs are worked out together: they fit in a cache.
CELLS = 16_000

#: Part of a part within which a corner before a node is at the node.
NEAR = 1e-9


def round_job_bounds(
    problem: OfflineProblem,
    bound: HindsightBound,
    rounds: Rounds,
    *,
    spacing: float = SPACING,
) -> Float[Floats, " jobs"]:
    """Return a bound of every job in rounds at the prices of a bound, no smaller than there.

    Parameters
    ----------
    problem
        The problem.
    bound
        Bound on all its schedules.
    rounds
        Rounds of the schedules that are bounded here.
    spacing
        Most seconds between two nodes of progress of a training that advances as fast as it can.

    Raises
    ------
    ValueError
        If no restart is told for a training.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Rounds, Supply, Training
    >>> from goodalloc.solvers.hindsight import hindsight_bound, round_job_bounds
    >>> training = Training("one", np.array([90.0]), np.array([1.0, 2.0]), np.array([[[1.0, 1.5]]]))
    >>> jobs = (OfflineJob("a", "one", 0.0, 30.0), OfflineJob("b", "one", 0.0, 30.0))
    >>> problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 2.0}))
    >>> bound = hindsight_bound(problem)
    >>> found = round_job_bounds(problem, bound, Rounds(60.0, {"one": 30.0}))
    >>> bool((found >= bound.job_bounds).all())
    True
    """
    found = bound.job_bounds.copy()
    least = _least_prices(bound, rounds.seconds)
    for training in problem.trainings:
        rows = problem.jobs_of(training.name)
        if not rows.size:
            continue
        options = RoundOptions.of(training)
        nodes = nodes_of(training, parts_of(training, spacing))
        weights = np.array([problem.jobs[row].weight for row in rows.tolist()])
        for weight in np.unique(weights).tolist():
            own = rows[weights == weight]
            jobs = [problem.jobs[row] for row in own.tolist()]
            values = _programme(options, nodes, least, rounds, jobs)
            found[own] = np.maximum(found[own], values)
    return found


def parts_of(training: Training, spacing: float) -> Int[Indices, " phases"]:
    """Return the number of equal parts of every phase between nodes.

    Parameters
    ----------
    training
        Work and rates.
    spacing
        Most seconds of a part at the greatest rates, if there are more than `NODES` of them.
    """
    seconds = training.least_phase_seconds
    finest = min(spacing, training.least_seconds / NODES)
    return np.maximum(np.ceil(seconds / finest * (1.0 - 1e-9)), 1.0).astype(int)


class _Nodes(NamedTuple):
    """Nodes of progress; `phase` and `length` are those of the parts between them."""

    phase: Int[Indices, " parts"]
    length: Float[Floats, " parts"]


def nodes_of(training: Training, parts: Int[Indices, " phases"]) -> _Nodes:
    """Return the parts into which nodes cut a training."""
    phase = np.repeat(np.arange(training.num_phases), parts)
    return _Nodes(phase, (training.work / parts)[phase])


class RoundOptions(NamedTuple):
    """Types and numbers of GPUs of which no other is as good everywhere on fewer GPUs.

    Attributes
    ----------
    kind, gpus
        Row of the type, and number of GPUs.
    rates
        Progress a second in every phase.
    """

    kind: Int[Indices, " options"]
    gpus: Float[Floats, " options"]
    rates: Float[Floats, "options phases"]

    @classmethod
    def of(cls, training: Training) -> RoundOptions:
        """Return those of a training."""
        found: list[tuple[int, float, Floats]] = []
        least = SLOWEST * training.rates.max(axis=(0, 2))
        for kind, rates in enumerate(training.rates):
            best: list[Floats] = []
            for column, gpus in enumerate(training.gpus.tolist()):
                own = np.maximum(rates[:, column], least)
                if not any((other >= own).all() for other in best):
                    best.append(own)
                    found.append((kind, gpus, own))
        kinds, numbers, each = zip(*found, strict=True)
        return cls(np.array(kinds), np.array(numbers), np.stack(each))


class RoundStep(NamedTuple):
    """Round in which a job trains but for its first seconds, from every node on every option.

    Attributes
    ----------
    seconds
        Its seconds.
    part, share
        Where it leads: the part, flat over the options, and how much of it is done.
    holds
        Seconds for which GPUs are held until the end of the job.
    ends
        Whether that is in this round.
    ended
        Rows and columns where it is.
    behind, remains, target
        Corners: flat node behind the part in which one begins, how much of that part remains
        there, and flat node to which it leads.
    runs, parts
        First corners of those that begin in the same part, and these parts.
    """

    seconds: float
    part: Int[Indices, "options nodes"]
    share: Float[Floats, "options nodes"]
    holds: Float[Floats, "options nodes"]
    ends: Flags
    ended: tuple[Int[Indices, " ended"], ...]
    behind: Int[Indices, " corners"]
    remains: Float[Floats, " corners"]
    target: Int[Indices, " corners"]
    runs: Int[Indices, " starts"]
    parts: Int[Indices, " starts"]

    @classmethod
    def of(cls, options: RoundOptions, nodes: _Nodes, seconds: float, dead: float) -> RoundStep:
        """Return a round of so many seconds, with so many first ones without training."""
        number, trains = nodes.length.size + 1, seconds - dead
        part, share, left, corners = [], [], [], []
        for row, rates in enumerate(options.rates):
            at = np.zeros(number)  # seconds of training until each node
            np.cumsum(nodes.length / rates[nodes.phase], out=at[1:])
            inner = np.searchsorted(at[1:-1], at + trains, side="right")
            part.append(row * number + inner)
            share.append(np.minimum((at + trains - at[inner]) / np.diff(at)[inner], 1.0))
            left.append(at[-1] - at)
            target = np.flatnonzero(at > trains)
            start = np.searchsorted(at[1:-1], at[target] - trains, side="right")
            inside = (at[target] - trains - at[start]) / np.diff(at)[start]
            apart = inside < 1.0 - NEAR
            own = (row * number + start, inside, row * number + target)
            corners.append([each[apart] for each in own])
        start, inside, target = (np.concatenate(own) for own in zip(*corners, strict=True))
        runs = np.flatnonzero(np.diff(start, prepend=-1))
        ends = np.stack(left) <= trains
        return cls(
            seconds,
            np.stack(part),
            np.stack(share),
            np.stack(left) + dead,
            ends,
            np.nonzero(ends),
            start + 1,
            1.0 - inside,
            target,
            runs,
            start[runs],
        )

    def before(
        self, after: Float[Floats, "options nodes"], paid: Floats, time: float, weight: float
    ) -> Float[Floats, "options nodes"]:
        """Return the least costs from the beginning of the round, given those from its end on.

        Parameters
        ----------
        after
            Least costs at its end.
        paid
            Cost of a second of GPUs on every option.
        time
            Seconds at which it begins.
        weight
            Weight of the job.
        """
        flat, charge = after.ravel(), self.seconds * paid[:, None]
        found = flat.take(self.part)
        found += (flat[1:].take(self.part) - found) * self.share
        found += charge
        found[self.ended] = (weight + paid)[self.ended[0]] * self.holds[self.ended] + weight * time
        if self.target.size:
            values = found.ravel()
            behind = values.take(self.behind)
            true = (after + charge).ravel().take(self.target)
            below = behind + (true - behind) / self.remains
            lowest = np.minimum.reduceat(below, self.runs)
            values[self.parts] = np.minimum(values.take(self.parts), lowest)
        return found


def _least_prices(bound: HindsightBound, seconds: float) -> Float[Floats, "rounds types"]:
    """Return the least price of every type in each round; there is none behind the last edge."""
    edges, number = bound.edges, int(np.ceil(bound.edges[-1] / seconds))
    starts = seconds * np.arange(number)
    first = np.searchsorted(edges, starts, side="right") - 1
    stop = np.minimum(np.searchsorted(edges, starts + seconds), len(bound.prices))
    least = np.array(
        [
            bound.prices[one:behind].min(axis=0)
            for one, behind in zip(first.tolist(), stop.tolist(), strict=True)
        ]
    )
    least[starts + seconds > edges[-1]] = 0.0
    return least


class _Group(NamedTuple):
    """Some options of a training with their rounds.

    Attributes
    ----------
    kind, gpus
        As in `RoundOptions`.
    kept, changed
        Rounds of jobs that keep their GPUs, and that change them.
    begun
        First rounds of jobs by the seconds without training.
    """

    kind: Int[Indices, " options"]
    gpus: Float[Floats, " options"]
    kept: RoundStep
    changed: RoundStep
    begun: Mapping[float, RoundStep]

    @classmethod
    def all_of(
        cls, options: RoundOptions, nodes: _Nodes, seconds: float, lost: float, waits: Floats
    ) -> list[_Group]:
        """Return the options in groups of `CELLS` at most, or of one option."""
        size = max(CELLS // (nodes.length.size + 1), 1)
        groups = []
        for begin in range(0, options.gpus.size, size):
            rows = slice(begin, begin + size)
            own = RoundOptions(options.kind[rows], options.gpus[rows], options.rates[rows])
            step = partial(RoundStep.of, own, nodes, seconds)
            begun = {wait: step(wait) for wait in np.unique(waits).tolist()}
            groups.append(cls(own.kind, own.gpus, step(0.0), step(lost), begun))
        return groups


def _programme(
    options: RoundOptions,
    nodes: _Nodes,
    prices: Float[Floats, "rounds types"],
    rounds: Rounds,
    jobs: Sequence[OfflineJob],
) -> Float[Floats, " jobs"]:
    """Return the bounds of jobs of one weight.

    Parameters
    ----------
    options
        Types and numbers of GPUs.
    nodes
        Nodes of progress.
    prices
        Least prices of every round.
    rounds
        The rounds.
    jobs
        The jobs.
    """
    weight, first = jobs[0].weight, np.array([rounds.first(job) for job in jobs])
    lost = rounds.lost(jobs[0].training)
    waits = np.array([job.begin for job in jobs]) - rounds.seconds * first
    waits = np.clip(waits, lost, rounds.seconds)
    number = len(prices)
    groups = _Group.all_of(options, nodes, rounds.seconds, lost, waits)
    end = weight * rounds.seconds * number
    on = [np.full(group.kept.part.shape, end) for group in groups]
    off = on[0][0]
    values = np.full(len(jobs), end)
    for index in range(number - 1, int(first.min()) - 1, -1):
        time, then = rounds.seconds * index, off
        coming = first == index
        begins = dict.fromkeys(np.unique(waits[coming]).tolist(), float(off[0]))
        for place, group in enumerate(groups):
            after, paid = on[place], prices[index][group.kind] * group.gpus
            for wait, least in begins.items():
                own = group.begun[wait].before(after, paid, time, weight)
                begins[wait] = min(least, float(own[:, 0].min()))
            then = np.minimum(group.changed.before(after, paid, time, weight).min(axis=0), then)
            on[place] = group.kept.before(after, paid, time, weight)
        for wait, least in begins.items():
            values[coming & (waits == wait)] = least
        off = then
        on = [np.minimum(after, off, out=after) for after in on]
    return values - weight * np.array([job.release for job in jobs])
