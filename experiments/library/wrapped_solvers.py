"""Solvers of the first rows that ship under other names or with other options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.solvers.exact import solve_highs, solve_in_parts, solve_pyomo
from goodalloc.solvers.genetic import solve_genetic
from goodalloc.solvers.heuristics import solve_greedy
from goodalloc.solvers.pods import solve_best_fit, solve_pods

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.interface.result import Answer
    from goodalloc.solvers.interface.stop import Stop


def exact_solver(instance: Instance) -> str:
    """Return the name of the package's exact solver of a round."""
    return "pods" if instance.shares_gpus else "highs"


def exact(instance: Instance, *, stop: Stop) -> Answer:
    """Decide a round by the package's exact solver for it."""
    if instance.shares_gpus:
        return solve_pods(instance, stop=stop)
    return solve_highs(instance, stop=stop)


def greedy(instance: Instance, *, stop: Stop) -> Answer:
    """Decide a round by greedy marginal gain, pods by best fit."""
    if instance.shares_gpus:
        return solve_best_fit(instance)
    return solve_greedy(instance, stop=stop)


def pop_four(instance: Instance, *, stop: Stop, seed: int) -> Answer:
    """Decide a round exactly in four random parts (POP)."""
    return solve_in_parts(instance, solve_highs, stop=stop, seed=seed)


def scip_nodes(instance: Instance, *, stop: Stop) -> Answer:
    """Decide a round by the node-indexed program with SCIP."""
    return solve_pyomo(instance, stop=stop, solver_name="scip_direct", break_ties=False)


def highs_nodes(instance: Instance, *, stop: Stop) -> Answer:
    """Decide a round by the node-indexed program with HiGHS."""
    return solve_pyomo(instance, stop=stop, break_ties=False)


def genetic_tenth(instance: Instance, *, stop: Stop, seed: int) -> Answer:
    """Decide a round by Pollux's genetic algorithm in a tenth of the time."""
    return _genetic(instance, stop, seed, 0.1)


def genetic_third(instance: Instance, *, stop: Stop, seed: int) -> Answer:
    """Decide a round by Pollux's genetic algorithm in three tenths of the time."""
    return _genetic(instance, stop, seed, 0.3)


def genetic_whole(instance: Instance, *, stop: Stop, seed: int) -> Answer:
    """Decide a round by Pollux's genetic algorithm in all the time."""
    return _genetic(instance, stop, seed, 1.0)


def _genetic(instance: Instance, stop: Stop, seed: int, share: float) -> Answer:
    seconds: Any = None if stop.seconds is None else share * stop.seconds
    limited = stop.replace(seconds=seconds)
    return solve_genetic(instance, stop=limited, seed=seed, generations=None)
