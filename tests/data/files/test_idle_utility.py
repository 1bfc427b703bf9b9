"""What a job that holds nothing is worth when the rules say so: every road, and Sia's preset."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.applications.gpu_types import load_type_profile
from goodalloc.data.files.instance import instance_from_dict, instance_to_dict
from goodalloc.data.rounds.synergy import synergy_round
from goodalloc.formulations.gpu_rounds.concave_relaxation import solve_concave_relaxation
from goodalloc.formulations.gpu_rounds.knapsack import knapsack_bound
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable
from goodalloc.models.round.objective import (
    LEAST_UTILITY,
    fitness,
    mode_utilities,
    speedup_table,
    utilities,
)
from goodalloc.models.round.rules import SIA, Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact.brute_force import solve_brute_force
from goodalloc.solvers.interface.result import Status
from goodalloc.solvers.interface.stop import Stop
from tests.support.few import few
from tests.support.random_instances import (
    random_instance,
    random_mode_instance,
    random_pod_instance,
    random_share_instance,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def with_idle_utility(
    seed: int, draw: Callable[[int, float | None], Instance] = random_instance
) -> Instance:
    """A random round in which idling is worth something, often more than running."""
    instance = draw(seed, None)
    generator = np.random.default_rng([seed, 2])
    rules = instance.rules.replace(
        idle_utility=float(generator.choice([1e-3, 0.1, 0.8, 2.0])),
        floor=float(generator.choice([0.0, 0.0, 1e-3, 0.5])),
        restart_penalty=("all", "running")[int(generator.integers(2))],
        fair_share=("one_node", "one_gpu", "least")[int(generator.integers(3))],
    )
    instance = instance.replace(rules=rules)
    mode_utilities(instance)
    return instance


@pytest.mark.parametrize("first", few(range(0, 60, 10), 3))
def test_exact_solvers_agree_with_enumeration(first: int) -> None:
    """The optimum and its proof by enumeration, Pyomo and prices and a core; bounds hold."""
    for seed in range(first, first + 10):
        instance = with_idle_utility(seed)
        optimum = solve_brute_force(instance).bound
        for name in ("highs", "pyomo"):
            result = solve(instance, name)
            what = f"{name} on {instance.name} at p = {instance.rules.power:g}"
            assert result.fitness == pytest.approx(optimum, rel=1e-9), what
            assert result.status is Status.OPTIMAL, what
        integer, linear = knapsack_bound(instance, exact=True), knapsack_bound(instance)
        assert optimum <= integer <= linear
        if instance.rules.power <= 1:
            assert solve_concave_relaxation(instance).bound >= optimum


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_exact_solvers_agree_where_jobs_have_modes(first: int) -> None:
    """The same with types of GPU, cores and memory."""
    for seed in range(first, first + 10):
        instance = with_idle_utility(seed, random_mode_instance)
        optimum = solve_brute_force(instance).bound
        result = solve(instance, "pyomo")
        assert result.fitness == pytest.approx(optimum, rel=1e-9), instance.name
        assert result.status is Status.OPTIMAL


@pytest.mark.parametrize("name", ["greedy", "local_search", "knapsack"])
def test_heuristics_are_feasible_and_never_better_than_the_optimum(name: str) -> None:
    """Nor does their certificate lie."""
    for seed in range(400, 430):
        instance = with_idle_utility(seed)
        optimum = solve_brute_force(instance).bound
        result = solve(instance, name, stop=Stop(iterations=5))
        assert result.allocation is not None, result.message
        assert result.fitness <= optimum * (1 + 1e-12)
        assert result.bound >= optimum * (1 - 1e-12)


def test_a_job_that_gains_less_than_idling_stays_idle() -> None:
    """Running is worth 0.5, idling 0.8: every exact solver leaves the GPU alone."""
    rules = Rules(floor=0.0, idle_utility=0.8, speedup_scale="job", restart_delay=0.0)
    slow, fast = (Job(name, SpeedupTable((s,), ())) for name, s in (("slow", 0.5), ("fast", 0.9)))
    instance = Instance(Cluster.uniform(1, 2), (slow, fast), rules)
    for name in ("brute_force", "highs", "pyomo"):
        result = solve(instance, name)
        assert result.allocation is not None
        assert result.allocation.job_replicas.tolist() == [0, 1]
        assert result.fitness == pytest.approx(2 / (1 / 0.8 + 1 / 0.9))


def test_a_job_that_runs_at_no_speed_has_the_least_utility() -> None:
    """Without a floor, so that powers of it stay finite; a pinned job may be worth that."""
    rules = Rules(floor=0.0, idle_utility=0.5)
    stuck = Job("stuck", SpeedupTable((0.0,), ()), placement=((0, 1),), preemptible=False)
    instance = Instance(Cluster.uniform(1, 2), (stuck, Job("idle")), rules)
    found = utilities(instance, instance.current)
    assert found.tolist() == [LEAST_UTILITY, 0.5]
    assert violations(instance, instance.current) == ()
    assert np.isfinite(fitness(instance, instance.current))


def typed_round(*jobs: Job) -> Instance:
    """Two nodes of four T4 and one of eight A100, by Sia's rules."""
    cluster = Cluster((NodeGroup("aws", 2, 4, "t4"), NodeGroup("dgx", 1, 8, "a100")))
    return Instance(cluster, jobs, SIA)


