"""Gangs that wait for GPUs on several nodes at once, plans that make room for them, and a checker.

Two questions of operators about a cluster that is running: which of the jobs to *move*, so that a
gang fits (defragmentation), and which to *stop* (preemption). A plan answers one of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Bool, Int

    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Indices


@dataclass(frozen=True)
class Gang:
    """Job that waits for GPUs on several nodes, all at the same time.

    Parameters
    ----------
    nodes
        Number of nodes.
    gpus_per_node
        GPUs that it needs on each of them.
    gpu_type
        Type of these GPUs; empty for any, if there is only one.

    Raises
    ------
    ValueError
        If a number is below 1.

    Examples
    --------
    >>> from goodalloc.models.making_room import Gang
    >>> Gang(nodes=4, gpus_per_node=8).nodes
    4
    """

    nodes: int
    gpus_per_node: int
    gpu_type: str = ""

    def __post_init__(self) -> None:
        require_count("Gang: nodes", self.nodes, minimum=1)
        require_count("Gang: gpus_per_node", self.gpus_per_node, minimum=1)


class Move(NamedTuple):
    """Job that moves, by its index, and the nodes from which and to which it does."""

    job: int
    origin: int
    target: int


class RoomPlan(NamedTuple):
    """Plan that makes room for a gang.

    Attributes
    ----------
    gang_nodes
        Nodes that the gang gets; none where there is no plan.
    moves
        Jobs that move.
    victims
        Jobs that are stopped.
    cost
        What the moves or victims cost in all; infinite without a plan.
    bound
        Lower bound on the cost of every plan: infinite if there is none, 0 where nothing is proved.
    seconds
        Time that the plan took to find.
    """

    gang_nodes: tuple[int, ...]
    moves: tuple[Move, ...]
    victims: tuple[int, ...]
    cost: float
    bound: float
    seconds: float

    @property
    def found(self) -> bool:
        """Whether there is a plan."""
        return bool(self.gang_nodes)

    @property
    def proven(self) -> bool:
        """Whether no plan is cheaper, or there is none."""
        return self.cost <= self.bound * (1 + 1e-9) + 1e-9


def usable_nodes(instance: Instance, gang: Gang) -> Bool[Flags, " nodes"]:
    """Return which nodes the gang may use: of its type, and large enough.

    Raises
    ------
    ValueError
        If the cluster has no such type, several types and the gang names none, or resources beside
        GPUs, which no plan counts.
    """
    cluster = instance.cluster
    if cluster.resource_names:
        raise ValueError(
            f"Instance '{instance.name}': nodes have {cluster.resource_names[0]}; expected GPUs "
            "only, which is all that plans for gangs count."
        )
    types = np.array(cluster.node_types)
    if gang.gpu_type and gang.gpu_type not in cluster.gpu_types:
        known = (
            ", ".join(filter(None, cluster.gpu_types)) or "none, for there is one without a name"
        )
        raise ValueError(f"Gang: gpu_type is '{gang.gpu_type}'; expected {known}.")
    if not gang.gpu_type and len(cluster.gpu_types) > 1:
        raise ValueError(
            f"Gang: gpu_type is empty; expected one of {', '.join(cluster.gpu_types)}."
        )
    of_type = types == (gang.gpu_type or str(types[0]))
    return np.asarray(of_type & (cluster.node_gpus >= gang.gpus_per_node))


def barred_nodes(instance: Instance, gang: Gang, gone: set[int] | None = None) -> set[int]:
    """Return the nodes that the gang must not share: with distributed jobs, if these interfere.

    Parameters
    ----------
    instance, gang
        The round, and the gang.
    gone
        Jobs that are stopped.
    """
    if gang.nodes == 1 or not instance.rules.interference_avoidance:
        return set()
    current = instance.current
    return {
        int(node)
        for job, node in zip(current.job, current.node, strict=True)
        if current.job_nodes[job] > 1 and int(job) not in (gone or ())
    }


def room_violations(
    instance: Instance,
    gang: Gang,
    plan: RoomPlan,
    *,
    groups: Mapping[int, str] | None = None,
    quotas: Mapping[str, int] | None = None,
) -> list[str]:
    """Return what a plan breaks: jobs that cannot move or stop, nodes that are too full, quotas.

    Parameters
    ----------
    instance, gang, plan
        The round, the gang, and the plan.
    groups
        Group of each job that belongs to one.
    quotas
        GPUs of each group that are its own: only what it holds beyond them may be taken.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job
    >>> from goodalloc.models.making_room import Gang, RoomPlan, room_violations
    >>> instance = Instance(Cluster.uniform(1, 2), (Job("a", placement=((0, 1),)),))
    >>> room_violations(instance, Gang(1, 2), RoomPlan((0,), (), (), 0.0, 0.0, 0.0))
    ["node 'node-0' has 1 GPUs free; the gang needs 2."]
    """
    current, names = instance.current, instance.cluster.node_names
    placements, broken = current.placements(), []
    free = instance.cluster.node_gpus - instance.current.node_replicas
    stopped = set(plan.victims)
    for job in plan.victims:
        if not placements[job] or not instance.jobs[job].preemptible:
            broken.append(f"job '{instance.jobs[job].name}' cannot be stopped.")
        for node, gpus in placements[job]:
            free[node] += gpus
    for job, count in Counter(move.job for move in plan.moves).items():
        if count > 1 or job in stopped:
            broken.append(f"job '{instance.jobs[job].name}' moves twice, or is stopped as well.")
    types = instance.cluster.node_types
    for move in plan.moves:
        mover, here = instance.jobs[move.job], placements[move.job]
        if len(here) != 1 or here[0][0] != move.origin:
            broken.append(f"job '{mover.name}' is not on node '{names[move.origin]}' alone.")
            continue
        if not mover.preemptible or types[move.origin] != types[move.target]:
            broken.append(f"job '{mover.name}' cannot move to node '{names[move.target]}'.")
        free[move.origin] += here[0][1]
        free[move.target] -= here[0][1]
    broken += [
        f"node '{names[node]}' is to hold {-free[node]} GPUs more than it has."
        for node in np.flatnonzero(free < 0).tolist()
    ]
    broken += _gang_violations(instance, gang, plan, free, stopped)
    usage = Counter[str]()
    taken = Counter[str]()
    for job, group in (groups or {}).items():
        usage[group] += int(current.job_replicas[job])
        taken[group] += int(current.job_replicas[job]) * (job in stopped)
    for group, quota in (quotas or {}).items():
        if taken[group] > max(usage[group] - quota, 0):
            broken.append(
                f"group '{group}' loses {taken[group]} GPUs; only "
                f"{max(usage[group] - quota, 0)} are beyond its quota."
            )
    return broken


def checked_plan(
    instance: Instance,
    gang: Gang,
    plan: RoomPlan,
    *,
    groups: Mapping[int, str] | None = None,
    quotas: Mapping[str, int] | None = None,
) -> RoomPlan:
    """Return a plan that the checker has passed.

    Parameters
    ----------
    instance, gang, plan, groups, quotas
        As of `room_violations`.

    Raises
    ------
    AssertionError
        If the plan breaks a rule.
    """
    if broken := room_violations(instance, gang, plan, groups=groups, quotas=quotas):
        raise AssertionError(f"The plan breaks a rule: {broken[0]}")
    return plan


def _gang_violations(
    instance: Instance, gang: Gang, plan: RoomPlan, free: Int[Indices, " nodes"], stopped: set[int]
) -> list[str]:
    """Return what is wrong with the nodes of the gang."""
    names, usable = instance.cluster.node_names, usable_nodes(instance, gang)
    barred = barred_nodes(instance, gang, stopped)
    broken = []
    if len(set(plan.gang_nodes)) != gang.nodes:
        broken.append(f"the gang gets {len(set(plan.gang_nodes))} nodes; it needs {gang.nodes}.")
    for node in plan.gang_nodes:
        if not usable[node] or node in barred:
            broken.append(f"node '{names[node]}' is none that the gang may use.")
        elif free[node] < gang.gpus_per_node:
            broken.append(
                f"node '{names[node]}' has {free[node]} GPUs free; the gang needs "
                f"{gang.gpus_per_node}."
            )
    return broken


def require_costs(item: str, costs: Mapping[int, float], jobs: int) -> None:
    """Refuse costs of jobs that are not there, and negative ones.

    Parameters
    ----------
    item, costs, jobs
        Name for the message, cost by the index of a job, and number of jobs.
    """
    for job, cost in costs.items():
        if not 0 <= job < jobs:
            raise ValueError(f"{item} of job {job}: expected an index from 0 to {jobs - 1}.")
        require_number(f"{item} of job {job}", cost, minimum=0.0)
