"""Brute force: enumeration of every allocation matrix of a tiny instance, as a test oracle.

No choice is left out as unpromising: rows are all ways to put replicas on nodes, and the rules are
applied to the matrices as they are written in section 4.2 of Pollux.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import itertools
import math
import time
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import settled_level
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.round.objective import mode_utilities
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE, ROUNDING, WHOLE_TOLERANCE
from goodalloc.solvers.exact.ties import canonical
from goodalloc.solvers.exact.time_alarm import TimeIsUp, alarm
from goodalloc.solvers.interface.result import Answer, Limit
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices


#: Most matrices (within the nodes' GPUs, before any other rule) that are enumerated.
MOST_MATRICES = 5_000_000


class Enumeration(NamedTuple):
    """All feasible allocations of an instance.

    Parameters
    ----------
    rows
        Possible rows of every job, shape (rows, nodes).
    modes
        Mode of each of these rows for every job, shape (rows,).
    row
        Index of every job's row in every allocation, shape (allocations, jobs).
    utility
        Utilities of the jobs in every allocation, shape (allocations, jobs).
    """

    rows: tuple[Indices, ...]
    modes: tuple[Indices, ...]
    row: Indices
    utility: Floats

    def allocation(self, index: int) -> Allocation:
        """Return the allocation of an index."""
        chosen = self.row[index]
        return Allocation.from_matrix(
            np.array([rows[at] for rows, at in zip(self.rows, chosen, strict=True)]),
            np.array([modes[at] for modes, at in zip(self.modes, chosen, strict=True)]),
        )


def count_matrices(instance: Instance) -> int:
    """Return the number of matrices that fit into the nodes' GPUs, times the jobs' modes.

    The GPUs of each node are divided among the jobs and idleness. Where replicas share GPUs or need
    none, the jobs are counted one by one, as if each had the cluster to itself.
    """
    jobs = instance.num_jobs
    if instance.shares_gpus:
        alone = np.maximum.reduceat(instance.most_on_node, instance.first_mode, axis=0)
        rows: int = math.prod((alone + 1).ravel().tolist())
        return rows * math.prod(max(len(job.modes), 1) for job in instance.jobs)
    matrices = (math.comb(gpus + jobs, jobs) for gpus in instance.cluster.node_gpus.tolist())
    return math.prod(matrices) * math.prod(max(len(job.modes), 1) for job in instance.jobs)


def log_matrices(instance: Instance) -> float:
    """Return the decimal logarithm of `count_matrices`, which itself may be too large."""
    jobs = instance.num_jobs
    modes = sum(math.log10(max(len(job.modes), 1)) for job in instance.jobs)
    if instance.shares_gpus:
        alone = np.maximum.reduceat(instance.most_in_group, instance.first_mode, axis=0)
        nodes = np.array([group.nodes for group in instance.cluster.groups])
        return float((np.log10(alone + 1) @ nodes).sum()) + modes
    gpus, nodes = np.unique(instance.cluster.node_gpus, return_counts=True)
    ways = [math.log10(math.comb(count + jobs, jobs)) for count in gpus.tolist()]
    return float(nodes @ ways) + modes


def enumerate_allocations(instance: Instance, deadline: float = math.inf) -> Enumeration:
    """Return every feasible allocation of a tiny instance.

    Parameters
    ----------
    instance
        The round.
    deadline
        Time to give up at, by `time.perf_counter`; it holds also where no alarm can ring.

    Raises
    ------
    ValueError
        If there are more than `MOST_MATRICES` matrices.
    TimeIsUp
        If there is no time for them.
    """
    magnitude = log_matrices(instance)
    if magnitude > math.log10(MOST_MATRICES) + WHOLE_TOLERANCE:
        raise ValueError(
            f"Instance '{instance.name}' has about 10^{magnitude:.1f} allocation matrices; "
            f"brute force expects at most {MOST_MATRICES:.3g}, as 5 jobs on 3 nodes of 4 GPUs have."
        )
    gpus = instance.cluster.node_gpus
    has = instance.cluster.node_resources * (1 + RESOURCE_TOLERANCE)
    rows, modes = zip(*(_rows(instance, index) for index in range(instance.num_jobs)), strict=True)
    loads = _Loads() if instance.shares_gpus else None
    used = np.zeros((1, gpus.size), dtype=np.int64)
    taken = np.zeros((1, *has.shape))
    blocked = np.zeros((1, gpus.size), dtype=bool)
    chosen = np.zeros((1, 0), dtype=np.int64)
    for job, (candidates, equipped) in enumerate(zip(rows, modes, strict=True)):
        states = []
        for index, (row, mode) in enumerate(zip(candidates, equipped, strict=True)):
            _require_time(deadline)
            touched = (row > 0) & (np.count_nonzero(row) > 1)
            at = instance.first_mode[job] + mode
            takes = row[:, None] * instance.mode_resources[at]
            if loads is None:
                now = used + row
                fits = np.all(now <= gpus, axis=1)
            else:
                now = loads.add(used, row, float(instance.mode_share[at]), gpus)
                fits = np.all(now >= 0, axis=1)
            fits &= np.all(taken + takes <= has, axis=(1, 2))
            if instance.rules.interference_avoidance:
                fits &= ~np.any(blocked & touched, axis=1)
            new = np.full((np.count_nonzero(fits), 1), index)
            states.append(
                (
                    now[fits],
                    taken[fits] + takes,
                    blocked[fits] | touched,
                    np.hstack([chosen[fits], new]),
                )
            )
        used, taken, blocked, chosen = (np.concatenate(part) for part in zip(*states, strict=True))
    _require_time(deadline)
    utility = np.column_stack(
        [
            _row_utilities(instance, j, rows[j], modes[j])[chosen[:, j]]
            for j in range(instance.num_jobs)
        ]
    )
    return Enumeration(rows, modes, chosen, utility)


def _require_time(deadline: float) -> None:
    if time.perf_counter() >= deadline:
        raise TimeIsUp


class _Loads:
    """Multisets of shares that a node may carry, by number; 0 is that of an empty node."""

    def __init__(self) -> None:
        self.shares: list[tuple[float, ...]] = [()]
        self.number: dict[tuple[float, ...], int] = {(): 0}

    def add(self, used: Indices, row: Indices, share: float, gpus: Indices) -> Indices:
        """Return the loads with a job's replicas added, shape (states, nodes); -1: too much.

        Parameters
        ----------
        used
            The loads before, shape (states, nodes).
        row
            Replicas on every node, shape (nodes,).
        share
            Part of a GPU that each replica takes.
        gpus
            GPUs of every node, shape (nodes,).
        """
        now = used.copy()
        for node, replicas in enumerate(row.tolist()):
            if replicas == 0 or share == 0:
                continue
            before, where = np.unique(used[:, node], return_inverse=True)
            after = [self._after(old, (share,) * replicas, int(gpus[node])) for old in before]
            now[:, node] = np.array(after)[where]
        return now

    def _after(self, old: int, added: tuple[float, ...], gpus: int) -> int:
        shares = tuple(sorted(self.shares[old] + added, reverse=True))
        if not _some_assignment_fits(shares, (0.0,) * gpus):
            return -1
        if shares not in self.number:
            self.number[shares] = len(self.shares)
            self.shares.append(shares)
        return self.number[shares]


@lru_cache(maxsize=100_000)
def _some_assignment_fits(shares: tuple[float, ...], loads: tuple[float, ...]) -> bool:
    """Return whether shares fit on GPUs that carry `loads`, by trying all assignments."""
    if not shares:
        return True
    return any(
        _some_assignment_fits(
            shares[1:], tuple(sorted((*loads[:at], load + shares[0], *loads[at + 1 :])))
        )
        for at, load in enumerate(loads)
        if load + shares[0] <= 1 + RESOURCE_TOLERANCE
    )


def _rows(instance: Instance, index: int) -> tuple[Indices, Indices]:
    """Return every row of one job that its own rules allow, and the mode of each.

    A job without GPUs has no mode: its mode index is that of the first one.
    """
    job = instance.jobs[index]
    if job.pinned:
        return _mode_rows(instance, index), np.array([job.mode_index])
    rows = _mode_rows(instance, index)
    found, modes = [rows[~rows.any(axis=1)]], [np.zeros(1, dtype=np.int64)]
    for mode in range(max(len(job.modes), 1)):
        most = instance.most_on_node[instance.first_mode[index] + mode]
        fits = rows.any(axis=1) & (rows <= most).all(axis=1)
        found.append(rows[fits])
        modes.append(np.full(np.count_nonzero(fits), mode))
    return np.concatenate(found), np.concatenate(modes)


def _mode_rows(instance: Instance, index: int) -> Indices:
    """Return every row of one job, whatever its mode."""
    job, gpus = instance.jobs[index], instance.cluster.node_gpus.tolist()
    if instance.shares_gpus:
        first, last = instance.first_mode[index], instance.first_mode[index] + len(job.all_modes)
        gpus = instance.most_on_node[first:last].max(axis=0).tolist()
    current = [0] * len(gpus)
    for node, held in job.placement:
        current[node] = held
    if job.placement and not job.preemptible:
        return np.array([current])
    allowed = []
    for row in itertools.product(*(range(count + 1) for count in gpus)):
        replicas, nodes = sum(row), sum(1 for held in row if held > 0)
        runs = job.min_replicas <= replicas <= job.max_replicas
        if replicas == 0 or (runs and nodes <= instance.rules.max_nodes_per_job):
            allowed.append(row)
    return np.array(allowed)


def _row_utilities(instance: Instance, index: int, rows: Indices, modes: Indices) -> Floats:
    """Return the utility of every row of one job in the given mode of each."""
    table, job = mode_utilities(instance), instance.jobs[index]
    first = int(instance.first_mode[index])
    utility = np.empty(len(rows))
    for at, (row, mode) in enumerate(zip(rows.tolist(), modes.tolist(), strict=True)):
        placement = tuple((node, held) for node, held in enumerate(row) if held > 0)
        several = int(len(placement) > 1)
        moved = table.moved[first + mode, several, sum(row)]
        same = placement == job.placement and mode == job.mode_index
        utility[at] = table.kept[index] if same else moved
    return utility


def optimal_allocations(instance: Instance, tolerance: float = ROUNDING) -> list[Allocation]:
    """Return every allocation whose fitness is the best, to a relative tolerance.

    Raises
    ------
    ValueError
        If the instance is too large to enumerate.
    """
    found = enumerate_allocations(instance)
    fitness = np.asarray(power_mean(found.utility, instance.rules.power))
    best = np.flatnonzero(fitness >= fitness.max() * (1.0 - tolerance))
    return [found.allocation(int(index)) for index in best]


def solve_brute_force(
    instance: Instance, *, stop: Stop | None = None, break_ties: bool = True
) -> Answer:
    """Decide a tiny round by trying every allocation.

    Parameters
    ----------
    instance
        The round.
    stop
        Limits on the time, in which either all allocations are tried or nothing is known.
    break_ties
        Whether to return, of the best allocations, the one that the stated rule prefers (see
        `ties`), as every exact solver does; otherwise it is the first that was met.

    Raises
    ------
    ValueError
        If the instance is too large to enumerate.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers.exact import solve_brute_force
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> instance = Instance(Cluster.uniform(1, 2), (Job("a", table),), Rules(restart_delay=0.0))
    >>> answer = solve_brute_force(instance)
    >>> answer.allocation.placements(), answer.iterations  # 0, 1 or 2 GPUs
    ([((0, 2),)], 3)
    """
    watch = Watch(stop or Stop())
    try:
        with alarm(watch.left):
            allocation, fitness, tried = _best_of_all(instance, time.perf_counter() + watch.left)
    except TimeIsUp:
        return Answer(None, limit=Limit.TIME, message="not all allocations could be tried in time")
    except KeyboardInterrupt:
        return Answer(None, limit=Limit.INTERRUPTED)
    if break_ties:
        allocation = canonical(instance, allocation, watch).allocation
    return Answer(allocation, fitness, "enumeration", proven=True, iterations=tried)


def _best_of_all(instance: Instance, deadline: float) -> tuple[Allocation, float, int]:
    """Return the first of the best allocations, its fitness, and the number of all allocations."""
    found = enumerate_allocations(instance, deadline)
    _require_time(deadline)
    power = instance.rules.power
    fitness = np.asarray(power_mean(found.utility, power))
    preferred = fitness
    if math.isinf(power):  # the extreme utility alone leaves nearly everything open
        gentler = np.asarray(power_mean(found.utility, math.copysign(1.0, power)))
        preferred = np.where(fitness >= fitness.max() * (1 - ROUNDING), gentler, -np.inf)
    best = int(np.argmax(preferred))
    settled = settled_level(found.utility[best], power) if math.isfinite(power) else None
    if settled is not None:  # the settled jobs outweigh all others: those decide among equals
        ranked = np.sort(found.utility, axis=1)
        count = int(np.count_nonzero(found.utility[best] <= settled))
        as_good = (ranked[:, :count] >= ranked[best, :count] * (1 - ROUNDING)).all(axis=1)
        others = np.asarray(power_mean(ranked[:, count:], power))
        best = int(np.argmax(np.where(as_good, others, -np.inf)))
    return found.allocation(best), float(fitness[best]), len(fitness)
