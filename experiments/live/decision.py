"""One decision for real jobs: by a policy, on what they say of themselves, checked.

A job whose files make no sense keeps what it has; the others share the rest of the cluster. A
decision that breaks a rule, by the independent checker, is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goodalloc.experiments.live.jobs import fitting
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness
from goodalloc.models.round.rules import OSDI21
from goodalloc.solvers.interface.bounds import NO_BOUND, Bound, least_bound
from goodalloc.solvers.policies.decision_checker import check_decision
from goodalloc.solvers.policies.policy import Round

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.experiments.live.jobs import LiveJobs
    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.policies.policy import Decision, Policy

Nodes = dict[str, int]
"""GPUs by name of node."""


class LiveDecision(NamedTuple):
    """What was decided for everybody.

    Attributes
    ----------
    placements
        GPUs by name of node, by job; of those that get some.
    fitness
        Of what the policy put to a solver; None where it did not.
    bound
        On that fitness; that of nothing where nobody vouches for one.
    """

    placements: dict[str, Nodes]
    fitness: float | None = None
    bound: Bound = NO_BOUND


def decide(
    found: LiveJobs,
    current: Mapping[str, Nodes],
    cluster: Cluster,
    policy: Policy,
    now: float,
    *,
    trusting: bool = False,
) -> LiveDecision:
    """Decide for the jobs that are there.

    Parameters
    ----------
    found
        The jobs.
    current
        What they have, GPUs by name of node.
    cluster
        The nodes.
    policy
        Who decides.
    now
        In seconds since 1970.
    trusting
        Whether the policy ships, so that its bounds are believed.

    Raises
    ------
    ValueError
        If the policy fails, or what it decides is impossible or breaks a rule.
    """
    keeping = {name: current[name] for name in sorted(found.unreadable) if name in current}
    placements = keep(keeping, cluster)
    rest = _without(cluster, fitting(keeping, cluster))
    if not found.jobs or rest is None:
        return LiveDecision(placements)
    names = [job.submission.name for job in found.jobs]
    # by index, which is the same in what is left of the cluster
    held = {name: current[name] for name in names if name in current}
    had = {name: pairs for name, pairs in fitting(keeping | held, cluster).items() if name in held}
    jobs = tuple(job.active(now, had.get(job.submission.name, ())) for job in found.jobs)
    round_ = Round(int(now), rest, jobs)
    try:
        decision = policy.decide(round_)
    except Exception as error:  # whatever somebody's code does, the scheduler goes on
        text = f"{type(error).__name__}: {error}".rstrip(".")
        raise ValueError(f"Policy failed ({text}).") from error
    check_decision(round_, decision)
    value = _checked(round_, decision)
    for name in names:
        if pairs := decision.placements.get(name, ()):
            placements[name] = _by_name(tuple(sorted(pairs)), cluster)
    if not trusting or value is None or decision.bound is None:
        return LiveDecision(placements, value)
    told = Bound(decision.bound, decision.bound_source, decision.evidence)
    return LiveDecision(placements, value, least_bound([told], value))


def keep(placements: Mapping[str, Nodes], cluster: Cluster) -> dict[str, Nodes]:
    """What of some placements the cluster has room for."""
    fits = fitting(placements, cluster)
    return {name: _by_name(pairs, cluster) for name, pairs in fits.items()}


def _by_name(pairs: Placement, cluster: Cluster) -> Nodes:
    return {cluster.node_names[node]: int(gpus) for node, gpus in pairs}


def _without(cluster: Cluster, kept: Mapping[str, Placement]) -> Cluster | None:
    """The cluster without the GPUs that some jobs keep; None if no other is left."""
    if not kept:
        return cluster
    left = cluster.node_gpus.tolist()
    for pairs in kept.values():
        for node, gpus in pairs:
            left[node] -= gpus
    if not any(left):
        return None
    nodes = zip(cluster.node_names, left, strict=True)
    return Cluster(tuple(NodeGroup(name, 1, gpus) for name, gpus in nodes))


def _checked(round_: Round, decision: Decision) -> float | None:
    """The fitness of a decision on the policy's own instance, if it has one.

    Raises
    ------
    ValueError
        If it breaks a rule: of that instance, or else of nodes alone.
    """
    pairs = [tuple(sorted(decision.placements.get(job.name, ()))) for job in round_.jobs]
    instance = decision.instance
    if instance is None:
        nodes = round_.cluster.num_nodes
        free = OSDI21.replace(interference_avoidance=False, max_nodes_per_job=nodes)
        most = {job.name: round_.cluster.num_gpus for job in round_.jobs}
        instance = round_.instance(free, most)
    allocation = Allocation.from_placements(pairs, round_.cluster.num_nodes)
    if broken := violations(instance, allocation):
        raise ValueError(f"Decision breaks a rule: {broken[0]}")
    return None if decision.instance is None else fitness(instance, allocation)
