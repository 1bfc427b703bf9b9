"""Independent checker of allocations on a tree: entry by entry, from the names of domains.

It shares no code with the formulations and the solvers, nor with the arrays of
`goodalloc.models.topology.topology_round`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from goodalloc.models.round.feasibility import Violation, violations
from goodalloc.models.topology.topology import CLUSTER, NODE

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.topology.topology_round import TopologyRound


def topology_violations(round_: TopologyRound, allocation: Allocation) -> tuple[Violation, ...]:
    """Return every rule of a round that an allocation breaks; none if feasible.

    The rules of the round without the tree (`goodalloc.models.violations`), and two more: a domain
    of the level that a job requires holds all of it; no more jobs have GPUs both inside and outside
    of a domain than may share its uplink.

    Parameters
    ----------
    round_, allocation
        The round, and the allocation.

    Examples
    --------
    >>> from goodalloc.models import Allocation, Cluster, Instance, Job
    >>> from goodalloc.models.topology import Level, Topology, TopologyRound, topology_violations
    >>> instance = Instance(Cluster.uniform(nodes=4, gpus=1), (Job("a"),))
    >>> topology = Topology.regular(4, [(Level("rack"), 2)])
    >>> round_ = TopologyRound(instance, topology, requires=("rack",))
    >>> for violation in topology_violations(round_, Allocation.from_matrix([[1, 0, 1, 0]])):
    ...     print(violation)
    Job 'a' is in rack-0, rack-1; it requires one rack.
    """
    found = violations(round_.instance, allocation)
    if any(one.rule == "shape" for one in found):
        return found
    nodes: dict[int, list[int]] = defaultdict(list)
    for job, node in zip(allocation.job.tolist(), allocation.node.tolist(), strict=True):
        nodes[job].append(node)
    return (*found, *_beyond_required(round_, nodes), *_crowded_uplinks(round_, nodes))


def _beyond_required(round_: TopologyRound, nodes: dict[int, list[int]]) -> list[Violation]:
    """Return the jobs that no domain of their level holds."""
    found = []
    domains = {
        level.name: names
        for level, names in zip(round_.topology.levels, round_.topology.domains, strict=True)
    }
    domains[NODE] = round_.instance.cluster.node_names
    for job, held in sorted(nodes.items()):
        level = round_.requires[job] if round_.requires else ""
        if level in ("", CLUSTER):
            continue
        touched = list(dict.fromkeys(domains[level][node] for node in held))
        if len(touched) > 1:
            name = round_.instance.jobs[job].name
            text = f"Job '{name}' is in {', '.join(touched)}; it requires one {level}."
            found.append(Violation("requires", text))
    return found


def _crowded_uplinks(round_: TopologyRound, nodes: dict[int, list[int]]) -> list[Violation]:
    """Return the domains whose uplink too many jobs share."""
    found = []
    for level, names in zip(round_.topology.levels, round_.topology.domains, strict=True):
        if level.uplink_jobs is None:
            continue
        sharing: dict[str, list[str]] = defaultdict(list)
        for job, held in sorted(nodes.items()):
            touched = {names[node] for node in held}
            if len(touched) > 1:
                for domain in touched:
                    sharing[domain].append(round_.instance.jobs[job].name)
        for domain, jobs in sorted(sharing.items()):
            if len(jobs) > level.uplink_jobs:
                text = (
                    f"The uplink of {domain} is shared by {', '.join(jobs)}; "
                    f"uplink_jobs of level '{level.name}' is {level.uplink_jobs}."
                )
                found.append(Violation("uplink_jobs", text))
    return found
