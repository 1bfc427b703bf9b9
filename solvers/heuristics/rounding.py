"""Feasible allocations from numbers of GPUs, placed greedily.

Relaxations ignore the nodes. Here every job is given the GPUs that a relaxation gave it where they
fit, and fewer where they do not; the result obeys every rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.objective import utility_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Indices


@dataclass
class _Nodes:
    """Free GPUs, and nodes that a distributed job has taken."""

    free: Indices
    taken: NDArray[np.bool_]
    avoids_interference: bool
    most_nodes: int

    def fits(self, placement: Placement) -> bool:
        """Return whether a placement fits into what is free."""
        alone = self.avoids_interference and len(placement) > 1
        return all(
            self.free[node] >= held and not (alone and self.taken[node]) for node, held in placement
        )

    def occupy(self, placement: Placement) -> Placement:
        """Take the GPUs of a placement, and return it."""
        for node, held in placement:
            self.free[node] -= held
            self.taken[node] |= len(placement) > 1
        return placement

    def on_one(self, gpus: int) -> Placement | None:
        """Return the fullest node with room, or None."""
        room = np.where(self.free >= gpus, self.free, np.iinfo(np.int64).max)
        node = int(np.argmin(room))
        return ((node, gpus),) if self.free[node] >= gpus else None

    def on_several(self, gpus: int) -> Placement | None:
        """Return the nodes with the most room, at least two of them, or None."""
        room = np.where(self.taken, 0, self.free) if self.avoids_interference else self.free
        nodes = np.argsort(-room, kind="stable")[: self.most_nodes]
        before = np.concatenate([[0], np.cumsum(room[nodes])[:-1]])
        pieces = np.minimum(room[nodes], np.maximum(gpus - before, 0))
        if pieces.sum() < gpus or nodes.size < 2:
            return None
        if (
            pieces[1] == 0 and room[nodes[1]] > 0
        ):  # all fits on the first node: leave one to the next
            pieces[0] -= 1
            pieces[1] += 1
        placed = sorted(
            (node, held) for node, held in zip(nodes.tolist(), pieces.tolist(), strict=True) if held
        )
        return tuple(placed) if len(placed) > 1 else None


def round_and_place(instance: Instance, wanted: Indices) -> Allocation:
    """Return a feasible allocation that gives every job at most the GPUs it wants.

    Pinned jobs stay. Then jobs that want as many GPUs as they hold stay, if no earlier job is in
    the way; the others are placed in order of decreasing size, each as well as possible. Finally
    jobs that got nothing take the fewest GPUs they can use, wherever there is room.

    Parameters
    ----------
    instance
        The round.
    wanted
        GPUs wanted for every job, shape (jobs,).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers.heuristics import round_and_place
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> jobs = (Job("a", table), Job("b", table))
    >>> instance = Instance(Cluster.uniform(1, 3), jobs, Rules(restart_delay=0.0))
    >>> round_and_place(instance, np.array([2, 2])).placements()  # one GPU is missing
    [((0, 2),), ((0, 1),)]
    """
    nodes = _Nodes(
        instance.cluster.node_gpus.copy(),
        np.zeros(instance.cluster.num_nodes, dtype=bool),
        instance.rules.interference_avoidance,
        instance.rules.max_nodes_per_job,
    )
    placements: dict[int, Placement] = {}
    order = np.argsort(-wanted, kind="stable").tolist()
    for index in sorted(order, key=lambda j: not instance.jobs[j].pinned):
        job = instance.jobs[index]
        stays = job.pinned or (wanted[index] == job.replicas and _may_keep(instance, index))
        if job.placement and stays and nodes.fits(job.placement):
            placements[index] = nodes.occupy(job.placement)
    for index in order:
        if index not in placements and wanted[index] > 0:
            found = _best_that_fits(instance, nodes, index, int(wanted[index]))
            if found is not None:
                placements[index] = nodes.occupy(found)
    for index in order:
        if index not in placements and nodes.free.any():
            found = _best_that_fits(instance, nodes, index, int(instance.min_replicas[index]))
            if found is not None:
                placements[index] = nodes.occupy(found)
    return Allocation.from_placements(
        [placements.get(index, ()) for index in range(instance.num_jobs)],
        instance.cluster.num_nodes,
    )


def _may_keep(instance: Instance, index: int) -> bool:
    """Return whether a job's current placement obeys the rules on single jobs."""
    job = instance.jobs[index]
    few = len(job.placement) <= instance.rules.max_nodes_per_job
    return few and job.min_replicas <= job.replicas <= job.max_replicas


def _best_that_fits(instance: Instance, nodes: _Nodes, index: int, most: int) -> Placement | None:
    """Return the best placement of one job on at most `most` GPUs that fits, or None."""
    job, table = instance.jobs[index], utility_table(instance)
    least = max(job.min_replicas, 1)
    most = min(most, int(instance.max_replicas[index]))
    if most < least:
        return None
    utility = table.moved[index, :, least : most + 1]
    ranked = np.argsort(-utility, axis=None, kind="stable")
    for spread, offset in zip(*np.unravel_index(ranked, utility.shape), strict=True):
        if utility[spread, offset] <= instance.rules.idle:
            return None
        gpus = least + int(offset)
        found = nodes.on_several(gpus) if spread else nodes.on_one(gpus)
        if found is not None:
            return found
    return None
