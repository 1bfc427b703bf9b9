"""Decoding of solutions on a tree: which domain holds a job, which job is on which node."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.topology.tree_choices import level_of_choices
from goodalloc.models.round.allocation import Allocation

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.formulations.topology.labelled_pieces import LabelledProgram
    from goodalloc.formulations.topology.nested_patterns import NestedProgram
    from goodalloc.formulations.topology.tree_slots import TreeSlots
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.models.topology.topology_round import TopologyRound

#: Entry of an allocation: job, node, GPUs.
Entry = tuple[int, int, int]


def domains_of_choices(
    round_: TopologyRound, nested: NestedProgram, solution: Float[Floats, " columns"]
) -> Int[Indices, " choices"]:
    """Return the domain that holds each chosen job on several nodes, -1 for all other choices.

    Jobs of equal level and GPUs may change places, so they get their domains in their order.

    Parameters
    ----------
    round_, nested, solution
        The round, its program with a group for each domain, and the values of its columns.
    """
    values = np.rint(solution).astype(np.int64)
    choices = nested.choices
    within = np.full(len(choices), -1)
    taken = values[: len(choices)] > 0
    level = level_of_choices(round_, choices)
    several = taken & (choices.kind == Kind.SEVERAL_NODES)
    for (place, replicas), columns in nested.placed.items():
        jobs = np.flatnonzero(several & (level == place) & (choices.replicas == replicas))
        domains = np.repeat(nested.holding[place, replicas], values[columns])
        within[jobs] = domains[: jobs.size]
    return within


def pack_tree(
    round_: TopologyRound, labelled: LabelledProgram, solution: Float[Floats, " columns"]
) -> Allocation:
    """Return the allocation of a solution of the exact program.

    Deterministic: nodes are used in order of their index, jobs in their order.

    Parameters
    ----------
    round_, labelled, solution
        The round, its program, and the values of its columns, integer up to rounding.
    """
    values = np.rint(solution).astype(np.int64)
    choices, instance = labelled.choices, round_.instance
    taken = np.flatnonzero(values[: len(choices)] > 0)
    keepers = choices.job[taken[choices.kind[taken] == Kind.KEEP]]
    kept = instance.current.rows(keepers)
    entries = list(zip(kept.job.tolist(), kept.node.tolist(), kept.replicas.tolist(), strict=True))
    slots, whole = _free_nodes(labelled.slots, values)
    pieces = _take_pieces(labelled.slots, values, slots, whole)
    for (_, size), nodes in whole.items():
        slots[size] += nodes
    for (size, part), column in sorted(labelled.slots.cuts.items(), key=lambda item: -item[0][0]):
        for _ in range(int(values[column])):
            node = slots[size].pop(0)
            slots[part].append(node)
            slots[size - part].append(node)
    for choice in taken[choices.kind[taken] == Kind.ONE_NODE].tolist():
        replicas = int(choices.replicas[choice])
        entries.append((int(choices.job[choice]), slots[replicas].pop(0), replicas))
    entries += _give_pieces(labelled, values, taken, pieces)
    table = np.array(entries, dtype=np.int64).reshape(-1, 3)
    columns = (table[:, 0], table[:, 1], table[:, 2])
    return Allocation.from_entries(*columns, instance.num_jobs, instance.cluster.num_nodes)


def _free_nodes(
    slots: TreeSlots, values: Indices
) -> tuple[dict[int, list[int]], dict[tuple[int, int], list[int]]]:
    """Return nodes by free GPUs: closed to distributed jobs, and by group those open to one."""
    closed: dict[int, list[int]] = defaultdict(list)
    whole: dict[tuple[int, int], list[int]] = defaultdict(list)
    free = slots.free
    offered = [
        (node, int(free.gpus[node]), not free.blocked[node])
        for node in np.flatnonzero(~free.resident & (free.gpus > 0)).tolist()
    ]
    column, node, size, distributable = slots.offers
    offered += [
        (int(node[i]), int(size[i]), bool(distributable[i]))
        for i in np.flatnonzero((values[column] > 0) & (size > 0)).tolist()
    ]
    for index, gpus, is_open in sorted(offered):
        if is_open:
            whole[int(slots.group[index]), gpus].append(index)
        else:
            closed[gpus].append(index)
    return closed, whole


def _take_pieces(
    slots: TreeSlots,
    values: Indices,
    closed: dict[int, list[int]],
    whole: dict[tuple[int, int], list[int]],
) -> dict[tuple[int, int], list[int]]:
    """Return the nodes that give pieces, by group and GPUs; the rest of each becomes a slot."""
    pieces: dict[tuple[int, int], list[int]] = defaultdict(list)
    for column, group, size, piece in zip(*(part.tolist() for part in slots.giving), strict=True):
        for _ in range(int(values[column])):
            node = whole[group, size].pop(0)
            pieces[group, piece].append(node)
            if size > piece:
                closed[size - piece].append(node)
    return pieces


def _give_pieces(
    labelled: LabelledProgram,
    values: Indices,
    taken: Indices,
    pieces: dict[tuple[int, int], list[int]],
) -> list[Entry]:
    """Return the entries of the distributed jobs, each filled from the largest of its pieces."""
    mine: dict[int, list[tuple[int, int]]] = defaultdict(list)
    columns = (part.tolist() for part in labelled.pieces)
    for column, job, group, size in zip(*columns, strict=True):
        for _ in range(int(values[column])):
            mine[job].append((size, pieces[group, size].pop(0)))
    choices, entries = labelled.choices, list[Entry]()
    for choice in taken[choices.kind[taken] == Kind.SEVERAL_NODES].tolist():
        job, missing = int(choices.job[choice]), int(choices.replicas[choice])
        for index, (size, node) in enumerate(sorted(mine[job], key=lambda one: -one[0])):
            gpus = min(size, missing - (1 if index == 0 else 0))  # at least one on a second node
            if gpus > 0:
                entries.append((job, node, gpus))
            missing -= gpus
    return entries
