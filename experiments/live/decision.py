"""Checked decision of a policy for real jobs, from the states that they publish.

A job with a malformed file keeps its placement; the others share the rest of the cluster. A
decision that breaks a rule, according to the independent checker, is refused.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.files.allocation import placements_from_dict
from goodalloc.experiments.live.jobs import fitting
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.mode import resources
from goodalloc.models.round.objective import fitness
from goodalloc.models.round.rules import OSDI21
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE
from goodalloc.solvers.interface.bounds import NO_BOUND, Bound, least_bound
from goodalloc.solvers.policies.decision_checker import check_decision, decide_round
from goodalloc.solvers.policies.policy import Round

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Float

    from goodalloc.experiments.live.jobs import LiveJobs
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.mode import Resources
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.policies.policy import Decision, Policy

#: GPUs by name of node.
Nodes = dict[str, int]


class LiveDecision(NamedTuple):
    """Decision for all jobs.

    Attributes
    ----------
    placements
        GPUs by name of node, by job, for jobs with GPUs.
    fitness
        Fitness in the instance that the policy solved; None if it solved none.
    bound
        Bound on that fitness; `NO_BOUND` without a believed one.
    predicted
        Predicted steps at M0 a second of every job with GPUs and a fit, by name.
    """

    placements: dict[str, Nodes]
    fitness: float | None = None
    bound: Bound = NO_BOUND
    predicted: Mapping[str, float] = MappingProxyType({})


def decide(
    found: LiveJobs,
    current: Mapping[str, Nodes],
    cluster: Cluster,
    policy: Policy,
    now: float,
    *,
    trusting: bool = False,
    speeds: Mapping[str, float] = MappingProxyType({}),
    least: Resources = (),
) -> LiveDecision:
    """Return a decision for the present jobs.

    Parameters
    ----------
    found
        The jobs.
    current
        Their present placements, GPUs by name of node.
    cluster
        The nodes.
    policy
        The policy.
    now
        Time in seconds since 1970.
    trusting
        Whether bounds of the policy are believed, as those of the shipped ones.
    speeds
        Relative speeds of types of GPU (`relative_speeds`).
    least
        What every replica takes at least.

    Raises
    ------
    ValueError
        If the policy fails, or its decision is impossible or breaks a rule.
    """
    keeping = {name: current[name] for name in sorted(found.unreadable) if name in current}
    placements = keep(keeping, cluster)
    names = [job.submission.name for job in found.jobs]
    held = {name: current[name] for name in names if name in current}
    fits = fitting(keeping | held, cluster)
    own = {name: fits[name] for name in held if name in fits}
    had, taken = _with_room(found, own, cluster, least)
    rest = _without(cluster, fitting(keeping, cluster), taken)
    if not found.jobs or rest is None:
        return LiveDecision(placements)
    # indices of nodes are the same in the rest of the cluster
    jobs = tuple(
        job.active(now, had.get(job.submission.name, ()), rest, speeds, least) for job in found.jobs
    )
    round_ = Round(int(now), rest, jobs)
    decision = decide_round(policy, round_)
    check_decision(round_, decision)
    value = _checked(round_, decision)
    for name in names:
        if pairs := decision.placements.get(name, ()):
            placements[name] = _by_name(tuple(sorted(pairs)), cluster)
    predicted = _predicted(round_, decision)
    if not trusting or value is None or decision.bound is None:
        return LiveDecision(placements, value, predicted=predicted)
    told = Bound(decision.bound, decision.bound_source, decision.evidence)
    return LiveDecision(placements, value, least_bound([told], value), predicted)


def _predicted(round_: Round, decision: Decision) -> dict[str, float]:
    """Return the predicted steps at M0 a second of the jobs with GPUs and a fit."""
    found = {}
    for job in round_.jobs:
        pairs = decision.placements.get(job.name, ())
        if pairs and job.model() is not None:
            kind = round_.cluster.node_types[pairs[0][0]]
            replicas = sum(gpus for _, gpus in pairs)
            per_node = -(-replicas // len(pairs))
            found[job.name] = 1.0 / job.oracle.seconds_per_step(replicas, per_node, kind)
    return found


def keep(placements: Mapping[str, Nodes], cluster: Cluster) -> dict[str, Nodes]:
    """Return the placements for which the cluster has room."""
    fits = fitting(placements, cluster)
    return {name: _by_name(pairs, cluster) for name, pairs in fits.items()}


def _by_name(pairs: Placement, cluster: Cluster) -> Nodes:
    """Return a placement by name of node."""
    return {cluster.node_names[node]: int(gpus) for node, gpus in pairs}


def _with_room(
    found: LiveJobs, had: Mapping[str, Placement], cluster: Cluster, least: Resources
) -> tuple[dict[str, Placement], Float[Floats, "nodes resources"]]:
    """Return the present placements that may go on, and what they take of the nodes.

    A job counts as holding nothing where its request no longer fits, as after a restart of its
    scheduler or launcher with other amounts, or its nodes now have GPUs of several types.
    """
    taken = np.zeros(cluster.node_resources.shape)
    most = cluster.node_resources * (1.0 + RESOURCE_TOLERANCE)
    kept: dict[str, Placement] = {}
    for job in found.jobs:
        pairs = had.get(job.submission.name, ())
        request = dict(job.takes(cluster, least))
        row = np.array([request.get(name, 0.0) for name in cluster.resource_names])
        after = taken.copy()
        for node, gpus in pairs:
            after[node] += gpus * row
        if len({cluster.node_types[node] for node, _ in pairs}) < 2 and (after <= most).all():
            kept[job.submission.name], taken = pairs, after
    return kept, taken


def _without(
    cluster: Cluster,
    kept: Mapping[str, Placement],
    taken: Float[Floats, "nodes resources"],
) -> Cluster | None:
    """Return the cluster without the GPUs of kept placements; None if no GPU remains.

    What else a kept replica takes is not known: it counts as its GPU's part of the node, or less
    where other jobs have more of that.
    """
    if not kept:
        return cluster
    had = cluster.node_gpus.tolist()
    free = list(had)
    for pairs in kept.values():
        for node, gpus in pairs:
            free[node] -= gpus
    if not any(free):
        return None
    groups = []
    for node, name in enumerate(cluster.node_names):
        group = cluster.groups[cluster.node_group[node]]
        part = free[node] / had[node] if had[node] else 1.0
        own = dict(zip(cluster.resource_names, taken[node].tolist(), strict=True))
        amounts = resources(
            {kind: max(amount * part, own[kind]) for kind, amount in group.resources}
        )
        groups.append(NodeGroup(name, 1, free[node], group.gpu_type, amounts))
    return Cluster(tuple(groups))


def _checked(round_: Round, decision: Decision) -> float | None:
    """Return the fitness of a decision in the instance of the policy, if it has one.

    Raises
    ------
    ValueError
        If the decision breaks a rule of that instance or, without one, of the nodes.
    """
    instance, modes = decision.instance, decision.modes
    if instance is None:
        nodes = round_.cluster.num_nodes
        free = OSDI21.replace(interference_avoidance=False, max_nodes_per_job=nodes)
        most = {job.name: round_.cluster.num_gpus for job in round_.jobs}
        plain = tuple(replace(job, modes=tuple, mode="") for job in round_.jobs)
        instance, modes = replace(round_, jobs=plain).instance(free, most), {}
    named = {
        name: _by_name(tuple(sorted(pairs)), round_.cluster)
        for name, pairs in decision.placements.items()
    }
    allocation = placements_from_dict(named, instance, dict(modes))
    if broken := violations(instance, allocation):
        raise ValueError(f"Decision breaks a rule: {broken[0]}")
    return None if decision.instance is None else fitness(instance, allocation)
