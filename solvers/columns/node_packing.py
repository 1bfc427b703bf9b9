"""Packing of whole numbers of GPUs onto nodes, by counts of equal nodes.

Jobs that stay keep their GPUs. Distributed jobs take the emptiest nodes, each nodes of its own
whether interference is avoided or not; jobs of one node then take, largest first, the nodes that
they fill best.
Nodes with equally many free GPUs are equal, so that all jobs of one size are placed together. What
then has no place has room made for it (`consolidation.py`), or gets fewer GPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.allocation import Allocation

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

    from goodalloc.models.support.array_types import Flags, Indices
    from goodalloc.solvers.columns.round_utilities import ArrayRound

#: Node of a job that is on none, or on several.
NOWHERE = -1


class NodePacking:
    """Placements under construction.

    Parameters
    ----------
    columns
        The round.
    replicas
        GPUs that every job is to have.

    Attributes
    ----------
    replicas
        GPUs that every job has or is to have, shape (jobs,).
    where
        Node of every job that is on one node, `NOWHERE` for others; shape (jobs,).
    free
        Free GPUs of every node, shape (nodes,).
    """

    def __init__(self, columns: ArrayRound, replicas: Int[Indices, " jobs"]) -> None:
        self._columns, self._rules = columns, columns.rules
        self.replicas = replicas.copy()
        self.where = np.full(columns.num_jobs, NOWHERE)
        self.free = columns.cluster.node_gpus.copy()
        self._taken = np.zeros(self.free.size, dtype=bool)
        self._several = np.zeros((0, 3), dtype=np.int64)
        self._spread = np.zeros(columns.num_jobs, dtype=bool)

    @property
    def largest(self) -> int:
        """Most free GPUs of a node."""
        return int(self.free.max())

    @property
    def unplaced(self) -> Int[Indices, " unplaced"]:
        """Jobs that are to have GPUs and have none, those that are to have most first."""
        found = np.flatnonzero((self.replicas > 0) & (self.where == NOWHERE) & ~self._spread)
        return found[np.argsort(-self.replicas[found], kind="stable")]

    def keep(self, stays: Bool[Flags, " jobs"]) -> Bool[Flags, " jobs"]:
        """Leave jobs where they are, and return those for which that is possible.

        Of distributed jobs on one node only the first may stay where interference is avoided.
        """
        current, stays = self._columns.current, stays.copy()
        if self._rules.interference_avoidance:
            several = (current.job_nodes > 1) & stays
            entries = np.flatnonzero(several[current.job])
            _, first = np.unique(current.node[entries], return_index=True)
            later = np.ones(entries.size, dtype=bool)
            later[first] = False
            stays[current.job[entries[later]]] = False
        kept = stays[current.job]
        job, node, gpus = current.job[kept], current.node[kept], current.replicas[kept]
        np.subtract.at(self.free, node, gpus)
        alone = current.job_nodes[job] == 1
        self.where[job[alone]] = node[alone]
        self._add_several(np.stack([job, node, gpus], axis=1)[~alone])
        return stays

    def spread(self, jobs: Int[Indices, " some"]) -> None:
        """Place distributed jobs, in their order, on the emptiest nodes that are not taken."""
        usable = np.flatnonzero((self.free > 0) & ~self._taken)
        nodes = usable[np.argsort(-self.free[usable], kind="stable")].tolist()
        room = self.free[nodes].tolist() if nodes else []
        found: list[tuple[int, int, int]] = []
        place, most = 0, self._rules.max_nodes_per_job
        for job, wanted in zip(jobs.tolist(), self.replicas[jobs].tolist(), strict=True):
            pieces: list[tuple[int, int, int]] = []
            left, at = wanted, place
            while left and at < len(nodes) and len(pieces) < most:
                piece = min(room[at], left if pieces or left == 1 else left - 1)
                pieces.append((job, nodes[at], piece))
                left -= piece
                at += 1
            if not left:
                found += pieces
                place = at
        entries = np.array(found, dtype=np.int64).reshape(-1, 3)
        np.subtract.at(self.free, entries[:, 1], entries[:, 2])
        self._add_several(entries)

    def _add_several(self, entries: Indices) -> None:
        """Record entries (job, node, GPUs) of distributed jobs."""
        self._taken[entries[:, 1]] = True
        self._spread[entries[:, 0]] = True
        self._several = np.concatenate([self._several, entries])

    def single(self, jobs: Int[Indices, " some"]) -> None:
        """Place jobs of one node, largest first, each where least is left, as far as they fit."""
        order = np.argsort(self.free, kind="stable")
        largest = self.largest
        edges = np.searchsorted(self.free[order], np.arange(largest + 2))
        buckets = [order[edges[free] : edges[free + 1]] for free in range(largest + 1)]
        for size in range(largest, 0, -1):
            waiting = jobs[self.replicas[jobs] == size]
            while waiting.size:
                free = next((f for f in range(size, largest + 1) if buckets[f].size), None)
                if free is None:
                    break
                count = min(buckets[free].size, waiting.size)
                chosen, buckets[free] = buckets[free][:count], buckets[free][count:]
                buckets[free - size] = np.concatenate([buckets[free - size], chosen])
                self.where[waiting[:count]] = chosen
                self.free[chosen] -= size
                waiting = waiting[count:]

    def allocation(self) -> Allocation:
        """Return the placements so far."""
        alone = np.flatnonzero(self.where != NOWHERE)
        single = np.stack([alone, self.where[alone], self.replicas[alone]], axis=1)
        job, node, gpus = np.concatenate([single, self._several]).T
        columns = self._columns
        return Allocation.from_entries(job, node, gpus, columns.num_jobs, columns.cluster.num_nodes)
