"""Greedy marginal gain for jobs with modes: the greatest gain for what a step takes comes first."""

from __future__ import annotations

import heapq
import math
import time
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import power_cost
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.mode_rounds.mode_choices import (
    choice_demand,
    enumerate_mode_choices,
    node_capacity,
)
from goodalloc.models.round.objective import fitness
from goodalloc.models.round.requirements import require_whole_gpus
from goodalloc.models.support.tolerances import ROUNDING, SMALLEST_DIVISOR
from goodalloc.solvers.heuristics.mode_occupancy import ModeOccupancy
from goodalloc.solvers.heuristics.mode_prices import priced_choices

if TYPE_CHECKING:
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.round.allocation import Allocation, Placement
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Indices


#: Substitute for infinite powers, which have no costs.
LARGE_POWER = 10.0
#: Largest logarithm of a term; larger powers are reduced to satisfy it.
LARGEST_EXPONENT = 500.0
#: Shares of every resource that prices leave unused, the most successful ones first.
SPARE = (0.1, 0.2, 0.05, 0.3, 0.0, 0.15)


def mode_greedy(
    instance: Instance, deadline: float = math.inf, *, choices: Choices | None = None
) -> tuple[Allocation, int]:
    """Allocate by greatest marginal gain, from what the jobs may keep.

    The next step is the one that lowers the cost of the power mean most for each share of the
    cluster that it takes, by the resource of which that share is largest; a job may leave its nodes
    for others. One-node choices go where least remains, distributed ones to as few nodes as
    possible.

    Parameters
    ----------
    instance
        The round; whole GPUs.
    deadline
        Time limit by `time.perf_counter`, at which the allocation so far is returned.
    choices
        Choices of the jobs; by default `enumerate_mode_choices`.

    Returns
    -------
    Allocation, int
        The allocation, and the number of steps taken.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers.heuristics import mode_greedy
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> instance = Instance(Cluster.uniform(1, 2), (Job("a", table),), Rules(restart_delay=0.0))
    >>> allocation, steps = mode_greedy(instance)
    >>> allocation.placements()
    [((0, 2),)]
    """
    require_whole_gpus(instance)
    choices = choices or _choices(instance, deadline)
    return _extend(_State(instance, choices), deadline)


def priced_greedy(
    instance: Instance, deadline: float = math.inf, *, choices: Choices | None = None
) -> tuple[Allocation, int]:
    """Allocate by prices (`mode_prices`), then by greatest marginal gain.

    Most is decided at once, so that little time is enough. The choices by prices are placed in
    decreasing order of size, for several shares of the resources left unused, as nodes cannot be
    filled to the last core; the best result is extended.

    Parameters
    ----------
    instance, deadline, choices
        As of `mode_greedy`.

    Returns
    -------
    Allocation, int
        As of `mode_greedy`.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers.heuristics import priced_greedy
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> instance = Instance(Cluster.uniform(1, 2), (Job("a", table),), Rules(restart_delay=0.0))
    >>> allocation, steps = priced_greedy(instance)
    >>> allocation.placements()
    [((0, 2),)]
    """
    require_whole_gpus(instance)
    choices = choices or _choices(instance, deadline)
    first, *others = SPARE
    best = _State(instance, choices, spare=first)
    value = fitness(instance, best.nodes.allocation())
    for spare in others:
        if time.perf_counter() >= deadline:
            break
        state = _State(instance, choices, spare=spare)
        reached = fitness(instance, state.nodes.allocation())
        if reached > value:
            best, value = state, reached
    return _extend(best, deadline)


def _choices(instance: Instance, deadline: float) -> Choices:
    """Return the choices of the jobs, enumerated in half of the time."""
    now = time.perf_counter()
    return enumerate_mode_choices(instance, deadline=now + (deadline - now) / 2)


