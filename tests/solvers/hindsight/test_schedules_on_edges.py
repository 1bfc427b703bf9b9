"""Where all that happens is at edges of the grid, the program's optimum is below every schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.models.hindsight.offline_schedule import completion_times, schedule_violations
from goodalloc.solvers.hindsight.best_prices import Stage, hindsight_bound
from goodalloc.solvers.hindsight.priced_schedule import WorthScheduler
from goodalloc.solvers.hindsight.schedule_search import find_schedule
from goodalloc.solvers.interface.stop import Stop
from tests.support.hindsight.optimum import optimum
from tests.support.hindsight.tiny_traces import UNIT, gang_trace, whole_edges

if TYPE_CHECKING:
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.hindsight.offline_schedule import OfflineSchedule

#: A search that takes a part of a second on a tiny trace.
QUICK = (Stage(UNIT, (20.0, 5.0, 1.0), 20),)

#: Schedules by random worths of every trace.
DRAWN = 4


def random_schedules(problem: OfflineProblem, seed: int) -> list[OfflineSchedule]:
    """Schedules in which some jobs are much more worth than others, whatever they need."""
    random = np.random.default_rng(seed)
    found: list[OfflineSchedule] = []
    for _ in range(DRAWN):
        worths = [
            np.full(problem.training(job.training).num_phases, random.lognormal(0.0, 2.0))
            for job in problem.jobs
        ]
        found.append({})
        WorthScheduler(problem, UNIT).run(worths, found[-1])
    return found


def check_chain(seed: int, types: int) -> tuple[float, float]:
    """Assert bound <= optimum <= every schedule; return bound and best schedule over the optimum.

    All schedules change at edges and end there, so that the program has them.
    """
    problem = gang_trace(seed, types=types)
    edges = whole_edges(problem)
    best, proven = optimum(problem, edges)
    bound = hindsight_bound(problem, QUICK)
    assert bound.value <= proven * (1 + 1e-6)
    searched = find_schedule(problem, bound, clock=UNIT, stop=Stop(iterations=10)).segments
    values = []
    for schedule in (searched, *random_schedules(problem, seed)):
        assert schedule_violations(problem, schedule) == []
        ends = completion_times(problem, schedule)
        times = [time for own in schedule.values() for one in own for time in (one.start, one.end)]
        for time in (*times, *ends.tolist()):
            assert np.abs(edges - time).min() < 1e-5
        values.append(problem.total(ends))
        assert proven <= values[-1] * (1 + 1e-6)
    return bound.value / best, min(values) / best


@pytest.mark.parametrize("types", [1, 2])
def test_the_optimum_is_between_bound_and_schedules(types: int) -> None:
    """On traces of jobs that need a fixed number of GPUs; both sides are close to it."""
    below, found = np.mean([check_chain(seed, types) for seed in range(3)], axis=0)
    assert 0.9 < below <= 1.0 + 1e-6
    assert 1.0 - 1e-6 <= found < 1.02


@pytest.mark.slow
def test_the_optimum_is_between_them_on_thousands_of_traces() -> None:
    """No violation on 2,000, with 10,000 schedules."""
    for seed in range(100, 1100):
        for types in (1, 2):
            check_chain(seed, types)
