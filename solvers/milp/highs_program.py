"""HiGHS on a program, with its outcome as data and with limits that hold.

HiGHS may overrun its own time limit and cannot be interrupted from the keyboard, so it runs in a
thread of its own: the limit and Ctrl-C are watched from outside, the incumbents are collected as
they come, and a run that does not return in time is left behind with what it had found.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from goodalloc.formulations.basics.program import Program
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.interface.watch import Watch


#: Statuses of a relaxation without a solution while columns are missing.
NO_SOLUTION = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kModelEmpty)
#: Programs with no more columns start with all of them.
FEW_COLUMNS = 2_000
#: HiGHS's numbers for the two simplex methods.
DUAL, PRIMAL = 1, 4
#: Seconds after its limit within which a run may still return by itself.
GRACE = 0.5

#: Options of mixed-integer programs. Releases 1.12 to 1.15.1 of HiGHS, with presolve, call some
#: programs optimal that are not (`tests/solvers/exact/test_highs.py` keeps one, of nine columns).
#: Jumping to a first feasible point is left out, too: ours are easy to find.
TRUSTED: dict[str, Any] = {"presolve": "off", "mip_heuristic_run_feasibility_jump": False}
#: What is wrong is one rule of presolve, the aggregator, by HiGHS's number of it. Without it …
AGGREGATOR = 1 << 12
PRESOLVED = {**TRUSTED, "presolve": "on", "presolve_rule_off": AGGREGATOR}
#: … programs of more rows, a job each, are solved twice as fast, and smaller ones hardly sooner.
WORTH_PRESOLVING = 450


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run of HiGHS.

    Parameters
    ----------
    values
        The best solution, shape (columns,), or None.
    objective, bound
        Its objective, and a proven lower bound.
    duals
        Prices of the rows (relaxations only).
    finished
        Whether HiGHS returned with a proof of optimality or infeasibility.
    nodes
        Branch-and-bound nodes or simplex iterations.
    """

    values: Floats | None
    objective: float = math.inf
    bound: float = -math.inf
    duals: Floats | None = None
    finished: bool = False
    nodes: int = 0


def new_solver(**options: Any) -> Any:
    """Return a silent HiGHS with tight tolerances and these options.

    Examples
    --------
    >>> from goodalloc.solvers.milp import new_solver
    >>> new_solver(time_limit=5.0).getOptionValue("time_limit")[1]
    5.0
    """
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    tight = {
        "output_flag": False,
        "threads": 1,  # each run has a thread of its own; HiGHS's shared workers can deadlock then
        "primal_feasibility_tolerance": 1e-8,
        "dual_feasibility_tolerance": 1e-9,
        "mip_feasibility_tolerance": 1e-7,
        "mip_rel_gap": 0.0,
    }
    for name, value in {**tight, **options}.items():
        solver.setOptionValue(name, value)
    return solver


def run_in_time(solver: Any, watch: Watch) -> bool:
    """Run HiGHS under the watch; return False if it had to be left behind.

    Examples
    --------
    >>> from goodalloc.solvers import Stop
    >>> from goodalloc.solvers.interface import Watch
    >>> from goodalloc.solvers.milp import new_solver, run_in_time
    >>> run_in_time(new_solver(), Watch(Stop()))
    True
    """
    if math.isfinite(watch.left):
        solver.setOptionValue("time_limit", max(watch.left, 0.0) + solver.getRunTime())
    thread = threading.Thread(target=solver.run, daemon=True)
    thread.start()
    cancelled_at = math.inf
    while thread.is_alive():
        try:
            thread.join(min(0.1, max(watch.left, 0.01)))
        except KeyboardInterrupt:
            watch.interrupted = True
        if watch.limit is not None and cancelled_at == math.inf:
            cancelled_at = time.perf_counter()
        if time.perf_counter() - cancelled_at > GRACE:
            return not thread.is_alive()
    return True


@dataclass
class _Collected:
    """Best solution and bound that HiGHS has reported so far."""

    values: Floats | None = None
    objective: float = math.inf
    bound: float = -math.inf
    nodes: int = 0


