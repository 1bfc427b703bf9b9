"""Process that has OR-tools solve a program in a file, and writes what it found to another.

    python -m goodalloc.solvers.exact.cp_sat_process PROGRAM.mps SECONDS ANSWER.json [SOLVER]

OR-tools brings a HiGHS of its own, and one process cannot hold both it and `highspy`.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

#: Upper bound of variables that have none, which CP-SAT does not take.
LARGEST = 1e6


#: Name of CP-SAT in OR-tools; the other solvers are linear.
CP_SAT = "sat"


def solve_file(path: str, seconds: float, solver: str = CP_SAT) -> dict[str, Any]:
    """Return status, objective, bound, values by the names of the columns, and seconds.

    Parameters
    ----------
    path
        The program, to be minimised.
    seconds
        Time limit.
    solver
        Name of the solver in OR-tools, as ``"sat"``, ``"glop"`` or ``"pdlp"``; only the first one
        tells a bound.
    """
    name = "ortools.linear_solver.python.model_builder"  # which few have installed
    model_builder: Any = importlib.import_module(name)
    wall, processor = time.perf_counter(), time.process_time()
    program, runner = model_builder.Model(), model_builder.Solver(solver)
    program.import_from_mps_file(path)
    if solver == CP_SAT:
        for variable in program.get_variables():
            variable.upper_bound = min(variable.upper_bound, LARGEST)
        runner.set_solver_specific_parameters("num_workers:1")
    runner.set_time_limit_in_seconds(seconds)
    status = runner.solve(program)
    answer: dict[str, Any] = {
        "status": status.name.lower(),
        "objective": None,
        "bound": None,
        "values": {},
        "seconds": time.perf_counter() - wall,
        "processor_seconds": time.process_time() - processor,
    }
    known = model_builder.SolveStatus
    if status in (known.OPTIMAL, known.FEASIBLE):
        answer["objective"] = float(runner.objective_value)
        if solver == CP_SAT:
            answer["bound"] = float(runner.best_objective_bound)
        variables = program.get_variables()
        answer["values"] = {variable.name: runner.value(variable) for variable in variables}
    return answer


if __name__ == "__main__":
    found = solve_file(sys.argv[1], float(sys.argv[2]), *sys.argv[4:])
    Path(sys.argv[3]).write_text(json.dumps(found), encoding="utf-8")