def typed_job(name: str, application: str, **state: object) -> Job:
    """A job of an application with a mode for either type."""
    modes = tuple(
        Mode(kind, load_type_profile(application, kind).goodput_model(0.5), kind)
        for kind in ("t4", "a100")
    )
    return Job(name, modes=modes, **state)  # type: ignore[arg-type]


def test_the_worst_shape_of_a_job_has_the_speedup_of_its_fewest_gpus() -> None:
    """Over both types: one T4 counts 1; with at least four GPUs, four T4 count 4."""
    instance = typed_round(
        typed_job("any", "imagenet"), typed_job("large", "imagenet", min_replicas=4)
    )
    table = speedup_table(instance, "numpy")
    assert table[0, 0, 1] == pytest.approx(1.0)
    assert table[1, 0, 1] > 4.0
    assert table[2, 0, 4] == pytest.approx(4.0)
    ratio = table[1, 0, 1:9] / table[0, 0, 1:9]
    np.testing.assert_allclose(table[3, 0, 4:9] / table[2, 0, 4:9], ratio[3:], rtol=1e-12)


def test_only_running_jobs_older_than_the_delay_pay_for_a_change() -> None:
    """Sia: a job that holds nothing starts freely, and so does a young one move."""
    table = SpeedupTable((1.0, 2.0), ())
    state = {"restarts": 1, "placement": ((0, 1),)}
    jobs = (
        Job("old", table, age=90.0, **state),  # type: ignore[arg-type]
        Job("young", table, age=29.0, **state),  # type: ignore[arg-type]
        Job("idle", table, age=90.0, restarts=1),
    )
    instance = Instance(Cluster.uniform(2, 4), jobs, SIA)
    moved = Allocation.from_matrix([[0, 2], [0, 2], [2, 0]])
    np.testing.assert_allclose(utilities(instance, moved), [2.0 * 60 / 120, 2.0, 2.0])
    assert utilities(instance, instance.current).tolist() == [1.0, 1.0, SIA.idle]
    everyone = instance.replace(rules=SIA.replace(restart_penalty="all"))
    np.testing.assert_allclose(utilities(everyone, moved), [1.0, 0.0, 1.0], atol=1e-6)


def test_the_fitness_of_sias_rules_is_sias_objective() -> None:
    """The mean over the jobs of (r G)^p and lambda, to the power 1 / p."""
    jobs = (Job("a", SpeedupTable((1.0, 1.8), ())), Job("b", SpeedupTable((1.0, 1.5), ())))
    instance = Instance(Cluster.uniform(1, 2), jobs, SIA)
    objective = 1.8**-0.5 + 1.1
    found = fitness(instance, Allocation.from_matrix([[2], [0]]))
    assert found == pytest.approx((objective / 2) ** -2, rel=1e-12)


def test_the_rules_survive_a_file() -> None:
    """What a file says of them is read back; what is left out has its default."""
    instance = typed_round(typed_job("a", "bert"))
    document = instance_to_dict(instance)
    assert document["rules"]["idle_utility"] == SIA.idle
    assert instance_from_dict(document) == instance
    assert instance_from_dict(document | {"rules": "sia"}) == instance
    plain = instance_to_dict(instance.replace(rules=Rules()))
    assert not {"idle_utility", "restart_penalty"} & plain["rules"].keys()


@pytest.mark.parametrize("seed", range(30))
def test_packing_pods_knows_what_idling_is_worth(seed: int) -> None:
    """Idling may be worth more than some ways of running; the bound says so and is reached."""
    drawn = random_pod_instance(seed)
    for idle in (1e-3, 0.8, 2.0):
        instance = drawn.replace(rules=drawn.rules.replace(idle_utility=idle))
        optimum = solve_brute_force(instance, break_ties=False).bound
        result = solve(instance, "pods")
        assert not result.message
        assert result.status is Status.OPTIMAL
        assert result.fitness == pytest.approx(optimum, rel=1e-8)
        assert result.bound >= optimum * (1 - 1e-12)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_bounds_hold_where_gpus_are_shared(first: int) -> None:
    """The knapsack over parts of GPUs counts what stays idle."""
    for seed in range(first, first + 10):
        instance = with_idle_utility(seed, random_share_instance)
        optimum = solve_brute_force(instance, break_ties=False).bound
        assert knapsack_bound(instance) >= optimum * (1 - 1e-12), instance.name


def test_synergy_opt_counts_what_stays_idle() -> None:
    """Three jobs and two GPUs: the bound is that of two at work and one idle."""
    drawn = synergy_round(1, 1, 3)
    cluster = Cluster((replace(drawn.cluster.groups[0], gpus=2),))
    instance = drawn.replace(
        cluster=cluster, rules=drawn.rules.replace(idle_utility=0.9, power=1.0)
    )
    result = solve(instance, "synergy_opt")
    assert not result.message
    assert result.bound >= solve_brute_force(instance).bound * (1 - 1e-12)
