"""Bounds on late jobs and on the makespan: below every schedule, and what they are alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.formulations.hindsight.late_bound import late_job_bound
from goodalloc.models.hindsight.deadlines import late_jobs
from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)
from goodalloc.solvers.hindsight.late_jobs import late_jobs_bound, makespan_bound
from goodalloc.solvers.hindsight.schedule_search import find_schedule
from goodalloc.solvers.interface.stop import Stop
from tests.support.hindsight.optimum import optimum
from tests.support.hindsight.tiny_traces import UNIT, edges_of, tiny_trace

if TYPE_CHECKING:
    from goodalloc.solvers.hindsight.late_jobs import LateBound

SEEDS = st.integers(0, 10**6)


def drawn_due(problem: OfflineProblem, seed: int) -> np.ndarray:
    """Deadlines at edges of the grid, some of which cannot be met."""
    random, edges = np.random.default_rng(seed), edges_of(problem)
    begins = [int(np.searchsorted(edges, job.begin)) for job in problem.jobs]
    due = np.array([edges[random.integers(own, edges.size)] for own in begins])
    return due if due.any() else due + edges[1]  # not all at the start, which is a test of its own


def check_order(seed: int, types: int) -> tuple[float, float]:
    """Assert that a bound is below the optimum and a schedule; return bound and optimum."""
    problem = tiny_trace(seed, types=types)
    due = drawn_due(problem, seed)
    bound = late_jobs_bound(problem, due, interval=UNIT)
    best, proven = optimum(problem, due=due)
    assert bound.value <= proven + 1e-6
    weights = np.array([job.weight for job in problem.jobs])

    def goal(ends: Any) -> float:
        return float(weights[late_jobs(due, ends)].sum())

    found = find_schedule(problem, goal=goal, clock=UNIT, stop=Stop(iterations=5))
    assert found.value == goal(found.completion)
    assert bound.value <= found.value + 1e-6
    return bound.value, best


def in_turn(count: int) -> OfflineProblem:
    """Jobs of 600 seconds each on one GPU."""
    training = Training("one", np.array([600.0]), np.array([1.0]), np.array([[[1.0]]]))
    jobs = tuple(OfflineJob(f"job-{index}", "one", 0.0, 0.0) for index in range(count))
    return OfflineProblem((training,), jobs, Supply.constant({"t4": 1.0}))


@pytest.mark.parametrize("due", [(600.0,), (600.0, 1200.0)])
def test_deadlines_that_can_just_be_met_are_not_refuted_by_rounding(due: tuple[float, ...]) -> None:
    """The bound is 0, not the rounding error of a sum of prices."""
    bound = late_jobs_bound(in_turn(len(due)), np.array(due))
    assert bound.value == 0.0


def test_a_makespan_that_can_just_be_reached_is_not_refuted() -> None:
    """A schedule ends at 600 s."""
    assert float(makespan_bound(in_turn(1), 600.6).due[0]) < 600.0


@pytest.mark.parametrize("most", [0.0, -1.0, math.nan, math.inf])
def test_a_makespan_before_the_last_release_is_refused(most: float) -> None:
    """With a sentence that says what is expected."""
    with pytest.raises(
        ValueError, match=r"most is .* expected a finite time above 0 s, the last release"
    ):
        makespan_bound(in_turn(1), most)


@pytest.mark.parametrize("types", [1, 2])
def test_the_bound_is_below_the_fewest_late_jobs(types: int) -> None:
    """On tiny traces, of one type of GPU and of two; on the mean it is most of the optimum."""
    bound, best = np.sum([check_order(seed, types) for seed in range(6)], axis=0)
    assert 0.5 * best < bound <= best


@pytest.mark.slow
def test_the_bound_is_below_the_fewest_late_jobs_on_thousands_of_traces() -> None:
    """No violation on 2,000."""
    found = [check_order(seed, types) for seed in range(100, 1100) for types in (1, 2)]
    bound, best = np.sum(found, axis=0)
    assert 0.5 * best < bound <= best


@settings(max_examples=10)
@given(SEEDS, st.integers(1, 2))
def test_it_is_the_sum_of_the_terms_of_the_jobs(seed: int, types: int) -> None:
    """Equation (1), term by term, by the plain function."""
    problem = tiny_trace(seed, types=types)
    due = drawn_due(problem, seed)
    found = late_jobs_bound(problem, due, interval=UNIT)
    terms = [
        late_job_bound(job, when, found.multipliers[job.training], found.edges, found.prices)
        for job, when in zip(problem.jobs, due.tolist(), strict=True)
    ]
    there = problem.supply.mean(found.edges) * np.diff(found.edges)[:, None]
    assert found.value == pytest.approx(sum(terms) - (there * found.prices).sum(), abs=1e-9)
    assert found.value >= 0.0


def on_one_gpu(number: int, due: float) -> LateBound:
    """Bound on jobs of ten minutes each on one GPU, all there, and all due at one time."""
    training = Training("one", np.array([600.0]), np.array([1.0]), np.array([[[1.0]]]))
    jobs = tuple(OfflineJob(str(row), "one", 0.0, 0.0) for row in range(number))
    problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 1.0}))
    return late_jobs_bound(problem, np.full(number, due))


@pytest.mark.parametrize(("number", "inside"), [(5, 1), (5, 3), (8, 2)])
def test_on_one_gpu_all_but_those_that_fit_are_late(number: int, inside: int) -> None:
    """Equal jobs: the bound is their number, to one per cent."""
    found = on_one_gpu(number, 600.0 * inside)
    assert found.value == pytest.approx(number - inside, rel=0.01)
    assert found.value <= number - inside


def test_where_all_are_due_at_the_start_all_are_late() -> None:
    """On a grid that has some length all the same."""
    assert on_one_gpu(3, 0.0).value == pytest.approx(3.0, abs=1e-9)


def test_a_job_that_is_late_even_alone_counts_whole() -> None:
    """At prices of nothing."""
    assert on_one_gpu(1, 500.0).value == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_no_schedule_is_done_before_the_makespan_that_is_proved(seed: int) -> None:
    """Nor is it below the time of the longest job alone."""
    problem = tiny_trace(seed, types=1 + seed % 2)

    def goal(ends: Any) -> float:
        return float(max(ends))

    found = find_schedule(problem, goal=goal, clock=UNIT, stop=Stop(iterations=20))
    proved = makespan_bound(problem, found.value, interval=UNIT)
    alone = [job.begin + problem.training(job.training).least_seconds for job in problem.jobs]
    assert proved.value > 0.0
    assert 0.99 * max(alone) <= proved.due[0] < found.value
    assert (proved.due == proved.due[0]).all()


@pytest.mark.parametrize(
    ("due", "interval", "words"),
    [
        ([600.0], 300.0, "due"),
        ([600.0, np.nan], 300.0, "'b': due is nan"),
        ([600.0, np.inf], 300.0, "'b': due is inf"),
        ([5.0, 600.0], 300.0, "'a': due is 5"),
        ([600.0, 600.0], 0.0, "interval is 0"),
    ],
)
def test_deadlines_that_make_no_sense_are_refused(
    due: list[float], interval: float, words: str
) -> None:
    """In a sentence that names the job."""
    training = Training("one", np.array([600.0]), np.array([1.0]), np.array([[[1.0]]]))
    jobs = (OfflineJob("a", "one", 10.0, 10.0), OfflineJob("b", "one", 0.0, 0.0))
    problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 1.0}))
    with pytest.raises(ValueError, match=words):
        late_jobs_bound(problem, np.array(due), interval=interval)
