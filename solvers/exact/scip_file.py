"""SCIP on a program in a file (`.lp` or `.mps`), as an independent solver."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: SCIP's tolerance for rows, in place of its own 1e-6: parts of GPUs have up to six decimals.
ROW_TOLERANCE = 1e-7


class FileAnswer(NamedTuple):
    """Outcome of SCIP on a program that is to be minimised.

    Attributes
    ----------
    status
        Status as SCIP reports it: ``"optimal"``, ``"infeasible"``, ``"timelimit"``,
        ``"userinterrupt"``, …
    objective, bound
        The best objective found, infinite where none was, and the proven lower bound.
    values
        The best solution by the columns' names; empty where none was found.
    seconds
        Time for reading and solving.
    """

    status: str
    objective: float
    bound: float
    values: Mapping[str, float]
    seconds: float


def run_scip(path: Path, *, seconds: float | None = None, gap: float = 0.0) -> FileAnswer:
    """Minimise a program in a file with SCIP (extra `goodalloc[scip]`).

    Ctrl-C ends the search, not the process, and the answer says so.

    Parameters
    ----------
    path
        The file.
    seconds
        Wall-clock limit; None for none.
    gap
        Relative gap at which it ends; its status is then ``"gaplimit"``.
    """
    import pyscipopt

    begin = time.perf_counter()
    solver: Any = pyscipopt.Model()
    solver.hideOutput()
    solver.readProblem(str(path))
    solver.setParam("numerics/feastol", ROW_TOLERANCE)
    solver.setParam("limits/gap", gap)
    if seconds is not None:
        solver.setParam("limits/time", seconds)
    solver.optimize()
    found = solver.getBestSol() if solver.getNSols() else None
    return FileAnswer(
        str(solver.getStatus()),
        _number(solver, solver.getPrimalbound()),
        _number(solver, solver.getDualbound()),
        {} if found is None else {column.name: float(found[column]) for column in solver.getVars()},
        time.perf_counter() - begin,
    )


def _number(solver: Any, value: float) -> float:
    """Return a number as a Python float: SCIP's infinity is a large finite number."""
    return float(
        "inf" if solver.isInfinity(value) else "-inf" if solver.isInfinity(-value) else value
    )
