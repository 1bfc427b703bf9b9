"""Local search for the worths of jobs whose ideal schedule has the least objective.

It starts from rules of thumb, the worth of a unit of progress falling with a power of what the
whole job costs, and from the multipliers of a bound, which are better by far. Then it changes
worths by random factors, and keeps what is better: of a few jobs that begin one after the other, or
of two that are there at the same time, of which one gets more and the other less. With several
types of GPU it also changes the prices at which they are compared.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from goodalloc.formulations.hindsight.price_bound import unit_costs
from goodalloc.solvers.hindsight.priced_schedule import Change, Trail, WorthScheduler
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.hindsight.offline_schedule import OfflineSchedule
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.hindsight.best_prices import HindsightBound

#: Worth of a unit of progress in each phase, for every job.
Worths: TypeAlias = "Sequence[Float[Floats, ' phases']]"

#: What is to be least, of the completion times in the order of the jobs.
Goal: TypeAlias = "Callable[[Sequence[float] | Float[Floats, ' jobs']], float]"

#: Worths of a second of a job, in prices of a GPU-second, and powers of the cost of a whole job,
#: of the rules of thumb.
SECONDS, POWERS = (0.0, 3.0, 10.0), (0.4, 0.5, 0.6)

#: Mean numbers of jobs that a step of the search changes, and deviations of the logarithm.
CHANGED, DEVIATIONS = (1.0, 3.0, 10.0), (0.2, 0.6, 1.5)

#: Jobs among which these are, next to each other by their begins: a change takes effect only later.
NEAR = 40

#: Part of the steps that change two jobs at the same time, and of those that change a price, too.
PAIRS, PRICES = 0.4, 0.2

#: Steps of the search unless a limit is given.
DEFAULT_STOP = Stop(iterations=1000)


@dataclass(frozen=True)
class HindsightSchedule:
    """Ideal schedule, and what it was made of.

    Parameters
    ----------
    value
        What was to be least: the objective of the problem, if no other goal was given.
    completion
        Completion times, in the order of the jobs.
    segments
        GPUs of every job over time.
    worth
        Worth of a unit of progress in each phase, for every job.
    prices
        Price of a GPU of every type, at which the types are compared.
    """

    value: float
    completion: Float[Floats, " jobs"]
    segments: OfflineSchedule
    worth: tuple[Float[Floats, " phases"], ...]
    prices: tuple[float, ...]


def rule_of_thumb(
    problem: OfflineProblem, seconds: float, power: float
) -> list[Float[Floats, " phases"]]:
    """Return worths that fall with a power of what a whole job costs.

    Parameters
    ----------
    problem
        The problem.
    seconds
        Worth of a second of a job, in prices of a GPU-second, at which costs are counted.
    power
        The power; 1 for the shortest processing time first, less for more sharing.
    """
    worths = {}
    for training in problem.trainings:
        prices = np.ones((1, len(problem.supply.types)))
        (cost,) = unit_costs(training, prices, np.array([seconds]))
        worths[training.name] = cost * float(cost @ training.work) ** -power
    return [job.weight * worths[job.training] for job in problem.jobs]


def find_schedule(
    problem: OfflineProblem,
    bound: HindsightBound | None = None,
    *,
    goal: Goal | None = None,
    clock: float = 60.0,
    seed: int = 0,
    stop: Stop = DEFAULT_STOP,
    report: Callable[[int, float], None] = lambda _step, _value: None,
) -> HindsightSchedule:
    """Return the best ideal schedule that the search finds within its limits.

    Parameters
    ----------
    problem
        The problem.
    bound
        Bound whose multipliers are tried, too.
    goal
        What is to be least, as a function of the completion times; None for the objective of the
        problem.
    clock
        Seconds between decisions.
    seed
        Seed of the search.
    stop
        Limits; the same number of iterations gives the same schedule.
    report
        Callback for the number of steps, and the objective so far.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> from goodalloc.solvers import Stop
    >>> from goodalloc.solvers.hindsight import find_schedule
    >>> training = Training("one", np.array([600.0]), np.array([1.0]), np.array([[[1.0]]]))
    >>> jobs = (OfflineJob("a", "one", 0.0, 0.0), OfflineJob("b", "one", 0.0, 0.0))
    >>> problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 1.0}))
    >>> find_schedule(problem, stop=Stop(iterations=10)).completion
    array([ 600., 1200.])
    """
    watch, scheduler = Watch(stop), WorthScheduler(problem, clock)
    goal, starts = goal or problem.total, [*_starts(problem, bound)]
    values = [goal(scheduler.run(worth, prices=prices.tolist())) for worth, prices in starts]
    best = int(np.argmin(values))
    worth, prices = starts[best]
    lists = [own.tolist() for own in worth]

    def run(factors: Floats, asked: Floats, after: Change | None) -> Trail:
        return scheduler.trail(lists, factors.tolist(), prices=asked.tolist(), after=after)

    search = _Search(problem, goal, run, watch, report)
    factors, prices = search.improve(prices, values[best], np.random.default_rng(seed))
    final = tuple(w * f for w, f in zip(worth, factors.tolist(), strict=True))
    segments: OfflineSchedule = {}
    completion = scheduler.run(final, segments, prices=prices.tolist())
    return HindsightSchedule(goal(completion), completion, segments, final, tuple(prices.tolist()))


def best_worths(
    problem: OfflineProblem,
    run: Callable[[Worths], Float[Floats, " jobs"]],
    starts: Sequence[Worths],
    *,
    seed: int = 0,
    stop: Stop = DEFAULT_STOP,
    report: Callable[[int, float], None] = lambda _step, _value: None,
) -> tuple[Float[Floats, " phases"], ...]:
    """Return the worths with the least objective that local search finds within its limits.

    Parameters
    ----------
    problem
        The problem.
    run
        Function that returns the completion times of the schedule by some worths.
    starts
        Worths of which the best is improved.
    seed, stop, report
        As in `find_schedule`.
    """
    watch = Watch(stop)
    values = [problem.total(run(start)) for start in starts]
    best = int(np.argmin(values))

    def scaled(factors: Floats) -> Worths:
        return [w * f for w, f in zip(starts[best], factors.tolist(), strict=True)]

    def begun(factors: Floats, _prices: Floats, _after: object) -> _Ends:
        return _Ends(run(scaled(factors)).tolist())

    search = _Search(problem, problem.total, begun, watch, report)
    factors, _ = search.improve(np.ones(1), values[best], np.random.default_rng(seed))
    return tuple(scaled(factors))


class _Ends(NamedTuple):
    """Schedule of which the completion times alone are known."""

    ends: Sequence[float]


#: Schedule of a search.
FoundT = TypeVar("FoundT", Trail, _Ends)


@dataclass(frozen=True)
class _Search(Generic[FoundT]):
    """Local search over factors on the worths of jobs, and prices of types of GPU.

    A schedule is made by factors and prices; after one that differs in some jobs only, it may go on
    from there.
    """

    problem: OfflineProblem
    goal: Goal
    run: Callable[[Floats, Floats, Change | None], FoundT]
    watch: Watch
    report: Callable[[int, float], None]

    def improve(
        self, prices: Floats, value: float, random: np.random.Generator
    ) -> tuple[Float[Floats, " jobs"], Float[Floats, " types"]]:
        """Return better factors and prices than ones, whose objective is `value`."""
        factors = np.ones(len(self.problem.jobs))
        begins = np.array([job.begin for job in self.problem.jobs])
        best = self.run(factors, prices, None)
        for step in itertools.count():
            if self.watch.stop.reached(seconds=self.watch.seconds, iterations=step):
                break
            shift = _shift(random, begins, np.array(best.ends))
            own, asked, after = factors * np.exp(shift), prices, None
            if isinstance(best, Trail):
                after = Change(best, np.flatnonzero(shift).tolist())
            if len(prices) > 1 and random.random() < PRICES:
                asked = prices * np.exp(random.normal(0.0, random.choice(DEVIATIONS), len(prices)))
                after = None
            now = self.run(own, asked, after)
            if (total := self.goal(now.ends)) < value:
                value, factors, prices, best = total, own, asked, now
            self.report(step + 1, value)
        return factors, prices


def _starts(
    problem: OfflineProblem, bound: HindsightBound | None
) -> Iterator[tuple[list[Float[Floats, " phases"]], Float[Floats, " types"]]]:
    """Yield worths, and prices of a GPU of every type, from which the search starts."""
    types = len(problem.supply.types)
    prices = [np.ones(types)]
    if types > 1:
        speed = [training.rates[:, :, 0].sum(axis=1) for training in problem.trainings]
        prices.append(_mean_price(np.array([own / own.max() for own in speed])))
    if bound is not None:
        multipliers = [
            bound.multipliers[job.training].values[max(pattern, 0)]
            for job, pattern in zip(problem.jobs, bound.patterns, strict=True)
        ]
        if types > 1:
            prices.append(_mean_price(bound.prices))
        yield from ((multipliers, price) for price in prices)
    rules = itertools.product(SECONDS, POWERS, prices)
    yield from ((rule_of_thumb(problem, second, power), price) for second, power, price in rules)


def _mean_price(prices: Float[Floats, "rows types"]) -> Float[Floats, " types"]:
    """Return the mean price of every type, above 0."""
    mean = prices.mean(axis=0)
    return np.asarray(np.maximum(mean, 1e-3 * mean.max()))


def _shift(
    random: np.random.Generator, begins: Float[Floats, " jobs"], ends: Float[Floats, " jobs"]
) -> Float[Floats, " jobs"]:
    """Return changes of the logarithms of the worths."""
    jobs, deviation = begins.size, random.choice(DEVIATIONS)
    shift = np.zeros(jobs)
    if random.random() < PAIRS:
        one = int(random.integers(jobs))
        beside = np.flatnonzero((begins < ends[one]) & (ends > begins[one]))
        more = abs(random.normal(0.0, deviation)) * random.choice((-1.0, 1.0))
        shift[random.choice(beside)] = -more
        shift[one] = more
        return shift
    near = np.argsort(abs(begins - begins[random.integers(jobs)]), kind="stable")[:NEAR]
    changed = near[random.random(near.size) < random.choice(CHANGED) / near.size]
    changed = np.append(changed, near[0])
    shift[changed] = random.normal(0.0, deviation, changed.size)
    return shift