def _extend(state: _State, deadline: float) -> tuple[Allocation, int]:
    """Take steps until none gains or time is up."""
    steps = 0
    while True:
        queue = [(-math.inf, job) for job in np.flatnonzero(~state.instance.pinned).tolist()]
        before = steps
        while queue:
            if time.perf_counter() >= deadline:
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
    """Choice and placement of every job; begun with what may be kept, or with choices by prices.

    Parameters
    ----------
    instance, choices
        The round and the choices of its jobs.
    spare
        Share of every resource that the prices leave unused; None for no prices.
    """

    def __init__(self, instance: Instance, choices: Choices, spare: float | None = None) -> None:
        self.instance, self.choices = instance, choices
        power = instance.rules.power
        finite = power if math.isfinite(power) else math.copysign(LARGE_POWER, power)
        median = float(np.median(choices.utility))
        widest = float(np.abs(np.log(choices.utility / median)).max())
        largest = LARGEST_EXPONENT / max(widest, 1e-9)
        self.cost = power_cost(choices.utility, min(max(finite, -largest), largest), median)
        self.total = np.maximum(node_capacity(instance).sum(axis=0), SMALLEST_DIVISOR)
        demand = choice_demand(instance, choices)
        self.share = np.max(demand / self.total, axis=1)  # the largest of any resource
        self.modes = np.append(instance.first_mode, len(instance.modes))
        self.first = np.searchsorted(choices.job, np.arange(instance.num_jobs + 1))
        self.nodes = ModeOccupancy(instance)
        self.chosen = np.zeros(instance.num_jobs, dtype=np.int64)
        idle, keep = choices.of(Kind.IDLE), choices.of(Kind.KEEP)
        self.chosen[choices.job[keep]] = keep
        self.chosen[choices.job[idle]] = idle
        wanted = keep
        if spare is not None:
            told = priced_choices(instance, choices, self.cost, spare=spare)
            told = told[choices.replicas[told] > 0]
            largest_first = np.lexsort((-self.share[told], choices.kind[told] != Kind.KEEP))
            wanted = np.concatenate([told[largest_first], keep])
        for choice in wanted[~instance.pinned[choices.job[wanted]]].tolist():
            job, mode = int(choices.job[choice]), int(choices.mode[choice])
            row = () if self.nodes.placements[job] else self._row(choice, self.nodes.room(mode))
            if row:
                self.put(job, choice, row)

    def put(self, job: int, choice: int, row: Placement) -> None:
        """Give a job without a placement a choice on these nodes."""
        self.nodes.put(job, int(self.choices.mode[choice]), row)
        self.chosen[job] = choice

    def best_step(self, job: int) -> tuple[float, int, Placement]:
        """Return slope, choice and row of a job's steepest step; choice -1 if none gains."""
        had, row = int(self.chosen[job]), self.nodes.remove(job)
        candidates = np.arange(self.first[job], self.first[job + 1])
        gain = self.cost[had] - self.cost[candidates]
        candidates = candidates[gain > ROUNDING * max(abs(float(self.cost[had])), 1.0)]
        best: tuple[float, int, Placement] = (-math.inf, -1, ())
        if candidates.size:
            best = self._steepest(job, had, candidates)
        self.put(job, had, row)
        return best

    def _steepest(self, job: int, had: int, candidates: Indices) -> tuple[float, int, Placement]:
        """Return the first choice of a job, in order of gain, for which there are nodes."""
        first_mode, end = self.modes[job : job + 2].tolist()
        room = self.nodes.rooms(slice(first_mode, end))
        mode = self.choices.mode[candidates] - first_mode
        candidates = candidates[self._may_fit(candidates, mode, room)]
        more = self.share[candidates] - self.share[had]
        slope = (self.cost[had] - self.cost[candidates]) / np.maximum(more, 1e-9)
        for index in np.argsort(-slope, kind="stable").tolist():
            choice = int(candidates[index])
            found = self._row(choice, room[self.choices.mode[choice] - first_mode])
            if found:
                return float(slope[index]), choice, found
        return -math.inf, -1, ()

    def _may_fit(self, candidates: Indices, mode: Indices, room: Indices) -> Flags:
        """Return which choices may fit on nodes; the others certainly do not.

        Parameters
        ----------
        candidates, mode
            The choices, and for each its row of `room`.
        room
            Replicas that every node has room for in every mode of the job, shape (modes, nodes).
        """
        kind, replicas = self.choices.kind[candidates], self.choices.replicas[candidates]
        on_one = room.max(axis=1)[mode]
        if self.nodes.exclusive:
            room = np.where(self.nodes.distributed > 0, 0, room)
        if self.nodes.most_nodes < room.shape[1]:
            room = np.partition(room, -self.nodes.most_nodes, axis=1)
        together = room[:, -self.nodes.most_nodes :].sum(axis=1)[mode]
        most = np.where(kind == Kind.ONE_NODE, on_one, together)
        return np.asarray((kind == Kind.KEEP) | (replicas <= most))

    def _row(self, choice: int, room: Indices) -> Placement:
        """Return nodes for a choice, as few as possible; empty where there are none.

        Parameters
        ----------
        choice
            Index of the choice.
        room
            Replicas in its mode that every node has room for, shape (nodes,).
        """
        nodes, mode = self.nodes, int(self.choices.mode[choice])
        kind, replicas = self.choices.kind[choice], int(self.choices.replicas[choice])
        if kind == Kind.KEEP:
            row = self.instance.jobs[int(self.choices.job[choice])].placement
            return row if nodes.fits(mode, row) else ()
        if kind == Kind.ONE_NODE:
            return nodes.best_fit(room, replicas, (nodes.free / self.total).sum(axis=1))
        roomiest_first = np.argsort(-room, kind="stable")
        # at least one replica is on another node
        return nodes.spread(np.minimum(room, replicas - 1), replicas, roomiest_first)
