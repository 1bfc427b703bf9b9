"""Trees, what jobs ask of them, speeds by level, and the checker."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.rounds.generator import generate
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode
from goodalloc.models.round.objective import fitness, mode_utilities, utility_table
from goodalloc.models.topology.topology import Level, Topology
from goodalloc.models.topology.topology_feasibility import topology_violations
from goodalloc.models.topology.topology_round import TopologyRound, topology_fitness
from tests.support.small_rounds import tiny_tree

FOUR = Instance(Cluster.uniform(4, 2), (Job("a"), Job("b")))
RACKS = Topology.regular(4, [(Level("rack"), 2)], 2.0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Level(""), "Level"),
        (lambda: Level("node"), "every topology has this level"),
        (lambda: Level("rack", 0.0), "slowdown"),
        (lambda: Level("rack", float("nan")), "slowdown"),
        (lambda: Level("rack", 1e7), "at most"),
        (lambda: Level("rack", uplink_jobs=-1), "uplink_jobs"),
        (lambda: Topology((Level("rack"),), ()), "0 lists of domains for 1 levels"),
        (lambda: Topology((Level("rack"),), ((),)), "0 nodes"),
        (lambda: Topology((Level("r"), Level("r")), (("a",), ("a",))), "named twice"),
        (lambda: Topology((Level("r", 2.0),), (("a",),)), "slowdown is 1; expected at least 2"),
        (lambda: Topology((Level("r"), Level("p")), (("a", "b"), ("a",))), "1 nodes"),
        (lambda: Topology((Level("r"), Level("p")), (("a", "a"), ("x", "y"))), "lies in 'x' and"),
        (lambda: Topology.regular(4, [(Level("r"), 2), (Level("p"), 3)]), "multiple of 2"),
        (lambda: Topology.regular(0, []), "nodes"),
        (lambda: TopologyRound(FOUR, Topology((Level("r"),), (("a",),))), "has 1 nodes"),
        (lambda: TopologyRound(FOUR, RACKS, requires=("rack",)), "lists 1 jobs"),
        (lambda: TopologyRound(FOUR, RACKS, prefers=("rock", "")), "Did you mean|expected one of"),
        (lambda: TopologyRound(FOUR, RACKS, discount=0.0), "discount"),
        (lambda: TopologyRound(FOUR, RACKS, discount=1.5), "at most 1"),
        (
            lambda: TopologyRound(
                FOUR.replace(jobs=(Job("a", modes=(Mode("m"),)),)), Topology((), ())
            ),
            "has modes",
        ),
    ],
)
def test_a_bad_tree_is_refused_in_one_sentence(build: Any, message: str) -> None:
    """Names, numbers, nesting, and what jobs ask."""
    with pytest.raises(ValueError, match=message):
        build()


def test_pinned_jobs_obey_the_tree_from_the_start() -> None:
    """A level that one requires, and the uplinks that they share."""
    pinned = Job("a", placement=((0, 1), (2, 1)), preemptible=False)
    instance = FOUR.replace(jobs=(pinned, Job("b")))
    with pytest.raises(ValueError, match="is held by 'cluster'; expected 'rack'"):
        TopologyRound(instance, RACKS, requires=("rack", ""))
    none = Topology.regular(4, [(Level("rack", uplink_jobs=0), 2)])
    with pytest.raises(ValueError, match="share the uplink of 'rack-0'"):
        TopologyRound(instance, none)


@given(st.integers(0, 400), st.integers(0, 10_000))
def test_an_allocation_is_worth_no_more_on_a_slower_tree(seed: int, draw: int) -> None:
    """Nor does a tree without slowdowns change what one is worth, to the bit."""
    round_ = tiny_tree(seed)
    random = np.random.default_rng(draw)
    shape = (round_.instance.num_jobs, round_.instance.cluster.num_nodes)
    allocation = Allocation.from_matrix(random.integers(0, 2, size=shape))
    topology = round_.topology
    even = Topology(tuple(Level(one.name) for one in topology.levels), topology.domains)
    slower = Topology(tuple(Level(one.name, 2.0) for one in topology.levels), topology.domains, 5.0)
    alone = fitness(round_.instance, allocation)
    assert topology_fitness(TopologyRound(round_.instance, even), allocation) == alone
    assert topology_fitness(TopologyRound(round_.instance, slower), allocation) <= alone


@pytest.mark.parametrize("fair_share", ["one_node", "packed", "one_gpu", "least"])
def test_utilities_keep_the_share_of_the_flat_round(fair_share: Any) -> None:
    """On one node the tree changes nothing; on several, more slowdown never helps."""
    drawn = generate(seed=2, jobs=6, nodes=4, gpus_per_node=4)
    instance = drawn.replace(rules=drawn.rules.replace(fair_share=fair_share))
    round_ = TopologyRound(instance, Topology.regular(4, [(Level("rack"), 2)], 3.0))
    flat = utility_table(instance).moved
    leveled = mode_utilities(round_.leveled).moved.reshape(6, 2, *flat.shape[1:])
    assert np.array_equal(leveled[:, 0], flat)
    assert np.allclose(leveled[:, 1, 0], flat[:, 0], rtol=1e-12)
    assert (leveled[:, 1, 1] <= flat[:, 1] * (1 + 1e-12)).all()
    assert (leveled[:, 1, 1] < flat[:, 1]).any()


@given(st.integers(0, 400), st.integers(0, 10_000))
def test_the_checker_finds_what_arrays_find(seed: int, draw: int) -> None:
    """Levels that jobs require and uplinks, counted in another way."""
    round_ = tiny_tree(seed)
    random = np.random.default_rng(draw)
    shape = (round_.instance.num_jobs, round_.instance.cluster.num_nodes)
    allocation = Allocation.from_matrix(random.integers(0, 2, size=shape))
    found = topology_violations(round_, allocation)
    own = [one.rule for one in found[len(violations(round_.instance, allocation)) :]]
    beyond = int((round_.level_of(allocation) > round_.required).sum())
    crowded = 0
    for place, most in round_.topology.limited_levels.items():
        _, domains = round_.crossings(allocation, place)
        crowded += int((np.bincount(domains) > most).sum()) if domains.size else 0
    assert own.count("requires") == beyond
    assert own.count("uplink_jobs") == crowded
