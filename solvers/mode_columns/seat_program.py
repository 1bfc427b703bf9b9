"""Relaxed packing of jobs on nodes, those of several nodes split at will.

The packing program over node patterns (`solvers/modes/pattern_master.py`): jobs of one node and of
equal demand are an item; the replicas of equal distributed jobs are a row of which a node holds a
piece with fewer replicas than such a job has (any number where interference is not avoided).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.mode_rounds.node_items import node_classes, without_stays
from goodalloc.models.support.tolerances import SMALLEST_DIVISOR
from goodalloc.solvers.modes.pattern_master import PatternMaster

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.formulations.mode_rounds.node_items import Items, NodeClasses
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.interface.watch import Watch
    from goodalloc.solvers.mode_columns.node_units import NodeUnits
    from goodalloc.solvers.modes.pattern_master import Packed

#: Least weight of an unplaced item, of at most 1.
LEAST_WEIGHT = 1e-3


class Wanted(NamedTuple):
    """Ways in which jobs are to run.

    Attributes
    ----------
    mode, replicas
        Mode and replicas of every way, shape (ways,).
    several
        Whether it is on several nodes, shape (ways,).
    number
        Jobs that run so, in whole or in part; shape (ways,).
    """

    mode: Int[Indices, " ways"]
    replicas: Int[Indices, " ways"]
    several: Bool[Flags, " ways"]
    number: Float[Floats, " ways"]


class Room(NamedTuple):
    """What nodes have left.

    Attributes
    ----------
    free
        Free units of every node, shape (nodes, 1 + resources).
    closed
        Whether a node holds a piece of a distributed job, shape (nodes,).
    """

    free: Int[Indices, "nodes demands"]
    closed: Bool[Flags, " nodes"]


class Seats(NamedTuple):
    """Pieces of a kind of distributed job by their size: mode, replicas of a job, and the numbers.

    Attributes
    ----------
    mode, replicas
        Mode and replicas of every kind, shape (kinds,).
    number
        Pieces of *K* replicas, shape (kinds, most replicas on a node + 1).
    """

    mode: Int[Indices, " kinds"]
    replicas: Int[Indices, " kinds"]
    number: Float[Floats, "kinds sizes"]


def relaxed_packing(
    units: NodeUnits, wanted: Wanted, room: Room, watch: Watch
) -> tuple[Packed, Seats]:
    """Return the optimum of the packing program, with its prices, and the seats in it.

    Parameters
    ----------
    units
        Units of the round.
    wanted
        Ways in which jobs are to run.
    room
        What nodes have left.
    watch
        The clock of the solve.
    """
    one = np.flatnonzero(~wanted.several)
    several = np.flatnonzero(wanted.several)
    taken = units.taken(wanted.mode[one], wanted.replicas[one])
    keys = np.column_stack([units.mode_type[wanted.mode[one]], taken])
    singles, item = np.unique(keys, axis=0, return_inverse=True)
    number = np.bincount(item.reshape(-1), wanted.number[one], minlength=len(singles))
    keys = np.column_stack([wanted.mode[several], wanted.replicas[several]])
    kinds, kind_of = np.unique(keys, axis=0, return_inverse=True)
    jobs = np.bincount(kind_of.reshape(-1), wanted.number[several], minlength=len(kinds))
    mode, replicas = kinds.T
    largest = np.minimum(units.most_per_node[mode], replicas - 1)
    if not units.columns.rules.interference_avoidance:  # nodes hold any number of them
        each = units.taken(mode, np.ones_like(mode))
        singles = np.concatenate([singles, np.column_stack([units.mode_type[mode], each])])
        largest = np.zeros_like(largest)
    kind = np.repeat(np.arange(len(kinds)), largest)
    size = 1 + np.arange(kind.size) - np.searchsorted(kind, kind)
    items = without_stays(
        code=singles[:, 0],
        units=singles[:, 1:],
        extra_code=units.mode_type[mode[kind]],
        extra_units=units.taken(mode[kind], size),
        extra_row=number.size + kind,
        extra_amount=size.astype(float),
        rows=number.size + len(kinds),
    )
    weight = np.zeros(items.rows)
    weight[: len(items.units)] = (items.units / units.size).sum(axis=1)
    weight[items.extra_row] = (items.extra_units / units.size).sum(axis=1) / items.extra_amount
    master, classes, _ = packing_program(units, items, weight, room, watch)
    amount = np.concatenate([number, replicas * jobs]).astype(float)
    packed = master.solve(amount, classes.count, bounded=False)
    seats = np.zeros((len(kinds), int(units.most_per_node.max()) + 1))
    for pattern, nodes in zip(master.patterns, packed.nodes, strict=True):
        there = pattern.rows >= items.code.size
        sizes = pattern.amounts[there].astype(np.int64)
        seats[pattern.rows[there] - number.size, sizes] += nodes
    return packed, Seats(mode, replicas, seats)


def packing_program(
    units: NodeUnits, items: Items, weight: Float[Floats, " rows"], room: Room, watch: Watch
) -> tuple[PatternMaster, NodeClasses, Int[Indices, " nodes"]]:
    """Return the packing program of items, the classes of nodes with free GPUs, and these nodes.

    Parameters
    ----------
    units, room, watch
        As of `relaxed_packing`.
    items, weight
        The items, and the weight of an unplaced one of every row.
    """
    nodes = np.flatnonzero(room.free[:, 0] > 0)
    classes = node_classes(units.node_type[nodes], room.free[nodes], ~room.closed[nodes])
    weight = np.maximum(weight / weight.max(initial=SMALLEST_DIVISOR), LEAST_WEIGHT)
    return PatternMaster(items, classes, units.grid.shape, weight, watch), classes, nodes
