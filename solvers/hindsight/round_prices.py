r"""Search for the prices whose bound on all schedules in rounds with restarts is greatest.

The prices of a bound on all schedules (`best_prices.py`) bound jobs that live by rounds, too
(`rounds_with_restarts.py`), but others bound them better: jobs that pay for restarts and keep whole
numbers of GPUs want GPUs at other times. The sum of the programmes (1) and (2) there is concave in
the prices, and its gradient is the GPUs that the cheapest schedules take less those that are there.

The search evaluates the programmes on a coarse grid of progress, with lines between the nodes that
may be a little above the true costs, and only with numbers of GPUs that are a corner of some
phase's speedup. Nothing of that is in the bound: any prices prove one.

A programme is solved backwards in time. Its gradient follows the decisions forwards, from the first
round of every job, and adds up the GPU seconds on the way: an automatic derivative would evaluate
every round again. Both are compiled by JAX, on the device that it finds, in double precision.
"""

from __future__ import annotations

from functools import cache, partial, reduce
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.solvers.hindsight.active_jobs import hull_corners
from goodalloc.solvers.hindsight.best_prices import NO_LIMIT
from goodalloc.solvers.hindsight.price_climb import PriceScale, climb_prices
from goodalloc.solvers.hindsight.rounds_with_restarts import RoundOptions, RoundStep, nodes_of
from goodalloc.solvers.interface.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float, Int

    from goodalloc.models.hindsight.offline_problem import OfflineJob, OfflineProblem, Training
    from goodalloc.models.hindsight.rounds import Rounds
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.hindsight.best_prices import HindsightBound
    from goodalloc.solvers.interface.stop import Stop

#: Seconds between two nodes of a training at its greatest rates; nodes of a short and a long one.
SPACING, FEWEST, NODES = 30.0, 20, 100

#: Steps of the search.
STEPS = 40

#: Most pairs of a training and a weight, each of which has a programme of its own.
MOST_KINDS = 40


def round_prices(
    problem: OfflineProblem,
    bound: HindsightBound,
    rounds: Rounds,
    *,
    steps: int = STEPS,
    stop: Stop = NO_LIMIT,
    report: Callable[[float], None] = lambda _share: None,
) -> Float[Floats, "intervals types"]:
    """Return prices that bound schedules in rounds better than those of a bound on all schedules.

    If there are more than `MOST_KINDS` pairs of a training and a weight, these are returned.

    Parameters
    ----------
    problem
        The problem.
    bound
        Bound on all its schedules, from whose prices the search starts.
    rounds
        Rounds of the schedules that are bounded here.
    steps
        Most steps of the search.
    stop
        Limits; at the first of them the best prices so far are returned, of at least one step.
    report
        Callback for the share of the search that is done.

    Raises
    ------
    ValueError
        If no restart is told for a training.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Rounds, Supply, Training
    >>> from goodalloc.solvers.hindsight import hindsight_bound
    >>> from goodalloc.solvers.hindsight.round_prices import round_prices
    >>> training = Training("one", np.array([90.0]), np.array([1.0, 2.0]), np.array([[[1.0, 1.5]]]))
    >>> jobs = (OfflineJob("a", "one", 0.0, 30.0), OfflineJob("b", "one", 0.0, 30.0))
    >>> problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 2.0}))
    >>> bound = hindsight_bound(problem)
    >>> round_prices(problem, bound, Rounds(60.0, {"one": 30.0})).shape == bound.prices.shape
    True
    """
    kinds: dict[tuple[str, float], list[OfflineJob]] = {}
    for job in problem.jobs:
        kinds.setdefault((job.training, job.weight), []).append(job)
    if len(kinds) > MOST_KINDS:
        return bound.prices
    import jax

    starts = rounds.seconds * np.arange(int(np.ceil(bound.edges[-1] / rounds.seconds)))
    interval = np.searchsorted(bound.edges, starts, side="right") - 1
    interval = np.minimum(interval, len(bound.prices) - 1)
    programmes = [
        _programme_of(problem.training(name), jobs, rounds) for (name, _), jobs in kinds.items()
    ]
    there = problem.supply.mean(bound.edges) * np.diff(bound.edges)[:, None]
    scale, done = float(np.mean([job.weight for job in problem.jobs])), 0
    watch, best = Watch(stop), (-np.inf, bound.prices)

    def evaluate(prices: Floats) -> tuple[float, Floats]:
        nonlocal done, best
        value, slope = -float((there * prices).sum()), -there  # a new array
        with jax.enable_x64(True):
            for programme in programmes:
                own, taken = _compiled()(prices[interval], programme, starts)
                value += float(own)
                np.add.at(slope, interval, np.asarray(taken))
        done, best = done + 1, max(best, (value, prices), key=itemgetter(0))
        report(min(done / (2 * steps), 1.0))
        return value, slope

    jobs = len(problem.jobs)
    found = climb_prices(evaluate, bound.prices, PriceScale(scale, scale * jobs), steps, watch)
    report(1.0)
    return found if watch.limit is None else best[1]


