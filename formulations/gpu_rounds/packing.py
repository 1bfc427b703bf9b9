"""Decoding of solutions of the pattern program: which job is on which node."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.models.round.allocation import Allocation

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.formulations.gpu_rounds.patterns import PatternProgram
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices

Slot = tuple[int, int]  # node, GPUs


def pack(
    instance: Instance, patterns: PatternProgram, solution: Float[Floats, " columns"]
) -> Allocation | None:
    """Return the allocation of a solution, or None where its pieces do not split into jobs.

    Deterministic: nodes are used in order of their index, jobs in their order.

    Parameters
    ----------
    instance, patterns
        The round and its pattern program.
    solution
        Values of all columns of the program, integer up to rounding.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.basics import power_cost
    >>> from goodalloc.formulations.gpu_rounds import build_patterns, enumerate_choices, pack
    >>> from goodalloc.models import fitness
    >>> from goodalloc.solvers import solve
    >>> from goodalloc.solvers.interface import Stop, Watch
    >>> from goodalloc.solvers.milp import run_mixed_integer
    >>> instance = load_benchmark("tiny-cold")
    >>> choices = enumerate_choices(instance)
    >>> patterns = build_patterns(instance, choices, power_cost(choices.utility, -1.0))
    >>> outcome = run_mixed_integer(patterns.program, Watch(Stop()), gap=1e-9)
    >>> found = fitness(instance, pack(instance, patterns, outcome.values))
    >>> round(found / solve(instance).fitness, 9)
    1.0
    """
    values = np.rint(solution).astype(np.int64)
    choices = patterns.choices
    taken = np.flatnonzero(values[: len(choices)] > 0)
    entries: list[tuple[int, int, int]] = _kept_entries(instance, patterns, taken)
    slots, whole = _free_slots(patterns, values)
    distributed = taken[choices.kind[taken] == Kind.SEVERAL_NODES]
    pieces: dict[int, list[Slot]] = defaultdict(list)
    if patterns.dist:
        pieces = _take_pieces(patterns, values, slots, whole)
    for nodes in whole.values():
        for node, size in nodes:
            slots[size].append((node, size))
    _cut(patterns, values, slots)
    _place_on_one_node(patterns, taken, slots, entries)
    if distributed.size:
        demand = [(int(choices.job[c]), int(choices.replicas[c])) for c in distributed]
        most = instance.rules.max_nodes_per_job
        if patterns.dist:
            placed = _split_pieces(patterns, values, demand, pieces, most)
        else:
            placed = _pour(demand, slots, most)
        if placed is None:
            return None
        entries += placed
    table = np.array(entries, dtype=np.int64).reshape(-1, 3)
    columns = (table[:, 0], table[:, 1], table[:, 2])
    return Allocation.from_entries(*columns, instance.num_jobs, instance.cluster.num_nodes)


def _kept_entries(
    instance: Instance, patterns: PatternProgram, taken: Indices
) -> list[tuple[int, int, int]]:
    """Return the entries of the jobs that keep their placement."""
    choices, current = patterns.choices, instance.current
    keepers = choices.job[taken[choices.kind[taken] == Kind.KEEP]]
    stays = np.isin(current.job, keepers)
    columns = (current.job[stays], current.node[stays], current.replicas[stays])
    return list(zip(*(c.tolist() for c in columns), strict=True))


def _free_slots(
    patterns: PatternProgram, values: Indices
) -> tuple[dict[int, list[Slot]], dict[int, list[Slot]]]:
    """Return free nodes by size: closed to distributed jobs (slots), and open to one (whole)."""
    slots: dict[int, list[Slot]] = defaultdict(list)
    whole: dict[int, list[Slot]] = defaultdict(list)
    free = patterns.free
    for node in np.flatnonzero(~free.resident & (free.gpus > 0)).tolist():
        size = int(free.gpus[node])
        (slots if free.blocked[node] else whole)[size].append((node, size))
    for i in np.flatnonzero(values[patterns.offer_columns] > 0).tolist():
        node, size = int(patterns.offer_node[i]), int(patterns.offer_size[i])
        if size > 0:
            (whole if patterns.offer_distributable[i] else slots)[size].append((node, size))
    for nodes in (*slots.values(), *whole.values()):
        nodes.sort()
    return slots, whole


def _take_pieces(
    patterns: PatternProgram,
    values: Indices,
    slots: dict[int, list[Slot]],
    whole: dict[int, list[Slot]],
) -> dict[int, list[Slot]]:
    """Give each distributed piece a node of its own; the rest of the node becomes a slot."""
    pieces: dict[int, list[Slot]] = defaultdict(list)
    for (r, q), column in patterns.dist.items():
        for _ in range(int(values[column])):
            node, _size = whole[r].pop(0)
            pieces[q].append((node, q))
            if r > q:
                slots[r - q].append((node, r - q))
    return pieces


def _cut(patterns: PatternProgram, values: Indices, slots: dict[int, list[Slot]]) -> None:
    """Cut slots into smaller ones, the largest first, as the program says."""
    for (s, a), column in sorted(patterns.cut.items(), key=lambda item: -item[0][0]):
        for _ in range(int(values[column])):
            node, _size = slots[s].pop(0)
            slots[a].append((node, a))
            slots[s - a].append((node, s - a))


def _place_on_one_node(
    patterns: PatternProgram,
    taken: Indices,
    slots: dict[int, list[Slot]],
    entries: list[tuple[int, int, int]],
) -> None:
    """Give every job on one node a slot of its size."""
    choices = patterns.choices
    for choice in taken[choices.kind[taken] == Kind.ONE_NODE].tolist():
        size = int(choices.replicas[choice])
        node, _size = slots[size].pop(0)
        entries.append((int(choices.job[choice]), node, size))


def _split_pieces(
    patterns: PatternProgram,
    values: Indices,
    demand: list[tuple[int, int]],
    pieces: dict[int, list[Slot]],
    most: int,
) -> list[tuple[int, int, int]] | None:
    """Split each owner's pieces among its distributed jobs; None where they do not split."""
    entries: list[tuple[int, int, int]] = []
    owners: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for job, replicas in demand:
        owners[job if patterns.exact else replicas].append((job, replicas))
    for owner, jobs in sorted(owners.items()):
        mine: list[Slot] = []
        for (name, q), column in patterns.piece.items():
            if name == owner:
                mine += [pieces[q].pop(0) for _ in range(int(values[column]))]
        mine.sort(key=lambda slot: -slot[1])
        for left, (job, replicas) in zip(range(len(jobs), 0, -1), jobs, strict=True):
            group = _gather(mine, replicas, left, most)
            if group is None:
                return None
            entries += _fill(job, replicas, group)
            for slot in group:
                mine.remove(slot)
    return entries


