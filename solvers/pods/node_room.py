"""Free room on every node, GPU by GPU, while pods are placed one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.pods.demand import mode_of, pod_demands
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.gpu_sharing import pack_shares
from goodalloc.models.round.instance import node_demand
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from goodalloc.formulations.pods.demand import Demand
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats


#: Half of what the checker forgives, so that sums in another order are forgiven, too.
SLACK = RESOURCE_TOLERANCE / 2


class NodeRoom:
    """Free GPUs and resources of every node, and the placements so far.

    Unlike `ModeOccupancy` it knows the free part of every single GPU, of which pods take parts.

    Jobs that are pinned, or run on one node within their limits, stay where they are; all others
    start without anything.

    Parameters
    ----------
    instance
        The round.
    start
        Demand and node of some of the others at the start; together they fit.

    Attributes
    ----------
    gpus
        Free part of every GPU, shape (nodes, most GPUs of a node); 0 where there is none.
    resources, capacity
        Free and total amounts of every resource: shape (nodes, resources).
    waiting
        The jobs to place, in the order of the instance.
    demands
        Demands of every job, one for each way to run.
    """

    def __init__(
        self, instance: Instance, start: dict[int, tuple[Demand, int]] | None = None
    ) -> None:
        cluster = instance.cluster
        self.instance = instance
        self.demands = pod_demands(instance)
        self.capacity = cluster.node_resources
        stays = [_stays(instance, job) for job in range(instance.num_jobs)]
        self.waiting = [job for job, kept in enumerate(stays) if not kept]
        self.placements: list[Placement] = [
            job.placement if kept else () for job, kept in zip(instance.jobs, stays, strict=True)
        ]
        self.modes = np.array([job.mode_index for job in instance.jobs], dtype=np.int64)
        self.modes[self.waiting] = 0
        self._masks: dict[tuple[str, ...], Flags] = {}
        for job, (demand, node) in (start or {}).items():
            self.placements[job] = ((node, demand.replicas),)
            self.modes[job] = mode_of(instance, job, demand, node)
        self.waiting = [job for job in self.waiting if not self.placements[job]]
        current = self.allocation()
        self.resources = self.capacity - node_demand(instance, current)
        width = max(int(cluster.node_gpus.max()), 1)
        self.gpus = (np.arange(width) < cluster.node_gpus[:, None]).astype(float)
        self._seat(current)

    def _seat(self, current: Allocation) -> None:
        """Subtract the GPUs of the jobs that stay."""
        share = self.instance.mode_share[self.instance.first_mode + current.mode]
        shares: dict[int, list[float]] = {}
        entries = (current.job.tolist(), current.node.tolist(), current.replicas.tolist())
        for job, node, replicas in zip(*entries, strict=True):
            shares.setdefault(node, []).extend([float(share[job])] * replicas)
        for node, carried in shares.items():
            count = int(self.instance.cluster.node_gpus[node])
            for gpu, parts in enumerate(pack_shares(carried, count) or ()):
                self.gpus[node, gpu] -= sum(parts)

    def fits(self, demand: Demand) -> Flags:
        """Return which nodes have room for a pod, shape (nodes,)."""
        if demand.gpu_types not in self._masks:
            types = self.instance.cluster.node_types
            self._masks[demand.gpu_types] = demand.nodes(types)
        takes = np.array(demand.takes)
        room = (takes <= self.resources + SLACK * self.capacity) | (takes == 0)
        fits: Flags = self._masks[demand.gpu_types] & room.all(axis=1)
        return fits & gpus_hold(self.gpus, demand)

    def put(self, job: int, demand: Demand, node: int, gpu: int | None = None) -> None:
        """Place a job on a node that it fits on.

        Parameters
        ----------
        job, demand, node
            The job, its demand and its node.
        gpu
            The GPU of a single replica that takes a part of one; the fullest that holds it if None.
        """
        if gpu is None:
            take_fullest(self.gpus[node], demand)
        else:
            self.gpus[node, gpu] -= demand.share
        self.resources[node] -= demand.takes
        self.placements[job] = ((node, demand.replicas),)
        self.modes[job] = mode_of(self.instance, job, demand, node)

    def allocation(self) -> Allocation:
        """Return the allocation as it stands."""
        return Allocation.from_placements(
            self.placements, self.instance.cluster.num_nodes, self.modes
        )


def gpus_hold(gpus: Floats, demand: Demand) -> Flags:
    """Return whether the GPUs of every node have room for a pod."""
    if demand.share == 0:
        return np.ones(gpus.shape[:-1], dtype=bool)
    replicas = np.floor((gpus + SLACK) / demand.share).sum(axis=-1)
    return np.asarray(replicas >= demand.replicas)


def take_fullest(gpus: Floats, demand: Demand) -> None:
    """Take a pod off the free GPUs of a node, each replica from the fullest that holds it.

    Parameters
    ----------
    gpus
        Free part of every GPU, shape (GPUs,); changed in place.
    demand
        A pod that fits.
    """
    for _ in range(demand.replicas if demand.share > 0 else 0):
        enough = gpus >= demand.share - SLACK
        gpus[int(np.argmin(np.where(enough, gpus, np.inf)))] -= demand.share


def _stays(instance: Instance, index: int) -> bool:
    """Return whether a job keeps its placement."""
    job = instance.jobs[index]
    within = job.min_replicas <= job.replicas <= job.max_replicas
    return job.pinned or (len(job.placement) == 1 and within)
