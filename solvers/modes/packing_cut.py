"""Packing of choices in parts, and the cut where they cannot be packed.

The relaxed packing program (`pattern_master`) of choices taken in whole or in part: pieces on one
node are items, distributed jobs are split at will and count by their replicas, and what a job keeps
is an item of its own nodes. Where something stays unpacked, the prices give a cut (`value_cut`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind, keep_choices
from goodalloc.formulations.mode_rounds.mode_choices import (
    choice_demand,
    held_amounts,
    most_replicas,
    node_capacity,
)
from goodalloc.formulations.mode_rounds.node_items import Items, node_classes
from goodalloc.formulations.mode_rounds.value_cut import CutMaker
from goodalloc.solvers.modes.pattern_master import PACKED, PatternMaster

if TYPE_CHECKING:
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.mode_rounds.node_items import NodeClasses
    from goodalloc.formulations.mode_rounds.resource_units import ResourceGrid
    from goodalloc.formulations.mode_rounds.value_cut import Cut
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.interface.watch import Watch


#: A cut counts if the choices exceed it by this share.
VIOLATED = 1e-7


@dataclass
class CutFinder:
    """Search for cuts over the choices of an instance.

    One packing program serves all calls: its rows are the items that any choice may put on a node,
    and patterns and prices found for one set of choices are used for the next.

    Parameters
    ----------
    instance, choices, grid
        The round, all its choices, the units of its tables.
    watch
        The clock of the solve.
    """

    instance: Instance
    choices: Choices
    grid: ResourceGrid
    watch: Watch
    _rows: _Rows = field(init=False)
    _master: PatternMaster = field(init=False)

    def __post_init__(self) -> None:
        self._rows = _rows(self.instance, self.choices, self.grid)
        items = self._rows.items
        size = np.ones(items.rows)
        size[: items.code.size] = np.maximum(items.units[:, 0], 1)
        self._master = PatternMaster(items, self._rows.classes, self.grid.shape, size, self.watch)

    def find(self, weight: Floats) -> Cut | None:
        """Return a cut that these weights of the choices violate; None where they can be packed.

        Parameters
        ----------
        weight
            Weight of every choice, 1 in all for every job; shape (choices,).
        """
        rows, items = self._rows, self._rows.items
        demand = np.zeros(items.rows)
        np.add.at(demand, rows.row[rows.placed], rows.amount * weight[rows.placed])
        demand[items.stay_row] = weight[rows.keep]
        packed = self._master.solve(demand, rows.classes.count, bounded=False)
        if not PACKED < packed.unpacked < np.inf:
            return None
        stay = np.zeros(self.instance.current.job.size)
        stay[rows.entry] = packed.price[items.stay_row]
        cut = CutMaker(self.instance, self.choices, self.grid).cut(packed.values, stay)
        violated = float(cut.coefficient @ weight) > cut.upper * (1 + VIOLATED)
        return cut if violated else None


@dataclass(frozen=True)
class _Rows:
    """Rows of the packing program of all choices.

    Parameters
    ----------
    items, classes
        Items to pack and classes of nodes; nodes on which a job may keep something have their own
        class.
    placed, row, amount
        Indices of the newly placed choices; the row of every choice (-1 for others); and the amount
        that a placed one adds to it.
    entry, keep
        Entry of the current allocation of every stay, and the choice to keep it.
    """

    items: Items
    classes: NodeClasses
    placed: Indices
    row: Indices
    amount: Floats
    entry: Indices
    keep: Indices


def _rows(instance: Instance, choices: Choices, grid: ResourceGrid) -> _Rows:
    """Return rows for pieces on one node, replicas of distributed jobs, and stays."""
    current, codes = instance.current, instance.mode_type
    one, several = choices.of(Kind.ONE_NODE), choices.of(Kind.SEVERAL_NODES)
    units = grid.at_least(choice_demand(instance, choices.where(one)))
    each = grid.at_least(instance.mode_demand[choices.mode[several]])
    kinds, one_row = _distinct(codes[choices.mode[one]], units)
    spread, several_row = _distinct(codes[choices.mode[several]], each)
    row = np.full(len(choices), -1)
    row[one], row[several] = one_row, len(kinds) + several_row
    amount = np.ones(len(choices))
    amount[several] = choices.replicas[several]
    keep_of = keep_choices(instance, choices)
    entry = np.flatnonzero(keep_of[current.job] >= 0)
    first = len(kinds) + len(spread)
    capacity = grid.at_most(node_capacity(instance))
    single = np.zeros(len(capacity), dtype=bool)
    single[current.node[entry]] = True
    classes = node_classes(
        instance.cluster.node_type, capacity, np.ones(len(capacity), dtype=bool), single
    )
    avoid = instance.rules.interference_avoidance
    if not avoid:  # a distributed piece is then like any other
        kinds, spread = np.concatenate([kinds, spread]), spread[:0]
    extra = _extras(spread, capacity.astype(float), len(kinds))
    items = Items(
        code=kinds[:, 0],
        units=kinds[:, 1:],
        extra_code=extra[:, 0],
        extra_units=extra[:, 1:-2],
        extra_row=extra[:, -2],
        extra_amount=extra[:, -1].astype(float),
        rows=first + entry.size,
        stay_class=classes.node_class[current.node[entry]],
        stay_units=grid.at_least(held_amounts(instance)[entry]),
        stay_row=first + np.arange(entry.size),
        stay_shared=(current.job_nodes[current.job[entry]] > 1) & avoid,
    )
    placed = np.flatnonzero(row >= 0)
    return _Rows(
        items=items,
        classes=classes,
        placed=placed,
        row=row,
        amount=amount[placed],
        entry=entry,
        keep=keep_of[current.job[entry]],
    )


def _distinct(code: Indices, units: Indices) -> tuple[Indices, Indices]:
    """Return distinct pairs of code and demand, and the index of each given pair."""
    kinds, where = np.unique(np.column_stack([code, units]), axis=0, return_inverse=True)
    return kinds, where.reshape(-1)


def _extras(spread: Indices, capacity: Floats, first: int) -> Indices:
    """Return every piece of a distributed job on a node: code, demand, row, replicas."""
    rows = [
        (kind[0], *(kind[1:] * replicas), first + index, replicas)
        for index, kind in enumerate(spread)
        for replicas in range(1, 1 + int(most_replicas(capacity, kind[1:]).max()))
    ]
    return np.array(rows, dtype=np.int64).reshape(len(rows), capacity.shape[1] + 3)
