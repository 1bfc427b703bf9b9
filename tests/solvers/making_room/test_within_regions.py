"""Room within one domain of a tree: optimal beside brute force, and what it has in common."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.rounds import generate_scattered
from goodalloc.data.topology import standard_tree
from goodalloc.formulations.making_room import (
    build_moves_program,
    build_region_moves,
    movable_jobs,
)
from goodalloc.models import Cluster, Instance, Job, NodeGroup
from goodalloc.models.making_room import Gang
from goodalloc.models.topology import Level, Topology, TopologyRound, TreeWishes, job_regions
from goodalloc.solvers import Stop
from goodalloc.solvers.interface import Watch
from goodalloc.solvers.making_room import (
    fewest_moves,
    least_preemption,
    move_front,
    within_regions,
)
from goodalloc.solvers.milp import decide
from tests.solvers.making_room.enumerated_rooms import (
    all_nodes_of,
    best_moves,
    best_victims,
    random_cluster,
    random_costs,
)
from tests.support.few import few

if TYPE_CHECKING:
    from goodalloc.formulations.basics import Program
    from goodalloc.models.making_room import RoomPlan
    from goodalloc.solvers.milp import Decision

NODES = 4


def random_tree(random: np.random.Generator, limits: tuple[int | None, ...]) -> Topology:
    """Return a tree of four nodes, of racks and of pods of racks; racks need not be neighbours."""
    racks = random.integers(3, size=NODES)
    pods = random.integers(2, size=3)
    names = [tuple(f"r{rack}" for rack in racks), tuple(f"p{pods[rack]}" for rack in racks)]
    levels = [
        Level(name, uplink_jobs=limits[int(random.integers(len(limits)))])
        for name in ("rack", "pod")
    ]
    return Topology(tuple(levels), tuple(names))


def nodes_within(
    instance: Instance, topology: Topology, gang: Gang, level: str
) -> list[tuple[int, ...]]:
    """Return the sets of nodes on which the gang breaks no rule of the tree, by its checker."""
    tree = TreeWishes(topology, requires=(("gang", level),))
    placements = dict(
        zip((job.name for job in instance.jobs), instance.current.placements(), strict=True)
    )
    before = {*tree.broken_rules(instance.cluster, placements)}
    return [
        nodes
        for nodes in all_nodes_of(instance, gang)
        if {
            *tree.broken_rules(
                instance.cluster, {**placements, "gang": tuple((node, 1) for node in nodes)}
            )
        }
        <= before
    ]


def checked(plan: RoomPlan, best: float, choices: list[tuple[int, ...]], seed: int) -> None:
    """Refuse a plan that is not the best, or whose gang lies elsewhere."""
    assert plan.cost == pytest.approx(best), seed
    assert plan.proven, seed
    assert plan.found == math.isfinite(best), seed
    assert not plan.found or plan.gang_nodes in choices, seed


@pytest.mark.parametrize("first", few(range(0, 320, 10), 2))
def test_the_fewest_moves_within_a_domain_are_those_of_brute_force(first: int) -> None:
    """On trees whose uplinks may be full, with costs of 1 and with random ones."""
    for seed in range(first, first + 10):
        instance = random_cluster(seed, NODES)
        random = np.random.default_rng([seed, 5])
        topology = random_tree(random, (None, None, 0, 1, 2))
        gang = Gang(2 + int(random.random() < 0.2), 1 + int(random.random() < 0.7))
        level = str(random.choice(["rack", "pod", "cluster"]))
        choices = nodes_within(instance, topology, gang, level)
        regions = job_regions(TopologyRound(instance, topology), level)
        ones = dict.fromkeys(random_costs(instance, random), 1.0)
        for costs in (None, random_costs(instance, random)):
            best = best_moves(instance, gang, ones if costs is None else costs, choices)
            plan = fewest_moves(instance, gang, costs=costs, regions=regions)
            checked(plan, best, choices, seed)


@pytest.mark.parametrize("first", few(range(0, 320, 10), 2))
def test_the_least_losses_within_a_domain_are_those_of_brute_force(first: int) -> None:
    """With random losses, groups and quotas, on trees without limits on uplinks."""
    for seed in range(first, first + 10):
        instance = random_cluster(seed, NODES)
        random = np.random.default_rng([seed, 6])
        topology = random_tree(random, (None,))
        gang = Gang(int(random.integers(1, 4)), int(random.integers(1, 4)))
        level = str(random.choice(["node", "rack", "pod", "cluster"]))
        choices = nodes_within(instance, topology, gang, level)
        regions = job_regions(TopologyRound(instance, topology), level)
        losses = random_costs(instance, random)
        groups = {index: "ab"[index % 2] for index in range(instance.num_jobs)}
        own = {name: int(random.integers(4)) for name in sorted(set(groups.values()))}
        for quotas in ({}, own):
            best = best_victims(instance, gang, losses, groups, quotas, choices)
            plan = least_preemption(
                instance, gang, losses=losses, groups=groups, quotas=quotas, regions=regions
            )
            checked(plan, best, choices, seed)


@pytest.mark.parametrize("seed", few(range(8), 1))
def test_victims_within_a_rack_are_the_best_of_all_racks(seed: int) -> None:
    """A rack whose GPUs alone are of the type that the gang asks for, one after the other."""
    drawn = generate_scattered(seed, jobs=150, nodes=64, gpus_per_node=4)
    jobs = tuple(Job(job.name, placement=job.placement) for job in drawn.jobs)
    instance = drawn.replace(jobs=jobs)
    racks = np.random.default_rng(seed).permutation(64) // 8
    losses = dict(enumerate(np.random.default_rng(seed).uniform(1, 10, len(jobs)).tolist()))
    groups = {job: "ab"[job % 2] for job in range(len(jobs))}
    for nodes, quotas in ((3, {}), (7, {}), (7, {"a": 90, "b": 60})):
        given = {"losses": losses, "groups": groups, "quotas": quotas}
        found = []
        for rack in range(8):
            typed = [
                NodeGroup(f"n{node}", 1, 4, "here" if own else "there")
                for node, own in enumerate(racks == rack)
            ]
            alone = instance.replace(cluster=Cluster(tuple(typed)))
            found.append(least_preemption(alone, Gang(nodes, 3, "here"), **given))  # type: ignore[arg-type]
        plan = least_preemption(instance, Gang(nodes, 3), regions=racks, **given)  # type: ignore[arg-type]
        assert plan.proven
        assert plan.cost == pytest.approx(min(one.cost for one in found))


@pytest.mark.parametrize("seed", few(range(8), 1))
def test_no_rack_has_a_plan_below_its_bound(seed: int) -> None:
    """One rack after the other is the only one with enough nodes; the best is that of all."""
    instance = generate_scattered(seed, jobs=80, nodes=32, gpus_per_node=4, ended=0.1)
    random = np.random.default_rng(seed)
    racks = random.permutation(32) // 8
    costs = dict(enumerate(random.uniform(1, 10, instance.num_jobs).tolist()))
    movable = {job: costs[job] for job in movable_jobs(instance)}
    gang, found = Gang(5, 2), []
    program = build_region_moves(build_moves_program(instance, gang, movable), gang)
    for rack, counts in enumerate(program.counts(racks)):
        alone = np.where(racks == rack, 32, np.arange(32))
        found.append(fewest_moves(instance, gang, costs=costs, regions=alone))
        assert found[-1].proven
        assert program.bound(counts, gang) <= found[-1].cost + 1e-9
    plan = fewest_moves(instance, gang, costs=costs, regions=racks)
    assert plan.proven
    assert plan.cost == pytest.approx(min(one.cost for one in found))


def test_larger_domains_never_cost_more() -> None:
    """Up to the whole cluster, which is the room without a tree; both by moves and by stops."""
    instance = generate_scattered(3, jobs=150, nodes=64, gpus_per_node=4, ended=0.15)
    tree = TopologyRound(instance, standard_tree(64))
    for gang in (Gang(3, 4), Gang(4, 4), Gang(9, 4)):
        for best in (fewest_moves, least_preemption):
            found = [
                best(instance, gang, regions=job_regions(tree, level))
                for level in ("island", "rack", "cluster")
            ]
            costs = [plan.cost for plan in found]
            assert costs == sorted(costs, reverse=True)
            assert costs[-1] == best(instance, gang).cost
            assert all(plan.proven for plan in found)
            assert (gang.nodes > 4) == math.isinf(costs[0])


def round_whose_jobs_hardly_fit() -> tuple[Instance, np.ndarray]:
    """Return three racks: the three GPUs of node 1 fit only where another job leaves."""
    held = {1: 3, 2: 2, 3: 2, 4: 3, 5: 3}
    jobs = tuple(Job(f"job{node}", placement=((node, gpus),)) for node, gpus in held.items())
    return Instance(Cluster.uniform(6, 4), jobs), np.array([0, 0, 1, 1, 2, 2])


@pytest.mark.parametrize(("price", "nodes", "cost"), [(1.0, (0, 1), 6.0), (6.0, (2, 3), 10.0)])
def test_what_moves_for_the_jobs_that_move_counts_too(
    price: float, nodes: tuple[int, ...], cost: float
) -> None:
    """The job of node 1 takes the place of another one, which moves to a third node."""
    instance, racks = round_whose_jobs_hardly_fit()
    costs = {0: price, 1: 5.0, 2: 5.0, 3: 9.0, 4: 9.0}
    plan = fewest_moves(instance, Gang(2, 4), costs=costs, regions=racks)
    assert (plan.gang_nodes, plan.cost, plan.proven) == (nodes, cost, True)


def test_a_search_that_ends_early_has_the_bound_of_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the first rack, whose plan costs 11 beside a bound of 6; that of the next is 10."""

    def interrupted(program: Program, priced: Any, watch: Watch, **options: Any) -> Decision:
        watch.interrupted = bool(program.rows_of("within").size)
        return decide(program, priced, Watch(Stop()), **options)

    monkeypatch.setattr(within_regions, "decide", interrupted)
    instance, racks = round_whose_jobs_hardly_fit()
    costs = {0: 6.0, 1: 5.0, 2: 5.0, 3: 9.0, 4: 9.0}
    plan = fewest_moves(instance, Gang(2, 4), costs=costs, regions=racks)
    assert (plan.gang_nodes, plan.cost, plan.bound) == ((0, 1), 11.0, 10.0)
    assert not plan.proven


