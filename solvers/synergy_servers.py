"""What is free on every node while a Synergy heuristic works, and who sits where in which mode."""

import numpy as np
from numpy.typing import NDArray

from goodalloc.formulations.synergy_modes import NO_MODE, replicas_within
from goodalloc.models.allocation import Allocation, Placement
from goodalloc.models.instance import Instance
from goodalloc.models.mode import RESOURCE_TOLERANCE

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


class Servers:
    """A feasible allocation under construction; it starts with the pinned jobs where they are.

    Parameters
    ----------
    instance
        The round.
    keep
        Whether it starts with all jobs where they are.
    """

    def __init__(self, instance: Instance, *, keep: bool = False) -> None:
        cluster, rules = instance.cluster, instance.rules
        self.instance = instance
        self.free_gpus = cluster.node_gpus.copy()
        # a tenth of what the checker grants, so that adding up never exceeds it
        self.free = cluster.node_resources * (1 + RESOURCE_TOLERANCE / 10)
        self.distributed = np.zeros(cluster.num_nodes, dtype=np.int64)
        self.placements: list[Placement] = [()] * instance.num_jobs
        self.modes = np.full(instance.num_jobs, NO_MODE, dtype=np.int64)
        self.residents: list[dict[int, int]] = [{} for _ in range(cluster.num_nodes)]
        self.most_nodes = rules.max_nodes_per_job
        self.exclusive = rules.interference_avoidance
        running = instance.first_mode + instance.current.mode
        stays = instance.current.job_replicas > 0 if keep else instance.pinned
        for job in np.flatnonzero(stays).tolist():
            self.put(job, int(running[job]), instance.jobs[job].placement)

    def room(self, mode: int) -> Indices:
        """Replicas in a mode that every node has room for, shape (nodes,)."""
        gpus = np.where(self.instance.mode_nodes[mode], self.free_gpus, 0)
        return replicas_within(gpus, self.free, self.instance.mode_resources[mode])

    def best_fit(self, room: Indices, gpus: int) -> Placement | None:
        """So many GPUs on the fullest node with room for them, or None."""
        fits = np.flatnonzero(room >= gpus)
        if not fits.size:
            return None
        return ((int(fits[np.argmin(self.free_gpus[fits])]), gpus),)

    def spread(self, room: Indices, gpus: int, order: Indices) -> Placement | None:
        """So many GPUs on nodes filled in an order, or None.

        Nodes at the front of the order are passed over where more than `max_nodes_per_job` would be
        touched, nodes of another distributed job where interference is avoided.
        """
        if self.exclusive:
            room = np.where(self.distributed > 0, 0, room)
        order = order[room[order] > 0]
        held = np.cumsum(room[order])
        before = np.concatenate([[0], held])[: held.size]
        window = held[np.minimum(np.arange(held.size) + self.most_nodes, held.size) - 1] - before
        enough = np.flatnonzero(window >= gpus)
        if not enough.size:
            return None
        placement, left = [], gpus
        for node in order[int(enough[0]) :].tolist():
            placement.append((node, min(int(room[node]), left)))
            left -= placement[-1][1]
            if not left:
                break
        return tuple(sorted(placement))

    def fullest_first(self) -> Indices:
        """The nodes with the fewest free GPUs first; of equals, the first."""
        return np.argsort(self.free_gpus, kind="stable")

    def put(self, job: int, mode: int, placement: Placement) -> None:
        """Place a job that is nowhere."""
        self._move(job, mode, placement, 1)
        self.placements[job], self.modes[job] = placement, mode
        for node, gpus in placement:
            self.residents[node][job] = gpus

    def remove(self, job: int) -> Placement:
        """Take a job away; returns where it was."""
        placement = self.placements[job]
        self._move(job, int(self.modes[job]), placement, -1)
        self.placements[job], self.modes[job] = (), NO_MODE
        for node, _ in placement:
            del self.residents[node][job]
        return placement

    def equip(self, job: int, mode: int) -> None:
        """Change the mode of a job that stays where it is."""
        self.put(job, mode, self.remove(job))

    def improve(self, job: int, mode: int) -> None:
        """Change the mode of a job that stays where it is, if that fits."""
        before, placement = int(self.modes[job]), self.placements[job]
        if not placement or mode == before:
            return
        self.equip(job, mode)
        taken, types = self.instance.mode_resources[mode], self.instance.mode_nodes[mode]
        nodes = [node for node, _ in placement]
        if not types[nodes].all() or np.any(self.free[nodes][:, taken > 0] < 0):
            self.equip(job, before)

    def _move(self, job: int, mode: int, placement: Placement, sign: int) -> None:
        taken = self.instance.mode_resources[mode]
        for node, gpus in placement:
            self.free_gpus[node] -= sign * gpus
            self.free[node] -= sign * gpus * taken
            self.distributed[node] += sign * (len(placement) > 1)

    def allocation(self) -> Allocation:
        """What stands."""
        modes = np.where(self.modes == NO_MODE, 0, self.modes - self.instance.first_mode)
        return Allocation.from_placements(self.placements, self.instance.cluster.num_nodes, modes)
