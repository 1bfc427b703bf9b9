"""Best responses: jobs take what suits them best of their own and the free GPUs, one by one.

No other job changes, so that every response raises the mean of any power.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import power_cost
from goodalloc.models.round.allocation import Allocation
from goodalloc.solvers.columns.placing import LEAST_POWER

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.columns.round_utilities import RoundUtilities

#: Rounds of responses, and jobs that respond in each, at most.
MOST_ROUNDS, MOST_JOBS = 3, 2_000

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
        everyone = slice(0, self._columns.num_jobs)
        self._least_cost = power_cost(utilities.best(everyone).max(axis=1), self._power)
        self._moved = utilities.moved(everyone)
        self._best_up_to = _best_up_to(self._moved)

    def improved(
        self, allocation: Allocation, limit: Int[Indices, " jobs"] | None = None
    ) -> Allocation:
        """Return an allocation after responses, of those first that gain most, until none gains.

        Parameters
        ----------
        allocation
            Allocation that keeps the rules.
        limit
            Most GPUs of every job, where that is less than the round allows.
        """
        self._start(allocation, limit)
        for _ in range(MOST_ROUNDS):
            if not self._free.any():
                break
            gains = {job: self._gain(job, self._response(job)) for job in self._unhappy()}
            willing = [job for job, gain in gains.items() if gain > 0.0]
            for job in sorted(willing, key=lambda job: -gains[job]):
                self._respond(job)
            if not willing:
                break
        return Allocation.from_placements(self._placements, self._columns.cluster.num_nodes)

    def _start(self, allocation: Allocation, limit: Indices | None) -> None:
        """Begin with an allocation."""
        allowed = np.minimum(self._columns.max_replicas, self._utilities.width - 1)
        self._most = allowed if limit is None else np.minimum(allowed, limit)
        self._reached = self._utilities.of(allocation).copy()
        self._placements = allocation.placements()
        self._free = self._columns.cluster.node_gpus - allocation.node_replicas
        self._distributed = np.zeros(self._free.size, dtype=np.int64)
        np.add.at(self._distributed, allocation.node[allocation.job_nodes[allocation.job] > 1], 1)

    def _unhappy(self) -> list[int]:
        """Return the jobs that could have a better utility on an empty cluster, the worst first."""
        possible = power_cost(self._reached, self._power) - self._least_cost
        order = np.argsort(-possible, kind="stable")[:MOST_JOBS]
        found: list[int] = order[possible[order] > 0.0].tolist()
        return found

    def _gain(self, job: int, response: _Response) -> float:
        """Return what a response saves of the mean's cost; 0 if it is no better."""
        if response.utility <= self._reached[job] * (1.0 + LEAST_GAIN):
            return 0.0
        now_and_then = np.array([self._reached[job], response.utility])
        before, after = power_cost(now_and_then, self._power)
        return float(before - after)

    def _response(self, job: int) -> _Response:
        """Return what suits a job best of its own and the free GPUs."""
        self._occupy(self._placements[job], -1)
        found = self._kept(job), self._on_one_node(job), self._on_several(job)
        self._occupy(self._placements[job], 1)
        return max(found, key=attrgetter("utility"))

    def _respond(self, job: int) -> None:
        """Give a job what suits it best, if that is better than what it has."""
        response = self._response(job)
        if self._gain(job, response) > 0.0:
            self._occupy(self._placements[job], -1)
            self._reached[job], self._placements[job] = response
            self._occupy(self._placements[job], 1)

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


def _best_up_to(worth: Float[Floats, "jobs 2 gpus"]) -> Int[Indices, "jobs 2 gpus"]:
    """Return the best number of GPUs up to any, at least 1 on one node and 2 on several; else 0."""
    gpus, worth = np.arange(worth.shape[2]), worth.copy()
    worth[:, 0, :1] = worth[:, 1, :2] = -np.inf
    greatest = np.maximum.accumulate(worth, axis=2)
    better = greatest[:, :, 1:] > greatest[:, :, :-1]
    found = np.zeros(worth.shape, dtype=np.int64)
    found[:, :, 1:] = np.maximum.accumulate(np.where(better, gpus[1:], 0), axis=2)
    return found


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
