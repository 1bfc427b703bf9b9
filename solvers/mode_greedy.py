"""Greedy marginal gain for jobs that have modes: whoever gains most for what it takes goes next."""

import heapq
import math
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from goodalloc.formulations.choices import Choices, Kind
from goodalloc.formulations.mode_choices import (
    chosen_modes,
    enumerate_mode_choices,
    most_replicas,
    node_capacity,
)
from goodalloc.formulations.power_cost import power_cost
from goodalloc.models.allocation import Allocation, Placement
from goodalloc.models.instance import Instance, require_whole_gpus
from goodalloc.models.mode import RESOURCE_TOLERANCE

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: Stands in for the infinite powers, whose costs are none.
LARGE_POWER = 10.0
#: Gains below this share of a job's cost are none.
LEAST_GAIN = 1e-12


def mode_greedy(instance: Instance, deadline: float | None = None) -> tuple[Allocation, int]:
    """Allocate by greatest marginal gain, from what the jobs may keep.

    The next step is the one that lowers the cost of the power mean most for each share of the
    cluster that it takes, by whatever resource that share is largest; a job may leave its nodes for
    others. One-node choices go where least is left, distributed ones on as few nodes as can be.

    Parameters
    ----------
    instance
        The round; whole GPUs.
    deadline
        By `time.perf_counter`; what is allocated by then is returned.

    Returns
    -------
    Allocation, int
        The allocation, and how many steps were taken.
    """
    require_whole_gpus(instance)
    state = _State(instance, enumerate_mode_choices(instance))
    steps = 0
    while True:
        queue = [(-math.inf, job) for job in np.flatnonzero(~instance.pinned).tolist()]
        before = steps
        while queue:
            if deadline is not None and time.perf_counter() >= deadline:
                return state.allocation(), steps
            promised, job = heapq.heappop(queue)
            slope, choice, row = state.best_step(job)
            if choice < 0:
                continue
            if -slope > promised and queue and (-slope, job) > queue[0]:
                heapq.heappush(queue, (-slope, job))
                continue
            state.clear(job)
            state.put(job, choice, row)
            steps += 1
            heapq.heappush(queue, (-math.inf, job))
        if steps == before:
            return state.allocation(), steps


