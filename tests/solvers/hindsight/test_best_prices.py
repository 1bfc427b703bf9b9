"""Bound on every schedule: never above the optimum, and equal to it where that is known."""

from __future__ import annotations

import numpy as np
import pytest

from goodalloc.formulations.hindsight.price_bound import job_bound
from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)
from goodalloc.models.hindsight.offline_schedule import completion_times, schedule_violations
from goodalloc.solvers.hindsight.best_prices import Stage, hindsight_bound, horizon_of
from goodalloc.solvers.hindsight.schedule_search import find_schedule
from goodalloc.solvers.interface.stop import Stop
from tests.support.hindsight.optimum import optimum
from tests.support.hindsight.tiny_traces import UNIT, tiny_trace

#: A search that takes a part of a second on a tiny trace.
QUICK = (Stage(UNIT, (20.0, 5.0, 1.0), 20),)


def check_order(seed: int, types: int) -> tuple[float, float]:
    """Assert that a bound is below optimum and schedule; return both over the optimum.

    The optimum is that of schedules that change at edges only, which others may be below.
    """
    problem = tiny_trace(seed, types=types)
    bound = hindsight_bound(problem, QUICK)
    best, proven = optimum(problem)
    assert bound.value <= proven * (1 + 1e-6)
    found = find_schedule(problem, bound, clock=UNIT, stop=Stop(iterations=5))
    assert schedule_violations(problem, found.segments) == []
    assert found.value == pytest.approx(
        problem.total(completion_times(problem, found.segments)), rel=1e-9
    )
    assert bound.value <= found.value * (1 + 1e-9)
    return bound.value / best, found.value / best


@pytest.mark.parametrize("types", [1, 2])
def test_the_bound_is_below_the_optimum_and_schedules_are_close_to_it(types: int) -> None:
    """On tiny traces, of one type of GPU and of two."""
    below, found = np.mean([check_order(seed, types) for seed in range(6)], axis=0)
    assert 0.8 < below < found < 1.03


@pytest.mark.slow
def test_the_bound_is_below_the_optimum_on_thousands_of_traces() -> None:
    """No violation on 2,000."""
    shares = [check_order(seed, types) for seed in range(100, 1100) for types in (1, 2)]
    below, found = np.mean(shares, axis=0)
    assert 0.8 < below < found < 1.03


def one_machine(sizes: list[float], releases: list[float]) -> OfflineProblem:
    """Jobs on one GPU."""
    trainings = tuple(
        Training(f"kind {index}", np.array([size]), np.array([1.0]), np.ones((1, 1, 1)))
        for index, size in enumerate(sizes)
    )
    jobs = tuple(
        OfflineJob(f"job {index}", f"kind {index}", release, release)
        for index, release in enumerate(releases)
    )
    return OfflineProblem(trainings, jobs, Supply.constant({"gpu": 1.0}))


def test_on_one_gpu_it_comes_to_the_shortest_processing_time_first() -> None:
    """All there from the start: 2 + (2 + 3) + (2 + 3 + 5) units."""
    problem = one_machine([50.0, 20.0, 30.0], [0.0, 0.0, 0.0])
    stages = (Stage(UNIT, (20.0, 5.0, 1.0, 0.2, 0.05, 0.01), 60),)
    assert hindsight_bound(problem, stages).value == pytest.approx(170.0, rel=5e-3)


def test_one_job_alone_takes_as_long_as_it_must() -> None:
    """From its begin on, phase after phase as fast as it can."""
    rates = np.array([[[1.0, 1.5], [0.5, 1.0]]])
    training = Training("two", np.array([60.0, 30.0]), np.array([1.0, 2.0]), rates)
    problem = OfflineProblem(
        (training,), (OfflineJob("a", "two", 5.0, 20.0),), Supply.constant({"gpu": 2.0})
    )
    assert training.least_seconds == 70.0
    found = hindsight_bound(problem, QUICK)
    assert 0.98 * 85.0 <= found.value <= 85.0 + 1e-9


def test_the_bound_of_every_job_is_that_of_the_plain_formula() -> None:
    """With arrays, or one job and interval at a time."""
    problem = tiny_trace(3, types=2)
    found = hindsight_bound(problem, QUICK)
    for job, value in zip(problem.jobs, found.job_bounds.tolist(), strict=True):
        plain = job_bound(job, found.multipliers[job.training], found.edges, found.prices)
        assert value == pytest.approx(plain, rel=1e-9)
    lengths = np.diff(found.edges)[:, None]
    worth = float((problem.supply.mean(found.edges) * found.prices * lengths).sum())
    assert found.value == pytest.approx(found.job_bounds.sum() - worth, rel=1e-9)


def test_a_limit_of_time_gives_the_best_bound_so_far() -> None:
    """As data, never as an exception."""
    problem = tiny_trace(1)
    short = hindsight_bound(problem, QUICK, stop=Stop(seconds=1e-6))
    assert np.isfinite(short.value)
    assert short.value < hindsight_bound(problem, QUICK).value


def test_the_horizon_is_long_enough_for_the_schedules_that_are_found() -> None:
    """All jobs of tiny traces end before it."""
    for seed in range(20):
        problem = tiny_trace(seed)
        found = find_schedule(problem, clock=UNIT, stop=Stop(iterations=1))
        assert found.completion.max() <= horizon_of(problem) + UNIT


def test_a_job_that_needs_more_gpus_than_there_are_is_refused() -> None:
    """By the bound and by the schedule; too large numbers beside others are no harm."""
    rates = np.array([[[1.0, 3.0]]])
    training = Training("one", np.array([60.0]), np.array([2.0, 4.0]), rates)
    job = (OfflineJob("a", "one", 0.0, 0.0),)
    few, some = (
        OfflineProblem((training,), job, Supply.constant({"gpu": number})) for number in (1.0, 3.0)
    )
    with pytest.raises(ValueError, match="Job 'a': it needs at least 2 GPUs; there are 1"):
        find_schedule(few, stop=Stop(iterations=1))
    with pytest.raises(ValueError, match="Training 'one': it cannot run on the GPUs of the supply"):
        hindsight_bound(few, QUICK)
    assert find_schedule(some, stop=Stop(iterations=1)).completion.tolist() == [60.0]
    assert 0.9 * 20.0 < hindsight_bound(some, QUICK).value <= 60.0
