"""Comparison of solvers on one instance, each with several seeds, by one common bound.

It is the least bound that a shipped solver or a relaxation proves and that no allocation refutes.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from goodalloc.models.round.objective import mode_utilities
from goodalloc.solvers.certificates.solve import solve, status_of
from goodalloc.solvers.interface.base import find_solver
from goodalloc.solvers.interface.bounds import (
    NO_BOUND,
    Bound,
    attributed,
    believed_bound,
    doubt,
    least_bound,
    refutation,
)
from goodalloc.solvers.interface.result import Evidence, Limit, Result, Status
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance


def usual_solvers(instance: Instance) -> tuple[str, ...]:
    """Return the solvers that suit an instance, by its modes, types of GPU and rules.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.experiments.gap import usual_solvers
    >>> "highs" in usual_solvers(load_benchmark("tiny-cold"))
    True
    """
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
        If `names` is empty, a name occurs twice, or a solver does not exist.

    Examples
    --------
    >>> from goodalloc.experiments.gap import check_solvers
    >>> check_solvers(("highs", "greedy"))
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
    """Solve as `solve` does, and turn exceptions of the solver into a result with their message.

    So one broken solver never ends a comparison. Interrupts pass through.
    """
    begin = time.perf_counter()
    try:
        return solve(instance, solver, stop=stop, seed=seed, start=start, bound=bound)
    except Exception as error:  # a solver may raise anything: it is an outcome here
        text = " ".join(str(error).split())
        return Result(
            solver=solver,
            instance=instance.name,
            allocation=None,
            fitness=math.nan,
            bound=math.inf,
            bound_source="",
            status=Status.FAILED,
            seed=seed,
            solve_seconds=time.perf_counter() - begin,
            message=f"failed: {type(error).__name__}: {text}",
        )


def compare(
    instance: Instance,
    solvers: Sequence[str],
    seeds: Sequence[int] = (0,),
    *,
    stop: Stop | None = None,
    start: Allocation | None = None,
    report: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Solve an instance with every solver and seed, and judge all by the best accepted bound.

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

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.experiments import compare
    >>> results = compare(load_benchmark("tiny-cold"), ("highs", "greedy"))
    >>> [(result.solver, result.gap < 0.2) for result in results]
    [('highs', True), ('greedy', True)]
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
    return with_common_bound(instance, results, Stop().gap if stop is None else stop.gap)


def _attempts(
    instance: Instance,
    solvers: Sequence[str],
    seeds: Sequence[int],
    stop: Stop | None,
    start: Allocation | None,
) -> Iterator[Result]:
    """Yield the results; solvers without a bound get the best one accepted so far."""
    known = NO_BOUND
    best = math.nan
    for solver in solvers:
        for seed in seeds:
            given = known.value if math.isfinite(known.value) else None
            result = attempt(instance, solver, stop=stop, seed=seed, start=start, bound=given)
            best = result.fitness if math.isnan(best) else max(best, result.fitness)
            known = least_bound((known, Bound.of(result)), best)
            yield result
            if result.limit is Limit.INTERRUPTED:
                return


def with_common_bound(
    instance: Instance, results: Sequence[Result], gap: float = Stop().gap
) -> list[Result]:
    """Return the results with the least bound that any of them proves and none refutes.

    Where no such bound is left it is the knapsack's. What an answer refutes is said in the message
    of the result whose bound it was, claims included.

    Parameters
    ----------
    instance
        What all of them decided.
    results
        Of any solvers.
    gap
        Relative gap at which an allocation counts as optimal.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.experiments.gap import with_common_bound
    >>> from goodalloc.solvers import solve
    >>> instance = load_benchmark("tiny-cold")
    >>> results = [solve(instance, name) for name in ("highs", "greedy")]
    >>> results = with_common_bound(instance, results)
    >>> results[0].bound == results[1].bound
    True
    """
    served = [result for result in results if result.allocation is not None]
    if not served:
        return list(results)
    best = max(served, key=lambda result: result.fitness)
    common = believed_bound(
        instance, [attributed(Bound.of(r), r.solver) for r in results], best.fitness
    )
    return [_judged(result, common, best, gap) for result in results]


def _judged(result: Result, common: Bound, best: Result, gap: float) -> Result:
    """Return `result` judged by the common bound and the best allocation."""
    notes, whose = [result.message], f"the allocation of {best.solver} (seed {best.seed})"
    if result.evidence is not Evidence.GIVEN:  # that of another result
        notes.append(refutation("bound", result.bound, best.fitness, whose))
    if not doubt(result.claimed_bound, result.fitness):  # which the message says already
        notes.append(refutation("claimed bound", result.claimed_bound, best.fitness, whose))
    return replace(
        result,
        bound=common.value,
        bound_source=common.source,
        evidence=common.evidence,
        status=result.status
        if result.allocation is None
        else status_of(result.fitness, common.value, gap),
        message="; ".join(filter(None, notes)),
    )