@dataclass
class _State:
    """Who has which choice on which nodes, and what is left of them."""

    instance: Instance
    choices: Choices
    left: Floats = field(init=False)
    closed: Indices = field(init=False)
    chosen: Indices = field(init=False)
    rows: list[Placement] = field(init=False)

    def __post_init__(self) -> None:
        instance, choices = self.instance, self.choices
        power = instance.rules.power
        finite = power if math.isfinite(power) else math.copysign(LARGE_POWER, power)
        middle = float(np.median(choices.utility))
        self._cost = power_cost(choices.utility, finite, middle)
        self._each = instance.mode_demand
        self._total = np.maximum(node_capacity(instance).sum(axis=0), 1e-300)
        self._first = np.searchsorted(choices.job, np.arange(instance.num_jobs + 1))
        self.left = node_capacity(instance) * (1 + RESOURCE_TOLERANCE)
        self.closed = np.zeros(len(self.left), dtype=np.int64)
        self.chosen = np.zeros(instance.num_jobs, dtype=np.int64)
        self.rows = [()] * instance.num_jobs
        idle = choices.of(Kind.IDLE)
        self.chosen[choices.job[idle]] = idle
        for choice in choices.of(Kind.KEEP).tolist():
            job = int(choices.job[choice])
            self.chosen[job] = choice
            row = instance.jobs[job].placement
            if self._fits(choice, row):
                self.put(job, choice, row)
            else:  # a distributed job beside another where that is not allowed
                self.chosen[job] = idle[choices.job[idle] == job][0]

    def _fits(self, choice: int, row: Placement) -> bool:
        """Whether a placement fits what is left, interference avoidance included."""
        alone = len(row) > 1 and self.instance.rules.interference_avoidance
        demand = self._each[self.choices.mode[choice]]
        return all(
            bool((self.left[node] >= demand * count).all()) and not (alone and self.closed[node])
            for node, count in row
        )

    def put(self, job: int, choice: int, row: Placement) -> None:
        """Give a job a choice on these nodes."""
        self._add(row, choice, -1)
        self.chosen[job], self.rows[job] = choice, row

    def clear(self, job: int) -> tuple[int, Placement]:
        """Take all from a job; returns what it had."""
        choice, row = int(self.chosen[job]), self.rows[job]
        self._add(row, choice, 1)
        self.rows[job] = ()
        return choice, row

    def _add(self, row: Placement, choice: int, sign: int) -> None:
        demand = self._each[self.choices.mode[choice]]
        for node, count in row:
            self.left[node] += sign * count * demand
            if len(row) > 1 and self.instance.rules.interference_avoidance:
                self.closed[node] -= sign

    def best_step(self, job: int) -> tuple[float, int, Placement]:
        """The step of a job with the greatest gain for what it takes; choice -1 if none gains."""
        had, row = self.clear(job)
        candidates = np.arange(self._first[job], self._first[job + 1])
        gain = self._cost[had] - self._cost[candidates]
        candidates = candidates[gain > LEAST_GAIN * max(abs(float(self._cost[had])), 1.0)]
        best: tuple[float, int, Placement] = (-math.inf, -1, ())
        if candidates.size:
            taken = self._share(had)
            more = np.array([self._share(choice) for choice in candidates.tolist()]) - taken
            slope = (self._cost[had] - self._cost[candidates]) / np.maximum(more, 1e-9)
            for index in np.argsort(-slope, kind="stable").tolist():
                choice = int(candidates[index])
                found = self._row(choice)
                if found:
                    best = (float(slope[index]), choice, found)
                    break
        self.put(job, had, row)
        return best

    def _share(self, choice: int) -> float:
        """The largest share of any resource of the cluster that a choice takes."""
        demand = self._each[self.choices.mode[choice]] * self.choices.replicas[choice]
        return float((demand / self._total).max())

    def _row(self, choice: int) -> Placement:
        """Nodes for a choice, empty where there are none."""
        instance, mode = self.instance, int(self.choices.mode[choice])
        kind, replicas = self.choices.kind[choice], int(self.choices.replicas[choice])
        if kind == Kind.KEEP:
            row = instance.jobs[int(self.choices.job[choice])].placement
            return row if self._fits(choice, row) else ()
        most = np.where(
            instance.mode_nodes[mode],
            most_replicas(np.maximum(self.left, 0.0), self._each[mode]),
            0,
        )
        if kind == Kind.ONE_NODE:
            fits = np.flatnonzero(most >= replicas)
            if not fits.size:
                return ()
            rest = (self.left[fits] / self._total).sum(axis=1)
            return ((int(fits[np.argmin(rest)]), replicas),)
        return self._spread(most, replicas)

    def _spread(self, most: Indices, replicas: int) -> Placement:
        """The fewest nodes for a distributed job, two at least; empty where there are none."""
        rules = self.instance.rules
        if rules.interference_avoidance:
            most = np.where(self.closed > 0, 0, most)
        order = np.argsort(-most, kind="stable")[: rules.max_nodes_per_job]
        row: dict[int, int] = {}
        for node in order.tolist():
            count = min(int(most[node]), replicas - sum(row.values()))
            count -= not row and count == replicas  # one is left for another node
            if count > 0:
                row[node] = count
        if sum(row.values()) < replicas or len(row) < 2:
            return ()
        return tuple(sorted(row.items()))

    def allocation(self) -> Allocation:
        """What everybody has."""
        modes = chosen_modes(self.instance, self.choices.where(self.chosen))
        return Allocation.from_placements(self.rows, self.instance.cluster.num_nodes, modes)
