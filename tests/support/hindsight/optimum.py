"""The optimum of a small offline problem, by the time-indexed program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.formulations.hindsight.time_indexed import decode_schedule, time_indexed_program
from goodalloc.models.hindsight.offline_schedule import completion_times, schedule_violations
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer
from tests.support.hindsight.tiny_traces import edges_of

if TYPE_CHECKING:
    import numpy as np

    from goodalloc.models.hindsight.offline_problem import OfflineProblem


def optimum(problem: OfflineProblem, edges: np.ndarray | None = None) -> tuple[float, float]:
    """Return the objective of the best schedule that changes at edges, and its proven bound."""
    grid = time_indexed_program(problem, edges_of(problem) if edges is None else edges)
    outcome = run_mixed_integer(grid.program, Watch(Stop(seconds=60.0)), gap=1e-7)
    assert outcome.values is not None
    schedule = decode_schedule(problem, grid, outcome.values)
    assert schedule_violations(problem, schedule) == []
    total = problem.total(completion_times(problem, schedule))
    assert total == pytest.approx(outcome.objective, rel=1e-6)
    return total, outcome.bound