def run_mixed_integer(
    program: Program,
    watch: Watch,
    *,
    gap: float,
    most_branches: int | None = None,
    presolve: bool = False,
) -> Outcome:
    """Minimise a mixed-integer program; values, bound and proof are those of HiGHS.

    Parameters
    ----------
    program
        The program.
    watch
        The clock of the solve.
    gap
        Absolute gap at which to stop.
    most_branches
        Nodes of branch and bound after which to give up; None for any number.
    presolve
        Whether programs of more than `WORTH_PRESOLVING` rows are presolved.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.basics import ProgramBuilder
    >>> from goodalloc.solvers import Stop
    >>> from goodalloc.solvers.interface import Watch
    >>> from goodalloc.solvers.milp import run_mixed_integer
    >>> builder = ProgramBuilder()
    >>> columns = builder.add_columns("x", 1, cost=np.array([-1.0]), upper=2.0)
    >>> builder.add_entries(builder.add_rows("half", 1, upper=3.0), columns, 2.0)
    >>> outcome = run_mixed_integer(builder.build(), Watch(Stop()), gap=1e-9)  # 2 x <= 3
    >>> outcome.values.tolist(), outcome.finished
    ([1.0], True)
    """
    limits = {} if most_branches is None else {"mip_max_nodes": most_branches}
    options = PRESOLVED if presolve and program.num_rows > WORTH_PRESOLVING else TRUSTED
    solver = new_solver(mip_abs_gap=gap, **options, **limits)
    solver.passModel(program.highs_model())
    best = _Collected()

    def improved(event: Any) -> None:
        data = event.data_out
        best.values = np.array(data.mip_solution)
        best.objective = float(data.objective_function_value)

    def interrupt(event: Any) -> None:
        best.bound = max(best.bound, float(event.data_out.mip_dual_bound))
        best.nodes = int(event.data_out.mip_node_count)
        if watch.limit is not None:
            event.interrupt()

    solver.cbMipImprovingSolution.subscribe(improved)
    solver.cbMipInterrupt.subscribe(interrupt)
    if not run_in_time(solver, watch):
        return Outcome(best.values, best.objective, best.bound, None, False, best.nodes)
    status, info = solver.getModelStatus(), solver.getInfo()
    nodes = max(int(info.mip_node_count), 0)
    if status == highspy.HighsModelStatus.kInfeasible:
        return Outcome(None, math.inf, math.inf, None, True, nodes)
    has_solution = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    values = np.array(solver.getSolution().col_value) if has_solution else best.values
    objective = float(info.objective_function_value) if has_solution else best.objective
    finished = status == highspy.HighsModelStatus.kOptimal
    return Outcome(values, objective, float(info.mip_dual_bound), None, finished, nodes)


def run_relaxation(program: Program, priced: NDArray[np.bool_], watch: Watch) -> Outcome:
    """Solve the linear relaxation exactly by column generation.

    The columns not in `priced` are left out at first; all of them are then priced in one array
    operation, those with negative reduced cost join, and the simplex method goes on from where it
    was, until none is left: the duals are then feasible for the whole program and the objective is
    its relaxation's.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.basics import ProgramBuilder
    >>> from goodalloc.solvers import Stop
    >>> from goodalloc.solvers.interface import Watch
    >>> from goodalloc.solvers.milp import run_relaxation
    >>> builder = ProgramBuilder()
    >>> columns = builder.add_columns("x", 1, cost=np.array([-1.0]), upper=2.0)
    >>> builder.add_entries(builder.add_rows("half", 1, upper=3.0), columns, 2.0)
    >>> run_relaxation(builder.build(), np.ones(1, dtype=bool), Watch(Stop())).objective
    -1.5
    """
    inside = priced | (program.num_columns <= FEW_COLUMNS)
    order = np.flatnonzero(inside)
    solver = new_solver(presolve="off", solver="simplex", simplex_strategy=DUAL)
    solver.passModel(program.columns(inside).highs_model(relaxed=True))
    iterations, untried = 0, [PRIMAL]
    while True:
        returned = run_in_time(solver, watch)
        status = solver.getModelStatus() if returned else None
        solved = status == highspy.HighsModelStatus.kOptimal
        infeasible = status in NO_SOLUTION
        if returned and not solved and not infeasible and untried and watch.limit is None:
            solver.clearSolver()  # the simplex method got lost: start afresh with the other
            solver.setOptionValue("simplex_strategy", untried.pop())
            continue
        if not solved and (not infeasible or inside.all()):
            return Outcome(None, finished=infeasible)
        info, solution = solver.getInfo(), solver.getSolution()
        iterations += int(info.simplex_iteration_count)
        duals = np.array(solution.row_dual)
        wanted = program.reduced_costs(duals) < -1e-9 if solved else np.ones_like(inside)
        entering = np.flatnonzero(~inside & wanted)
        if not entering.size:
            break
        _add_columns(solver, program, entering)
        inside[entering] = True
        order = np.concatenate([order, entering])
        solver.setOptionValue("simplex_strategy", PRIMAL)  # the basis stays primal feasible
        untried = [DUAL]
    values = np.zeros(program.num_columns)
    values[order] = solution.col_value
    objective = float(info.objective_function_value)
    return Outcome(values, objective, objective, duals, True, iterations)


def _add_columns(solver: Any, program: Program, entering: NDArray[np.int64]) -> None:
    """Add columns of the program to a HiGHS that holds some of the others."""
    lengths = np.diff(program.starts)[entering]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.arange(starts[-1]) + np.repeat(program.starts[entering] - starts[:-1], lengths)
    solver.addCols(
        entering.size,
        program.cost[entering],
        program.lower[entering],
        program.upper[entering],
        int(starts[-1]),
        starts[:-1].astype(np.int32),
        program.index[entries].astype(np.int32),
        program.value[entries],
    )
