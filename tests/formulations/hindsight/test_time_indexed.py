"""The time-indexed program: two independent forms, and what neither accepts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from goodalloc.formulations.hindsight.time_indexed import decode_schedule, time_indexed_program
from goodalloc.formulations.hindsight.time_indexed_pyomo import time_indexed_model
from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)
from goodalloc.models.hindsight.offline_schedule import completion_times, schedule_violations
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer
from tests.support.hindsight.tiny_traces import edges_of, tiny_trace


@pytest.mark.parametrize("seed", range(6))
def test_pyomo_and_the_matrix_have_the_same_optimum(seed: int) -> None:
    """On tiny traces of one and of two types of GPU."""
    from pyomo import environ as pyo

    problem = tiny_trace(seed, types=1 + seed % 2)
    edges = edges_of(problem)
    grid = time_indexed_program(problem, edges)
    outcome = run_mixed_integer(grid.program, Watch(Stop(seconds=60.0)), gap=1e-7)
    model: Any = time_indexed_model(problem, edges)
    solver: Any = pyo.SolverFactory("appsi_highs")
    solver.solve(model)
    assert pyo.value(model.completion) == pytest.approx(outcome.objective, rel=1e-5)
    assert outcome.values is not None
    schedule = decode_schedule(problem, grid, outcome.values)
    assert schedule_violations(problem, schedule) == []
    found = problem.total(completion_times(problem, schedule))
    assert found == pytest.approx(outcome.objective, rel=1e-6)


def test_without_whole_gpus_it_is_a_bound() -> None:
    """Time and GPUs are then shared at will."""
    problem = tiny_trace(2)
    edges, watch = edges_of(problem), Watch(Stop(seconds=60.0))
    values = [
        run_mixed_integer(
            time_indexed_program(problem, edges, constant=constant).program, watch, gap=1e-7
        ).objective
        for constant in (False, True)
    ]
    assert values[0] <= values[1] + 1e-6


def test_a_job_that_begins_between_edges_is_refused() -> None:
    """In one sentence that names it."""
    training = Training("one", np.array([5.0]), np.array([1.0]), np.ones((1, 1, 1)))
    problem = OfflineProblem(
        (training,), (OfflineJob("a", "one", 0.0, 7.0),), Supply.constant({"t4": 1.0})
    )
    with pytest.raises(ValueError, match="Job 'a': begin is 7 s; expected one of the edges"):
        time_indexed_program(problem, np.array([0.0, 10.0, 20.0]))


@pytest.mark.parametrize("seed", range(6))
def test_pyomo_and_the_matrix_have_the_same_fewest_late_jobs(seed: int) -> None:
    """With deadlines at edges, of which some are before a job begins."""
    from pyomo import environ as pyo

    problem = tiny_trace(seed, types=1 + seed % 2)
    edges = edges_of(problem)
    due = np.random.default_rng(seed).choice(edges[1:], len(problem.jobs))
    grid = time_indexed_program(problem, edges, due=due)
    outcome = run_mixed_integer(grid.program, Watch(Stop(seconds=60.0)), gap=1e-7)
    model: Any = time_indexed_model(problem, edges, due)
    solver: Any = pyo.SolverFactory("appsi_highs")
    solver.solve(model)
    assert pyo.value(model.late) == pytest.approx(outcome.objective, abs=1e-5)
    assert 0.0 <= outcome.objective <= sum(job.weight for job in problem.jobs)


def test_a_deadline_between_edges_is_refused() -> None:
    """In one sentence that names the job."""
    training = Training("one", np.array([5.0]), np.array([1.0]), np.ones((1, 1, 1)))
    problem = OfflineProblem(
        (training,), (OfflineJob("a", "one", 0.0, 0.0),), Supply.constant({"t4": 1.0})
    )
    with pytest.raises(ValueError, match="Job 'a': it is due at 15 s; expected an edge"):
        time_indexed_program(problem, np.array([0.0, 10.0, 20.0]), due=np.array([15.0]))
