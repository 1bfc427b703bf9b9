"""Relaxed packing of jobs on nodes, those of several nodes split into whole pieces.

The packing program over node patterns (`solvers/modes/pattern_master.py`): jobs of one node and of
equal demand are an item, and so are pieces of distributed jobs of equal mode and size, of which a
node holds one; equal distributed jobs are split into such pieces in whole ways, of which each may
be taken by any number of them. (Where interference is not avoided, their replicas are items of
their own.)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import highspy
import numpy as np

from goodalloc.formulations.mode_rounds.node_items import node_classes, without_stays
from goodalloc.models.support.tolerances import SMALLEST_DIVISOR
from goodalloc.solvers.modes.pattern_master import PatternMaster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float, Int

    from goodalloc.formulations.mode_rounds.node_items import Items, NodeClasses
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.interface.watch import Watch
    from goodalloc.solvers.mode_columns.node_units import NodeUnits
    from goodalloc.solvers.modes.pattern_master import Packed

#: Least weight of an unplaced item, of at most 1.
LEAST_WEIGHT = 1e-3

#: Ways to split a job that are thought of.
MOST_WAYS = 200


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


class Splits(NamedTuple):
    """How distributed jobs are split: mode, replicas of a job and sizes of its pieces of every way.

    Attributes
    ----------
    mode, replicas
        Mode and replicas of the jobs that a way is for, shape (ways,).
    sizes
        Replicas of each piece, by way.
    number
        Jobs that are split so, in whole or in part; shape (ways,).
    """

    mode: Int[Indices, " ways"]
    replicas: Int[Indices, " ways"]
    sizes: list[tuple[int, ...]]
    number: Float[Floats, " ways"]


@dataclass(kw_only=True)
class _SplitMaster(PatternMaster):
    """The packing program in which distributed jobs choose among ways to split them.

    Parameters
    ----------
    jobs
        Jobs of every kind, shape (kinds,).
    kind
        Kind of the jobs of every way to split, shape (ways,).
    pieces
        Row of each of its pieces, by way.
    """

    jobs: Floats
    kind: Indices
    pieces: list[Indices]

    def _prepare(self, demand: Floats, nodes: Indices, *, bounded: bool) -> Any:
        """Return the solver; the columns of the ways to split stand before those of patterns."""
        assert not bounded
        known = self._solver is not None
        solver = super()._prepare(demand, nodes, bounded=bounded)
        if known:
            return solver
        first, none = solver.getNumRow(), np.zeros(0, dtype=np.int32)
        for number in self.jobs.tolist():
            solver.addRow(number, highspy.kHighsInf, 0, none, np.zeros(0))
        for kind, pieces in zip(self.kind.tolist(), self.pieces, strict=True):
            row, number = np.unique(pieces, return_counts=True)
            index = np.append(row, first + kind).astype(np.int32)
            value = np.append(-number.astype(float), 1.0)
            solver.addCol(0.0, 0.0, highspy.kHighsInf, index.size, index, value)
        return solver


def relaxed_packing(
    units: NodeUnits, wanted: Wanted, room: Room, watch: Watch
) -> tuple[Packed, Splits]:
    """Return the optimum of the packing program, with its prices, and how it splits jobs.

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
    alone = np.bincount(item.reshape(-1), wanted.number[one], minlength=len(singles))
    keys = np.column_stack([wanted.mode[several], wanted.replicas[several]])
    kinds, kind_of = np.unique(keys, axis=0, return_inverse=True)
    jobs = np.bincount(kind_of.reshape(-1), wanted.number[several], minlength=len(kinds))
    kind, sizes = _ways_to_split(units, kinds, room)
    # Where nodes hold pieces of any number of distributed jobs, these are replicas like others.
    shared = units.columns.rules.interference_avoidance
    parts = sizes if shared else [(1,) * sum(way) for way in sizes]
    mode = np.repeat(kinds[kind, 0], np.array([len(way) for way in parts], dtype=np.int64))
    size = np.fromiter(chain.from_iterable(parts), dtype=np.int64, count=mode.size)
    keys = np.column_stack([units.mode_type[mode], units.taken(mode, size)])
    pieces, piece = np.unique(keys, axis=0, return_inverse=True)
    rows = len(singles) + len(pieces)
    whole = singles if shared else np.concatenate([singles, pieces])
    items = without_stays(
        code=whole[:, 0],
        units=whole[:, 1:],
        extra_code=pieces[:, 0] if shared else pieces[:0, 0],
        extra_units=pieces[:, 1:] if shared else pieces[:0, 1:],
        extra_row=np.arange(len(whole), rows),
        extra_amount=np.ones(rows - len(whole)),
        rows=rows,
    )
    weight = np.concatenate([singles, pieces])[:, 1:] / units.size
    _, classes = _open_nodes(units, room)
    row, ends = len(singles) + piece.reshape(-1), np.cumsum([len(way) for way in parts])
    master = _SplitMaster(
        items,
        classes,
        units.grid.shape,
        _weights(weight.sum(axis=1)),
        watch,
        jobs=jobs.astype(float),
        kind=kind,
        pieces=[row[end - len(way) : end] for way, end in zip(parts, ends, strict=True)],
    )
    amount = np.concatenate([alone.astype(float), np.zeros(len(pieces))])
    packed = master.solve(amount, classes.count, bounded=False)
    mode, replicas = kinds[kind].T
    number = packed.nodes[: kind.size]
    if not np.isfinite(packed.unpacked):  # nothing is known: the first way of each kind
        number = np.where(np.append(True, kind[1:] != kind[:-1])[: kind.size], jobs[kind], 0.0)
    return packed, Splits(mode, replicas, sizes, number)