class _Programme(NamedTuple):
    """Programme of the jobs of a training and a weight, in arrays.

    Attributes
    ----------
    kind, gpus
        Row of the type and number of GPUs of every option.
    kept, changed
        Rounds of jobs that keep their GPUs, and that change them.
    begun
        First rounds of jobs, from the first node alone.
    kept_origins, changed_origins
        See `_Round.origins`.
    first
        First round of every job.
    weight
        Their weight.
    seconds
        Seconds of a round.
    """

    kind: Int[Indices, " options"]
    gpus: Float[Floats, " options"]
    kept: _Round
    changed: _Round
    begun: _Round
    kept_origins: Int[Indices, "most nodes"]
    changed_origins: Int[Indices, "most nodes"]
    first: Int[Indices, " jobs"]
    weight: float
    seconds: float


class _Round(NamedTuple):
    """Round from each node on every option, as in `rounds_with_restarts.py`, without corners.

    Attributes
    ----------
    part, share
        Where it leads: the part, flat over the options (as int32), and how much of it is done.
    holds
        Seconds for which GPUs are held until the end of the job.
    ends
        Whether that is in this round.
    """

    part: Int[Indices, "options nodes"]
    share: Float[Floats, "options nodes"]
    holds: Float[Floats, "options nodes"]
    ends: Flags

    @classmethod
    def of(cls, step: RoundStep) -> _Round:
        """Return the round of a step."""
        return cls(step.part.astype(np.int32), step.share, step.holds, step.ends)  # pyright: ignore

    @property
    def from_nothing(self) -> _Round:
        """The round from the first node alone, at which a job begins."""
        return _Round(self.part[:, :1], self.share[:, :1], self.holds[:, :1], self.ends[:, :1])

    @property
    def origins(self) -> Int[Indices, "most nodes"]:
        """Flat nodes whose jobs arrive in the part that begins at each flat node, as int32.

        A row for each of them; the number of nodes where there are no more.
        """
        from_there = np.flatnonzero(~self.ends.ravel())
        order = from_there[np.argsort(self.part.ravel()[from_there], kind="stable")]
        reached = self.part.ravel()[order]
        place = np.arange(order.size) - np.searchsorted(reached, reached)
        origins = np.full((place.max(initial=0) + 1, self.part.size), self.part.size, np.int32)
        origins[place, reached] = order
        return origins  # pyright: ignore


class _Decisions(NamedTuple):
    """What the cheapest schedules do in a round, in arrays of JAX.

    Attributes
    ----------
    keeps
        Whether a job keeps its GPUs; shape (options, nodes).
    rests
        Share of the jobs that do not keep GPUs and have none in this round; shape (nodes,).
    option
        Option to which the others of these change; shape (nodes,).
    waits
        Whether a job that comes has no GPUs in this round.
    first
        Option on which it begins if it has.
    """

    keeps: Any
    rests: Any
    option: Any
    waits: Any
    first: Any


def _programme_of(training: Training, jobs: list[OfflineJob], rounds: Rounds) -> _Programme:
    """Return the programme of jobs of one weight."""
    options = _corners(RoundOptions.of(training))
    nodes = nodes_of(training, _coarse_parts(training))
    step = partial(RoundStep.of, options, nodes, rounds.seconds)
    first, lost = np.array([rounds.first(job) for job in jobs]), rounds.lost(training.name)
    waits = np.array([job.begin for job in jobs]) - rounds.seconds * first
    wait = float(np.clip(waits, lost, rounds.seconds).max())
    kept, changed, begun = (_Round.of(step(dead)) for dead in (0.0, lost, wait))
    return _Programme(
        options.kind,
        options.gpus,
        kept,
        changed,
        begun.from_nothing,
        kept.origins,
        changed.origins,
        first,
        jobs[0].weight,
        float(rounds.seconds),
    )


def _coarse_parts(training: Training) -> Int[Indices, " phases"]:
    """Return the number of parts of every phase."""
    seconds = training.least_seconds
    finest = max(min(SPACING, seconds / FEWEST), seconds / NODES)
    return np.maximum(np.ceil(training.least_phase_seconds / finest), 1.0).astype(int)


def _corners(options: RoundOptions) -> RoundOptions:
    """Return the options that are a corner of the concave hull of the rates of some phase."""
    keep = np.zeros(options.gpus.size, dtype=bool)
    for kind in np.unique(options.kind).tolist():
        rows = np.flatnonzero(options.kind == kind)
        rows = rows[np.argsort(options.gpus[rows])]
        for rates in options.rates[rows].T:
            keep[rows[hull_corners(options.gpus[rows], rates)]] = True
    return RoundOptions(options.kind[keep], options.gpus[keep], options.rates[keep])


