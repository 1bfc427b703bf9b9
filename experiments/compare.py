"""Several solvers on one instance, each with several seeds, judged by one bound."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from goodalloc.models.allocation import Allocation
from goodalloc.models.instance import Instance
from goodalloc.models.objective import mode_utilities
from goodalloc.solvers.base import find_solver
from goodalloc.solvers.result import Limit, Result, Status
from goodalloc.solvers.solve import solve
from goodalloc.solvers.stop import Stop


def usual_solvers(instance: Instance) -> tuple[str, ...]:
    """Solvers worth comparing on an instance: those that know what counts in it."""
    if instance.plain:
        return ("highs", "local_search", "greedy", "genetic")
    if instance.shares_gpus:
        return ("pods", "best_fit", "fgd")
    kinds = ("highs", "greedy", "genetic")
    typed = len(set(instance.cluster.node_types)) > 1
    return (*kinds, "sia") if typed else (*kinds, "synergy_tune", "synergy_greedy")


def check_solvers(names: Sequence[str]) -> None:
    """Refuse an empty list, a name given twice, or a solver that does not exist.

    Raises
    ------
    ValueError
        With one sentence that names it.
    """
    if not names:
        raise ValueError("Solvers: got none; expected at least one.")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"Solvers: '{name}' is named twice; expected each once.")
        find_solver(name)


def attempt(
    instance: Instance,
    solver: str,
    *,
    stop: Stop | None = None,
    seed: int = 0,
    start: Allocation | None = None,
    bound: float | None = None,
) -> Result:
    """As `solve`, but whatever a solver raises becomes a result without an allocation.

    So one broken solver never ends a comparison. Interrupts pass through.
    """
    begin = time.perf_counter()
    try:
        return solve(instance, solver, stop=stop, seed=seed, start=start, bound=bound)
    except Exception as error:  # a solver may raise anything: it is an outcome here
        text = " ".join(str(error).split())
        return Result(
            solver=solver, instance=instance.name, allocation=None, fitness=math.nan,
            bound=math.inf, bound_source="", status=Status.UNKNOWN, seed=seed,
            solve_seconds=time.perf_counter() - begin,
            message=f"failed: {type(error).__name__}: {text}",
        )  # fmt: skip


def compare(
    instance: Instance,
    solvers: Sequence[str],
    seeds: Sequence[int] = (0,),
    *,
    stop: Stop | None = None,
    start: Allocation | None = None,
    report: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Decide an instance with every solver and seed, and judge all by the best bound proved.

    Parameters
    ----------
    instance
        The round.
    solvers, seeds
        Which to run; each solver with each seed.
    stop, start
        Given to every solver.
    report
        Called with each result as it comes.

    Returns
    -------
    list of Result
        One for each solver and seed, in that order, fewer if interrupted.

    Raises
    ------
    ValueError
        If a solver is unknown or named twice.
    """
    check_solvers(solvers)
    mode_utilities(instance)  # kept with the instance, so that no solver's time includes it
    results: list[Result] = []
    try:
        for result in _attempts(instance, solvers, seeds, stop, start):
            results.append(result)
            report(result)
    except KeyboardInterrupt:
        if not results:
            raise
    return with_common_bound(results)


def _attempts(
    instance: Instance,
    solvers: Sequence[str],
    seeds: Sequence[int],
    stop: Stop | None,
    start: Allocation | None,
) -> Iterator[Result]:
    """The results one by one; a bound proved by one solver is given to those that prove none."""
    bound: float | None = None
    for solver in solvers:
        for seed in seeds:
            result = attempt(instance, solver, stop=stop, seed=seed, start=start, bound=bound)
            if math.isfinite(result.bound):
                bound = min(result.bound, math.inf if bound is None else bound)
            yield result
            if result.limit is Limit.INTERRUPTED:
                return


def with_common_bound(results: Sequence[Result]) -> list[Result]:
    """The same results, each with the least bound that any of them proved."""
    proved = [result for result in results if math.isfinite(result.bound)]
    if not proved:
        return list(results)
    best = min(proved, key=lambda result: result.bound)
    return [
        result
        if result.bound <= best.bound
        else replace(result, bound=best.bound, bound_source=f"{best.bound_source} of {best.solver}")
        for result in results
    ]
