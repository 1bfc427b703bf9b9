"""The front door: decide a round, check the answer, certify its gap."""

import math
import time
from collections.abc import Callable
from typing import Any

from goodalloc.formulations.knapsack import knapsack_bound
from goodalloc.models.allocation import Allocation
from goodalloc.models.feasibility import violations
from goodalloc.models.instance import Instance
from goodalloc.models.objective import fitness
from goodalloc.solvers.base import call_solver, find_solver
from goodalloc.solvers.result import Answer, Result, Status
from goodalloc.solvers.stop import Stop, proves


def solve(
    instance: Instance,
    solver: str | Callable[..., Any] = "highs",
    *,
    stop: Stop | None = None,
    seed: int = 0,
    start: Allocation | None = None,
    bound: float | None = None,
    **options: Any,
) -> Result:
    """Decide one scheduling round.

    Parameters
    ----------
    instance
        The round.
    solver
        A name (see `goodalloc.solvers.base.SOLVERS`), a dotted path ``package.module:function``,
        the name of an entry point, or the function itself.
    stop
        Limits on the search.
    seed
        Seed of randomised solvers.
    start
        An allocation to start from.
    bound
        A proven upper bound on the fitness, where one is known already; otherwise a solver that
        proves none is given that of the multiple-choice knapsack.
    options
        Passed to the solver, which must take them.

    Returns
    -------
    Result
        Its allocation has passed `violations` and its fitness was recomputed.

    Raises
    ------
    ValueError
        If there is no such solver or an option it does not take is given.
    """
    function = find_solver(solver) if isinstance(solver, str) else solver
    name = solver if isinstance(solver, str) else getattr(solver, "__name__", "solver")
    stop = stop or Stop()
    arguments = {"stop": stop, "seed": seed, "start": start, **options}
    begin = time.perf_counter()
    answer = call_solver(function, instance, arguments, name=name)
    solve_seconds = time.perf_counter() - begin - answer.compile_seconds
    return certify(
        instance, answer, name, seed=seed, bound=bound, solve_seconds=solve_seconds, gap=stop.gap
    )


def certify(
    instance: Instance,
    answer: Answer,
    solver: str,
    *,
    seed: int = 0,
    bound: float | None = None,
    solve_seconds: float = 0.0,
    gap: float = 1e-9,
) -> Result:
    """Check an answer, recompute its fitness, and give it a proven bound.

    An allocation that breaks a rule is dropped and the result says so; it is never reported.
    """
    begin = time.perf_counter()
    allocation, value, message = answer.allocation, math.nan, answer.message
    if allocation is None and not message and answer.limit is None:
        message = "the solver returned no allocation"
    if allocation is not None:
        broken = violations(instance, allocation)
        if broken:
            first, *others = broken
            more = f" (and {len(others)} more)" if others else ""
            message = f"infeasible allocation refused: {first}{more}"
            allocation = None
        else:
            value = fitness(instance, allocation)
    check_seconds = time.perf_counter() - begin
    best_bound, source, bound_seconds = answer.bound, answer.bound_source or solver, 0.0
    if best_bound < value * (1 - 1e-9):
        message = f"claimed bound {best_bound:g} refuted: the allocation is worth {value:g}"
        best_bound = math.inf
    if not math.isfinite(best_bound):
        begin = time.perf_counter()
        if bound is None:
            best_bound, source = knapsack_bound(instance), "knapsack"
        else:
            best_bound, source = bound, "given"
        bound_seconds = time.perf_counter() - begin
    return Result(
        solver=solver, instance=instance.name, allocation=allocation, fitness=value,
        bound=best_bound, bound_source=source, status=_status(allocation, value, best_bound, gap),
        limit=answer.limit, seed=seed, build_seconds=answer.build_seconds,
        compile_seconds=answer.compile_seconds, solve_seconds=solve_seconds,
        check_seconds=check_seconds, bound_seconds=bound_seconds,
        iterations=answer.iterations, history=answer.history, message=message,
    )  # fmt: skip


def _status(allocation: Allocation | None, value: float, bound: float, gap: float) -> Status:
    if allocation is None:
        return Status.UNKNOWN
    return Status.OPTIMAL if proves(bound, value, gap) else Status.FEASIBLE