def _ways_to_split(
    units: NodeUnits, kinds: Int[Indices, "kinds 2"], room: Room
) -> tuple[Int[Indices, " ways"], list[tuple[int, ...]]]:
    """Return the kind, mode and replicas, of every way to split jobs, and the sizes of its pieces.

    Of a job of many replicas these are the `MOST_WAYS` with the largest pieces that some node has
    room for; where pieces of any jobs may share a node, the first stands for all.
    """
    rules = units.columns.rules
    most = MOST_WAYS if rules.interference_avoidance else 1
    found = []
    for mode, replicas in kinds.tolist():
        each = units.taken(np.array(mode), np.array(1))
        free = room.free[units.node_type == units.mode_type[mode]][:, each > 0]
        held = int((free // each[each > 0]).min(axis=1).max(initial=0))
        held = max(held, -(-replicas // rules.max_nodes_per_job))
        largest = min(held, int(units.most_per_node[mode]), replicas - 1)
        found.append(list(islice(_sizes(replicas, largest, rules.max_nodes_per_job), most)))
    kind = np.repeat(np.arange(len(kinds)), np.array([len(ways) for ways in found], dtype=np.int64))
    return kind, list(chain.from_iterable(found))


def _sizes(replicas: int, largest: int, pieces: int) -> Iterator[tuple[int, ...]]:
    """Generate the ways to split replicas into pieces that do not grow, the largest first."""
    if replicas == 0:
        yield ()
    elif pieces > 0:
        least = -(-replicas // pieces)
        for size in range(min(largest, replicas), least - 1, -1):
            for rest in _sizes(replicas - size, size, pieces - 1):
                yield (size, *rest)


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
    nodes, classes = _open_nodes(units, room)
    return PatternMaster(items, classes, units.grid.shape, _weights(weight), watch), classes, nodes


def _weights(weight: Float[Floats, " rows"]) -> Float[Floats, " rows"]:
    """Return the weights of unplaced items relative to the largest one."""
    return np.asarray(np.maximum(weight / weight.max(initial=SMALLEST_DIVISOR), LEAST_WEIGHT))


def _open_nodes(units: NodeUnits, room: Room) -> tuple[Int[Indices, " nodes"], NodeClasses]:
    """Return the nodes with free GPUs, and their classes."""
    nodes = np.flatnonzero(room.free[:, 0] > 0)
    return nodes, node_classes(units.node_type[nodes], room.free[nodes], ~room.closed[nodes])
