"""The part that all pattern programs on a tree share: choices, nodes, slots, distributed pieces.

As in `goodalloc.formulations.gpu_rounds.patterns`, nodes where jobs may stay have rows of their
own, all others are counted by their free GPUs, and slots for jobs on one node are counted over the
whole cluster. What a distributed job takes has a place in the tree: free nodes that give it a piece
are counted by *group*, a set of domains of the lowest level. Equations as in
`goodalloc.formulations.topology.nested_patterns`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.gpu_rounds.kept_placements import add_residents, free_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int

    from goodalloc.formulations.basics.program import ProgramBuilder
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.gpu_rounds.kept_placements import FreeNodes, Offers
    from goodalloc.formulations.gpu_rounds.patterns import Limit
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.models.topology.topology_round import TopologyRound


class Giving(NamedTuple):
    """Columns ``E``: free nodes of a group and size that give a piece to a distributed job.

    Attributes
    ----------
    column, group, size, piece
        Index of each column, its group, the free GPUs of its nodes, and the GPUs of the piece.
    """

    column: Int[Indices, " givings"]
    group: Int[Indices, " givings"]
    size: Int[Indices, " givings"]
    piece: Int[Indices, " givings"]


class TreeSlots(NamedTuple):
    """Columns and rows that the programs on a tree begin with.

    Attributes
    ----------
    taken
        Columns of the choices.
    free, offers
        Free GPUs of the nodes, and what nodes offer where jobs may stay.
    group
        Group of every node.
    most
        GPUs of the largest slot.
    giving
        Columns ``E``; none where no job may be on several nodes.
    cuts
        Column of each cut of a slot, by the slot and the first part.
    piece_rows
        Rows that count pieces by group and size, shape (groups, most + 1).
    """

    taken: Int[Indices, " choices"]
    free: FreeNodes
    offers: Offers
    group: Int[Indices, " nodes"]
    most: int
    giving: Giving
    cuts: dict[tuple[int, int], int]
    piece_rows: Int[Indices, "groups sizes"]


def add_tree_slots(
    builder: ProgramBuilder,
    round_: TopologyRound,
    choices: Choices,
    cost: Floats,
    group: Int[Indices, " nodes"],
) -> TreeSlots:
    """Add the choices, the nodes, the slots, and the pieces that nodes give, by group.

    Parameters
    ----------
    builder
        An empty builder.
    round_, choices, cost
        The round, the choices of its jobs, and the cost of each.
    group
        Group of every node.
    """
    instance = round_.instance
    x = builder.add_columns("choice", len(choices), cost=cost, upper=1.0, label=choices.label)
    jobs = builder.add_rows("one_choice", instance.num_jobs, lower=1.0, upper=1.0)  # (T1)
    builder.add_entries(jobs[choices.job], x, 1.0)
    free = free_nodes(instance, choices)
    offers, _ = add_residents(builder, instance, free)  # (T2)
    one = choices.of(Kind.ONE_NODE)
    most = int(max(free.gpus.max(), choices.replicas[one].max(initial=1)))
    all_count = np.bincount(free.gpus[~free.resident], minlength=most + 1).astype(float)
    slot_rows = builder.add_rows("slot", most + 1, lower=-all_count)  # (T4)
    column, _, size, _ = offers
    builder.add_entries(slot_rows[size], column, 1.0)
    builder.add_entries(slot_rows[choices.replicas[one]], x[one], -1.0)
    cuts = add_cuts(builder, slot_rows, "cut", float(free.gpus.sum()))
    if choices.of(Kind.SEVERAL_NODES).size:
        giving, piece_rows = _add_giving(builder, free, offers, group, slot_rows)
    else:
        nothing = np.zeros(0, dtype=np.int64)
        giving, piece_rows = Giving(nothing, nothing, nothing, nothing), nothing.reshape(0, 0)
    return TreeSlots(x, free, offers, group, most, giving, cuts, piece_rows)


def add_cuts(
    builder: ProgramBuilder, slot_rows: Int[Indices, " sizes"], name: str, upper: float
) -> dict[tuple[int, int], int]:
    """Add columns that cut a slot in two, and return them by the slot and the first part.

    Parameters
    ----------
    builder, name, upper
        The program, and name and upper bound of the columns.
    slot_rows
        Row of each size, which counts slots.
    """
    cuts = [(s, a) for s in range(2, slot_rows.size) for a in range(1, s // 2 + 1)]
    columns = builder.add_columns(
        name, len(cuts), upper=upper, label=lambda i: "{}_{}".format(*cuts[i])
    )
    for column, (s, a) in zip(columns.tolist(), cuts, strict=True):
        builder.add_entries(slot_rows[[s, a, s - a]], column, [-1.0, 1.0, 1.0])
    return dict(zip(cuts, columns.tolist(), strict=True))


def _add_giving(
    builder: ProgramBuilder,
    free: FreeNodes,
    offers: Offers,
    group: Int[Indices, " nodes"],
    slot_rows: Indices,
) -> tuple[Giving, Int[Indices, "groups sizes"]]:
    """Add columns ``E`` and the rows (T3) of free nodes by group and size."""
    groups, width = int(group.max()) + 1, slot_rows.size
    is_open = ~free.resident & ~free.blocked & (free.gpus > 0)
    count = np.zeros((groups, width))
    np.add.at(count, (group[is_open], free.gpus[is_open]), 1.0)
    column, node, size, distributable = offers
    offered = distributable & (size > 0)
    here, sizes = group[node[offered]], size[offered]
    possible = count > 0
    possible[here, sizes] = True
    node_rows = builder.add_rows("free_node", count.size, upper=count.ravel())  # (T3)
    node_rows = node_rows.reshape(count.shape)
    builder.add_entries(node_rows[here, sizes], column[offered], -1.0)
    at, free_gpus = np.nonzero(possible)
    whose = np.repeat(np.arange(at.size), free_gpus)
    piece = np.arange(whose.size) - np.repeat(np.cumsum(free_gpus) - free_gpus, free_gpus) + 1
    at, free_gpus = at[whose], free_gpus[whose]
    columns = builder.add_columns(
        "giving",
        whose.size,
        upper=float(free.gpus.size),
        label=lambda i: f"{at[i]}_{free_gpus[i]}_{piece[i]}",
    )
    builder.add_entries(node_rows[at, free_gpus], columns, 1.0)
    builder.add_entries(slot_rows[free_gpus], columns, -1.0)
    rest = free_gpus > piece
    builder.add_entries(slot_rows[(free_gpus - piece)[rest]], columns[rest], 1.0)
    piece_rows = builder.add_rows("piece", count.size, lower=0.0).reshape(count.shape)  # (T5)
    builder.add_entries(piece_rows[at, piece], columns, 1.0)
    return Giving(columns, at, free_gpus, piece), piece_rows


def least_nodes(replicas: Int[Indices, " choices"], most: int) -> Int[Indices, " choices"]:
    """Return the fewest nodes of jobs on several nodes of at most so many GPUs."""
    return np.maximum(2, -(-replicas // most))


def most_of_domains(
    gpus: Int[Indices, " nodes"], domain: Int[Indices, " nodes"], most_nodes: int
) -> Int[Indices, " domains"]:
    """Return the most GPUs of one job on several nodes of each domain; 0 where there is none.

    Parameters
    ----------
    gpus, domain
        GPUs that each node has for it, and its domain.
    most_nodes
        Most nodes that it may span.
    """
    order = np.lexsort((-gpus, domain))
    rank = np.arange(order.size) - np.searchsorted(domain[order], domain[order])
    counted = order[(rank < most_nodes) & (gpus[order] > 0)]
    domains = int(domain.max()) + 1
    total = np.bincount(domain[counted], gpus[counted], domains).astype(np.int64)
    return np.where(np.bincount(domain[counted], minlength=domains) < 2, 0, total)


def add_limits(builder: ProgramBuilder, taken: Indices, limits: Sequence[Limit]) -> None:
    """Add further rows: weights of the choices, and the most that they may sum to."""
    rows = builder.add_rows("limit", len(limits), upper=[most for _, most in limits])
    for row, (weights, _) in zip(rows, limits, strict=True):
        weighed = np.flatnonzero(weights)
        builder.add_entries(row, taken[weighed], weights[weighed])


def kept_uplinks(
    round_: TopologyRound, choices: Choices, place: int
) -> tuple[Int[Indices, " uses"], Int[Indices, " uses"]]:
    """Return the choices to keep a placement that uses uplinks of a level, and their domains."""
    keep = choices.of(Kind.KEEP)
    choice_of = np.full(round_.instance.num_jobs, -1)
    choice_of[choices.job[keep]] = keep
    job, domain = round_.crossings(round_.instance.current, place)
    stays = choice_of[job] >= 0
    return choice_of[job[stays]], domain[stays]
