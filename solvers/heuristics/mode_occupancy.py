"""Occupancy of nodes by jobs in their modes while a heuristic works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import may_keep
from goodalloc.formulations.mode_rounds.mode_choices import most_replicas, node_capacity
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.mode import NO_MODE
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats, Indices


class ModeOccupancy:
    """Allocation under construction in which every replica takes a whole GPU.

    Parameters
    ----------
    instance
        The round.
    stays
        Whether each job starts where it is, as pinned jobs do, if the rules still allow it; shape
        (jobs,); None for no others.

    Attributes
    ----------
    demand
        Demand of a replica in every mode, GPUs first: shape (modes, 1 + resources).
    free
        Remaining amounts, tolerance included: shape (nodes, 1 + resources).
    free_gpus
        Remaining GPUs, whole numbers: shape (nodes,).
    distributed
        Number of distributed jobs on every node, shape (nodes,).
    placements, modes
        Placement of every job, and the row of its mode in `Instance.modes`; `NO_MODE` if nowhere.
    residents
        Jobs on every node, with the number of their replicas there.
    """

    def __init__(self, instance: Instance, stays: Flags | None = None) -> None:
        num_nodes = instance.cluster.num_nodes
        self.instance = instance
        self.demand = np.insert(instance.mode_resources, 0, 1.0, axis=1)
        # a tenth of what the checker grants, so that adding up never exceeds it
        free = node_capacity(instance) * (1 + RESOURCE_TOLERANCE / 10)
        self.free = np.asfortranarray(free)  # sums over resources are faster so
        self.free_gpus = instance.cluster.node_gpus.copy()
        self.distributed = np.zeros(num_nodes, dtype=np.int64)
        self.placements: list[Placement] = [()] * instance.num_jobs
        self.modes = np.full(instance.num_jobs, NO_MODE, dtype=np.int64)
        self.residents: list[dict[int, int]] = [{} for _ in range(num_nodes)]
        self.most_nodes = instance.rules.max_nodes_per_job
        self.exclusive = instance.rules.interference_avoidance
        running = instance.first_mode + instance.current.mode
        for job in np.flatnonzero(instance.pinned).tolist():
            self.put(job, int(running[job]), instance.jobs[job].placement)
        others = np.zeros_like(instance.pinned) if stays is None else stays & ~instance.pinned
        for job in np.flatnonzero(others & may_keep(instance)).tolist():
            if self.fits(int(running[job]), instance.jobs[job].placement):
                self.put(job, int(running[job]), instance.jobs[job].placement)

    def room(self, mode: int) -> Indices:
        """Return the replicas in a mode that every node has room for, shape (nodes,)."""
        most = self.free_gpus
        if self.demand.shape[1] > 1:  # else GPUs are all there is, and nothing to divide
            most = np.maximum(most_replicas(self.free, self.demand[mode], tolerance=0.0), 0)
        return np.asarray(most * self.instance.mode_nodes[mode])

    def rooms(self, modes: slice) -> Indices:
        """Return `room` of all modes of a range at once, shape (modes, nodes)."""
        demand = self.demand[modes]
        most = np.repeat(self.free_gpus[None].astype(float), len(demand), axis=0)
        for resource in range(1, demand.shape[1]):
            takes = np.flatnonzero(demand[:, resource] > 0)
            left = self.free[:, resource] / demand[takes, resource, None]
            most[takes] = np.minimum(most[takes], np.floor(left))
        return np.asarray(np.maximum(most, 0.0).astype(np.int64) * self.instance.mode_nodes[modes])

    def fits(self, mode: int, placement: Placement) -> bool:
        """Return whether a job that is nowhere may be placed so in a mode."""
        demand, nodes = self.demand[mode], self.instance.mode_nodes[mode]
        alone = self.exclusive and len(placement) > 1
        return len(placement) <= self.most_nodes and all(
            nodes[node]
            and not (alone and self.distributed[node])
            and bool(np.all((self.free[node] >= gpus * demand) | (demand == 0)))
            for node, gpus in placement
        )

    def best_fit(self, room: Indices, replicas: int, rank: Floats | Indices) -> Placement:
        """Return all replicas on the node of lowest rank with room for them, or ().

        Parameters
        ----------
        room, rank
            Replicas that fit on every node, and its rank, of which the first least counts: shape
            (nodes,).
        replicas
            Number of replicas to place.
        """
        fits = np.flatnonzero(room >= replicas)
        return ((int(fits[np.argmin(rank[fits])]), replicas),) if fits.size else ()

    def spread(self, room: Indices, replicas: int, order: Indices) -> Placement:
        """Return replicas on nodes filled in an order, or () where that is not possible.

        Nodes at the front of the order are passed over where more than `max_nodes_per_job` would be
        touched, nodes of another distributed job where interference is avoided.

        Parameters
        ----------
        room
            Replicas that fit on every node, shape (nodes,).
        replicas
            Number of replicas to place.
        order
            The nodes.
        """
        if self.exclusive:
            room = np.where(self.distributed > 0, 0, room)
        order = order[room[order] > 0]
        held = np.cumsum(room[order])
        before = np.concatenate([[0], held])[: held.size]
        window = held[np.minimum(np.arange(held.size) + self.most_nodes, held.size) - 1] - before
        enough = np.flatnonzero(window >= replicas)
        if not enough.size:
            return ()
        placement, left = [], replicas
        for node in order[int(enough[0]) :].tolist():
            placement.append((node, min(int(room[node]), left)))
            left -= placement[-1][1]
            if not left:
                break
        return tuple(sorted(placement))

    def put(self, job: int, mode: int, placement: Placement) -> None:
        """Place a job that is nowhere."""
        self._move(mode, placement, 1)
        self.placements[job], self.modes[job] = placement, mode
        for node, replicas in placement:
            self.residents[node][job] = replicas

    def remove(self, job: int) -> Placement:
        """Remove a job and return its placement."""
        placement = self.placements[job]
        self._move(int(self.modes[job]), placement, -1)
        self.placements[job], self.modes[job] = (), NO_MODE
        for node, _ in placement:
            del self.residents[node][job]
        return placement

    def equip(self, job: int, mode: int) -> None:
        """Change the mode of a job that stays where it is."""
        self.put(job, mode, self.remove(job))

    def _move(self, mode: int, placement: Placement, sign: int) -> None:
        demand, several = self.demand[mode], len(placement) > 1
        for node, replicas in placement:
            self.free[node] -= sign * replicas * demand
            self.free_gpus[node] -= sign * replicas
            self.distributed[node] += sign * several

    def allocation(self) -> Allocation:
        """Return the allocation as it stands."""
        modes = np.where(self.modes == NO_MODE, 0, self.modes - self.instance.first_mode)
        return Allocation.from_placements(self.placements, self.instance.cluster.num_nodes, modes)
