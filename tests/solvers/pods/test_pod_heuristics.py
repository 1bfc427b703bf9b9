"""Best fit and fragmentation gradient descent: feasible on everything, and as published by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from goodalloc.formulations.pods.demand import pod_demands
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable, resources
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact.brute_force import solve_brute_force
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.pods.best_fit import solve_best_fit
from goodalloc.solvers.pods.fragmentation import Gradient, TaskMix, solve_fgd
from goodalloc.solvers.pods.node_room import NodeRoom
from tests.support.random_instances import (
    random_instance,
    random_mode_instance,
    random_share_instance,
)

Solver = Callable[..., Any]


@pytest.mark.parametrize("name", ["best_fit", "fgd"])
@pytest.mark.parametrize("draw", [random_instance, random_mode_instance, random_share_instance])
def test_placements_are_feasible_and_never_better_than_the_optimum(
    name: str, draw: Callable[[int], Instance]
) -> None:
    """Whatever runs, is pinned, shares GPUs or needs none."""
    for seed in range(15):
        instance = draw(seed)
        result = solve(instance, name)
        assert result.allocation is not None, result.message
        optimum = solve_brute_force(instance, break_ties=False).bound
        assert result.fitness <= optimum * (1 + 1e-12)
        assert result.bound >= optimum * (1 - 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["best_fit", "fgd"])
def test_placements_are_feasible_on_thousands(name: str) -> None:
    """5,000 instances with shares, without their optimum."""
    solver = {"best_fit": solve_best_fit, "fgd": solve_fgd}[name]
    for seed in range(1_000, 6_000):
        instance = random_share_instance(seed)
        allocation = solver(instance).allocation
        assert isinstance(allocation, Allocation)
        assert not violations(instance, allocation), instance.name


def pod(name: str, share: float, replicas: int = 1, cores: float = 1.0, kind: str = "") -> Job:
    """A pod that is worth its GPUs."""
    worth = SpeedupTable((0.0,) * (replicas - 1) + (max(share * replicas, 0.01),), ())
    mode = Mode("pod", worth, kind, resources({"cpu": cores / replicas}), gpu_share=share)
    return Job(name, modes=(mode,), min_replicas=replicas, max_replicas=replicas)


CLUSTER = Cluster(
    (
        NodeGroup("big", 1, 4, "a", resources({"cpu": 16})),
        NodeGroup("small", 1, 2, "b", resources({"cpu": 4})),
        NodeGroup("bare", 1, 0, resources=resources({"cpu": 8})),
    )
)
RULES = Rules(power=1.0, restart_delay=0.0, speedup_scale="job", max_nodes_per_job=1)


def test_best_fit_takes_the_node_with_the_least_left() -> None:
    """The small node first, then its fuller GPU; whole GPUs where two are free; cores where not."""
    jobs = (pod("a", 0.5), pod("b", 0.4), pod("c", 1.0, 2), pod("d", 0.0, cores=2), pod("e", 0.9))
    instance = Instance(CLUSTER, jobs, RULES)
    found = solve_best_fit(instance).allocation
    assert found is not None
    assert found.matrix().tolist() == [[0, 1, 0], [0, 1, 0], [2, 0, 0], [0, 1, 0], [1, 0, 0]]


def test_fragmentation_is_what_the_mix_cannot_use() -> None:
    """Equations (1) and (2) by hand, on a node with 1, 0.5 and 0.3 of its GPUs and 4 cores free."""
    jobs = (
        pod("part", 0.4),
        pod("also", 0.4),
        pod("whole", 1.0),
        pod("two", 1.0, 2),
        pod("wide", 0.4, cores=8),
        pod("other", 0.4, kind="b"),
        pod("server", 0.0),
        pod("small", 0.2),
    )
    instance = Instance(CLUSTER, jobs, RULES)
    mix = TaskMix.of(instance, pod_demands(instance))
    found = mix.fragmentation(np.array([0]), np.array([[1.0, 0.5, 0.3, 0.0]]), np.array([[4.0]]))
    # 0.3 twice for the parts, 0.8 for the whole GPU, all 1.8 for two, wide, other and server
    assert found == pytest.approx([(2 * 0.3 + 0.8 + 4 * 1.8 + 0.0) / 8])


def test_growth_is_the_change_of_fragmentation() -> None:
    """What is kept from pod to pod equals what is worked out from nothing."""
    for seed in range(40):
        instance = random_share_instance(seed)
        room = NodeRoom(instance)
        gradient = Gradient(room)
        for job in room.waiting:
            for demand in room.demands[job]:
                growth, gpus = gradient.growth(demand)
                fresh, same = Gradient(room).growth(demand)
                np.testing.assert_allclose(growth, fresh, atol=1e-8)
                node = int(np.argmin(growth))
                if np.isfinite(growth[node]):
                    assert gpus[node] == same[node]
                    room.put(job, demand, node, None if gpus[node] < 0 else int(gpus[node]))
                    gradient.update(node)
                    break


def test_fgd_fills_the_broken_gpu_where_best_fit_breaks_another() -> None:
    """The published example in small: a part of a GPU goes where no whole one is lost."""
    cluster = Cluster(
        (
            NodeGroup("full", 1, 1, resources=resources({"cpu": 2})),
            NodeGroup("broken", 1, 2, resources=resources({"cpu": 16})),
        )
    )
    jobs = (pod("first", 1.0, 1, 2), pod("half", 0.5), pod("half2", 0.5), pod("whole", 1.0))
    running = jobs[1].replace(placement=((1, 1),), mode="pod", preemptible=False, age=1e9)
    instance = Instance(cluster, (jobs[0], running, jobs[2], jobs[3]), RULES)
    allocation = solve_fgd(instance).allocation
    assert allocation is not None
    assert allocation.matrix().tolist() == [[1, 0], [0, 1], [0, 1], [0, 1]]


@pytest.mark.parametrize("solver", [solve_best_fit, solve_fgd])
def test_no_time_places_nothing(solver: Solver) -> None:
    """The limit is kept and said."""
    instance = Instance(CLUSTER, (pod("a", 0.5), pod("b", 0.5)), RULES)
    answer = solver(instance, stop=Stop(seconds=1e-9))
    assert answer.limit == "time"
    assert not answer.allocation.job.size


@pytest.mark.parametrize("solver", [solve_best_fit, solve_fgd])
def test_the_same_round_gives_the_same_placement(solver: Solver) -> None:
    """There is no randomness."""
    instance = random_share_instance(5)
    assert solver(instance).allocation == solver(instance).allocation
