"""Policies that know the tree: the proven optimum of a round, and numbers of others placed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from goodalloc.data.applications.profiles import load_profile
from goodalloc.models.goodput.model import BatchLimits, GoodputModel
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.rules import OSDI21
from goodalloc.models.topology.topology import Level, Topology
from goodalloc.models.topology.topology_feasibility import topology_violations
from goodalloc.models.topology.topology_round import topology_fitness
from goodalloc.models.topology.tree_wishes import TreeWishes
from goodalloc.solvers.policies.policy import ActiveJob, Decision, Round
from goodalloc.solvers.topology import exact_tree
from goodalloc.solvers.topology.exact_tree import solve_tree
from goodalloc.solvers.topology.tree_policy import GAP, PlacedOnTree, PolluxOnTree, placed_by

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.policies.policy import BatchSizes, Oracle

CLUSTER = Cluster.uniform(4, 2)
RACKS = Topology.regular(4, [(Level("rack"), 2)], slowdown=4.0)


@dataclass
class NoOracle:
    """An oracle that is not asked."""


def active(name: str, placement: Placement = (), replicas: int = 1) -> ActiveJob:
    """Return a job that trains CIFAR-10 and has run on up to 4 GPUs."""
    profile = load_profile("cifar10")
    model = GoodputModel(profile.throughput, profile.gradient_in_epoch(5, 512), profile.batch)
    oracle: Oracle = NoOracle()  # type: ignore[assignment]
    return ActiveJob(
        name=name,
        application="cifar10",
        submission=0,
        age=600,
        placement=placement,
        restarts=0,
        attained_service=0.0,
        replicas=replicas,
        batch_size=512,
        batch=BatchLimits(128, 4096, 32, 1024),
        fixed_replicas=None,
        most_explored=4,
        model=lambda: model,
        oracle=oracle,
    )


@dataclass
class Given:
    """Policy with one decision."""

    placements: dict[str, Placement]
    batch_sizes: BatchSizes = field(default="requested", init=False)

    def decide(self, round_: Round) -> Decision:
        """Return the decision."""
        return Decision(self.placements)


def test_pollux_on_a_tree_decides_the_proven_optimum() -> None:
    round_ = Round(60, CLUSTER, (active("a", ((0, 2), (2, 2))), active("b")))
    wishes = TreeWishes(RACKS, requires=(("b", "node"),))
    decision = PolluxOnTree(wishes).decide(round_)
    on_tree = wishes.round_of(round_.instance(OSDI21))
    found = Allocation.from_placements([decision.placements[n] for n in "ab"], 4)
    assert topology_violations(on_tree, found) == ()
    best = solve_tree(on_tree)
    assert topology_fitness(on_tree, found) >= best.fitness * (1 - GAP)
    assert decision.bound is not None
    assert decision.bound >= best.fitness * (1 - 1e-9)
    assert decision.instance is None


def test_a_job_on_two_racks_is_brought_together() -> None:
    """Its synchronisation takes four times as long there, which is worth a restart."""
    round_ = Round(60, CLUSTER, (active("a", ((0, 2), (2, 2))),))
    (placement,) = PolluxOnTree(TreeWishes(RACKS)).decide(round_).placements.values()
    assert {node // 2 for node, _ in placement} in ({0}, {1})


def test_where_nothing_is_found_in_time_jobs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    round_ = Round(60, CLUSTER, (active("a", ((1, 2),)),))
    found = solve_tree(TreeWishes(RACKS).round_of(round_.instance(OSDI21)))

    def nothing(*_: object, **__: object) -> object:
        return replace(found, allocation=None)

    monkeypatch.setattr(exact_tree, "solve_tree", nothing)
    policy = PolluxOnTree(TreeWishes(RACKS), seconds=0.1)
    assert policy.decide(round_).placements == {"a": ((1, 2),)}


def test_jobs_that_another_policy_leaves_stay_and_others_are_placed_within_a_rack() -> None:
    round_ = Round(60, CLUSTER, (active("a", ((0, 2),)), active("b")))
    policy = PlacedOnTree(Given({"a": ((0, 2),), "b": ((1, 2), (2, 2))}), TreeWishes(RACKS))
    decision = policy.decide(round_)
    assert decision.placements == {"a": ((0, 2),), "b": ((2, 2), (3, 2))}
    assert policy.batch_sizes == "requested"


@pytest.mark.parametrize(("rigid", "expected"), [(True, 0), (False, 2)])
def test_a_job_without_room_gets_what_there_is_unless_it_is_rigid(
    rigid: bool, expected: int
) -> None:
    """Two jobs, of 3 and 4 GPUs, which one node each has to hold."""
    wishes = TreeWishes(RACKS, requires=(("a", "node"),))
    policy = PlacedOnTree(Given({"a": ((0, 2), (1, 1))}), wishes, rigid=rigid)
    placement = policy.decide(Round(60, CLUSTER, (active("a"),))).placements["a"]
    assert sum(gpus for _, gpus in placement) == expected


def test_nodes_that_another_policy_asks_for_are_asked_for() -> None:
    class Asking(Given):
        def decide(self, round_: Round) -> Decision:
            return Decision({}, nodes=3)

    policy = PlacedOnTree(Asking({}), TreeWishes(RACKS))
    assert policy.decide(Round(60, CLUSTER, (active("a"),))).nodes == 3


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pollux", ("pollux", None)),
        ("pollux@exact", ("pollux", "exact")),
        ("pollux@least_free", ("pollux", "least_free")),
        ("my.module:Policy@balanced", ("my.module:Policy", "balanced")),
    ],
)
def test_a_name_tells_policy_and_placing(name: str, expected: tuple[str, str | None]) -> None:
    assert placed_by(name) == expected


@pytest.mark.parametrize("name", ["pollux@", "tiresias@exact", "pollux@best-fit", "a@b@best_fit"])
def test_an_unknown_placing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"its placing is '.*'; expected one of"):
        placed_by(name)
