"""Best responses: jobs take what suits them best of their own and the free GPUs, one by one.

No other job changes, so that every response raises the mean of any power.
"""

from __future__ import annotations

import heapq
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import power_cost
from goodalloc.models.round.allocation import Allocation
from goodalloc.solvers.columns.column_choices import chunks
from goodalloc.solvers.columns.consolidation import make_room
from goodalloc.solvers.columns.node_packing import NodePacking
from goodalloc.solvers.columns.placing import LEAST_POWER, MOST_OFFERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Bool, Float, Int
    from numpy.typing import NDArray

    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.columns.round_utilities import RoundUtilities

#: Rounds of responses at most.
MOST_ROUNDS = 3

#: Nodes looked at in a round of responses at most, so that it takes seconds on any cluster.
MOST_VISITS = 60_000_000

#: Relative gain below which a job stays.
LEAST_GAIN = 1e-12


class _Response(NamedTuple):
    """Placement with its utility."""

    utility: float
    placement: Placement


class BestResponses:
    """Improvement of allocations of one round by responses.

    They are the moves of the local search (`solvers/heuristics/local_search.py`) that change no
    other job, on arrays, for rounds without objects.

    Parameters
    ----------
    utilities
        Utilities of a round.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules
    >>> from goodalloc.models.columns import RoundColumns, column_utilities
    >>> from goodalloc.solvers.columns.best_responses import BestResponses
    >>> jobs = tuple(Job(name, max_replicas=3) for name in ("a", "b"))
    >>> columns = RoundColumns.of(Instance(Cluster.uniform(2, 2), jobs, Rules(restart_delay=0.0)))
    >>> found = BestResponses(column_utilities(columns)).improved(columns.current)
    >>> found.placements()
    [((0, 2), (1, 1)), ((1, 1),)]
    """

    def __init__(self, utilities: RoundUtilities) -> None:
        self._utilities, self._columns = utilities, utilities.columns
        self._power = max(self._columns.rules.power, LEAST_POWER)
        self._moved = utilities.moved(slice(0, self._columns.num_jobs))
        self._best_up_to = _best_up_to(self._moved)

    def improved(
        self, allocation: Allocation, limit: Int[Indices, " jobs"] | None = None
    ) -> Allocation:
        """Return an allocation after responses, of those first that gain most, until none gains.

        What a job could gain at most, if all free GPUs were where it needs them, is known for all
        jobs at once; only those whose turn comes look for GPUs.

        Parameters
        ----------
        allocation
            Allocation that keeps the rules.
        limit
            Most GPUs of every job, where that is less than the round allows.
        """
        allowed = np.minimum(self._columns.max_replicas, self._utilities.width - 1)
        self._most = allowed if limit is None else np.minimum(allowed, limit)
        for _ in range(MOST_ROUNDS):
            before, allocation = allocation, self._after_responses(allocation)
            if allocation is before:
                break
        return allocation

    def packed(
        self,
        replicas: Int[Indices, " jobs"],
        stays: Bool[Flags, " jobs"],
        spread: Bool[Flags, " jobs"],
    ) -> Allocation:
        """Return what can be placed of numbers of GPUs where some jobs are to stay.

        As `place_replicas`, but for the choice of those that stay and of those on several nodes.

        Parameters
        ----------
        replicas
            The GPUs that every job is to have.
        stays
            Jobs that are to stay, with as many GPUs as they have now.
        spread
            Jobs that are to be on several nodes, unless they stay.
        """
        packing = NodePacking(self._columns, replicas)
        stays = packing.keep(stays)
        waiting = packing.unplaced
        packing.spread(waiting[spread[waiting]])
        waiting = packing.unplaced
        packing.single(waiting[~spread[waiting]])
        if packing.unplaced.size:
            moved = self._moved[np.arange(replicas.size), spread.astype(int), replicas]
            now = power_cost(np.where(stays, self._utilities.kept, moved), self._power)
            loss = np.where(stays, power_cost(moved, self._power) - now, 0.0)
            make_room(packing, loss, power_cost(self._columns.rules.idle, self._power) - now)
        for _ in range(MOST_OFFERS):
            waiting = packing.unplaced
            if not waiting.size or not packing.largest:
                break
            most = np.minimum(packing.replicas[waiting], packing.largest)
            packing.replicas[waiting] = self._best_up_to[waiting, 0, most]
            packing.single(waiting)
        return packing.allocation()

    def _after_responses(self, allocation: Allocation) -> Allocation:
        """Return an allocation after each job responded at most once; the same if none gained."""
        self._start(allocation)
        changed: dict[int, Placement] = {}
        queue, visits = self._possible_gains(allocation), 0
        while queue and visits < MOST_VISITS and self._free.any():
            _, job = heapq.heappop(queue)
            visits += self._free.size
            placement = allocation.placement(job)
            response = self._response(job, placement)
            gain = self._gain(job, response)
            if gain <= 0.0:
                continue
            if queue and gain < -queue[0][0]:
                heapq.heappush(queue, (-gain, job))
                continue
            self._occupy(placement, -1)
            self._occupy(response.placement, 1)
            self._reached[job], changed[job] = response
        return _with_placements(allocation, changed) if changed else allocation

    def _start(self, allocation: Allocation) -> None:
        """Begin with an allocation."""
        self._reached = self._utilities.of(allocation).copy()
        self._free = self._columns.cluster.node_gpus - allocation.node_replicas
        self._distributed = np.zeros(self._free.size, dtype=np.int64)
        np.add.at(self._distributed, allocation.node[allocation.job_nodes[allocation.job] > 1], 1)

    def _possible_gains(self, allocation: Allocation) -> list[tuple[float, int]]:
        """Return what jobs gain at most, negative, and the jobs; a heap."""
        possible = self._attainable(allocation)
        could = np.flatnonzero(possible > self._reached * (1.0 + LEAST_GAIN))
        now, then = (power_cost(one[could], self._power) for one in (self._reached, possible))
        order = np.argsort(then - now, kind="stable")
        return list(zip((then - now)[order].tolist(), could[order].tolist(), strict=True))

    def _attainable(self, allocation: Allocation) -> Float[Floats, " jobs"]:
        """Return a utility that no response of a job exceeds, shape (jobs,).

        A job alone may use the free GPUs and those that it has. On several nodes these count even
        where other distributed jobs are, and it has its present placement back where the free GPUs
        of its nodes and all of its own suffice.
        """
        columns, current, free = self._columns, self._columns.current, self._free
        everyone = np.arange(columns.num_jobs)
        node, job = allocation.node, allocation.job
        largest = np.full(everyone.size, free.max())
        np.maximum.at(largest, job, free[node] + allocation.replicas)
        usable = free
        if columns.rules.interference_avoidance:
            usable = np.where(self._distributed > 0, 0, free)
        total = np.full(everyone.size, np.sort(usable)[-columns.rules.max_nodes_per_job :].sum())
        np.add.at(total, job, free[node] + allocation.replicas)
        one, several = np.minimum(largest, self._most), np.minimum(total, self._most)
        gpus = self._best_up_to[everyone, 0, one], self._best_up_to[everyone, 1, several]
        lacks = free[current.node] + allocation.job_replicas[current.job] < current.replicas
        kept = (current.job_replicas > 0) & (current.job_replicas <= self._most)
        kept[current.job[lacks]] = False
        found: Floats = np.where(kept, self._utilities.kept, -np.inf)
        for way in (0, 1):
            worth = self._moved[everyone, way, gpus[way]]
            found = np.maximum(found, np.where(gpus[way] > 0, worth, -np.inf))
        return found

    def _gain(self, job: int, response: _Response) -> float:
        """Return what a response saves of the mean's cost; 0 if it is no better."""
        if response.utility <= self._reached[job] * (1.0 + LEAST_GAIN):
            return 0.0
        now_and_then = np.array([self._reached[job], response.utility])
        before, after = power_cost(now_and_then, self._power)
        return float(before - after)

    def _response(self, job: int, placement: Placement) -> _Response:
        """Return what suits a job best of its own and the free GPUs."""
        self._occupy(placement, -1)
        found = max(self._kept(job), self._on_one_node(job), key=attrgetter("utility"))
        if self._moved[job, 1, self._best_up_to[job, 1, self._most[job]]] > found.utility:
            found = max(found, self._on_several(job), key=attrgetter("utility"))
        self._occupy(placement, 1)
        return found

    def _occupy(self, placement: Placement, sign: int) -> None:
        """Take the GPUs of a placement, or release them with sign -1."""
        for node, gpus in placement:
            self._free[node] -= sign * gpus
            self._distributed[node] += sign * (len(placement) > 1)

    def _kept(self, job: int) -> _Response:
        """Return the present placement, if its GPUs are free."""
        columns, placement = self._columns, self._columns.current.placement(job)
        nodes = [node for node, _ in placement]
        fits = 0 < len(nodes) <= columns.rules.max_nodes_per_job
        fits = fits and all(self._free[node] >= gpus for node, gpus in placement)
        fits = fits and sum(gpus for _, gpus in placement) <= self._most[job]
        if len(nodes) > 1 and columns.rules.interference_avoidance:
            fits = fits and not self._distributed[nodes].any()
        return _Response(float(self._utilities.kept[job]) if fits else -np.inf, placement)

    def _on_one_node(self, job: int) -> _Response:
        """Return the best number of GPUs on the node that it fills best."""
        most = min(int(self._free.max()), int(self._most[job]))
        gpus = int(self._best_up_to[job, 0, most])
        if not gpus:
            return _Response(-np.inf, ())
        room = np.flatnonzero(self._free >= gpus)
        node = int(room[np.argmin(self._free[room])])
        return _Response(float(self._moved[job, 0, gpus]), ((node, gpus),))

    def _on_several(self, job: int) -> _Response:
        """Return the best number of GPUs on the emptiest nodes."""
        rules, free = self._columns.rules, self._free
        if rules.interference_avoidance:
            free = np.where(self._distributed > 0, 0, free)
        nodes = np.flatnonzero(free)
        nodes = nodes[np.argsort(-free[nodes], kind="stable")][: rules.max_nodes_per_job]
        most = min(int(free[nodes].sum()), int(self._most[job]))
        gpus = int(self._best_up_to[job, 1, most])
        if nodes.size < 2 or not gpus:
            return _Response(-np.inf, ())
        worth = float(self._moved[job, 1, gpus])
        return _Response(worth, _pieces(gpus, nodes, free[nodes]))


