"""Preemption: which jobs to stop so that a gang fits, at the least loss, or greedily.

The exact way solves `formulations/making_room/preemption_program.py`, on all nodes or within one of
several regions (`within_regions`). The greedy one stops, on each node, the jobs of least loss a GPU
until a piece of the gang fits, and takes the nodes where that loses least, one after the other.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.making_room.preemption_program import build_preemption_program
from goodalloc.formulations.making_room.region_program import least_loss_within
from goodalloc.models.making_room.residents import gpus_beyond_quotas, residents_of
from goodalloc.models.making_room.room_plan import (
    RoomPlan,
    checked_plan,
    require_costs,
    usable_nodes,
)
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.making_room.within_regions import (
    DividedRoom,
    best_of_regions,
    decided_plan,
    no_plan,
    require_regions,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Int

    from goodalloc.formulations.making_room.preemption_program import Freeing, PreemptionProgram
    from goodalloc.models.making_room.residents import Resident
    from goodalloc.models.making_room.room_plan import Gang
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices


def least_preemption(
    instance: Instance,
    gang: Gang,
    *,
    losses: Mapping[int, float] | None = None,
    groups: Mapping[int, str] | None = None,
    quotas: Mapping[str, int] | None = None,
    regions: Int[Indices, " nodes"] | None = None,
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
    regions
        As of `fewest_moves`: the gang lies in one of them.
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

    Jobs 0 and 2 would be the cheapest, but are in different racks.

    >>> import numpy as np
    >>> jobs = tuple(Job(f"job{node}", placement=((node, 2),)) for node in range(4))
    >>> racks, losses = np.array([0, 0, 1, 1]), {0: 1.0, 1: 5.0, 2: 2.0, 3: 3.0}
    >>> instance = Instance(Cluster.uniform(4, 2), jobs)
    >>> least_preemption(instance, Gang(2, 2), losses=losses, regions=racks).victims
    (2, 3)
    """
    watch = Watch(stop or Stop())
    lost = _losses(instance, losses)
    members, own = dict(groups or {}), _quotas(quotas, groups)
    require_regions(instance, regions)
    found = build_preemption_program(instance, gang, lost, members, own)
    if not found.freeings:
        return no_plan(math.inf, watch.seconds)
    everywhere = decided_plan(found, watch, partial(_decoded, gang, found, lost))
    divide = partial(_divided, gang, found, lost, watch)
    plan = best_of_regions(everywhere, regions, divide, watch)
    return checked_plan(instance, gang, plan, groups=members, quotas=own) if plan.found else plan


def _divided(
    gang: Gang,
    found: PreemptionProgram,
    losses: Mapping[int, float],
    watch: Watch,
    regions: Int[Indices, " nodes"],
) -> DividedRoom:
    """Return bound and solution of each region."""
    here: dict[int, list[Freeing]] = defaultdict(list)
    for one in found.freeings:
        here[int(regions[one.node])].append(one)

    def solve(region: int, known: float) -> RoomPlan:
        part = found.within(set(np.flatnonzero(regions == region).tolist()))
        return decided_plan(part, watch, partial(_decoded, gang, part, losses), known=known)

    bounds = {region: least_loss_within(one, losses, gang) for region, one in here.items()}
    return DividedRoom(bounds, solve)


def _decoded(
    gang: Gang, found: PreemptionProgram, losses: Mapping[int, float], values: Floats
) -> RoomPlan:
    """Return victims and nodes of the gang for a solution."""
    chosen = np.flatnonzero(values[: len(found.freeings)] > 0.5).tolist()
    freed = sorted(found.freeings[index] for index in chosen)[: gang.nodes]
    victims = tuple(sorted({job for one in freed for job in one.victims}))
    cost = float(sum(losses[job] for job in victims))
    return RoomPlan(tuple(one.node for one in freed), (), victims, cost, 0.0, 0.0)


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
            return no_plan(0.0, time.perf_counter() - begin)
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
