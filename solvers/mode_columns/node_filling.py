"""Nodes for chosen modes and replicas of many jobs, by patterns of nodes.

Jobs that stay come first. The relaxed packing (`seat_program.py`) tells in which sizes the
distributed ones are best split. All jobs are pieces on one node each then; pieces of equal demand
are one item of the packing program, and whole numbers of its patterns fill most nodes at once. It
is solved again for what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.mode_rounds.node_items import without_stays
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.support.tolerances import SMALLEST_DIVISOR, WHOLE_TOLERANCE
from goodalloc.solvers.mode_columns.seat_program import (
    Room,
    Wanted,
    packing_program,
    relaxed_packing,
)

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.interface.watch import Watch
    from goodalloc.solvers.mode_columns.node_units import NodeUnits

#: Times that patterns are found anew for the pieces and nodes that are left.
MOST_DIVES = 60

#: Node of a job that is on none, or on several.
NOWHERE = -1


class _Pieces(NamedTuple):
    """Parts of jobs on one node each: job, replicas, whether the job is distributed."""

    job: Indices
    replicas: Indices
    apart: Flags


class Placed(NamedTuple):
    """Pieces of jobs with a place: job, node, replicas, whether the job is distributed."""

    job: Indices
    node: Indices
    replicas: Indices
    apart: Flags


class NodeFilling:
    """Placements under construction.

    Parameters
    ----------
    units
        Units of the round.
    mode, replicas
        Mode and replicas that every job is to have, shape (jobs,).

    Attributes
    ----------
    units
        Units of the round.
    mode, replicas
        Those of every job, as they are or are to be.
    where
        Node of every job that is on one node, `NOWHERE` for others; shape (jobs,).
    free
        Free units of every node, shape (nodes, 1 + resources).
    """

    def __init__(
        self, units: NodeUnits, mode: Int[Indices, " jobs"], replicas: Int[Indices, " jobs"]
    ) -> None:
        self.units, self.mode, self.replicas = units, mode.copy(), replicas.copy()
        self._columns = units.columns
        self.free = units.capacity.copy()
        self.where = np.full(self._columns.num_jobs, NOWHERE)
        self._spread = np.zeros(self._columns.num_jobs, dtype=bool)
        self._closed = np.zeros(len(self.free), dtype=bool)
        self._several = np.zeros((0, 3), dtype=np.int64)

    def copy(self) -> NodeFilling:
        """Return the same placements, to go on with in another way."""
        found = NodeFilling(self.units, self.mode, self.replicas)
        found.where, found.free = self.where.copy(), self.free.copy()
        found._spread, found._closed = self._spread.copy(), self._closed.copy()
        found._several = self._several
        return found

    @property
    def unplaced(self) -> Int[Indices, " unplaced"]:
        """Jobs that are to have replicas and have none."""
        return np.flatnonzero((self.replicas > 0) & ~self.placed)

    @property
    def placed(self) -> Bool[Flags, " jobs"]:
        """Whether a job has nodes, shape (jobs,)."""
        return np.asarray((self.where != NOWHERE) | self._spread)

    def taken(self, jobs: Int[Indices, " some"]) -> Int[Indices, "some demands"]:
        """Return the units that whole jobs take."""
        return self.units.taken(self.mode[jobs], self.replicas[jobs])

    @property
    def room(self) -> Room:
        """What nodes have left."""
        return Room(self.free, self._closed)

    def keep(self, stays: Bool[Flags, " jobs"]) -> None:
        """Leave jobs where they are, as far as there is room: of several distributed ones on a node
        only the first may stay.
        """
        current, stays = self._columns.current, stays & ~self.placed
        if self._columns.rules.interference_avoidance:
            entries = np.flatnonzero(((current.job_nodes > 1) & stays)[current.job])
            _, first = np.unique(current.node[entries], return_index=True)
            later = np.ones(entries.size, dtype=bool)
            later[first] = False
            later |= self._closed[current.node[entries]]
            stays[current.job[entries[later]]] = False
        entries = np.flatnonzero(stays[current.job])
        entries = entries[np.argsort(current.node[entries], kind="stable")]
        job, node = current.job[entries], current.node[entries]
        taken = self.units.taken(current.mode[job], current.replicas[entries])
        total = np.cumsum(taken, axis=0)
        before = total - taken
        first = np.searchsorted(node, node)
        over = (total - before[first] > self.free[node]).any(axis=1)
        stays[job[over]] = False
        some = stays[job]
        job, node, replicas = job[some], node[some], current.replicas[entries[some]]
        np.subtract.at(self.free, node, taken[some])
        self.mode[job], self.replicas[job] = current.mode[job], current.job_replicas[job]
        alone = current.job_nodes[job] == 1
        self.where[job[alone]] = node[alone]
        self._add_several(job[~alone], node[~alone], replicas[~alone])

    def remove(self, jobs: Int[Indices, " some"]) -> None:
        """Take jobs off all their nodes, to have nothing."""
        alone = jobs[self.where[jobs] != NOWHERE]
        np.add.at(self.free, self.where[alone], self.taken(alone))
        self.where[alone] = NOWHERE
        gone = np.isin(self._several[:, 0], jobs)
        job, node, replicas = self._several[gone].T
        np.add.at(self.free, node, self.units.taken(self.mode[job], replicas))
        self._closed[node] = False
        self._spread[job] = False
        self._several = self._several[~gone]
        self._closed[self._several[:, 1]] = True
        self.replicas[jobs] = 0

    @property
    def pieces(self) -> Placed:
        """Pieces of the jobs with a place."""
        alone = np.flatnonzero(self.where != NOWHERE)
        single = np.stack([alone, self.where[alone], self.replicas[alone]], axis=1)
        job, node, replicas = np.concatenate([single, self._several]).T
        return Placed(job, node, replicas, self._spread[job])

    def _add_several(self, job: Indices, node: Indices, replicas: Indices) -> None:
        """Record pieces of distributed jobs."""
        self._closed[node] = True
        self._spread[job] = True
        self._several = np.concatenate([self._several, np.stack([job, node, replicas], axis=1)])

    def fill(
        self,
        one: Int[Indices, " some"],
        several: Int[Indices, " others"],
        worth: Float[Floats, " jobs"],
        watch: Watch,
    ) -> None:
        """Place jobs by whole numbers of patterns, as far as they fit.

        Parameters
        ----------
        one, several
            Jobs of one node, and distributed ones.
        worth
            What it is worth to place each of all jobs.
        watch
            The clock of the solve.
        """
        pieces = _Pieces(one, self.replicas[one], np.zeros(one.size, dtype=bool))
        if several.size:
            pieces = self._split(one, several, watch)
        worth = worth[pieces.job] * pieces.replicas / self.replicas[pieces.job]
        node = np.full(pieces.job.size, NOWHERE)
        for _ in range(MOST_DIVES):
            left = np.flatnonzero(node == NOWHERE)
            if not left.size or not (self.free[:, 0] > 0).any():
                break
            rest = _Pieces(pieces.job[left], pieces.replicas[left], pieces.apart[left])
            node[left] = self._by_patterns(rest, worth[left], watch)
            if (node[left] == NOWHERE).all():
                break
        self._settle(pieces, node)
        self._spread_out(several[~self.placed[several]])

    def _settle(self, pieces: _Pieces, node: Indices) -> None:
        """Record where pieces are; those of a distributed job that lacks some are free again."""
        apart, there = pieces.apart, node != NOWHERE
        lost = np.isin(pieces.job, pieces.job[apart & ~there]) & apart & there
        taken = self.units.taken(self.mode[pieces.job[lost]], pieces.replicas[lost])
        np.add.at(self.free, node[lost], taken)
        self._closed[node[lost]] = False
        self.where[pieces.job[~apart]] = node[~apart]
        kept = apart & there & ~lost
        # without interference avoidance pieces of a job may have met on a node
        keys = np.column_stack([pieces.job[kept], node[kept]])
        pairs, piece = np.unique(keys, axis=0, return_inverse=True)
        job, where = pairs.T
        replicas = np.bincount(piece.reshape(-1), pieces.replicas[kept]).astype(np.int64)
        several = np.bincount(job, minlength=self.where.size)[job] > 1
        self.where[job[~several]] = where[~several]
        self._add_several(job[several], where[several], replicas[several])

    def _spread_out(self, jobs: Indices) -> None:
        """Place distributed jobs on the nodes with most room for them, as far as they fit."""
        avoids = self._columns.rules.interference_avoidance
        for job in jobs[np.argsort(-self.replicas[jobs], kind="stable")].tolist():
            mode, left = int(self.mode[job]), int(self.replicas[job])
            usable = self.units.node_type == self.units.mode_type[mode]
            if avoids:
                usable &= ~self._closed
            nodes = np.flatnonzero(usable)
            each = self.units.taken(np.array(mode), np.array(1))
            needed = np.flatnonzero(each > 0)
            room = (self.free[nodes][:, needed] // each[needed]).min(axis=1).astype(np.int64)
            order = np.argsort(-room, kind="stable")[: self._columns.rules.max_nodes_per_job]
            given = np.minimum(room[order], left)
            given[:1] = np.minimum(given[:1], left - 1)  # on two nodes at least
            given = np.minimum(given, np.maximum(left - (np.cumsum(given) - given), 0))
            if given.sum() < left:
                continue
            there = given > 0
            nodes, given = nodes[order[there]], given[there]
            np.subtract.at(self.free, nodes, self.units.taken(np.full(nodes.size, mode), given))
            self._add_several(np.full(nodes.size, job), nodes, given)

    def _split(self, one: Indices, several: Indices, watch: Watch) -> _Pieces:
        """Return the pieces of jobs, those of distributed ones in sizes that pack well together."""
        jobs = np.concatenate([one, several])
        distributed = np.arange(jobs.size) >= one.size
        wanted = Wanted(self.mode[jobs], self.replicas[jobs], distributed, np.ones(jobs.size))
        _, splits = relaxed_packing(self.units, wanted, self.room, watch)
        job, replicas = [one], [self.replicas[one]]
        keys = np.column_stack([self.mode[several], self.replicas[several]])
        for mode, size in np.unique(keys, axis=0).tolist():
            own = several[(keys == (mode, size)).all(axis=1)]
            ways = np.flatnonzero((splits.mode == mode) & (splits.replicas == size))
            for index, way in zip(own.tolist(), _whole(splits.number[ways], own.size), strict=True):
                sizes = splits.sizes[ways[way]]
                job.append(np.full(len(sizes), index))
                replicas.append(np.array(sizes))
        apart = np.arange(sum(map(len, job))) >= one.size
        return _Pieces(np.concatenate(job), np.concatenate(replicas), apart)

    def _by_patterns(self, pieces: _Pieces, worth: Floats, watch: Watch) -> Indices:
        """Return nodes for pieces by the whole patterns of one relaxation, or by one pattern."""
        apart = self._columns.rules.interference_avoidance
        mode = self.mode[pieces.job]
        taken = self.units.taken(mode, pieces.replicas)
        shared = (pieces.apart & apart).astype(np.int64)
        keys = np.column_stack([shared, self.units.mode_type[mode], taken])
        kinds, item, number = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
        item, extra = item.reshape(-1), kinds[:, 0] > 0
        items = without_stays(
            code=kinds[~extra, 1],
            units=kinds[~extra, 2:],
            extra_code=kinds[extra, 1],
            extra_units=kinds[extra, 2:],
            extra_row=np.flatnonzero(extra),
            extra_amount=np.ones(int(extra.sum())),
            rows=len(kinds),
        )
        worth = np.bincount(item, worth) / number
        master, classes, usable = packing_program(self.units, items, worth, self.room, watch)
        packed = master.solve(number.astype(float), classes.count, bounded=True)
        whole = np.floor(packed.nodes + WHOLE_TOLERANCE).astype(np.int64)
        if not whole.any() and whole.size:
            whole[np.argmax(packed.nodes)] = int(packed.nodes.max() > WHOLE_TOLERANCE)
        waiting = np.split(np.argsort(item, kind="stable"), np.cumsum(number)[:-1])
        by_class = usable[np.argsort(classes.node_class, kind="stable")]
        empty = np.split(by_class, np.cumsum(classes.count)[:-1])
        seats: list[list[Indices]] = [[] for _ in waiting]
        for pattern, times in zip(master.patterns, whole.tolist(), strict=True):
            own = empty[pattern.node_class]
            nodes, empty[pattern.node_class] = own[:times], own[times:]
            for row, amount in zip(pattern.rows.tolist(), pattern.amounts.tolist(), strict=True):
                seats[row].append(np.repeat(nodes, int(amount)))
        node = np.full(item.size, NOWHERE)
        for members, found in zip(waiting, seats, strict=True):
            seat = np.concatenate([*found, members[:0]])[: members.size]
            node[members[: seat.size]] = seat
        there = node != NOWHERE
        np.subtract.at(self.free, node[there], taken[there])
        if apart:
            self._closed[node[there & pieces.apart]] = True
        return node

    def put(self, jobs: Int[Indices, " some"], nodes: Int[Indices, " some"]) -> None:
        """Place jobs of one node."""
        self.where[jobs] = nodes
        np.subtract.at(self.free, nodes, self.taken(jobs))

    def fullest(
        self, mode: Int[Indices, " ways"], replicas: Int[Indices, " ways"]
    ) -> Int[Indices, " ways"]:
        """Return the node on which least is left beside each way to run, `NOWHERE` if none fits."""
        some = np.flatnonzero(self.free[:, 0] > 0)
        if not some.size:
            return np.full(mode.size, NOWHERE)
        units = self.units
        keys = np.column_stack([units.node_type[some], self.free[some]])
        rooms, first = np.unique(keys, axis=0, return_index=True)
        fits = (rooms[None, :, 1:] >= units.taken(mode, replicas)[:, None]).all(axis=2)
        fits &= rooms[None, :, 0] == units.mode_type[mode][:, None]
        rest = np.where(fits, (rooms[:, 1:] / units.size).sum(axis=1), np.inf)
        best = np.argmin(rest, axis=1)
        return np.where(fits[np.arange(best.size), best], some[first[best]], NOWHERE)

    def allocation(self) -> Allocation:
        """Return the placements so far."""
        job, node, replicas, _ = self.pieces
        jobs, nodes = self._columns.num_jobs, self._columns.cluster.num_nodes
        modes = np.where(self.placed, self.mode, 0)
        return Allocation.from_entries(job, node, replicas, jobs, nodes, modes)


def _whole(number: Floats, total: int) -> Indices:
    """Return a way for each of some jobs, in numbers near those in part."""
    number = number * (total / max(float(number.sum()), SMALLEST_DIVISOR))
    whole = np.floor(number + WHOLE_TOLERANCE).astype(np.int64)
    rest = np.argsort(whole - number, kind="stable")[: total - int(whole.sum())]
    whole[rest] += 1
    return np.repeat(np.arange(number.size), whole)