def _best_up_to(moved: Float[Floats, "jobs 2 gpus"]) -> NDArray[np.int32]:
    """Return the best number of GPUs up to any, at least 1 on one node and 2 on several; else 0."""
    gpus = np.arange(moved.shape[2], dtype=np.int32)
    found = np.zeros(moved.shape, dtype=np.int32)
    for part in chunks(len(moved)):
        worth = moved[part].copy()
        worth[:, 0, :1] = worth[:, 1, :2] = -np.inf
        greatest = np.maximum.accumulate(worth, axis=2)
        better = greatest[:, :, 1:] > greatest[:, :, :-1]
        found[part, :, 1:] = np.maximum.accumulate(np.where(better, gpus[1:], 0), axis=2)
    return found


def _with_placements(allocation: Allocation, changed: Mapping[int, Placement]) -> Allocation:
    """Return an allocation in which some jobs have other placements."""
    rest = np.isin(allocation.job, list(changed), invert=True)
    entries = [allocation.job[rest], allocation.node[rest], allocation.replicas[rest]]
    new = [(job, node, gpus) for job, placement in changed.items() for node, gpus in placement]
    added = np.array(new, dtype=np.int64).reshape(-1, 3).T
    job, node, gpus = np.concatenate([np.stack(entries), added], axis=1)
    return Allocation.from_entries(job, node, gpus, allocation.num_jobs, allocation.num_nodes)


def _pieces(gpus: int, nodes: Indices, free: Indices) -> Placement:
    """Return a number of GPUs on at least two nodes, as many on each as it has room for."""
    pieces, left = [(int(nodes[0]), min(int(free[0]), gpus - 1))], gpus
    left -= pieces[0][1]
    for node, room in zip(nodes[1:].tolist(), free[1:].tolist(), strict=True):
        if not left:
            break
        pieces.append((node, min(room, left)))
        left -= pieces[-1][1]
    return tuple(sorted(pieces))
