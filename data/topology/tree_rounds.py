"""Seeded rounds on standard trees: islands, racks and pods of equal nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.rounds.generator import generate
from goodalloc.models.support.validation import require_share
from goodalloc.models.topology.topology import Level, Topology
from goodalloc.models.topology.topology_round import TopologyRound

if TYPE_CHECKING:
    from goodalloc.data.rounds.drawn_jobs import State
    from goodalloc.models.round.cluster import Cluster

#: Slowdowns of islands, racks, pods and the cluster: islands twice as fast as the network by which
#: the shipped profiles were measured, then oversubscribed by 2 at each level.
SLOWDOWNS = (0.5, 1.0, 2.0, 4.0)

#: Nodes of an island, islands of a rack and racks of a pod, where there are enough nodes.
ISLAND, RACK, POD = 4, 4, 4


def standard_tree(nodes: int, uplink_jobs: int | None = None) -> Topology:
    """Return a tree of islands, racks and pods.

    Parameters
    ----------
    nodes
        Nodes of the cluster; fewer than 64 have smaller domains: of 2, 4 and 8 nodes.
    uplink_jobs
        Most jobs that share the uplink of a rack.

    Examples
    --------
    >>> from goodalloc.data.topology import standard_tree
    >>> [int(domains.max()) + 1 for domains in standard_tree(512).domain]
    [512, 128, 32, 8, 1]
    """
    sizes = (ISLAND, ISLAND * RACK, ISLAND * RACK * POD) if nodes >= 64 else (2, 4, 8)
    limits = (None, uplink_jobs, None)
    levels = [
        (Level(name, slowdown, limit), size)
        for name, slowdown, limit, size in zip(
            ("island", "rack", "pod"), SLOWDOWNS, limits, sizes, strict=False
        )
    ]
    return Topology.regular(nodes, levels, SLOWDOWNS[-1])


def generate_on_tree(
    seed: int,
    nodes: int,
    gpus_per_node: int = 4,
    *,
    cluster: Cluster | None = None,
    jobs: int | None = None,
    load: float | None = None,
    state: State = "settled",
    requiring: float = 0.1,
    gangs: float = 0.0,
    uplink_jobs: int | None = None,
) -> TopologyRound:
    """Draw a round on a standard tree.

    Parameters
    ----------
    seed, nodes, gpus_per_node, cluster, jobs, load, state
        As of `goodalloc.data.generate`; a cluster replaces the nodes.
    requiring
        Share of the jobs that require one rack, from 0 to 1.
    gangs
        Share of the jobs that run on the GPUs of two nodes or not at all, and wait for them.
    uplink_jobs
        As of `standard_tree`.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from goodalloc.data.topology import generate_on_tree
    >>> generate_on_tree(0, nodes=64, load=0.5).topology.level_names
    ('node', 'island', 'rack', 'pod', 'cluster')
    """
    require_share("Share of jobs that require a rack", requiring)
    require_share("Share of gangs", gangs)
    instance = generate(seed, jobs, nodes, gpus_per_node, cluster=cluster, load=load, state=state)
    random = np.random.default_rng([seed, 1])
    asks = random.random(instance.num_jobs) < requiring
    waits = random.random(instance.num_jobs) < gangs
    two = 2 * int(instance.cluster.node_gpus.max())
    drawn = tuple(
        replace(job, placement=(), min_replicas=two, max_replicas=two) if wait else job
        for job, wait in zip(instance.jobs, waits.tolist(), strict=True)
    )
    instance = instance.replace(jobs=drawn, name=f"tree-{instance.name}")
    return TopologyRound(
        instance,
        standard_tree(instance.cluster.num_nodes, uplink_jobs),
        requires=tuple("rack" if ask else "" for ask in asks.tolist()),
    )
