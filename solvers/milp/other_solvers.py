"""Programs given to HiGHS's other methods, to OR-tools and to MPAX, as a benchmark compares them.

The exact road uses none of them: `highs_program.py` is what it calls, and
`experiments/benchmarks/BACK_ENDS.md` has the figures. OR-tools is none of the package's
dependencies; MPAX and HiGHS's HiPO come with the extra ``back-ends``.

References
----------
Huangfu and Hall, "Parallelizing the dual revised simplex method", Mathematical Programming
    Computation, 2018 (HiGHS).

Applegate et al., "Practical large-scale linear programming using primal-dual hybrid gradient",
    NeurIPS 2021 (PDLP).

Lu, Peng and Yang, "MPAX: Mathematical Programming in JAX", arXiv:2412.09734, 2024.
"""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.solvers.milp.highs_program import new_solver

if TYPE_CHECKING:
    from goodalloc.formulations.basics.program import Program

#: Module of MPAX, which few have installed.
MPAX = "mpax"

#: Module that runs OR-tools in a process of its own, and seconds that it may take beyond its limit.
OR_TOOLS_PROCESS, PATIENCE = "goodalloc.solvers.exact.cp_sat_process", 30.0

#: Tolerance of first-order methods, relative and absolute: about what they are made for.
TOLERANCE = 1e-6

#: Iterations of MPAX at most: it has no limit in seconds.
ITERATIONS = 20_000

#: Status of all back ends where the optimum was found.
OPTIMAL = "optimal"


class Solved(NamedTuple):
    """Outcome of a back end.

    Attributes
    ----------
    status
        The back end's own word in small letters; ``"optimal"`` where it found the optimum.
    objective
        Objective of what it found; without meaning under another status.
    seconds, processor_seconds
        Of the clock and of the processor, without compiling and without starting a process.
    compile_seconds
        Seconds of compiling for programs of this shape; 0 where nothing is compiled.
    """

    status: str
    objective: float
    seconds: float
    processor_seconds: float
    compile_seconds: float = 0.0


def by_highs(program: Program, seconds: float, *, threads: int = 1, **options: Any) -> Solved:
    """Minimise a program with HiGHS in the calling thread, so that it may use several.

    Parameters
    ----------
    program
        The program.
    seconds
        Wall-clock limit.
    threads
        Number of threads.
    options
        Options of HiGHS beside those of `new_solver`.
    """
    import highspy

    highspy.Highs.resetGlobalScheduler(True)  # else the first number of threads holds for all
    wall, processor = time.perf_counter(), time.process_time()
    solver = new_solver(time_limit=seconds, threads=threads, **options)
    solver.passModel(program.highs_model())
    solver.run()
    status = str(solver.modelStatusToString(solver.getModelStatus())).lower()
    objective = float(solver.getInfo().objective_function_value)
    taken = (time.perf_counter() - wall, time.process_time() - processor)
    return Solved(status, objective, *taken)


def by_or_tools(path: Path, seconds: float, *, solver: str) -> Solved:
    """Minimise a program in an MPS file with a linear solver of OR-tools, in another process.

    Parameters
    ----------
    path
        The file.
    seconds
        Wall-clock limit.
    solver
        Its name: ``"glop"``, ``"pdlp"``, …
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "answer.json"
        words = ["-m", OR_TOOLS_PROCESS, str(path), f"{seconds}", str(out), solver]
        limit = seconds + PATIENCE
        subprocess.run([sys.executable, *words], capture_output=True, check=True, timeout=limit)
        found = json.loads(out.read_text(encoding="utf-8"))
    objective = math.nan if found["objective"] is None else float(found["objective"])
    status = str(found["status"]).replace("_", " ")
    return Solved(status, objective, float(found["seconds"]), float(found["processor_seconds"]))


def by_mpax(program: Program) -> Solved:
    """Minimise the relaxation of a program with MPAX: reflected restarted Halpern PDHG, float64.

    Parameters
    ----------
    program
        The program; that columns are integer is ignored.
    """
    import jax
    from scipy import sparse

    mpax: Any = importlib.import_module(MPAX)
    shape = (program.num_rows, program.num_columns)
    matrix = sparse.csc_array((program.value, program.index, program.starts), shape=shape).tocsr()
    low, high = program.row_lower, program.row_upper
    equal = low == high
    below, above = ~equal & np.isfinite(low), ~equal & np.isfinite(high)
    at_least = sparse.vstack([matrix[below], -matrix[above]])
    right = np.concatenate([low[below], -high[above]])
    begin = time.perf_counter()
    with jax.enable_x64(True):
        given = mpax.create_lp(
            program.cost, matrix[equal], low[equal], at_least, right, program.lower, program.upper
        )
        solver = mpax.r2HPDHG(eps_abs=TOLERANCE, eps_rel=TOLERANCE, iteration_limit=ITERATIONS)
        compiled = jax.jit(solver.optimize).lower(given).compile()
        wall, processor = time.perf_counter(), time.process_time()
        found = compiled(given)
        values = np.asarray(found.primal_solution)
        taken = (time.perf_counter() - wall, time.process_time() - processor)
    status = str(mpax.utils.TerminationStatus(int(found.termination_status)).name)
    objective = float(program.cost @ values + program.offset)
    return Solved(status.lower().replace("_", " "), objective, *taken, wall - begin)
