r"""Cheapest schedules of jobs alone at given prices, in rounds and with restarts.

The costs of `solvers/hindsight/rounds_with_restarts.py` are worked out backwards, from the last
round to the first, on a grid of progress with lines between its nodes. Then every job goes forward
by them, from round to round, on the option that costs least with what follows. Its progress is
exact there, and so are its completion time and the GPUs that it holds: it is a schedule in rounds,
and costs little more than the cheapest one, which the grid hides.

On nodes of *M* GPUs a job on *k* has a piece of :math:`k \bmod M` besides whole nodes. Besides GPUs
it takes *GPUs of nodes*,

.. math:: M \lfloor k / M \rfloor + f(k \bmod M), \quad f(x) = M, \; M / 2, \; 0 \text{ for }
    x > M / 2, \; x = M / 2, \; x < M / 2                                                     (1)

All jobs together take no more of these than there are GPUs if each is on as few nodes as it can be,
since *f* is dual feasible: of pieces above a half there is one on a node, of halves two.

A programme is compiled by JAX, on the device that it finds, in double precision.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.models.support.validation import real_array, require_count
from goodalloc.solvers.hindsight.rounds_with_restarts import RoundOptions, nodes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float, Int

    from goodalloc.models.hindsight.offline_problem import OfflineJob, OfflineProblem, Training
    from goodalloc.models.hindsight.rounds import Rounds
    from goodalloc.models.support.array_types import Floats, Indices

#: Seconds between two nodes of a training at its greatest rates; nodes of a short and a long one.
SPACING, FEWEST, NODES = 30.0, 20, 200

#: Part of a round by which an edge may miss the beginning of one.
WHOLE = 1e-6


class LoneSchedules(NamedTuple):
    """Schedule of every job alone, in the order of the problem.

    Attributes
    ----------
    costs
        Weighted completion time less the release, without what is paid for GPUs.
    taken
        GPU-seconds of every interval that it holds, and GPU-seconds of nodes if there is a price of
        them; shape (jobs, intervals, prices).
    """

    costs: Float[Floats, " jobs"]
    taken: Float[Floats, "jobs intervals prices"]

    def total(
        self, prices: Float[Floats, "intervals prices"], there: Float[Floats, "intervals prices"]
    ) -> float:
        """Return what they cost all together, less the worth of all that is there.

        Parameters
        ----------
        prices
            Price of a GPU-second.
        there
            GPU-seconds of every interval.
        """
        return float(self.costs.sum() + ((self.taken.sum(axis=0) - there) * prices).sum())


class CheapestSchedules:
    """Cheapest schedules of the jobs of a problem, at any prices.

    Parameters
    ----------
    problem
        The problem.
    rounds
        Rounds of the schedules.
    edges
        Seconds between intervals of constant prices, each a whole number of rounds long.
    per_node
        GPUs of a node, for prices of the GPUs of nodes (1) behind those of the GPUs; None for none.

    Raises
    ------
    ValueError
        If no restart is told for a training, the edges do not ascend from 0 by whole rounds, or a
        node has no GPU.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Rounds, Supply, Training
    >>> from goodalloc.solvers.hindsight_schedules import CheapestSchedules
    >>> training = Training("one", np.array([90.0]), np.array([1.0, 2.0]), np.array([[[1.0, 1.5]]]))
    >>> jobs = (OfflineJob("a", "one", 0.0, 30.0), OfflineJob("b", "one", 0.0, 30.0))
    >>> problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 2.0}))
    >>> edges = np.array([0.0, 60.0, 300.0])
    >>> cheapest = CheapestSchedules(problem, Rounds(60.0, {"one": 30.0}), edges)
    >>> cheapest.at(np.zeros((2, 1))).costs.tolist()  # 30 s, then 90 / 1.5
    [90.0, 90.0]
    """

    def __init__(
        self,
        problem: OfflineProblem,
        rounds: Rounds,
        edges: Float[Floats, " edges"],
        *,
        per_node: int | None = None,
    ) -> None:
        edges = real_array("Schedules: edges", edges)
        ascend = edges.ndim == 1 and edges.size > 1 and not edges[0] and np.isfinite(edges[-1])
        if not ascend or not (np.diff(edges) > 0).all():
            raise ValueError(
                f"Schedules: edges are {edges.tolist()}; expected finite numbers that ascend from "
                "0, two at least."
            )
        rest = np.abs(edges / rounds.seconds - np.round(edges / rounds.seconds))
        if (rest > WHOLE).any():
            raise ValueError(
                f"Schedules: an edge is at {edges[rest.argmax()]:g} s; expected multiples of a "
                f"round of {rounds.seconds:g} s."
            )
        self._shape = edges.size - 1, len(problem.supply.types) * (1 if per_node is None else 2)
        kinds: dict[tuple[str, float], list[int]] = {}
        for row, job in enumerate(problem.jobs):
            kinds.setdefault((job.training, job.weight), []).append(row)
        starts = rounds.seconds * np.arange(float(np.ceil(edges[-1] / rounds.seconds)))
        interval = np.searchsorted(edges, starts, side="right") - 1
        self._clock = _Clock(starts, np.minimum(interval, edges.size - 2), rounds.seconds)
        self._jobs, self._last = problem.jobs, rounds.seconds * starts.size
        self._programmes = [
            (rows, _programme_of(problem, [problem.jobs[row] for row in rows], rounds, per_node))
            for rows in kinds.values()
        ]

    def at(self, prices: Float[Floats, "intervals prices"]) -> LoneSchedules:
        """Return the schedules at given prices.

        Parameters
        ----------
        prices
            Price of a GPU-second of every type, and then of the GPUs of nodes of every type, in
            every interval.

        Raises
        ------
        ValueError
            If a price is missing, negative or not finite.
        """
        import jax

        prices = real_array("Schedules: prices", prices, self._shape)
        right = np.isfinite(prices) & (prices >= 0)
        if not right.all():
            raise ValueError(
                f"Schedules: a price is {prices[~right][0]:g}; expected finite numbers from 0."
            )
        ends, taken = np.empty(len(self._jobs)), np.empty((len(self._jobs), *self._shape))
        with jax.enable_x64(True):
            for rows, programme in self._programmes:
                found = _compiled()(prices, programme, self._clock)
                ends[rows], taken[rows] = (np.asarray(each) for each in found)
        return LoneSchedules(self._costs(ends), taken)

    def idle(self) -> LoneSchedules:
        """Return schedules without GPUs: at the least what a job pays that does not end in time."""
        costs = self._costs(np.full(len(self._jobs), self._last))
        return LoneSchedules(costs, np.zeros((costs.size, *self._shape)))

    def _costs(self, ends: Float[Floats, " jobs"]) -> Float[Floats, " jobs"]:
        """Return the weighted completion times; none is before the release of a job."""
        weights, releases = (
            np.array([getattr(job, field) for job in self._jobs]) for field in ("weight", "release")
        )
        return np.asarray(weights * np.maximum(ends - releases, 0.0))


def of_nodes(gpus: Float[Floats, " options"], per_node: int) -> Float[Floats, " options"]:
    """Return the GPUs of nodes (1) of a job on as few nodes as it can be.

    Parameters
    ----------
    gpus
        Numbers of GPUs.
    per_node
        GPUs of a node, at least 1.

    Raises
    ------
    ValueError
        If a node has no GPU.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.solvers.hindsight_schedules import of_nodes
    >>> of_nodes(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 7.0]), 4).tolist()
    [0.0, 2.0, 4.0, 4.0, 4.0, 8.0]
    """
    require_count("GPUs of a node", per_node, 1)
    whole, piece = np.divmod(gpus, per_node)
    taken = np.where(2 * piece > per_node, per_node, np.where(2 * piece == per_node, piece, 0.0))
    return np.asarray(per_node * whole + taken)


class _Clock(NamedTuple):
    """Rounds: their starts, the interval of prices of each, and seconds of one."""

    starts: Float[Floats, " rounds"]
    interval: Int[Indices, " rounds"]
    seconds: float


class _Programme(NamedTuple):
    """Programme of jobs of one training and weight.

    Attributes
    ----------
    amounts
        What every option takes of each priced resource.
    until
        Seconds of training until each node on every option; the first is 0.
    lost
        Seconds without training after a change.
    weight
        Weight of the jobs.
    first, begin
        First round of every job, and seconds before which it does not train.
    """

    amounts: Float[Floats, "options prices"]
    until: Float[Floats, "options nodes"]
    lost: float
    weight: float
    first: Int[Indices, " jobs"]
    begin: Float[Floats, " jobs"]


def _programme_of(
    problem: OfflineProblem, jobs: list[OfflineJob], rounds: Rounds, per_node: int | None
) -> _Programme:
    """Return the programme of jobs of one training and weight."""
    training = problem.training(jobs[0].training)
    options, nodes = RoundOptions.of(training), nodes_of(training, _parts(training))
    own = options.kind[:, None] == np.arange(len(problem.supply.types))
    amounts = (
        [options.gpus] if per_node is None else [options.gpus, of_nodes(options.gpus, per_node)]
    )
    until = np.zeros((options.gpus.size, nodes.length.size + 1))
    np.cumsum(nodes.length / options.rates[:, nodes.phase], axis=1, out=until[:, 1:])
    return _Programme(
        np.concatenate([own * each[:, None] for each in amounts], axis=1),
        until,
        rounds.lost(training.name),
        jobs[0].weight,
        np.array([rounds.first(job) for job in jobs]),
        np.array([job.begin for job in jobs]),
    )


def _parts(training: Training) -> Int[Indices, " phases"]:
    """Return the number of parts of every phase between nodes."""
    seconds = training.least_seconds
    finest = max(min(SPACING, seconds / FEWEST), seconds / NODES)
    return np.maximum(np.ceil(training.least_phase_seconds / finest), 1.0).astype(int)


@cache
def _compiled() -> Callable[..., Any]:
    """Return the compiled completion times and GPU-seconds of the jobs of a programme."""
    import jax
    import jax.numpy as jnp

    def between(nodes: Any, part: Any, share: Any) -> Any:
        """Return values at nodes, between two of them on a line; the last axis is that of nodes."""
        here, behind = (jnp.take_along_axis(nodes, at, axis=-1) for at in (part, part + 1))
        return here + (behind - here) * share

    def moved(until: Any, seconds: Any) -> tuple[Any, Any]:
        """Return the part and the share of it that are done after seconds on every option."""
        part = jax.vmap(lambda own, at: jnp.searchsorted(own, at, side="right"))(until, seconds) - 1
        part = jnp.clip(part, 0, until.shape[1] - 2)
        here, behind = (jnp.take_along_axis(until, at, axis=1) for at in (part, part + 1))
        return part, jnp.clip((seconds - here) / (behind - here), 0.0, 1.0)

    def costs_of(told: _Programme, clock: _Clock, given: Any, step: Any, after: Any) -> Any:
        """Return the least costs from the beginning of a round on, by option."""
        (paid, time), (part, share, left, dead) = given, step
        ended = (told.weight + paid) * (left + dead) + told.weight * time
        going = between(after, part, share) + clock.seconds * paid
        return jnp.where(left + dead <= clock.seconds, ended, going)

    def schedules(prices: Any, told: _Programme, clock: _Clock) -> tuple[Any, Any]:
        until, amounts = jnp.asarray(told.until), jnp.asarray(told.amounts)
        jobs, last = told.first.shape[0], clock.seconds * clock.starts.shape[0]
        total = until[:, -1:]

        def at_nodes(dead: Any) -> Any:
            return (*moved(until, until + clock.seconds - dead), total - until, dead)

        kept, changed = at_nodes(0.0), at_nodes(told.lost)

        def round_before(costs: Any, given: Any) -> Any:
            (on, off), (interval, time) = costs, given
            paid = (amounts @ prices[interval])[:, None], time
            off_before = jnp.minimum(costs_of(told, clock, paid, changed, on).min(axis=0), off)
            on_before = jnp.minimum(costs_of(told, clock, paid, kept, on), off_before)
            return (on_before, off_before), (on.astype(jnp.float32), off.astype(jnp.float32))

        def round_after(state: Any, given: Any) -> Any:
            part, share, held, done, ends, taken = state
            (on, off), interval, time, number = given
            paid = (amounts @ prices[interval])[:, None], time
            here = between(until, part[None, :], share)  # (options, jobs)
            left = total - here
            dead = jnp.where(jnp.arange(until.shape[0])[:, None] == held, 0.0, told.lost)
            dead = jnp.clip(told.begin - time, dead, clock.seconds)
            to, done_of = moved(until, here + clock.seconds - dead)
            costs = costs_of(told, clock, paid, (to, done_of, left, dead), on)
            best, each = costs.argmin(axis=0), jnp.arange(jobs)
            there = ~done & (told.first <= number)
            runs = there & (costs[best, each] < between(off, part, share))
            holds = (left + dead)[best, each]
            ended = runs & (holds <= clock.seconds)
            seconds = jnp.where(runs, jnp.minimum(holds, clock.seconds), 0.0)
            taken = taken.at[:, interval].add(seconds[:, None] * amounts[best])
            goes = runs & ~ended
            return (
                jnp.where(goes, to[best, each], part),
                jnp.where(goes, done_of[best, each], share),
                jnp.where(there, jnp.where(runs, best, -1), held),
                done | ended,
                jnp.where(ended, time + holds, ends),
                taken,
            ), None

        behind = told.weight * last
        at_end = jnp.full(until.shape, behind), jnp.full(until.shape[1], behind)
        rounds = clock.interval, clock.starts
        _, costs = jax.lax.scan(round_before, at_end, rounds, reverse=True)
        none = jnp.zeros(jobs, int)
        begin = (
            none,
            jnp.zeros(jobs),
            none - 1,
            none > 0,
            jnp.full(jobs, last),
            jnp.zeros((jobs, *prices.shape)),
        )
        given = costs, *rounds, jnp.arange(clock.starts.shape[0])
        state, _ = jax.lax.scan(round_after, begin, given)
        return state[4], state[5]

    return jax.jit(schedules)
