"""The optimum of a small offline problem, by the time-indexed program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.formulations.hindsight.time_indexed import decode_schedule, time_indexed_program
from goodalloc.models.hindsight.deadlines import late_jobs
from goodalloc.models.hindsight.offline_schedule import completion_times, schedule_violations
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer
from tests.support.hindsight.tiny_traces import edges_of

if TYPE_CHECKING:
    import numpy as np

    from goodalloc.models.hindsight.offline_problem import OfflineProblem


def optimum(
    problem: OfflineProblem, edges: np.ndarray | None = None, due: np.ndarray | None = None
) -> tuple[float, float]:
    """Return the objective of the best schedule that changes at edges, and its proven bound.

    The weight of late jobs where jobs are due.
    """
    edges = edges_of(problem) if edges is None else edges
    grid = time_indexed_program(problem, edges, due=due)
    outcome = run_mixed_integer(grid.program, Watch(Stop(seconds=60.0)), gap=1e-7)
    assert outcome.values is not None
    schedule = decode_schedule(problem, grid, outcome.values)
    assert schedule_violations(problem, schedule) == []
    ends = completion_times(problem, schedule)
    total = problem.total(ends)
    if due is not None:
        weights = zip(problem.jobs, late_jobs(due, ends).tolist(), strict=True)
        total = sum(job.weight for job, late in weights if late)
    assert total == pytest.approx(outcome.objective, rel=1e-6, abs=1e-6)
    return total, outcome.bound
