"""Gangs placed by freeing nodes of one domain for each.

With all domains of a level counted together, a relaxation frees as many nodes as gangs need, but
anywhere. Here the nodes of each gang are of one domain, that in which the jobs that are to stay
lose least by moving, and every smaller job that needs several GPUs of a node has room made on the
one where least is lost by moving still smaller ones; all others keep their places, and what has
none is placed as Kueue does. No program is solved.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.topology.topology_feasibility import topology_violations
from goodalloc.solvers.topology.kueue_placement import greedy_placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.models.topology.topology_round import TopologyRound


def free_domains(
    round_: TopologyRound, choices: Choices, cost: Floats, taken: Flags
) -> Allocation | None:
    """Return an allocation that serves the jobs of a relaxation, or most; None if none is allowed.

    Parameters
    ----------
    round_
        The round.
    choices, cost
        Choices of its jobs, and the cost of each.
    taken
        The choices that the relaxation takes, one for each job.
    """
    instance, current = round_.instance, round_.instance.current
    replicas = np.zeros(instance.num_jobs, dtype=np.int64)
    replicas[choices.job[taken]] = choices.replicas[taken]
    stays = np.zeros(instance.num_jobs, dtype=bool)
    stays[choices.job[taken & (choices.kind == Kind.KEEP)]] = True
    several = np.flatnonzero(taken & (choices.kind == Kind.SEVERAL_NODES))
    gangs = [job for job in choices.job[several].tolist() if instance.min_replicas[job] > 1]
    loss = _losses(choices, cost, replicas, instance.pinned)
    freed = np.zeros(instance.cluster.num_nodes, dtype=bool)
    for job in sorted(gangs, key=lambda job: -replicas[job]):
        nodes = _cheapest(round_, job, int(replicas[job]), np.where(stays, loss, 0.0), freed)
        freed |= nodes
        stays[current.job[nodes[current.node]]] = False
    room = np.where(freed, 0, instance.cluster.node_gpus)
    smaller = [job for job in np.flatnonzero(replicas > 1).tolist() if job not in gangs]
    _make_room(round_, smaller, replicas, stays, room, loss)
    placements: list[Placement] = [()] * instance.num_jobs
    for job in np.flatnonzero(replicas).tolist():
        placements[job] = anywhere = ((0, int(replicas[job])),)
        if stays[job]:
            placements[job] = current.placement(job)
        elif current.placement(job) == anywhere:  # which would stand for staying
            placements[job] = ((1, int(replicas[job])),)
    wanted = Allocation.from_placements(placements, instance.cluster.num_nodes)
    found = greedy_placement(round_, wanted)
    return None if topology_violations(round_, found) else found


def _make_room(
    round_: TopologyRound,
    jobs: Sequence[int],
    replicas: Indices,
    stays: Flags,
    room: Indices,
    loss: Floats,
) -> None:
    """Have smaller jobs leave a node for each of some jobs that does not stay, if one holds it.

    Parameters
    ----------
    round_, jobs
        The round, and the jobs, each of several GPUs.
    replicas, loss
        GPUs of every job, and what it loses by moving.
    stays
        Whether each job stays where it is; of those that leave it becomes False.
    room
        GPUs of each node that are left for these jobs, shape (nodes,).
    """
    current = round_.instance.current
    held = stays[current.job]
    room = room - np.bincount(current.node[held], current.replicas[held], room.size).astype(int)
    cheapest = np.argsort(loss[current.job] / current.replicas, kind="stable")
    alone = current.replicas == current.job_replicas[current.job]
    others: list[list[int]] = [[] for _ in room]  # which have all their GPUs on the node
    for entry in cheapest[(alone & held & np.isfinite(loss[current.job]))[cheapest]].tolist():
        others[current.node[entry]].append(int(current.job[entry]))
    waiting = [-int(replicas[job]) for job in jobs if not stays[job]]  # the largest first
    heapq.heapify(waiting)
    while waiting:
        gpus = -heapq.heappop(waiting)
        movable = (stays & (replicas < gpus)).tolist()
        best, node, leaving = (math.inf, math.inf), -1, list[int]()
        for place in np.flatnonzero(round_.instance.cluster.node_gpus >= gpus).tolist():
            there = [job for job in others[place] if movable[job]]
            gained = np.cumsum([0, *replicas[there].tolist()])
            several = int(np.searchsorted(gained, gpus - room[place]))
            if several < gained.size:
                left = int(room[place] + gained[several]) - gpus
                price = (float(loss[there[:several]].sum()), left)
                if price < best:
                    best, node, leaving = price, place, there[:several]
        if node >= 0:
            stays[leaving] = False
            room[node] += int(replicas[leaving].sum()) - gpus
            for size in replicas[leaving][replicas[leaving] > 1].tolist():
                heapq.heappush(waiting, -size)


def _losses(choices: Choices, cost: Floats, replicas: Indices, pinned: Flags) -> Floats:
    """Return what every job loses by moving with its GPUs; infinite if it cannot."""
    same = choices.replicas == replicas[choices.job]
    keeps = choices.kind == Kind.KEEP
    moved, kept = np.full(replicas.size, math.inf), np.zeros(replicas.size)
    np.minimum.at(moved, choices.job[same & ~keeps], cost[same & ~keeps])
    kept[choices.job[same & keeps]] = cost[same & keeps]
    return np.where(pinned, math.inf, moved - kept)


def _cheapest(round_: TopologyRound, job: int, gpus: int, loss: Floats, freed: Flags) -> Flags:
    """Return the cheapest nodes in a domain of the lowest level that has room for a job, or none.

    Parameters
    ----------
    round_, job, gpus
        The round, the job, and its GPUs.
    loss
        What is lost by moving each job that stays, 0 of others.
    freed
        Nodes that other jobs of this kind have.
    """
    current = round_.instance.current
    size = np.where(freed, 0, round_.instance.cluster.node_gpus)
    price = np.bincount(current.node, loss[current.job], minlength=size.size)
    order = np.argsort(price / np.maximum(size, 1), kind="stable")
    order = order[(size[order] > 0) & np.isfinite(price[order])]
    for domain in round_.domain[1 : round_.required[job] + 1]:
        least, chosen = math.inf, None
        for inside in np.unique(domain[order]).tolist():
            nodes = order[domain[order] == inside]
            room = np.cumsum(size[nodes])
            several = nodes[: int(np.searchsorted(room, gpus)) + 1]
            if room[-1] >= gpus and price[several].sum() < least:
                least, chosen = float(price[several].sum()), several
        if chosen is not None:
            return np.isin(np.arange(size.size), chosen)
    return np.zeros(size.size, dtype=bool)
