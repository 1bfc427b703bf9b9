"""Local search for the worths of jobs whose ideal schedule has the least objective.

It starts from rules of thumb, the worth of a unit of progress falling with a power of what the
whole job costs, and from the multipliers of a bound, and changes the worths of a few jobs at a time
by random factors; what is better is kept.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from goodalloc.formulations.hindsight.price_bound import unit_costs
from goodalloc.solvers.hindsight.priced_schedule import WorthScheduler
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.hindsight.offline_schedule import OfflineSchedule
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.hindsight.best_prices import HindsightBound

#: Worth of a unit of progress in each phase, for every job.
Worths: TypeAlias = "Sequence[Float[Floats, ' phases']]"

#: Worths of a second of a job, in prices of a GPU-second, and powers of the cost of a whole job,
#: of the rules of thumb.
SECONDS, POWERS = (0.0, 3.0, 10.0), (0.4, 0.5, 0.6)

#: Mean numbers of jobs that a step of the search changes, and deviations of the logarithm.
CHANGED, DEVIATIONS = (1.0, 3.0, 10.0), (0.2, 0.6, 1.5)

#: Steps of the search unless a limit is given.
DEFAULT_STOP = Stop(iterations=1000)


@dataclass(frozen=True)
class HindsightSchedule:
    """Ideal schedule, and what it was made of.

    Parameters
    ----------
    value
        Objective of the problem.
    completion
        Completion times, in the order of the jobs.
    segments
        GPUs of every job over time.
    worth
        Worth of a unit of progress in each phase, for every job.
    """

    value: float
    completion: Float[Floats, " jobs"]
    segments: OfflineSchedule
    worth: tuple[Float[Floats, " phases"], ...]


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
    clock: float = 60.0,
    seed: int = 0,
    stop: Stop = DEFAULT_STOP,
    report: Callable[[int, float], None] = lambda _step, _value: None,
) -> HindsightSchedule:
    """Return the best ideal schedule that the search finds within its limits.

    Parameters
    ----------
    problem
        The problem, with one type of GPU.
    bound
        Bound whose multipliers are tried, too.
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
    scheduler = WorthScheduler(problem, clock)
    starts = [rule_of_thumb(problem, second, power) for second in SECONDS for power in POWERS]
    if bound is not None:
        starts.append(
            [
                bound.multipliers[job.training].values[max(pattern, 0)]
                for job, pattern in zip(problem.jobs, bound.patterns, strict=True)
            ]
        )
    worth = best_worths(problem, scheduler.run, starts, seed=seed, stop=stop, report=report)
    segments: OfflineSchedule = {}
    completion = scheduler.run(worth, segments)
    return HindsightSchedule(problem.total(completion), completion, segments, worth)


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
    worth, value = starts[best], values[best]
    random, jobs = np.random.default_rng(seed), len(problem.jobs)
    logarithms = np.zeros(jobs)
    for step in itertools.count():
        if stop.reached(seconds=watch.seconds, iterations=step):
            break
        changed = random.random(jobs) < random.choice(CHANGED) / jobs
        changed[random.integers(jobs)] = True
        shift = np.where(changed, random.normal(0.0, random.choice(DEVIATIONS), jobs), 0.0)
        factors = np.exp(logarithms + shift)
        now = problem.total(run([w * f for w, f in zip(worth, factors, strict=True)]))
        if now < value:
            value, logarithms = now, logarithms + shift
        report(step + 1, value)
    return tuple(w * f for w, f in zip(worth, np.exp(logarithms), strict=True))
