"""Preemption: which jobs to stop so that a gang fits, at the least loss, or greedily.

The exact way solves `formulations/making_room/preemption_program.py`. The greedy one stops, on each
node, the jobs of least loss a GPU until a piece of the gang fits, and takes the nodes where that
loses least, one after the other.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.making_room.preemption_program import build_preemption_program
from goodalloc.models.making_room.residents import gpus_beyond_quotas, residents_of
from goodalloc.models.making_room.room_plan import (
    RoomPlan,
    checked_plan,
    require_costs,
    usable_nodes,
)
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.making_room.defragment import GAP, proven_bound
from goodalloc.solvers.milp.price_and_core import decide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.models.making_room.residents import Resident
    from goodalloc.models.making_room.room_plan import Gang
    from goodalloc.models.round.instance import Instance


def least_preemption(
    instance: Instance,
    gang: Gang,
    *,
    losses: Mapping[int, float] | None = None,
    groups: Mapping[int, str] | None = None,
    quotas: Mapping[str, int] | None = None,
    stop: Stop | None = None,
) -> RoomPlan:
    """Return the jobs to stop so that a gang fits, of least loss, with a proof.

    Parameters
    ----------
    instance
        The round, of which the present placements count.
    gang
        The gang, of higher priority than the jobs that may be stopped.
    losses
        Loss of stopping a job, by its index, for those that may be stopped; if None, all
        preemptible ones, each the GPUs that it holds.
    groups
        Group of each job that belongs to one.
    quotas
        GPUs of each group that are its own: only what it holds beyond them may be taken.
    stop
        Limit of time.

    Raises
    ------
    ValueError
        As of `fewest_moves`, or if a quota is negative or of a group without jobs.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job
    >>> from goodalloc.models.making_room import Gang
    >>> from goodalloc.solvers.making_room import least_preemption
    >>> jobs = (Job("large", placement=((0, 4),)), Job("small", placement=((1, 2),)))
    >>> plan = least_preemption(Instance(Cluster.uniform(2, 4), jobs), Gang(1, 4))
    >>> plan.victims, plan.cost, plan.proven
    ((1,), 2.0, True)
    """
    begin = time.perf_counter()
    lost = _losses(instance, losses)
    members, own = dict(groups or {}), _quotas(quotas, groups)
    found = build_preemption_program(instance, gang, lost, members, own)
    if not found.freeings:
        return RoomPlan((), (), (), math.inf, math.inf, time.perf_counter() - begin)
    every = np.ones(found.program.num_columns, dtype=bool)
    decision = decide(found.program, every, Watch(stop or Stop()), gap=GAP)
    if decision.values is None:
        bound = max(decision.bound, 0.0)
        return RoomPlan((), (), (), math.inf, bound, time.perf_counter() - begin)
    chosen = np.flatnonzero(decision.values[: len(found.freeings)] > 0.5).tolist()
    freed = sorted(found.freeings[index] for index in chosen)[: gang.nodes]
    victims = tuple(sorted({job for one in freed for job in one.victims}))
    cost = float(sum(lost[job] for job in victims))
    bound = proven_bound(decision, cost)
    nodes = tuple(one.node for one in freed)
    plan = RoomPlan(nodes, (), victims, cost, bound, time.perf_counter() - begin)
    return checked_plan(instance, gang, plan, groups=members, quotas=own)


def greedy_preemption(
    instance: Instance,
    gang: Gang,
    *,
    losses: Mapping[int, float] | None = None,
    groups: Mapping[int, str] | None = None,
    quotas: Mapping[str, int] | None = None,
) -> RoomPlan:
    """Return jobs to stop so that a gang fits, greedily.

    Parameters
    ----------
    instance, gang, losses, groups, quotas
        As of `least_preemption`.
    """
    begin = time.perf_counter()
    lost, members, own = _losses(instance, losses), dict(groups or {}), _quotas(quotas, groups)
    current, beyond = instance.current, gpus_beyond_quotas(instance, members, own)
    apart = gang.nodes > 1 and instance.rules.interference_avoidance
    free = instance.cluster.node_gpus - instance.current.node_replicas
    residents, placements = residents_of(instance), current.placements()
    chosen, victims = list[int](), set[int]()
    offers: list[tuple[float, int, list[int]]] = []

    def offer(node: int) -> None:
        """Offer a node, with what is left to be stopped there."""
        here = [one for one in residents[node] if one.job not in victims]
        gone = sum(one.gpus for one in residents[node]) - sum(one.gpus for one in here)
        forced = {one.job for one in here if apart and current.job_nodes[one.job] > 1}
        needed = gang.gpus_per_node - int(free[node]) - gone
        new = _stopped_on(here, needed, lost, forced)
        if new is not None:
            heapq.heappush(offers, (sum(lost[job] for job in new), node, new))

    for node in np.flatnonzero(usable_nodes(instance, gang)).tolist():
        offer(node)
    while len(chosen) < gang.nodes:
        if not offers:
            return RoomPlan((), (), (), math.inf, 0.0, time.perf_counter() - begin)
        _, node, new = heapq.heappop(offers)
        if node in chosen or victims & set(new) or not _within(instance, new, members, beyond):
            continue
        chosen.append(node)
        victims |= set(new)
        for job in new:
            if members.get(job, "") in beyond:
                beyond[members[job]] -= int(current.job_replicas[job])
            if current.job_nodes[job] > 1:
                for other, _ in placements[job]:
                    offer(other)
    cost = float(sum(lost[job] for job in victims))
    seconds = time.perf_counter() - begin
    plan = RoomPlan(tuple(sorted(chosen)), (), tuple(sorted(victims)), cost, 0.0, seconds)
    return checked_plan(instance, gang, plan, groups=members, quotas=own)


def _within(
    instance: Instance, jobs: Sequence[int], groups: Mapping[int, str], beyond: Mapping[str, int]
) -> bool:
    """Return whether groups hold as much beyond their quotas as these jobs have."""
    taken = Counter[str]()
    for job in jobs:
        if job in groups:
            taken[groups[job]] += int(instance.current.job_replicas[job])
    return all(gpus <= beyond.get(group, math.inf) for group, gpus in taken.items())


def _stopped_on(
    residents: Sequence[Resident], needed: int, losses: Mapping[int, float], forced: set[int]
) -> list[int] | None:
    """Return the jobs of a node that are stopped, the least loss a GPU first; None if too few."""
    if any(job not in losses for job in forced):
        return None
    freed, taken = 0, list[int]()
    order = sorted(
        (one for one in residents if one.job in losses),
        key=lambda one: (one.job not in forced, losses[one.job] / one.gpus, -one.gpus),
    )
    for one in order:
        if freed >= needed and one.job not in forced:
            break
        freed += one.gpus
        taken.append(one.job)
    return taken if freed >= needed else None


def _losses(instance: Instance, losses: Mapping[int, float] | None) -> dict[int, float]:
    """Return the loss of every job that may be stopped."""
    replicas = instance.current.job_replicas
    runs = [j for j, job in enumerate(instance.jobs) if replicas[j] > 0 and job.preemptible]
    if losses is None:
        return {job: float(replicas[job]) for job in runs}
    require_costs("Loss", losses, instance.num_jobs)
    return {job: float(losses[job]) for job in runs if job in losses}


def _quotas(quotas: Mapping[str, int] | None, groups: Mapping[int, str] | None) -> dict[str, int]:
    """Return the quotas, none negative, and each of a group that has jobs."""
    named = sorted(set((groups or {}).values()))
    for group, quota in (quotas or {}).items():
        if group not in named:
            raise ValueError(
                f"Quota of group '{group}': no job belongs to it; expected one of "
                f"{', '.join(named) or 'some groups'}."
            )
        if quota < 0:
            raise ValueError(f"Quota of group '{group}' is {quota}; expected at least 0.")
    return dict(quotas or {})
