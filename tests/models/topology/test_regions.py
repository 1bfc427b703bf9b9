"""Regions of a tree: where a new job breaks no rule, set of nodes by set of nodes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.topology.regions import job_regions
from goodalloc.models.topology.topology import Level, Topology
from goodalloc.models.topology.topology_round import TopologyRound
from goodalloc.models.topology.tree_wishes import TreeWishes
from tests.support.few import few

NODES = 5


def random_round(seed: int) -> TopologyRound:
    """Return five nodes in islands, racks and pods, with limits, and jobs on one to three nodes."""
    random = np.random.default_rng([seed, 11])
    parents = [random.integers(count, size=4) for count in (4, 3, 2)]
    domain, names = random.integers(4, size=NODES), []
    for parent in parents:
        domain = parent[domain]
        names.append(tuple(f"d{number}" for number in domain))
    levels = tuple(
        Level(name, uplink_jobs=None if random.random() < 0.4 else int(random.integers(4)))
        for name in ("island", "rack", "pod")
    )
    jobs = tuple(
        Job(
            f"job{index}",
            placement=tuple(
                (node, 1)
                for node in sorted(random.choice(NODES, random.integers(1, 4), replace=False))
            ),
        )
        for index in range(int(random.integers(1, 4)))
    )
    return TopologyRound(Instance(Cluster.uniform(NODES, 8), jobs), Topology(levels, tuple(names)))


@pytest.mark.parametrize("seed", few(range(80), 3))
def test_a_new_job_breaks_no_rule_exactly_if_it_lies_in_one_region(seed: int) -> None:
    """Of all sets of nodes, at every level, by the checker; on one node it never does."""
    round_ = random_round(seed)
    names = [job.name for job in round_.instance.jobs]
    held = dict(zip(names, round_.instance.current.placements(), strict=True))
    for level in round_.topology.level_names:
        tree = TreeWishes(round_.topology, requires=(("new", level),))
        regions = job_regions(round_, level)
        before = set(tree.broken_rules(round_.instance.cluster, held))
        for count in range(1, NODES + 1):
            for nodes in itertools.combinations(range(NODES), count):
                placement = tuple((node, 1) for node in nodes)
                broken = tree.broken_rules(round_.instance.cluster, {**held, "new": placement})
                assert (set(broken) <= before) == (len(set(regions[[*nodes]])) == 1), nodes


def test_regions_without_limits_are_domains() -> None:
    """The node's and the cluster's, too, and on a tree without levels."""
    instance = Instance(Cluster.uniform(4, 2), (Job("a"),))
    round_ = TopologyRound(instance, Topology.regular(4, [(Level("rack"), 2)]))
    for place, level in enumerate(("node", "rack", "cluster")):
        assert job_regions(round_, level).tolist() == round_.domain[place].tolist()
    assert job_regions(TopologyRound(instance, Topology((), ())), "cluster").tolist() == [0] * 4


def test_an_unknown_level_is_refused() -> None:
    """In a sentence that names those that there are."""
    round_ = TopologyRound(
        Instance(Cluster.uniform(4, 2), (Job("a"),)), Topology.regular(4, [(Level("rack"), 2)])
    )
    with pytest.raises(
        ValueError, match=r"expected one of node, rack, cluster \(did you mean rack"
    ):
        job_regions(round_, "rak")
