"""Fast exact solution of pattern programs: prices, then a core.

The relaxation prices the resources that the jobs compete for, and each choice's reduced cost is a
lower bound on the excess of any solution with it over the relaxation's bound. So solve only the
*core*, the choices whose reduced cost is at most ``delta``; the core's optimum is *the* optimum,
proved, once ``optimum - bound <= delta``, because every dropped choice would cost more. If not,
widen the core to that difference. Often the relaxation is integral already and nothing remains to
solve; mostly it is integral except for a few columns, and keeping its ones while deciding the rest
meets the bound at once (relaxation enforced neighbourhood search).

This is reduced-cost fixing: it needs every dropped column to be integer with lower bound 0, as all
columns of these programs are, so that using one costs at least its reduced cost beyond the
relaxation.

References
----------
Dantzig, Fulkerson and Johnson, "Solution of a Large-Scale Traveling-Salesman Problem", Journal of
    the Operations Research Society of America, 1954.

Berthold, "RENS: the optimal rounding", Mathematical Programming Computation, 2014.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.solvers.milp.counted_program import run_choices
from goodalloc.solvers.milp.highs_program import run_mixed_integer, run_relaxation

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from goodalloc.formulations.basics.program import Program
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.interface.watch import Watch
    from goodalloc.solvers.milp.highs_program import Outcome

    #: Solver of a program, under a watch, to an absolute gap.
    Run = Callable[..., Outcome]


#: Reduced cost in gaps up to which columns are in the first core; and the factor by which the
#: number of columns grows where a core holds no solution and none is known.
FIRST_CORE = 10.0
WIDER = 2
INTEGRAL = 1e-6
#: Shares of the guide's cost that are mixed in, one after the other.
GUIDE_WEIGHTS = (1e-3, 1e-5, 1e-7)
#: Absolute gap of such a mixture, a fraction of the weight, so that its core stays small.
GUIDED_GAP = 1e-2


@dataclass(frozen=True)
class Decision:
    """Values of all columns (or None), their objective and a proven lower bound on it.

    Parameters
    ----------
    values, objective, bound
        The best solution, its objective and the bound.
    nodes, core
        Simplex iterations and nodes, and the columns of the last core.
    relaxed
        Objective of the relaxation.
    reduced, duals
        Reduced costs of all columns and prices of all rows in the relaxation, or None without it.
    """

    values: Floats | None
    objective: float
    bound: float
    nodes: int = 0
    core: int = 0
    relaxed: float = -math.inf
    reduced: Floats | None = None
    duals: Floats | None = None


def decide(
    program: Program,
    priced: NDArray[np.bool_],
    watch: Watch,
    *,
    gap: float,
    guide: Floats | None = None,
    known: float = math.inf,
    exact: bool = True,
    alike: bool = False,
    presolve: bool = False,
) -> Decision:
    """Minimise a program, exactly by default.

    Parameters
    ----------
    program
        The program.
    priced
        The columns that the relaxation starts with; the others join when their prices are right.
    watch
        The clock of the solve; the best so far is returned when it runs out.
    gap
        Absolute gap at which to stop.
    guide
        A second cost that separates good from bad columns where the first hardly does; shape
        (columns,).
    known
        Objective of a solution of the caller; if that is proved optimal, no other is sought and
        `Decision.values` is None.
    exact
        Whether to widen the core until the optimum is proved; otherwise the first core with a
        solution suffices.
    alike
        Whether many jobs have the same choices, so that cores are run by counts (`run_choices`).
    presolve
        Whether large cores that are not run by counts are presolved.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.basics import ProgramBuilder
    >>> from goodalloc.solvers import Stop
    >>> from goodalloc.solvers.interface import Watch
    >>> from goodalloc.solvers.milp import decide
    >>> builder = ProgramBuilder()
    >>> columns = builder.add_columns("x", 2, cost=np.array([-2.0, -3.0]), upper=1.0)
    >>> row = builder.add_rows("one", 1, upper=1.0)
    >>> builder.add_entries(np.repeat(row, 2), columns, 1.0)
    >>> decision = decide(builder.build(), np.ones(2, dtype=bool), Watch(Stop()), gap=1e-9)
    >>> np.flatnonzero(decision.values).tolist(), decision.objective
    ([1], -3.0)
    """
    relaxation = run_relaxation(program, priced, watch)
    if relaxation.values is None or relaxation.duals is None:
        bound = math.inf if relaxation.finished else -math.inf
        return Decision(None, math.inf, bound)
    bound, nodes, duals = relaxation.objective, relaxation.nodes, relaxation.duals
    if known - bound <= gap:
        return Decision(None, known, bound, nodes, relaxed=bound, duals=duals)
    reduced = program.reduced_costs(duals)
    fractional = np.abs(relaxation.values - np.rint(relaxation.values)) > INTEGRAL
    if not fractional[program.integer].any():
        values = np.rint(relaxation.values)
        return Decision(values, bound, bound, nodes, relaxed=bound, reduced=reduced, duals=duals)
    delta = FIRST_CORE * gap
    run = partial(run_mixed_integer, presolve=presolve)
    best = _keep_ones(program, reduced <= delta, relaxation.values, watch, gap, run)
    nodes += best.nodes
    best = replace(best, bound=bound, nodes=nodes, relaxed=bound, reduced=reduced, duals=duals)
    if best.objective - bound <= gap:
        return best
    if guide is not None and np.count_nonzero(reduced <= delta) > program.num_columns / 2:
        best = _guided(
            program=program,
            priced=priced,
            watch=watch,
            best=best,
            gap=gap,
            guide=guide,
            alike=alike,
            presolve=presolve,
        )
        if best.objective - bound <= gap:
            return best
        if best.values is not None:
            delta = max(delta, best.objective - bound + gap)
    if not exact and best.values is not None:
        return best
    return _widening_core(
        program=program,
        reduced=reduced,
        delta=delta,
        watch=watch,
        best=replace(best, nodes=nodes),
        gap=gap,
        known=known,
        exact=exact,
        run=run_choices if alike else run,
    )


def _widening_core(
    program: Program,
    reduced: Floats,
    delta: float,
    watch: Watch,
    *,
    best: Decision,
    gap: float,
    known: float,
    exact: bool,
    run: Run,
) -> Decision:
    """Solve the core, and wider ones until all columns outside are proved to be worse."""
    bound = best.bound
    while watch.limit is None:
        core = reduced <= delta
        outcome = run(program.columns(core), watch, gap=gap)
        if outcome.values is not None and outcome.objective < best.objective:
            values = program.widen(outcome.values, core)
            best = replace(best, values=values, objective=outcome.objective)
        # columns outside the core cost more than bound + delta; the core at least its own bound
        dropped = math.inf if core.all() else bound + delta
        proven = max(bound, min(outcome.bound, dropped))
        best = replace(
            best,
            bound=max(best.bound, proven),
            nodes=best.nodes + outcome.nodes,
            core=int(core.sum()),
        )
        missing = min(best.objective, known) - bound
        enough = missing <= delta or (not exact and best.values is not None)
        if enough or core.all() or not outcome.finished:
            break
        wider = missing * (1 + 1e-9) + gap
        if best.values is None:
            more = min(WIDER * int(core.sum()), reduced.size - 1)
            wider = min(wider, max(float(np.partition(reduced, more)[more]), delta + gap))
        delta = wider
    return best


def _keep_ones(
    program: Program,
    core: NDArray[np.bool_],
    relaxed: Floats,
    watch: Watch,
    gap: float,
    run: Run,
) -> Decision:
    """Return the best solution in the core that keeps the ones of the relaxation.

    Columns that count stay free: they follow from the others, and fixing them mostly leaves no
    feasible solution.
    """
    kept = program.integer & (program.upper == 1.0) & (relaxed > 1.0 - INTEGRAL)
    fixed = replace(program, lower=np.where(kept, 1.0, program.lower))
    outcome = run(fixed.columns(core), watch, gap=gap)
    values = None if outcome.values is None else program.widen(outcome.values, core)
    return Decision(values, outcome.objective, -math.inf, outcome.nodes)


def _guided(
    program: Program,
    priced: NDArray[np.bool_],
    watch: Watch,
    *,
    best: Decision,
    gap: float,
    guide: Floats,
    alike: bool,
    presolve: bool,
) -> Decision:
    """Return candidates for a program whose cost hardly separates one choice from another.

    At p = -10 all but the worst jobs cost the same to five digits, so the relaxation ends at any
    vertex of a large face and its core is everything. A small weight of the guide's cost selects a
    meaningful vertex; its optimality is still judged by the program's own bound.
    """
    for weight in GUIDE_WEIGHTS:
        blended = replace(program, cost=program.cost + weight * guide)
        found = decide(
            blended,
            priced,
            watch,
            gap=min(gap, GUIDED_GAP * weight),
            alike=alike,
            presolve=presolve,
        )
        if found.values is None:
            break
        objective = float(program.cost @ found.values)
        if objective < best.objective:
            best = replace(best, values=found.values, objective=objective)
        if best.objective - best.bound <= gap:
            break
    return best
