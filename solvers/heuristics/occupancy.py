"""Occupancy of nodes by jobs without modes while a heuristic works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.objective import utility_table
from goodalloc.models.support.tolerances import ROUNDING
from goodalloc.solvers.heuristics.nodes_by_room import ABSENT, NodesByRoom

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats


#: No merit goes beyond ten to this power, which leaves room to add them up.
LARGEST_EXPONENT = 250.0


def merits(tables: tuple[Floats, ...], power: float) -> tuple[Floats, ...]:
    """Return merits of utilities, whose sums rank as power means of the utilities do.

    ``sign(p) u^p``, or ``log u`` at p = 0. A power so large that this would overflow, infinity
    above all, is replaced by the largest that does not.
    """
    if power == 0.0:
        return tuple(np.log(table) for table in tables)
    extent = max(float(np.abs(np.log10(table)).max()) for table in tables)
    largest = LARGEST_EXPONENT / max(extent, 1.0)
    bounded = min(max(power, -largest), largest)
    return tuple(np.asarray(np.sign(bounded) * table**bounded) for table in tables)


class Occupancy:
    """Feasible allocation under construction, with the merit of every change of a job.

    It is for jobs without modes; `ModeOccupancy` knows modes and resources, but is too slow for
    local search.

    Parameters
    ----------
    instance
        The round.
    placements
        Placements to start from; those that break a rule are left out, later jobs first.
    """

    def __init__(self, instance: Instance, placements: list[Placement]) -> None:
        rules, table = instance.rules, utility_table(instance)
        self.instance = instance
        self.free = instance.cluster.node_gpus.copy()
        self.distributed = np.zeros(self.free.size, dtype=np.int64)
        self.rows: list[Placement] = [()] * instance.num_jobs
        self.residents: list[dict[int, int]] = [{} for _ in self.free]
        self.held = np.zeros(instance.num_jobs, dtype=np.int64)
        self.spread = np.zeros(instance.num_jobs, dtype=np.int64)
        self.current = [job.placement for job in instance.jobs]
        self.moved, self.kept = merits((table.moved, table.kept), rules.power)
        self.merit = self.moved[:, 0, 0].copy()
        self.width = self.moved.shape[-1]
        self.max_nodes = rules.max_nodes_per_job
        self.exclusive = rules.interference_avoidance
        limits = self.max_nodes, self.width - 1
        self.nodes = NodesByRoom(self.free, *limits)
        #: Nodes that a distributed job may use.
        self.spread_nodes = NodesByRoom(self.free, *limits) if self.exclusive else self.nodes
        held = np.arange(self.width)
        self.permitted = (held >= instance.min_replicas[:, None]) & (
            held <= instance.max_replicas[:, None]
        )
        #: Merit of every number of replicas on one node and on several, -inf if not permitted.
        self.permitted_merit = np.where(self.permitted[:, None, :], self.moved, -np.inf)
        self.permitted_merit[:, 1, :2] = -np.inf
        pinned = instance.pinned
        for job in sorted(range(instance.num_jobs), key=lambda index: not pinned[index]):
            row = self.current[job] if pinned[job] else placements[job]
            if self.fits(job, row):
                self.put(job, row)

    def value(self, job: int, row: Placement) -> float:
        """Return the merit of a job on a row."""
        if row and row == self.current[job]:
            return float(self.kept[job])
        return float(self.moved[job, int(len(row) > 1), sum(gpus for _, gpus in row)])

    def put(self, job: int, row: Placement) -> None:
        """Give a job that holds nothing a row."""
        for node, gpus in row:
            self._take(node, gpus, len(row) > 1)
            self.residents[node][job] = gpus
        self.rows[job] = row
        self.held[job] = sum(gpus for _, gpus in row)
        self.spread[job] = len(row) > 1
        self.merit[job] = self.value(job, row)

    def clear(self, job: int) -> Placement:
        """Take a job's row away, and return it."""
        row = self.rows[job]
        for node, gpus in row:
            self._take(node, -gpus, -(len(row) > 1))
            del self.residents[node][job]
        self.rows[job] = ()
        self.held[job] = self.spread[job] = 0
        self.merit[job] = self.moved[job, 0, 0]
        return row

    def _take(self, node: int, gpus: int, distributed: int) -> None:
        """Take GPUs of a node, and count its distributed jobs."""
        free = int(self.free[node]) - gpus
        self.free[node] = free
        self.nodes.move(node, free)
        if distributed:
            self.distributed[node] += distributed
        if self.exclusive:
            self.spread_nodes.move(node, ABSENT if self.distributed[node] else free)

    def fits(self, job: int, row: Placement) -> bool:
        """Return whether a job may take a row instead of its own under all rules."""
        if not row:
            return True
        replicas, several = sum(gpus for _, gpus in row), len(row) > 1
        if len(row) > self.max_nodes or replicas >= self.width:
            return False
        if not self.permitted[job, replicas]:
            return False
        crowded = several and self.exclusive
        for node, gpus in row:
            own = self.residents[node].get(job, 0)
            if self.free[node] + own < gpus:
                return False
            if crowded and self.distributed[node] > (self.spread[job] if own else 0):
                return False
        return True

    def replace(self, job: int, row: Placement) -> None:
        """Give a job another row than it has."""
        self.clear(job)
        self.put(job, row)

    def reseat(self, job: int) -> None:
        """Give a job the best row that fits, the one it has included; ties change nothing."""
        row = self.clear(job)
        best, found = self.value(job, row), row
        threshold = best + ROUNDING * abs(best)
        for several, options in enumerate(self.options(job)):
            replicas = int(np.argmax(options))
            if options[replicas] > threshold:
                best = threshold = float(options[replicas])
                found = (
                    self.several_nodes_row(replicas)
                    if several
                    else self.one_node_row(replicas, row)
                )
        if float(self.moved[job, 0, 0]) > threshold:
            best, found = float(self.moved[job, 0, 0]), ()
        back = self.current[job]
        if back and self.kept[job] > threshold and self.fits(job, back):
            found = back
        self.put(job, found)

    def options(self, job: int) -> tuple[Floats, Floats]:
        """Return the merit of every number of replicas for a job that holds nothing.

        Returns
        -------
        tuple
            Merits on one node and on several, -inf where the job cannot fit; shape (most GPUs + 1,)
            each.
        """
        one, many = self.permitted_merit[job].copy()
        most, total = self.limits(job)
        one[most + 1 :] = -np.inf
        many[total + 1 :] = -np.inf
        return one, many

    def limits(self, job: int) -> tuple[int, int]:
        """Return the most replicas of a job on one node and on several, if it held nothing."""
        largest, row = self.width - 1, self.rows[job]
        most, total = self.nodes.most, self.spread_nodes.room()
        if row:
            several = int(len(row) > 1)
            held = [(node, int(self.free[node]) + gpus) for node, gpus in row]
            most = max(most, *(gpus for _, gpus in held))
            if total < largest:  # taking the row away can only add room
                if self.exclusive:
                    held = [one for one in held if self.distributed[one[0]] == several]
                total = self.spread_nodes.room(held)
        return min(most, largest), total

    def one_node_row(self, replicas: int, prefer: Placement = ()) -> Placement:
        """Return the tightest node with room, of equals one of `prefer`, then the first."""
        node = self.nodes.tightest(replicas)
        as_tight = [other for other, _ in prefer if self.free[other] == self.free[node]]
        return ((min(as_tight, default=node), replicas),)

    def several_nodes_row(self, replicas: int) -> Placement:
        """Return a row on few nodes: whole nodes first, the rest on the tightest fit."""
        return tuple(sorted(self.spread_nodes.several(replicas).items()))

    def allocation(self) -> Allocation:
        """Return the allocation as it stands."""
        return Allocation.from_placements(self.rows, self.free.size)
