"""Nodes for given choices of jobs with modes.

Jobs that keep their placement stay where they are; the others are pieces for the remaining room on
the nodes. First best fit, largest pieces first. Where that fails, the packing program over node
patterns (`pattern_master`), whose relaxation is rounded by fixing patterns one after the other (a
dive), the last nodes by a program of their own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.mode_rounds.mode_choices import (
    choice_demand,
    chosen_modes,
    held_amounts,
    most_replicas,
    node_capacity,
)
from goodalloc.formulations.mode_rounds.node_items import ANY_TYPE, node_classes, without_stays
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.objective import mode_utilities
from goodalloc.solvers.modes.pattern_dive import PatternDive
from goodalloc.solvers.modes.pattern_master import PatternMaster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.mode_rounds.node_items import NodeClasses
    from goodalloc.formulations.mode_rounds.resource_units import ResourceGrid
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.interface.watch import Watch


@dataclass(frozen=True)
class Piece:
    """Part of a job on one node: job, kind of item, replicas.

    A piece of a distributed job is `spread` if its pieces go to different nodes, and `single` if it
    is one replica that may share a node with others of the job.
    """

    job: int
    code: int
    units: tuple[int, ...]
    replicas: int
    spread: bool = False
    single: bool = False


@dataclass(frozen=True)
class ModePacker:
    """Packing of choices of one instance.

    Parameters
    ----------
    instance, grid
        The round and the units of its tables.
    watch
        The clock of the solve.
    """

    instance: Instance
    grid: ResourceGrid
    watch: Watch

    def pack(self, taken: Choices) -> Allocation | None:
        """Return an allocation with these choices, one for each job; None where none was found."""
        left, open_ = self.left(taken)
        for pieces in self.splits(taken, left):
            nodes: list[int] | None = self.best_fit(pieces, left, open_)
            if nodes is not None and -1 in nodes:
                nodes = self._by_patterns(pieces, left, open_)
            if nodes is not None:
                nodes = _regrouped(pieces, nodes)
            allocation = None if nodes is None else self.allocation(taken, pieces, nodes)
            if allocation is not None:
                return allocation
        return None

    def left(self, taken: Choices) -> tuple[Indices, Flags]:
        """Return the room beside jobs that stay, and the nodes open to distributed jobs."""
        instance, current = self.instance, self.instance.current
        keepers = taken.job[taken.of(Kind.KEEP)]
        stays = np.isin(current.job, keepers)
        left = node_capacity(instance)
        np.subtract.at(left, current.node[stays], held_amounts(instance)[stays])
        closed = np.zeros(len(left), dtype=bool)
        if instance.rules.interference_avoidance:
            closed[current.node[stays & (current.job_nodes[current.job] > 1)]] = True
        room = np.maximum(self.grid.at_most(left), 0)
        return room, np.logical_not(closed)

    def splits(self, taken: Choices, left: Indices) -> Iterator[list[Piece]]:
        """Yield the pieces of all jobs in several ways, the fewest pieces first."""
        whole = self._whole_pieces(taken)
        several = taken.of(Kind.SEVERAL_NODES)
        if not several.size:
            yield whole
            return
        for evenly in (False, True):
            parts = [piece for i in several.tolist() for piece in self._cut(taken, i, left, evenly)]
            yield whole + parts
        if not self.instance.rules.interference_avoidance:
            yield whole + [piece for i in several.tolist() for piece in self._singles(taken, i)]

    def _whole_pieces(self, taken: Choices) -> list[Piece]:
        one = taken.of(Kind.ONE_NODE)
        units = self.grid.at_least(choice_demand(self.instance, taken.where(one)))
        code = self.instance.mode_type[taken.mode[one]]
        columns = (taken.job[one].tolist(), code.tolist(), units.tolist(), taken.replicas[one])
        return [Piece(j, c, tuple(u), int(k)) for j, c, u, k in zip(*columns, strict=True)]

    def _cut(self, taken: Choices, index: int, left: Indices, evenly: bool) -> list[Piece]:
        """Return the pieces of a distributed job."""
        instance, mode, replicas = self.instance, int(taken.mode[index]), int(taken.replicas[index])
        demand = instance.mode_demand[mode]
        each = self.grid.at_least(demand)
        room = left[instance.mode_nodes[mode]].astype(float)
        largest = max(int(most_replicas(room, each.astype(float)).max(initial=0)), 1)
        nodes = max(-(-replicas // largest), 2)
        if evenly:
            sizes = [replicas // nodes + (i < replicas % nodes) for i in range(nodes)]
        else:
            first = min(largest, replicas - 1)
            sizes = [first] * (replicas // first)
            sizes += [replicas % first] if replicas % first else []
        code = int(instance.mode_type[mode])
        return [
            Piece(int(taken.job[index]), code, tuple(self._units(demand, size)), size, spread=True)
            for size in sizes
        ]

    def _singles(self, taken: Choices, index: int) -> list[Piece]:
        """Return the replicas of a distributed job, which may share nodes."""
        mode = int(taken.mode[index])
        code = int(self.instance.mode_type[mode])
        units = tuple(self._units(self.instance.mode_demand[mode], 1))
        piece = Piece(int(taken.job[index]), code, units, 1, single=True)
        return [piece] * int(taken.replicas[index])

    def _units(self, demand: Floats, size: int) -> list[int]:
        units: list[int] = self.grid.at_least(demand * size).tolist()
        return units

    def best_fit(self, pieces: list[Piece], left: Indices, open_: Flags) -> list[int]:
        """Return the fullest node with room for every piece, largest first; -1 without one."""
        left, open_ = left.copy(), open_.copy()
        node_code = self.instance.cluster.node_type
        avoid = self.instance.rules.interference_avoidance
        size = np.maximum(np.array(self.grid.shape) - 1.0, 1.0)
        order = sorted(
            range(len(pieces)), key=lambda i: (-float((pieces[i].units / size).sum()), i)
        )
        nodes = [-1] * len(pieces)
        used: dict[int, set[int]] = {}
        for i in order:
            piece = pieces[i]
            fits = np.asarray((left >= piece.units).all(axis=1))
            if piece.code != ANY_TYPE:
                fits &= node_code == piece.code
            if piece.spread:
                fits &= open_ if avoid else True
                fits[list(used.get(piece.job, ()))] = False
            candidates = np.flatnonzero(fits)
            if not candidates.size:
                continue
            rest = ((left[candidates] - piece.units) / size).sum(axis=1)
            node = int(candidates[np.argmin(rest)])
            left[node] -= piece.units
            nodes[i] = node
            if piece.spread:
                used.setdefault(piece.job, set()).add(node)
                open_[node] &= not avoid
        return nodes

    def _by_patterns(self, pieces: list[Piece], left: Indices, open_: Flags) -> list[int] | None:
        """Return a node for every piece by the packing program, or None."""
        avoid = self.instance.rules.interference_avoidance
        keys = [(p.spread and avoid, p.code, p.units) for p in pieces]
        kinds = sorted(set(keys))
        place_in_job = _places_in_job(pieces)
        order = sorted(range(len(pieces)), key=lambda i: (place_in_job[i], i))
        members: list[list[int]] = [[i for i in order if keys[i] == kind] for kind in kinds]
        shared = np.array([kind[0] for kind in kinds], dtype=bool)
        code = np.array([kind[1] for kind in kinds])
        units = np.array([kind[2] for kind in kinds]).reshape(len(kinds), -1)
        rows = np.flatnonzero(shared)
        items = without_stays(
            code=code[~shared],
            units=units[~shared],
            extra_code=code[shared],
            extra_units=units[shared],
            extra_row=rows,
            extra_amount=np.ones(rows.size),
            rows=len(kinds),
        )
        classes = node_classes(self.instance.cluster.node_type, left, open_)
        counts = np.array([len(member) for member in members])
        weight = units[:, 0] + units[:, 1:].sum(axis=1) / np.sum(self.grid.shape)
        master = PatternMaster(
            items, classes, self.grid.shape, np.maximum(weight, 1e-3), self.watch
        )
        cuts = PatternDive(master, counts).run()
        if cuts is None:
            return None
        return self._assign(cuts, classes, members, len(pieces))

    @staticmethod
    def _assign(
        cuts: list[tuple[int, Indices]], classes: NodeClasses, members: list[list[int]], size: int
    ) -> list[int]:
        """Return nodes for the pieces, given how nodes of each class are filled."""
        free = [
            np.flatnonzero(classes.node_class == index).tolist()
            for index in range(classes.count.size)
        ]
        waiting = [list(member) for member in members]  # pieces of one job far apart
        nodes = [-1] * size
        for node_class, count in cuts:
            node = free[node_class].pop(0)
            for kind, number in enumerate(count.tolist()):
                for _ in range(min(number, len(waiting[kind]))):
                    nodes[waiting[kind].pop(0)] = node
        return nodes

    def allocation(
        self, taken: Choices, pieces: list[Piece], nodes: list[int]
    ) -> Allocation | None:
        """Return the allocation; None if a distributed job is on too many nodes or a worse one."""
        instance, current = self.instance, self.instance.current
        stays = np.isin(current.job, taken.job[taken.of(Kind.KEEP)])
        held = (current.job[stays], current.node[stays], current.replicas[stays])
        placed = ([piece.job for piece in pieces], nodes, [piece.replicas for piece in pieces])
        job, node, replicas = (
            np.concatenate([kept, np.array(new, dtype=np.int64)])
            for kept, new in zip(held, placed, strict=True)
        )
        modes = chosen_modes(instance, taken)
        shape = (instance.num_jobs, instance.cluster.num_nodes)
        allocation = Allocation.from_entries(job, node, replicas, *shape, modes)
        several = taken.where(taken.of(Kind.SEVERAL_NODES))
        nodes_of = allocation.job_nodes[several.job]
        on_one = mode_utilities(instance).moved[several.mode, 0, several.replicas]
        worse = (nodes_of < 2) & (on_one < several.utility)
        return None if (worse | (nodes_of > instance.rules.max_nodes_per_job)).any() else allocation


def _regrouped(pieces: list[Piece], nodes: list[int]) -> list[int]:
    """Return the same nodes for equal single replicas, regrouped so that few nodes share a job.

    Large jobs come first. Each takes as many replicas as possible where there are most, on two
    nodes at least; its last ones go where they leave least.
    """
    nodes = list(nodes)
    alike: dict[tuple[int, tuple[int, ...]], dict[int, list[int]]] = {}
    for index, piece in enumerate(pieces):
        if piece.single:
            jobs = alike.setdefault((piece.code, piece.units), {})
            jobs.setdefault(piece.job, []).append(index)
    for jobs in alike.values():
        room = Counter(nodes[index] for members in jobs.values() for index in members)
        for members in sorted(jobs.values(), key=len, reverse=True):
            for index, node in zip(members, _few_nodes(room, len(members)), strict=True):
                nodes[index] = node
    return nodes


def _few_nodes(room: Counter[int], wanted: int) -> list[int]:
    """Return a node for each of `wanted` replicas, taken out of the room."""
    chosen: list[int] = []
    while len(chosen) < wanted:
        rest = wanted - len(chosen)
        nodes = [node for node in sorted(room) if room[node] > 0]
        if len(set(chosen)) == 1 and len(nodes) > 1:  # the second node is another
            nodes = [node for node in nodes if node != chosen[0]]
        enough = [node for node in nodes if room[node] >= rest]
        if enough and chosen:
            node = min(enough, key=lambda node: room[node])
        else:
            node = max(nodes, key=lambda node: room[node])
        count = min(room[node], rest)
        if not chosen and 1 < count == wanted and len(nodes) > 1:
            count -= 1
        chosen += [node] * count
        room[node] -= count
    return chosen


def _places_in_job(pieces: list[Piece]) -> list[int]:
    """Return the index of every piece within its job."""
    seen: dict[int, int] = {}
    found = []
    for piece in pieces:
        found.append(seen.get(piece.job, 0))
        seen[piece.job] = found[-1] + 1
    return found
