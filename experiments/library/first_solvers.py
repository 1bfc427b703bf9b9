"""Solvers of the first rows of the ranking, those that ship under other names or options too."""

from __future__ import annotations

import importlib.util
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.solvers.exact import solve_highs, solve_in_parts, solve_pyomo
from goodalloc.solvers.genetic import solve_genetic
from goodalloc.solvers.heuristics import solve_greedy
from goodalloc.solvers.pods import solve_best_fit, solve_pods

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.interface.result import Answer
    from goodalloc.solvers.interface.stop import Stop


class FirstSolver(NamedTuple):
    """Solver of the first rows.

    Attributes
    ----------
    path
        What `goodalloc.solvers.interface.find_solver` takes.
    text
        What it is.
    module
        Module that it needs beside the package's own dependencies; empty for none.
    exact
        Whether it proves optima.
    """

    path: str
    text: str
    module: str = ""
    exact: bool = False

    @property
    def installed(self) -> bool:
        """Whether what it needs is there."""
        return not self.module or importlib.util.find_spec(self.module) is not None


_HERE = "goodalloc.experiments.library.first_solvers"

_TREE = "goodalloc.solvers.topology"
_ROADS = f"{_TREE}.tree_roads"

_OWN = FirstSolver(f"{_HERE}:exact", "exact: prices, patterns, cores, cuts", exact=True)
_HIGHS = FirstSolver(f"{_HERE}:highs_nodes", "HiGHS alone, node-indexed program", exact=True)
_SCIP = FirstSolver(f"{_HERE}:scip_nodes", "SCIP, node-indexed program", "pyscipopt", exact=True)
_CP_SAT = FirstSolver(
    "goodalloc.solvers.exact.cp_sat:solve_cp_sat",
    "CP-SAT of OR-tools, node-indexed program",
    "ortools",
    exact=True,
)
_POP = FirstSolver(f"{_HERE}:pop_four", "POP: exact in four random parts")
_GENETIC = FirstSolver(f"{_HERE}:genetic_whole", "Pollux's genetic algorithm, the whole limit")
_SEARCH = FirstSolver("local_search", "greedy, then moves and swaps")
_GREEDY = FirstSolver(f"{_HERE}:greedy", "greedy marginal gain; pods by best fit")

#: Solvers of the first rows by name.
FIRST_SOLVERS: Mapping[str, FirstSolver] = MappingProxyType(
    {
        "goodalloc": _OWN,
        "highs-nodes": _HIGHS,
        "scip-nodes": _SCIP,
        "cp-sat-nodes": _CP_SAT,
        "pop-4": _POP,
        "genetic-10": FirstSolver(
            f"{_HERE}:genetic_tenth", "Pollux's genetic algorithm, 10 % of the limit"
        ),
        "genetic-30": FirstSolver(
            f"{_HERE}:genetic_third", "Pollux's genetic algorithm, 30 % of the limit"
        ),
        "genetic-100": _GENETIC,
        "local-search": _SEARCH,
        "greedy": _GREEDY,
    }
)

#: Those of large rounds, for which no node-indexed program can be built in the time.
LARGE_SOLVERS: Mapping[str, FirstSolver] = MappingProxyType(
    {
        "goodalloc": _OWN,
        "pop-4": _POP,
        "genetic-100": _GENETIC,
        "local-search": _SEARCH,
        "greedy": _GREEDY,
    }
)

#: Those of rounds of pods that share GPUs: exact ones, parts of the package's own, and heuristics.
POD_SOLVERS: Mapping[str, FirstSolver] = MappingProxyType(
    {
        "goodalloc": FirstSolver(
            "pods", "patterns of nodes; all nodes of small rounds", exact=True
        ),
        "patterns": FirstSolver(f"{_HERE}:pod_patterns", "patterns of nodes alone", exact=True),
        "kinds": FirstSolver(
            f"{_HERE}:pod_kinds", "one program of all nodes, equal pods counted", exact=True
        ),
        "highs-nodes": _HIGHS,
        "scip-nodes": _SCIP,
        "cp-sat-nodes": _CP_SAT,
        "fgd": FirstSolver("fgd", "least fragmentation"),
        "best-fit": FirstSolver("best_fit", "best fit"),
    }
)

#: Those of rounds on trees: roads, each with one part more, and placements of the flat optimum.
TREE_SOLVERS: Mapping[str, FirstSolver] = MappingProxyType(
    {
        "goodalloc": FirstSolver(
            f"{_TREE}:solve_tree", "and the optimum without the tree to begin with", exact=True
        ),
        "merged": FirstSolver(
            f"{_ROADS}:solve_merged", "merged domains first, and then cores", exact=True
        ),
        "domains": FirstSolver(
            f"{_ROADS}:solve_by_domain", "nested patterns, a count for every domain", exact=True
        ),
        "highs-nodes": FirstSolver(
            f"{_ROADS}:solve_by_node", "HiGHS alone, node-indexed program", exact=True
        ),
        "best-fit": FirstSolver(
            f"{_ROADS}:place_best_fit", "optimum without the tree, placed by best fit"
        ),
        "least-free": FirstSolver(f"{_ROADS}:place_least_free", "the same, on the fullest nodes"),
        "balanced": FirstSolver(
            f"{_ROADS}:place_balanced", "the same, evenly over the fewest nodes"
        ),
    }
)


def exact_solver(instance: Instance) -> str:
    """Return the name of the package's exact solver of a round."""
    return "pods" if instance.shares_gpus else "highs"


def exact(instance: Instance, *, stop: Stop) -> Answer:
    """Decide a round by the package's exact solver for it."""
    if instance.shares_gpus:
        return solve_pods(instance, stop=stop)
    return solve_highs(instance, stop=stop)


def pod_patterns(instance: Instance, *, stop: Stop) -> Answer:
    """Decide a round of pods by patterns of nodes alone."""
    return solve_pods(instance, stop=stop, most_places=0)


def pod_kinds(instance: Instance, *, stop: Stop) -> Answer:
    """Decide a round of pods by one program of all nodes, in which equal pods are counted."""
    return solve_pods(instance, stop=stop, patterns=False, most_places=sys.maxsize)


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
