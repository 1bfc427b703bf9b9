"""Process that has CP-SAT solve a program in a file, and writes what it found to another.

    python -m goodalloc.solvers.exact.cp_sat_process PROGRAM.mps SECONDS ANSWER.json

OR-tools brings a HiGHS of its own, and one process cannot hold both it and `highspy`.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

#: Upper bound of variables that have none, which CP-SAT does not take.
LARGEST = 1e6


def solve_file(path: str, seconds: float) -> dict[str, Any]:
    """Return status, bound and values by the names of the columns.

    Parameters
    ----------
    path
        The program, to be minimised.
    seconds
        Time limit.
    """
    name = "ortools.linear_solver.python.model_builder"  # which few have installed
    model_builder: Any = importlib.import_module(name)
    program, solver = model_builder.Model(), model_builder.Solver("sat")
    program.import_from_mps_file(path)
    for variable in program.get_variables():
        variable.upper_bound = min(variable.upper_bound, LARGEST)
    solver.set_time_limit_in_seconds(seconds)
    solver.set_solver_specific_parameters("num_workers:1")
    status = solver.solve(program)
    known = model_builder.SolveStatus
    answer: dict[str, Any] = {"status": status.name.lower(), "bound": None, "values": {}}
    if status in (known.OPTIMAL, known.FEASIBLE):
        answer["bound"] = float(solver.best_objective_bound)
        variables = program.get_variables()
        answer["values"] = {variable.name: solver.value(variable) for variable in variables}
    return answer


if __name__ == "__main__":
    found = solve_file(sys.argv[1], float(sys.argv[2]))
    Path(sys.argv[3]).write_text(json.dumps(found), encoding="utf-8")