def test_a_gang_of_another_type_uses_only_its_nodes() -> None:
    """Of the domains, too."""
    cluster = Cluster((NodeGroup("a", 2, 2, "A"), NodeGroup("b", 4, 2, "B")))
    instance = Instance(cluster, (Job("x", placement=((3, 1),)), Job("y", placement=((5, 1),))))
    racks = np.array([0, 0, 1, 1, 2, 2])
    assert fewest_moves(instance, Gang(2, 2, "B"), regions=racks).cost == 1.0
    assert fewest_moves(instance, Gang(2, 2, "A"), regions=racks).gang_nodes == (0, 1)
    assert fewest_moves(instance, Gang(3, 2, "B"), regions=racks).bound == math.inf


def test_without_time_nothing_is_claimed() -> None:
    """Neither a plan nor that there is none."""
    instance = generate_scattered(0, jobs=150, nodes=64, gpus_per_node=4)
    racks, stop = np.arange(64) // 8, Stop(seconds=1e-6)
    for plan in (
        fewest_moves(instance, Gang(6, 4), regions=racks, stop=stop),
        least_preemption(instance, Gang(6, 4), regions=racks, stop=stop),
    ):
        assert not plan.found
        assert not plan.proven


def test_what_is_wrong_is_refused() -> None:
    """As without regions, and regions of other nodes."""
    instance = Instance(Cluster.uniform(2, 2), (Job("x", placement=((0, 1),)),))
    with pytest.raises(ValueError, match=r"Regions: shape is \(3,\); expected \(2,\)"):
        fewest_moves(instance, Gang(1, 1), regions=np.zeros(3, dtype=np.int64))
    with pytest.raises(ValueError, match="Regions: shape"):
        least_preemption(instance, Gang(1, 1), regions=np.zeros(1, dtype=np.int64))
    with pytest.raises(ValueError, match="gpu_type is 'H100'"):
        fewest_moves(instance, Gang(1, 1, "H100"), regions=np.zeros(2, dtype=np.int64))
    with pytest.raises(ValueError, match="Cost of a move of job 7"):
        fewest_moves(instance, Gang(1, 1), costs={7: 1.0}, regions=np.zeros(2, dtype=np.int64))


def test_a_front_of_one_domain_is_that_without_a_tree() -> None:
    """Number by number."""
    instance = generate_scattered(0, jobs=150, nodes=64, gpus_per_node=4)
    whole = np.zeros(64, dtype=np.int64)
    for plan in move_front(instance, Gang(1, 4), (8, 16, 24)):
        gang = Gang(len(plan.gang_nodes), 4)
        assert fewest_moves(instance, gang, regions=whole)._replace(seconds=0.0) == plan._replace(
            seconds=0.0
        )
