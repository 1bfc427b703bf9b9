"""Whole nodes from the relaxed packing program: patterns fixed in turn, then a last program.

Patterns that the relaxation (`pattern_master`) uses a whole number of times are fixed; where there
are none, the pattern used most. The last nodes are filled by a small program in which each is
indexed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.formulations.mode_rounds.node_items import ANY_TYPE
from goodalloc.solvers.milp.highs_program import run_mixed_integer
from goodalloc.solvers.modes.pattern_master import PACKED

if TYPE_CHECKING:
    from goodalloc.formulations.mode_rounds.node_items import Items
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.modes.pattern_master import PatternMaster


#: Nodes that are left to a program of their own, at first and after it failed.
LAST_NODES = (6, 12)
#: Branch-and-bound nodes that such a program may take.
MOST_BRANCHES = 300


@dataclass
class PatternDive:
    """Rounding of the packing program, which fixes patterns until few nodes remain.

    Parameters
    ----------
    master
        The program.
    counts
        Items of every row, shape (rows,).
    """

    master: PatternMaster
    counts: Indices

    def run(self) -> list[tuple[int, Indices]] | None:
        """Return class and contents (of every row) of some nodes, or None."""
        left, nodes = self.counts.copy(), self.master.classes.count.copy()
        fixed: list[tuple[int, Indices]] = []
        while left.any():
            if nodes.sum() <= LAST_NODES[0]:
                return self._finish(fixed, left, nodes)
            packed = self.master.solve(left.astype(float), nodes, bounded=True)
            if packed.unpacked > PACKED:
                return (
                    None
                    if not fixed or self.master.watch.limit
                    else self._finish(fixed, left, nodes)
                )
            for column, number in self._rounded(packed.nodes):
                pattern = self.master.patterns[column]
                for _ in range(number):
                    held = np.minimum(self._held(column), left)
                    if not held.any() or not nodes[pattern.node_class]:
                        break
                    fixed.append((pattern.node_class, held))
                    left -= held
                    nodes[pattern.node_class] -= 1
        return fixed

    def _held(self, column: int) -> Indices:
        """Return the amounts of every row in a pattern."""
        pattern = self.master.patterns[column]
        held = np.zeros(self.master.items.rows, dtype=np.int64)
        held[pattern.rows] = np.rint(pattern.amounts).astype(np.int64)
        return held

    @staticmethod
    def _rounded(nodes: Floats) -> list[tuple[int, int]]:
        """Return patterns to fix and their numbers: the whole parts, or the pattern used most."""
        whole = np.floor(nodes + 1e-6).astype(np.int64)
        if not whole.any():
            whole[np.argmax(nodes)] = 1
        return [(int(i), int(whole[i])) for i in np.flatnonzero(whole)]

    def _finish(
        self, fixed: list[tuple[int, Indices]], left: Indices, nodes: Indices
    ) -> list[tuple[int, Indices]] | None:
        """Fill the last nodes exactly; with more of them where that fails."""
        fixed, left, nodes = list(fixed), left.copy(), nodes.copy()
        for most in LAST_NODES:
            while fixed and nodes.sum() < most:
                node_class, held = fixed.pop()
                left += held
                nodes[node_class] += 1
            rest = self._fill(left, nodes)
            if rest is not None:
                return fixed + rest
            if not fixed or self.master.watch.limit is not None:
                break
        return None

    def _fill(self, left: Indices, nodes: Indices) -> list[tuple[int, Indices]] | None:
        """Return all remaining items on the remaining nodes, or None."""
        classes, items = self.master.classes, self.master.items
        at = np.repeat(np.arange(nodes.size), nodes)
        rows = np.flatnonzero(left)
        units, _, extra = _row_items(items)
        builder = ProgramBuilder()
        amount = builder.add_columns("held", at.size * rows.size, upper=self._most(at, rows, left))
        capacity = builder.add_rows(
            "capacity", at.size * units.shape[1], upper=classes.units[at].ravel()
        ).reshape(at.size, -1)
        node, row = np.repeat(np.arange(at.size), rows.size), np.tile(rows, at.size)
        builder.add_entries(capacity[node], amount[:, None], units[row])
        one = builder.add_rows("extra", at.size, upper=classes.open[at].astype(float))
        builder.add_entries(one[node[extra[row]]], amount[extra[row]], 1.0)
        all_of_it = builder.add_rows("all", rows.size, lower=left[rows], upper=left[rows])
        builder.add_entries(np.tile(all_of_it, at.size), amount, 1.0)
        outcome = run_mixed_integer(
            builder.build(), self.master.watch, gap=0.5, most_branches=MOST_BRANCHES
        )
        if outcome.values is None:
            return None
        held = np.zeros((at.size, items.rows), dtype=np.int64)
        held[:, rows] = np.rint(outcome.values).astype(np.int64).reshape(at.size, rows.size)
        return [(int(at[i]), held[i]) for i in range(at.size) if held[i].any()]

    def _most(self, at: Indices, rows: Indices, left: Indices) -> Floats:
        """Return upper bounds of the columns: 0 where the type of GPU is wrong."""
        classes = self.master.classes
        _, code, extra = _row_items(self.master.items)
        fits = (code[rows][None] == ANY_TYPE) | (code[rows][None] == classes.code[at][:, None])
        most = np.where(extra[rows], 1, left[rows])[None] * fits
        return np.asarray(most.ravel(), dtype=np.float64)


def _row_items(items: Items) -> tuple[Indices, Indices, Flags]:
    """Return demand, type of GPU and whether it is an extra, of the items of every row."""
    extra = np.zeros(items.rows, dtype=bool)
    extra[items.extra_row] = True
    units = np.zeros((items.rows, items.units.shape[1]), dtype=np.int64)
    code = np.zeros(items.rows, dtype=np.int64)
    units[~extra], code[~extra] = items.units, items.code
    units[items.extra_row], code[items.extra_row] = items.extra_units, items.extra_code
    return units, code, extra
