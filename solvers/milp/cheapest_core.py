"""Exact solution of packing programs: prices, the cheapest columns of every row, then a core.

The relaxation prices the rows; a column's reduced cost is what any solution with it costs beyond
the relaxation's bound, at least. The best solution in the few cheapest columns of every row is
hardly above the bound, and a better one has no column that costs more than that difference: the
program without those columns proves the optimum. (`price_and_core.py` looks for its first solution
among the columns of next to no reduced cost, which for matchings is often far from the bound, so
that its core is nearly everything.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer, run_relaxation
from goodalloc.solvers.milp.price_and_core import INTEGRAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from goodalloc.formulations.basics.program import Program
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.interface.result import Limit


#: Columns of every row that are tried first.
FEW = 10


Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Maximum(Generic[Choice]):
    """Best choice found, with its value and a proven upper bound.

    Parameters
    ----------
    choice
        The choice; the empty one where none was found in time.
    total, bound
        Value of the choice, by the checker, and a proven upper bound on it.
    limit
        Limit that ended the search before a proof, or None.
    seconds
        Time of the search.
    """

    choice: Choice
    total: float
    bound: float
    limit: Limit | None
    seconds: float

    @property
    def gap(self) -> float:
        """``(bound - total) / bound``, 0 where there is nothing to gain."""
        return max(self.bound - self.total, 0.0) / self.bound if self.bound > 0 else 0.0


def maximise(
    program: Program | None,
    read: Callable[[Indices], Choice],
    price: Callable[[Choice], float],
    stop: Stop | None = None,
) -> Maximum[Choice]:
    """Return the packing of the largest value.

    Parameters
    ----------
    program
        Program that minimises the negated value; None where no choice has a value.
    read
        Function that returns the choice of whole values of the columns; of no columns, the empty
        choice.
    price
        Function that returns the value of a choice, independently of the program.
    stop
        Limits; when time runs out the best so far is returned, with its bound.

    Examples
    --------
    >>> from goodalloc.solvers.milp import maximise
    >>> maximise(None, read=lambda columns: columns.tolist(), price=len).choice
    []
    """
    stop = stop or Stop()
    watch = Watch(stop)
    nothing = read(np.zeros(0, dtype=np.int64))
    if program is None:
        return Maximum(nothing, price(nothing), 0.0, None, watch.seconds)
    try:
        values, bound = decide_by_cheapest(program, watch, gap=stop.gap)
    except KeyboardInterrupt:
        watch.interrupted = True
        return Maximum(nothing, price(nothing), math.inf, watch.limit, watch.seconds)
    choice = nothing if values is None else read(values.astype(np.int64))
    total = price(choice)
    return Maximum(choice, total, max(-bound, total), watch.limit, watch.seconds)


def decide_by_cheapest(
    program: Program, watch: Watch, *, gap: float
) -> tuple[Floats | None, float]:
    """Minimise an integer program, on its cheapest columns first.

    Parameters
    ----------
    program
        The program. All columns are integer, and the solution of zeros is feasible.
    watch
        The clock of the solve; the best so far is returned when it runs out.
    gap
        Gap at which to stop, relative to the relaxation.

    Returns
    -------
    tuple
        Values of all columns, or None where none were found in time; and a proven lower bound.
    """
    relaxation = run_relaxation(program, _cheapest(program, program.cost), watch)
    if relaxation.values is None or relaxation.duals is None:
        return None, -math.inf
    bound, values = relaxation.objective, relaxation.values
    whole = np.rint(values)
    if np.abs(values - whole).max() <= INTEGRAL:
        return whole, bound
    allowed = gap * abs(bound)
    reduced = np.maximum(program.reduced_costs(relaxation.duals), 0.0)
    few = _cheapest(program, reduced)
    outcome = run_mixed_integer(program.columns(few), watch, gap=allowed)
    if outcome.values is None:
        return None, bound
    best, found = np.rint(program.widen(outcome.values, few)), outcome.objective
    missing = found - bound
    if missing <= allowed or watch.limit is not None:
        return best, bound
    core = reduced <= missing
    outcome = run_mixed_integer(program.columns(core), watch, gap=allowed)
    if outcome.values is not None and outcome.objective < found:
        best = np.rint(program.widen(outcome.values, core))
    return best, max(bound, min(outcome.bound, found))


def _cheapest(program: Program, cost: Floats) -> NDArray[np.bool_]:
    """Return which columns are among the cheapest of one of their rows."""
    column = np.repeat(np.arange(program.num_columns), np.diff(program.starts))
    order = np.lexsort((cost[column], program.index))
    row = program.index[order]
    place = np.arange(row.size)
    first = np.maximum.accumulate(np.where(np.diff(row, prepend=-1) > 0, place, 0))
    chosen = np.zeros(program.num_columns, dtype=bool)
    chosen[column[order[place - first < FEW]]] = True
    return chosen