@cache
def _compiled() -> Callable[..., Any]:
    """Return the compiled cost of the jobs of a programme with its gradient by round prices."""
    import jax
    import jax.numpy as jnp

    barrier: Any = jax.lax.optimization_barrier  # without types

    def taken(values: Any, places: Any) -> Any:
        return values.at[places].get(mode="promise_in_bounds")

    def before(one: _Round, after: Any, paid: Any, time: Any, told: _Programme) -> Any:
        here, behind = taken(after.ravel(), one.part), taken(after.ravel(), one.part + 1)
        costs = here + (behind - here) * one.share + told.seconds * paid
        return jnp.where(one.ends, (told.weight + paid) * one.holds + told.weight * time, costs)

    def solved(prices: Any, told: _Programme, starts: Any) -> tuple[Any, _Decisions]:
        """Return the least costs of jobs that come in each round, and all decisions."""
        options = jnp.arange(len(told.gpus), dtype=float)[:, None]

        def round_before(costs: Any, given: Any) -> Any:
            (on, off), (price, time) = costs, given
            paid = (price[told.kind] * told.gpus)[:, None]
            begun = before(told.begun, on, paid, time, told)[:, 0]
            # `changed == least` below needs the very numbers of which the least is taken
            changed = barrier(before(told.changed, on, paid, time, told))
            kept = before(told.kept, on, paid, time, told)
            first, least = begun.min(), changed.min(axis=0)
            then = jnp.minimum(least, off)
            made = _Decisions(
                kept < then,
                # half of the jobs where both cost the same, as an automatic derivative has it
                jnp.where(off == least, 0.5, jnp.where(off < least, 1.0, 0.0)),
                # the first of the cheapest options; argmin takes longer
                jnp.where(changed == least, options, jnp.inf).min(axis=0).astype(jnp.int32),
                off[0] < first,
                begun.argmin(),
            )
            return (jnp.minimum(kept, then), then), (jnp.minimum(first, off[0]), made)

        shape, end = told.kept.part.shape, told.weight * told.seconds * len(starts)
        last = jnp.full(shape, end), jnp.full(shape[1], end)
        _, (costs, made) = jax.lax.scan(round_before, last, (prices, starts), reverse=True)
        return costs, made

    def moved(one: _Round, origins: Any, jobs: Any) -> tuple[Any, Any, Any]:
        """Return jobs by node after a round, and the seconds of ended and of other ones."""
        on = jnp.where(one.ends, 0.0, jobs)
        far = on * one.share

        def arrived(gone: Any) -> Any:  # a scatter of `part` would be as right, and takes longer
            each = (
                jnp.where(rows < gone.size, taken(gone, jnp.minimum(rows, gone.size - 1)), 0.0)
                for rows in origins
            )
            return reduce(jnp.add, each)

        behind = jnp.pad(arrived(far.ravel()), (1, 0))[:-1]
        held = (jnp.where(one.ends, jobs, 0.0) * one.holds).sum(axis=1)
        return behind + arrived((on - far).ravel()), held, on.sum(axis=1)

    def gpu_seconds(told: _Programme, made: _Decisions, coming: Any) -> Any:
        """Return the GPU seconds of every option in each round, for jobs that come in each."""
        shape = told.kept.part.shape
        options = jnp.arange(shape[0])

        def round_after(jobs: Any, given: Any) -> Any:
            (on, off), (made, new) = jobs, given
            off = off + jnp.where(made.keeps, 0.0, on).sum(axis=0)
            changing = jnp.where(options[:, None] == made.option, off * (1.0 - made.rests), 0.0)
            kept, kept_held, kept_on = moved(
                told.kept, told.kept_origins, jnp.where(made.keeps, on, 0.0)
            )
            changed, changed_held, changed_on = moved(told.changed, told.changed_origins, changing)
            seconds = kept_held + told.seconds * kept_on + changed_held + told.seconds * changed_on
            begun = jnp.where(made.waits | (options != made.first), 0.0, new)
            ends, part = told.begun.ends[:, 0], told.begun.part[:, 0]
            seconds += jnp.where(ends, told.begun.holds[:, 0], told.seconds) * begun
            begun = jnp.where(ends, 0.0, begun)
            far = begun * told.begun.share[:, 0]
            on = (kept + changed).at[part].add(begun - far).at[part + 1].add(far).reshape(shape)
            off = (off * made.rests).at[0].add(jnp.where(made.waits, new, 0.0))
            return (on, off), seconds * told.gpus

        none = jnp.zeros(shape), jnp.zeros(shape[1])
        return jax.lax.scan(round_after, none, (made, coming))[1]

    def cost_and_slope(prices: Any, told: _Programme, starts: Any) -> tuple[Any, Any]:
        costs, made = solved(prices, told, starts)
        coming = jnp.zeros(len(starts)).at[told.first].add(1.0)
        by_option = gpu_seconds(told, made, coming)
        return costs[told.first].sum(), jnp.zeros_like(prices).at[:, told.kind].add(by_option)

    return jax.jit(cost_and_slope)
