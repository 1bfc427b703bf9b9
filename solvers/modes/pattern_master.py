r"""Packing program over node patterns, by column generation.

The program decides whether nodes can hold given items. With :math:`q` a *pattern*, the contents of
one node of class *g*, :math:`\lambda_{gq}` the nodes with that pattern, and :math:`s_t` the items
of row *t* that stay unpacked:

.. math::

    \min \sum_t w_t s_t \quad \text{s.t.} \quad
    \sum_{g,q} a_{tq} \lambda_{gq} + s_t \ge n_t \;\; \forall t \;\; [\pi_t], \qquad
    \sum_q \lambda_{gq} \le N_g \;\; \forall g \;\; [-\sigma_g], \qquad \lambda, s \ge 0       (1)

(Gilmore and Gomory, 1961). A pattern is worth adding if its items are worth more than its node,
:math:`\sum_t \pi_t a_{tq} > \sigma_g`; the best of a class is read off the value function of
`node_value`, exactly. At the end a positive optimum proves that the items do not pack, and
:math:`\pi` gives the cut (2) of `node_value`.

References
----------
Gilmore and Gomory, "A Linear Programming Approach to the Cutting-Stock Problem", Operations
    Research, 1961.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np

from goodalloc.formulations.basics.program import require_finite
from goodalloc.formulations.mode_rounds.node_items import ANY_TYPE
from goodalloc.formulations.mode_rounds.node_values import NOTHING, beside, node_value
from goodalloc.models.support.tolerances import WHOLE_TOLERANCE
from goodalloc.solvers.milp.highs_program import new_solver, run_in_time

if TYPE_CHECKING:
    from goodalloc.formulations.mode_rounds.node_items import Items, NodeClasses
    from goodalloc.formulations.mode_rounds.node_values import NodeValue
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.interface.watch import Watch


#: Weight of what stays unpacked below which nothing does.
PACKED = 1e-6
#: Patterns join while they are worth this much more than their node.
PRICED_OUT = 1e-7


@dataclass(frozen=True)
class Pattern:
    """Contents of a node of a class: rows, and the amount of each."""

    node_class: int
    rows: Indices
    amounts: Floats


@dataclass(frozen=True)
class Packed:
    """Optimum of (1): weight of unpacked items, nodes by pattern, prices of rows.

    Attributes
    ----------
    unpacked
        Weight of the unpacked items; infinite where time ran out.
    nodes
        Nodes of every pattern of the master, shape (patterns,).
    price
        Prices of the rows, shape (rows,).
    values
        The value functions at these prices, by type of GPU.
    """

    unpacked: float
    nodes: Floats
    price: Floats
    values: dict[int, NodeValue]


@dataclass
class PatternMaster:
    """The program (1) with the patterns found so far.

    Parameters
    ----------
    items, classes
        Items to pack and classes of nodes.
    shape
        Shape of the tables of the value function.
    weight
        Weight of an unpacked item of every row, shape (rows,).
    watch
        The clock of the solve.
    """

    items: Items
    classes: NodeClasses
    shape: tuple[int, ...]
    weight: Floats
    watch: Watch
    patterns: list[Pattern] = field(default_factory=list)
    _solver: Any = None
    _stays: list[Indices] = field(default_factory=list)

    def __post_init__(self) -> None:
        groups = [np.flatnonzero(self.items.stay_class == i) for i in range(len(self.classes.code))]
        self._stays = groups
        require_finite("Packing program: a weight", self.weight)

    def solve(self, demand: Floats, nodes: Indices, *, bounded: bool) -> Packed:
        """Solve (1).

        Parameters
        ----------
        demand
            Amount of every row to pack, shape (rows,).
        nodes
            Remaining nodes of every class, shape (classes,).
        bounded
            Whether to leave out patterns that hold more of an item than there is: the optimum is
            tighter for these items, but proves nothing about others.
        """
        solver = self._prepare(demand, nodes, bounded=bounded)
        most = np.floor(demand + WHOLE_TOLERANCE).astype(np.int64) if bounded else None
        while True:
            if not run_in_time(solver, self.watch) or (
                solver.getModelStatus() != highspy.HighsModelStatus.kOptimal
            ):
                return Packed(np.inf, np.zeros(len(self.patterns)), np.zeros(self.items.rows), {})
            solution, rows = solver.getSolution(), self.items.rows
            dual = np.array(solution.row_dual)
            price, rent = np.maximum(dual[:rows], 0.0), np.maximum(-dual[rows:], 0.0)
            values = self._values(price, most)
            if not self._add_best(solver, values, price, rent, nodes):
                unpacked = float(solver.getInfo().objective_function_value)
                found = np.array(solution.col_value)[rows:]
                return Packed(unpacked, found, price, values)

    def _prepare(self, demand: Floats, nodes: Indices, *, bounded: bool) -> Any:
        """Return the solver with these right-hand sides, and only patterns that are allowed."""
        rows, classes = self.items.rows, self.classes.count.size
        none = np.zeros(0, dtype=np.int32)
        if self._solver is None:
            self._solver = new_solver(presolve="off", solver="simplex")
            for row in range(rows):
                self._solver.addRow(float(demand[row]), highspy.kHighsInf, 0, none, np.zeros(0))
            for node_class in range(classes):
                self._solver.addRow(
                    -highspy.kHighsInf, float(nodes[node_class]), 0, none, np.zeros(0)
                )
            for row in range(rows):
                index, value = np.array([row], dtype=np.int32), np.ones(1)
                self._solver.addCol(
                    float(self.weight[row]), 0.0, highspy.kHighsInf, 1, index, value
                )
            return self._solver
        lower = np.concatenate([demand, np.full(classes, -highspy.kHighsInf)])
        upper = np.concatenate([np.full(rows, highspy.kHighsInf), nodes.astype(float)])
        everything = np.arange(rows + classes, dtype=np.int32)
        self._solver.changeRowsBounds(everything.size, everything, lower, upper)
        for column, pattern in enumerate(self.patterns if bounded else ()):
            fits = bool((pattern.amounts <= demand[pattern.rows] + WHOLE_TOLERANCE).all())
            self._solver.changeColBounds(rows + column, 0.0, highspy.kHighsInf if fits else 0.0)
        return self._solver

    def _values(self, price: Floats, most: Indices | None) -> dict[int, NodeValue]:
        """Return the value functions of the types of GPU at these prices."""
        items = self.items
        found = {}
        for code in np.unique(self.classes.code).tolist():
            usable = (items.code == code) | (items.code == ANY_TYPE)
            worth = np.where(usable, price[: items.code.size], 0.0)
            extra = (items.extra_code == code) | (items.extra_code == ANY_TYPE)
            extra_worth = np.where(extra, price[items.extra_row] * items.extra_amount, 0.0)
            if most is not None and items.extra_row.size:
                enough = items.extra_amount <= most[items.extra_row]
                extra_worth = np.where(enough, extra_worth, 0.0)
            found[code] = node_value(
                items.units,
                worth,
                self.shape,
                most=None if most is None else most[: worth.size],
                extra=items.extra_units,
                extra_worth=extra_worth,
            )
        return found

    def _add_best(
        self, solver: Any, values: dict[int, NodeValue], price: Floats, rent: Floats, nodes: Indices
    ) -> bool:
        """Add the best pattern of every class that is worth more than its node."""
        classes, items, added = self.classes, self.items, False
        for index in np.flatnonzero(nodes > 0).tolist():
            value, units = values[int(classes.code[index])], classes.units[index]
            stays = self._stays[index]
            stays = stays[price[items.stay_row[stays]] > NOTHING]
            alone, shared = stays[~items.stay_shared[stays]], stays[items.stay_shared[stays]]
            if stays.size:
                value = beside(
                    value,
                    items.stay_units[alone],
                    price[items.stay_row[alone]],
                    np.ones(alone.size, dtype=np.int64),
                    items.stay_units[shared],
                    price[items.stay_row[shared]],
                )
            open_ = bool(classes.open[index])
            worth, extra = (
                value.best_extra(units) if open_ else (float(value.alone[tuple(units)]), -1)
            )
            if worth <= rent[index] + PRICED_OUT * max(1.0, worth):
                continue
            count = value.pattern(units if extra < 0 else units - value.extra[extra])
            row_of = np.concatenate([np.arange(items.code.size), items.stay_row[alone]])
            held = np.flatnonzero(count)
            rows, amounts = row_of[held].tolist(), count[held].astype(float).tolist()
            if extra >= 0:
                further = extra - items.extra_row.size
                row = items.extra_row[extra] if further < 0 else items.stay_row[shared[further]]
                rows.append(int(row))
                amounts.append(float(items.extra_amount[extra]) if further < 0 else 1.0)
            self._add(Pattern(index, np.array(rows), np.array(amounts)), solver)
            added = True
        return added

    def _add(self, pattern: Pattern, solver: Any) -> None:
        """Add a pattern as a column."""
        index = np.append(pattern.rows, self.items.rows + pattern.node_class).astype(np.int32)
        value = np.append(pattern.amounts, 1.0)
        solver.addCol(0.0, 0.0, highspy.kHighsInf, index.size, index, value)
        self.patterns.append(pattern)
