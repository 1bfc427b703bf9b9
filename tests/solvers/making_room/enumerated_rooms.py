"""Small clusters that make room for a gang, and the least costs over all that could be done."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models import OSDI21, Cluster, Instance, Job
from goodalloc.models.making_room import Move, RoomPlan, room_violations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.making_room import Gang


def random_cluster(seed: int, nodes: int = 3, gpus: int = 3) -> Instance:
    """Return a small cluster with jobs on one node, some distributed, some that stay."""
    random = np.random.default_rng(seed)
    free = np.full(nodes, gpus)
    jobs = []
    for index in range(int(random.integers(3, 7))):
        size = int(random.integers(1, gpus + 1))
        if random.random() < 0.2 and nodes > 1:
            pair = sorted(random.choice(nodes, 2, replace=False).tolist())
            if all(free[node] >= 1 for node in pair):
                free[pair] -= 1
                placement = tuple((node, 1) for node in pair)
                jobs.append(Job(f"job{index}", placement=placement))
            continue
        node = int(random.integers(nodes))
        if free[node] >= size:
            free[node] -= size
            stays = bool(random.random() < 0.15)
            jobs.append(Job(f"job{index}", placement=((node, size),), preemptible=not stays))
    rules = OSDI21.replace(interference_avoidance=bool(random.random() < 0.5))
    return Instance(Cluster.uniform(nodes, gpus), tuple(jobs), rules)


def random_costs(instance: Instance, random: np.random.Generator) -> dict[int, float]:
    """Return random costs of the jobs that may move or stop."""
    return {
        index: float(random.integers(1, 9))
        for index, job in enumerate(instance.jobs)
        if job.preemptible
    }


def all_nodes_of(instance: Instance, gang: Gang) -> list[tuple[int, ...]]:
    """Return all sets of as many nodes as the gang asks for."""
    return [*itertools.combinations(range(instance.cluster.num_nodes), gang.nodes)]


def best_moves(
    instance: Instance, gang: Gang, costs: dict[int, float], choices: Sequence[tuple[int, ...]]
) -> float:
    """Return the least cost over all targets of all movable jobs and these nodes of the gang."""
    nodes = instance.cluster.num_nodes
    movable = [j for j in costs if len(instance.jobs[j].placement) == 1]
    best = math.inf
    for targets in itertools.product(range(nodes), repeat=len(movable)):
        moves = tuple(
            Move(job, instance.jobs[job].placement[0][0], target)
            for job, target in zip(movable, targets, strict=True)
            if instance.jobs[job].placement[0][0] != target
        )
        cost = sum(costs[move.job] for move in moves)
        if cost >= best:
            continue
        for chosen in choices:
            plan = RoomPlan(chosen, moves, (), cost, 0.0, 0.0)
            if not room_violations(instance, gang, plan):
                best = cost
                break
    return best


def best_victims(
    instance: Instance,
    gang: Gang,
    losses: dict[int, float],
    groups: dict[int, str],
    quotas: dict[str, int],
    choices: Sequence[tuple[int, ...]],
) -> float:
    """Return the least loss over all sets of victims and these nodes of the gang."""
    best = math.inf
    jobs = list(losses)
    for count in range(len(jobs) + 1):
        for victims in itertools.combinations(jobs, count):
            loss = sum(losses[job] for job in victims)
            if loss >= best:
                continue
            for chosen in choices:
                plan = RoomPlan(chosen, (), victims, loss, 0.0, 0.0)
                broken = room_violations(instance, gang, plan, groups=groups, quotas=quotas)
                if not broken:
                    best = loss
                    break
    return best
