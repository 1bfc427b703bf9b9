"""Greedy marginal gain for jobs that have modes: whoever gains most for what it takes goes next."""

import heapq
import math
import time

import numpy as np

from goodalloc.formulations.choices import Choices, Kind
from goodalloc.formulations.mode_choices import enumerate_mode_choices, node_capacity
from goodalloc.formulations.power_cost import power_cost
from goodalloc.models.allocation import Allocation, Placement
from goodalloc.models.instance import Instance, require_whole_gpus
from goodalloc.solvers.mode_occupancy import ModeOccupancy

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
                return state.nodes.allocation(), steps
            promised, job = heapq.heappop(queue)
            slope, choice, row = state.best_step(job)
            if choice < 0:
                continue
            if -slope > promised and queue and (-slope, job) > queue[0]:
                heapq.heappush(queue, (-slope, job))
                continue
            state.nodes.remove(job)
            state.put(job, choice, row)
            steps += 1
            heapq.heappush(queue, (-math.inf, job))
        if steps == before:
            return state.nodes.allocation(), steps


class _State:
    """Who has which choice, and where."""

    def __init__(self, instance: Instance, choices: Choices) -> None:
        self.instance, self.choices = instance, choices
        power = instance.rules.power
        finite = power if math.isfinite(power) else math.copysign(LARGE_POWER, power)
        self.cost = power_cost(choices.utility, finite, float(np.median(choices.utility)))
        self.total = np.maximum(node_capacity(instance).sum(axis=0), 1e-300)
        self.first = np.searchsorted(choices.job, np.arange(instance.num_jobs + 1))
        self.nodes = ModeOccupancy(instance)
        self.chosen = np.zeros(instance.num_jobs, dtype=np.int64)
        for kind in (Kind.IDLE, Kind.KEEP):
            for choice in choices.of(kind).tolist():
                job, mode = int(choices.job[choice]), int(choices.mode[choice])
                row = instance.jobs[job].placement if kind == Kind.KEEP else ()
                if instance.pinned[job]:
                    self.chosen[job] = choice
                elif self.nodes.fits(mode, row):  # not beside a distributed job kept before it
                    self.put(job, choice, row)

    def put(self, job: int, choice: int, row: Placement) -> None:
        """Give a job that is nowhere a choice on these nodes."""
        self.nodes.put(job, int(self.choices.mode[choice]), row)
        self.chosen[job] = choice

    def best_step(self, job: int) -> tuple[float, int, Placement]:
        """The step of a job with the greatest gain for what it takes; choice -1 if none gains."""
        had, row = int(self.chosen[job]), self.nodes.remove(job)
        candidates = np.arange(self.first[job], self.first[job + 1])
        gain = self.cost[had] - self.cost[candidates]
        candidates = candidates[gain > LEAST_GAIN * max(abs(float(self.cost[had])), 1.0)]
        best: tuple[float, int, Placement] = (-math.inf, -1, ())
        if candidates.size:
            taken = self._share(had)
            more = np.array([self._share(choice) for choice in candidates.tolist()]) - taken
            slope = (self.cost[had] - self.cost[candidates]) / np.maximum(more, 1e-9)
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
        demand = self.nodes.demand[self.choices.mode[choice]] * self.choices.replicas[choice]
        return float((demand / self.total).max())

    def _row(self, choice: int) -> Placement:
        """Nodes for a choice, empty where there are none; several nodes are as few as can be."""
        nodes, mode = self.nodes, int(self.choices.mode[choice])
        kind, replicas = self.choices.kind[choice], int(self.choices.replicas[choice])
        if kind == Kind.KEEP:
            row = self.instance.jobs[int(self.choices.job[choice])].placement
            return row if nodes.fits(mode, row) else ()
        room = nodes.room(mode)
        if kind == Kind.ONE_NODE:
            return nodes.best_fit(room, replicas, (nodes.free / self.total).sum(axis=1))
        roomiest_first = np.argsort(-room, kind="stable")
        # at least one replica is on another node
        return nodes.spread(np.minimum(room, replicas - 1), replicas, roomiest_first)
