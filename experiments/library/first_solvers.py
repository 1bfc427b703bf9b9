"""Table of the solvers of the first rows of the ranking, under names of their own."""

from __future__ import annotations

import importlib.util
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    """

    path: str
    text: str
    module: str = ""

    @property
    def installed(self) -> bool:
        """Whether what it needs is there."""
        return not self.module or importlib.util.find_spec(self.module) is not None


_HERE = "goodalloc.experiments.library.wrapped_solvers"

#: Solvers of the first rows by name.
FIRST_SOLVERS: Mapping[str, FirstSolver] = MappingProxyType(
    {
        "goodalloc": FirstSolver(f"{_HERE}:exact", "exact: prices, patterns, cores, cuts"),
        "highs-nodes": FirstSolver(f"{_HERE}:highs_nodes", "HiGHS alone, node-indexed program"),
        "scip-nodes": FirstSolver(f"{_HERE}:scip_nodes", "SCIP, node-indexed program", "pyscipopt"),
        "cp-sat-nodes": FirstSolver(
            "goodalloc.solvers.exact.cp_sat:solve_cp_sat",
            "CP-SAT of OR-tools, node-indexed program",
            "ortools",
        ),
        "pop-4": FirstSolver(f"{_HERE}:pop_four", "POP: exact in four random parts"),
        "genetic-10": FirstSolver(
            f"{_HERE}:genetic_tenth", "Pollux's genetic algorithm, 10 % of the limit"
        ),
        "genetic-30": FirstSolver(
            f"{_HERE}:genetic_third", "Pollux's genetic algorithm, 30 % of the limit"
        ),
        "genetic-100": FirstSolver(
            f"{_HERE}:genetic_whole", "Pollux's genetic algorithm, the whole limit"
        ),
        "local-search": FirstSolver("local_search", "greedy, then moves and swaps"),
        "greedy": FirstSolver(f"{_HERE}:greedy", "greedy marginal gain; pods by best fit"),
    }
)