def _gather(pieces: list[Slot], replicas: int, jobs_left: int, most: int) -> list[Slot] | None:
    """Return pieces (largest first) for one of `jobs_left` equal jobs, with the least waste."""
    if jobs_left == 1:
        enough = len(pieces) >= 2 and sum(size for _, size in pieces[:most]) >= replicas
        return pieces[:most] if enough else None
    group: list[Slot] = []
    missing = replicas
    for slot in pieces:
        room = most - len(group) - 1
        if slot[1] <= missing - (0 if group else 1) and room >= 0:
            group.append(slot)
            missing -= slot[1]
    if missing > 0 or len(group) < 2:
        spare = [slot for slot in pieces if slot not in group]
        for slot in reversed(spare):
            if len(group) < most and slot[1] >= missing:
                group.append(slot)
                missing = 0
                break
    return group if missing <= 0 and 2 <= len(group) <= most else None


def _fill(job: int, replicas: int, group: list[Slot]) -> list[tuple[int, int, int]]:
    """Fill a group of pieces with a job's replicas, at least one on each of two."""
    entries, missing = [], replicas
    for i, (node, size) in enumerate(group):
        if missing == 0:
            break
        needed_later = 1 if i == 0 and len(group) > 1 else 0
        take = min(size, missing - needed_later)
        entries.append((job, node, take))
        missing -= take
    return entries


def _pour(
    demand: list[tuple[int, int]], slots: dict[int, list[Slot]], most: int
) -> list[tuple[int, int, int]] | None:
    """Without interference avoidance: spread each job over the fullest free nodes."""
    free: dict[int, int] = defaultdict(int)
    for nodes in slots.values():
        for node, size in nodes:
            free[node] += size
    entries: list[tuple[int, int, int]] = []
    for job, replicas in sorted(demand, key=lambda item: -item[1]):
        group = sorted((s for s in free.items() if s[1] > 0), key=lambda s: (-s[1], s[0]))[:most]
        if len(group) < 2 or sum(size for _, size in group) < replicas:
            return None
        placed = _fill(job, replicas, group)
        for _, node, taken in placed:
            free[node] -= taken
        entries += placed
    return entries
