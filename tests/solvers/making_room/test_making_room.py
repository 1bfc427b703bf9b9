"""Making room for a gang: optimal beside brute force, never worse than greedy, checked plans."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from goodalloc.data.rounds import generate_scattered
from goodalloc.models import Cluster, Instance, Job, NodeGroup
from goodalloc.models.making_room import Gang, Move, RoomPlan, room_violations
from goodalloc.solvers.making_room import (
    fewest_moves,
    greedy_moves,
    greedy_preemption,
    least_preemption,
    move_front,
)
from tests.solvers.making_room.enumerated_rooms import (
    all_nodes_of,
    best_moves,
    best_victims,
    random_cluster,
    random_costs,
)


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_the_fewest_moves_are_those_of_brute_force(first: int) -> None:
    """A hundred and twenty small clusters, with costs of 1 and with random ones."""
    for seed in range(first, first + 30):
        instance = random_cluster(seed)
        random = np.random.default_rng(seed)
        gang = Gang(int(random.integers(1, 4)), int(random.integers(1, 4)))
        for costs in (None, random_costs(instance, random)):
            ones = dict.fromkeys(random_costs(instance, random), 1.0)
            choices = all_nodes_of(instance, gang)
            best = best_moves(instance, gang, ones if costs is None else costs, choices)
            plan = fewest_moves(instance, gang, costs=costs)
            assert plan.cost == pytest.approx(best), seed
            assert plan.proven
            assert plan.found == math.isfinite(best)
            assert greedy_moves(instance, gang, costs=costs).cost >= best - 1e-9


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_the_least_losses_are_those_of_brute_force(first: int) -> None:
    """With random losses, groups and quotas."""
    for seed in range(first, first + 30):
        instance = random_cluster(seed)
        random = np.random.default_rng(seed)
        gang = Gang(int(random.integers(1, 4)), int(random.integers(1, 4)))
        losses = random_costs(instance, random)
        groups = {index: "ab"[index % 2] for index in range(instance.num_jobs)}
        own = {name: int(random.integers(4)) for name in sorted(set(groups.values()))}
        for quotas in ({}, own):
            choices = all_nodes_of(instance, gang)
            best = best_victims(instance, gang, losses, groups, quotas, choices)
            given = {"losses": losses, "groups": groups, "quotas": quotas}
            plan = least_preemption(instance, gang, **given)  # type: ignore[arg-type]
            assert plan.cost == pytest.approx(best), seed
            assert plan.proven
            greedy = greedy_preemption(instance, gang, **given)  # type: ignore[arg-type]
            assert greedy.cost >= best - 1e-9


def test_large_clusters_are_proved_and_greedy_is_never_better() -> None:
    """Five hundred nodes of eight GPUs, costs of their own for all jobs."""
    instance = generate_scattered(1, jobs=2400, nodes=500, gpus_per_node=8)
    random = np.random.default_rng(0)
    costs = {index: float(cost) for index, cost in enumerate(random.uniform(1, 10, 2400))}
    gang = Gang(100, 8)
    plan = fewest_moves(instance, gang, costs=costs)
    assert plan.proven
    assert plan.found
    assert plan.cost <= greedy_moves(instance, gang, costs=costs).cost
    stopped = least_preemption(instance, gang, losses=costs)
    assert stopped.proven
    assert stopped.cost <= greedy_preemption(instance, gang, losses=costs).cost


def test_more_nodes_never_cost_less() -> None:
    """The front of moves against freed nodes, until no moves make room."""
    instance = generate_scattered(0, jobs=150, nodes=64, gpus_per_node=4)
    front = move_front(instance, Gang(1, 4), range(1, 65))
    costs = [plan.cost for plan in front]
    assert costs == sorted(costs)
    assert 1 < len(front) < 64
    assert [len(plan.gang_nodes) for plan in front] == list(range(1, len(front) + 1))


def test_only_nodes_of_the_gangs_type_are_used() -> None:
    """Jobs stay on their type, too."""
    groups = (NodeGroup("a", 2, 2, "A"), NodeGroup("b", 2, 2, "B"))
    jobs = (Job("x", placement=((0, 1),)), Job("y", placement=((1, 1),)))
    instance = Instance(Cluster(groups), jobs)
    plan = fewest_moves(instance, Gang(1, 2, "A"))
    assert plan.cost == 1.0
    assert set(plan.gang_nodes) <= {0, 1}
    assert fewest_moves(instance, Gang(2, 2, "A")).cost == math.inf
    assert fewest_moves(instance, Gang(2, 2, "B")).cost == 0.0


def test_a_distributed_job_is_stopped_once_and_frees_all_its_nodes() -> None:
    """One loss of 3 beats two of 2."""
    jobs = (
        Job("wide", placement=((0, 2), (1, 2))),
        Job("x", placement=((2, 2),)),
        Job("y", placement=((3, 2),)),
    )
    instance = Instance(Cluster.uniform(4, 2), jobs)
    plan = least_preemption(instance, Gang(2, 2), losses={0: 3.0, 1: 2.0, 2: 2.0})
    assert (plan.victims, plan.gang_nodes, plan.cost) == ((0,), (0, 1), 3.0)


def test_quotas_protect_what_is_a_groups_own() -> None:
    """Only what is borrowed can be taken."""
    jobs = tuple(Job(f"job{node}", placement=((node, 2),)) for node in range(3))
    instance = Instance(Cluster.uniform(3, 2), jobs)
    groups = {0: "a", 1: "b", 2: "b"}
    plan = least_preemption(instance, Gang(1, 2), groups=groups, quotas={"a": 2, "b": 2})
    assert plan.victims in {(1,), (2,)}
    none = least_preemption(instance, Gang(2, 2), groups=groups, quotas={"a": 2, "b": 2})
    assert none.cost == math.inf
    assert none.proven


def test_every_broken_rule_of_a_plan_is_told() -> None:
    """By a checker that shares nothing with the solvers."""
    jobs = (
        Job("stays", placement=((0, 1),), preemptible=False),
        Job("x", placement=((1, 2),)),
        Job("wide", placement=((1, 1), (2, 1))),
    )
    instance = Instance(Cluster.uniform(3, 3), jobs)
    gang = Gang(1, 3)

    def told(
        nodes: tuple[int, ...], moves: tuple[Move, ...] = (), stops: tuple[int, ...] = ()
    ) -> str:
        return " ".join(room_violations(instance, gang, RoomPlan(nodes, moves, stops, 0, 0, 0)))

    assert "cannot be stopped" in told((0,), stops=(0,))
    assert "cannot move" in told((0,), (Move(0, 0, 2),))
    assert "is not on node 'node-1' alone" in told((1,), (Move(2, 1, 0),))
    assert "moves twice" in told((1,), (Move(1, 1, 0), Move(1, 1, 2)))
    assert "3 GPUs free" not in told((0,))
    assert "has 2 GPUs free; the gang needs 3" in told((0,))
    assert "more than it has" in told((0,), (Move(1, 1, 2), Move(1, 1, 2)))
    assert "gets 0 nodes; it needs 1" in told(())
    wide = room_violations(instance, Gang(2, 1), RoomPlan((0, 2), (), (), 0, 0, 0))
    assert wide == ["node 'node-2' is none that the gang may use."]


@pytest.mark.parametrize(
    ("gang", "complaint"),
    [
        ({"nodes": 0, "gpus_per_node": 1}, "Gang: nodes is 0"),
        ({"nodes": 1, "gpus_per_node": 0}, "Gang: gpus_per_node is 0"),
    ],
)
def test_impossible_gangs_are_refused(gang: dict[str, int], complaint: str) -> None:
    """One sentence."""
    with pytest.raises(ValueError, match=complaint):
        Gang(gang["nodes"], gang["gpus_per_node"])


def test_what_no_plan_can_answer_is_refused() -> None:
    """Types that are missing or not there, other resources, costs out of range."""
    plain = Instance(Cluster.uniform(2, 2), (Job("x", placement=((0, 1),)),))
    typed = Instance(Cluster((NodeGroup("a", 1, 2, "A"), NodeGroup("b", 1, 2, "B"))), (Job("x"),))
    cores = NodeGroup("a", 1, 2, resources=(("cpu", 8.0),))
    cases = [
        (plain, Gang(1, 1, "H100"), {}, "gpu_type is 'H100'"),
        (typed, Gang(1, 1), {}, "gpu_type is empty; expected one of A, B"),
        (Instance(Cluster((cores,)), (Job("x"),)), Gang(1, 1), {}, "nodes have cpu"),
        (plain, Gang(1, 1), {"costs": {0: -1.0}}, "Cost of a move of job 0"),
        (plain, Gang(1, 1), {"costs": {7: 1.0}}, "job 7"),
    ]
    for instance, gang, options, complaint in cases:
        with pytest.raises(ValueError, match=complaint):
            fewest_moves(instance, gang, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Quota of group 'a' is -1"):
        least_preemption(plain, Gang(1, 1), groups={0: "a"}, quotas={"a": -1})
    with pytest.raises(ValueError, match="Quota of group 'b': no job belongs to it; expected one"):
        least_preemption(plain, Gang(1, 1), groups={0: "a"}, quotas={"b": 1})
    with pytest.raises(ValueError, match=r"Loss of job 0"):
        least_preemption(plain, Gang(1, 1), losses={0: float("nan")})


def test_a_gang_that_fits_already_costs_nothing() -> None:
    """No moves, no victims."""
    instance = replace(generate_scattered(0, jobs=4, nodes=8, gpus_per_node=4))
    for plan in (
        fewest_moves(instance, Gang(2, 2)),
        greedy_moves(instance, Gang(2, 2)),
        least_preemption(instance, Gang(2, 2)),
        greedy_preemption(instance, Gang(2, 2)),
    ):
        assert (plan.cost, plan.moves, plan.victims) == (0.0, (), ())
        assert len(plan.gang_nodes) == 2


@pytest.mark.parametrize("ended", [-0.1, 1.5, float("nan")])
def test_impossible_shares_of_ended_jobs_are_refused(ended: float) -> None:
    """One sentence."""
    with pytest.raises(ValueError, match="Share of ended jobs"):
        generate_scattered(0, jobs=4, nodes=8, gpus_per_node=4, ended=ended)
