"""Decoupled placement: nodes for jobs whose types and numbers of GPUs are decided already.

Sia (SOSP'23) places after it has decided: type by type, jobs in decreasing size take whole nodes
first, the rest what is left. If nodes have a power of two of GPUs, all equal within a type, and
jobs whole-node shapes of these that need no more GPUs than there are, that always succeeds: when a
job's turn comes every free piece is a multiple of its size.

Ours differs where Sia's would move jobs for nothing. A job that is to keep what it holds stays
where it is, unless a larger one needs the node; larger ones prefer nodes that nobody is to keep. In
Sia's artifact a job that changes nodes but not the GPUs on each goes on without a restart; here
that is a change like any other. A job whose CPUs, memory or other resources fit nowhere is left
idle, and so is one that the odd sizes of nodes and jobs, or interference avoidance, leave no room.
"""

import numpy as np
from numpy.typing import NDArray

from goodalloc.formulations.choices import Kind
from goodalloc.formulations.sia import Configurations, node_types
from goodalloc.models.allocation import Allocation, Placement
from goodalloc.models.instance import Instance
from goodalloc.models.mode import RESOURCE_TOLERANCE
from goodalloc.models.objective import mode_utilities

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]


def place_by_type(instance: Instance, chosen: Configurations) -> Allocation:
    """A feasible allocation with these configurations, as far as they fit.

    Parameters
    ----------
    instance
        The round.
    chosen
        One configuration for every job.
    """
    nodes = _Nodes(instance)
    first, pinned = instance.first_mode, instance.pinned
    keeps = (chosen.kind == Kind.KEEP) & (chosen.replicas > 0)
    for job in np.flatnonzero(keeps).tolist():
        nodes.reserve(instance.jobs[job].placement, 1)
    rows: list[Placement] = [()] * instance.num_jobs
    for job in np.lexsort((~keeps, -chosen.replicas, ~pinned)).tolist():
        if chosen.replicas[job] == 0:
            continue
        mode, row = int(chosen.mode[job]), instance.jobs[job].placement
        if keeps[job]:
            nodes.reserve(row, -1)
        if not (keeps[job] and nodes.fits(row, mode)):
            row = _best_row(instance, nodes, chosen, job)
        nodes.occupy(row, mode)
        rows[job] = row
    modes = np.where([len(row) > 0 for row in rows], chosen.mode - first, 0)
    return Allocation.from_placements(rows, instance.cluster.num_nodes, modes)


def _best_row(instance: Instance, nodes: "_Nodes", chosen: Configurations, job: int) -> Placement:
    """The better of one node and several that fits and is worth more than idling, if any."""
    mode, gpus = int(chosen.mode[job]), int(chosen.replicas[job])
    usable = nodes.types == chosen.gpu_type[job]
    worth = mode_utilities(instance).moved[mode, :, gpus]
    for spread in sorted((0, 1), key=lambda at: -worth[at]):
        if worth[spread] > instance.rules.idle:
            row = (nodes.on_several if spread else nodes.on_one)(gpus, mode, usable)
            if row:
                return row
    return ()


class _Nodes:
    """What the nodes have left, and what is reserved on them for jobs that are to stay."""

    def __init__(self, instance: Instance) -> None:
        self.types = node_types(instance)
        self.free = instance.cluster.node_gpus.copy()
        self.resources = instance.cluster.node_resources * (1 + RESOURCE_TOLERANCE)
        self.takes = instance.mode_resources
        self.reserved = np.zeros_like(self.free)
        self.distributed = np.zeros(self.free.size, dtype=bool)
        self.exclusive = instance.rules.interference_avoidance
        self.most_nodes = instance.rules.max_nodes_per_job

    def reserve(self, row: Placement, sign: int) -> None:
        """Note, or strike out, that a job is to stay."""
        for node, gpus in row:
            self.reserved[node] += sign * gpus

    def occupy(self, row: Placement, mode: int) -> None:
        """Give a job its row."""
        for node, gpus in row:
            self.free[node] -= gpus
            self.resources[node] -= gpus * self.takes[mode]
            self.distributed[node] |= len(row) > 1

    def room(self, mode: int, usable: Flags) -> Indices:
        """Replicas of a mode that every node still holds, shape (nodes,)."""
        room = np.where(usable, self.free, 0)
        for resource in np.flatnonzero(self.takes[mode] > 0).tolist():
            most = np.floor(self.resources[:, resource] / self.takes[mode, resource])
            room = np.minimum(room, np.maximum(most, 0).astype(np.int64))
        return room

    def fits(self, row: Placement, mode: int) -> bool:
        """Whether a job may have this row."""
        alone = self.exclusive and len(row) > 1
        room = self.room(mode, np.ones(self.free.size, dtype=bool))
        return all(
            room[node] >= gpus and not (alone and self.distributed[node]) for node, gpus in row
        )

    def on_one(self, gpus: int, mode: int, usable: Flags) -> Placement:
        """The node that disturbs the fewest who are to stay, then the fullest; empty if none."""
        room = self.room(mode, usable)
        enough = np.flatnonzero(room >= gpus)
        if enough.size == 0:
            return ()
        node = enough[self._rank(np.full(enough.size, gpus), enough)[0]]
        return ((int(node), gpus),)

    def on_several(self, gpus: int, mode: int, usable: Flags) -> Placement:
        """Whole nodes first, the rest on the fullest that holds it; empty if it does not fit."""
        if self.exclusive:
            usable = usable & ~self.distributed
        room = self.room(mode, usable)
        row: dict[int, int] = {}
        while sum(row.values()) < gpus and len(row) < self.most_nodes:
            left = gpus - sum(row.values())
            if not row:
                left = min(left, gpus - 1)  # at least one GPU is on another node
            enough = np.flatnonzero(room >= left)
            if enough.size:
                wanted = np.full(enough.size, left)
                row[int(enough[self._rank(wanted, enough)[0]])] = left
            else:
                most = int(room.max())
                if most == 0:
                    break
                largest = np.flatnonzero(room == most)
                wanted = np.full(largest.size, most)
                row[int(largest[self._rank(wanted, largest)[0]])] = most
            room[list(row)] = 0
        return tuple(sorted(row.items())) if sum(row.values()) == gpus else ()

    def _rank(self, wanted: Indices, nodes: Indices) -> Indices:
        """Nodes by how much of what is reserved they would lose, then by what they have free."""
        lost = np.maximum(wanted - (self.free[nodes] - self.reserved[nodes]), 0)
        return np.lexsort((nodes, self.free[nodes], lost))
