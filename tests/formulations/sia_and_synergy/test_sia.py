"""Sia's program and solver: its coefficients, its shapes, the laws it must obey."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.rounds.equipped import equip
from goodalloc.data.rounds.typed import generate_typed, sia_cluster
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.gpu_rounds.knapsack import knapsack_bound
from goodalloc.formulations.sia_and_synergy.sia import (
    build_sia_program,
    enumerate_configurations,
    is_relaxation,
    published_cost,
    type_capacity,
)
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.job_shapes import allowed_shapes
from goodalloc.models.round.mode import Mode, SpeedupTable
from goodalloc.models.round.objective import mode_utilities, utilities
from goodalloc.models.round.rules import SIA, Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact.brute_force import solve_brute_force
from goodalloc.solvers.interface.result import Status
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.sia_and_synergy.sia import solve_sia
from tests.support.few import few
from tests.support.random_instances import random_instance, random_mode_instance

if TYPE_CHECKING:
    from goodalloc.formulations.sia_and_synergy.sia import Configurations

CLUSTER = Cluster(
    (NodeGroup("aws", 6, 4, "t4"), NodeGroup("dgx", 2, 8, "a100"), NodeGroup("rtx", 3, 8, "rtx"))
)


def curve(exponent: float, spread: float = 0.9) -> SpeedupTable:
    """Speedups of up to 64 GPUs."""
    speedups = np.arange(1, 65) ** exponent
    return SpeedupTable(tuple(speedups.tolist()), tuple((spread * speedups).tolist()))


def shapes_of(instance: Instance, mode: int, gpu_type: str) -> set[tuple[int, int]]:
    """The whole-node shapes of a mode on a type: (on several nodes, GPUs)."""
    kind = instance.cluster.gpu_types.index(gpu_type)
    found = np.argwhere(allowed_shapes(instance, whole_nodes=True)[mode, kind])
    return {(int(spread), int(gpus)) for spread, gpus in found}


def test_the_shapes_of_the_published_cluster_are_sias() -> None:
    """Six nodes of four, two and three of eight: 8, 5 and 6 shapes, 19 in all."""
    modes = tuple(Mode(kind, curve(0.8), kind) for kind in ("t4", "a100", "rtx"))
    jobs = (Job("a", modes=modes), Job("b"), Job("c", max_replicas=8, min_replicas=2))
    instance = Instance(CLUSTER, jobs, SIA)
    on_one = {(0, 1), (0, 2), (0, 4)}
    assert shapes_of(instance, 0, "t4") == on_one | {(1, 4 * n) for n in range(2, 7)}
    assert shapes_of(instance, 1, "a100") == on_one | {(0, 8), (1, 16)}
    assert shapes_of(instance, 2, "rtx") == on_one | {(0, 8), (1, 16), (1, 24)}
    assert allowed_shapes(instance, whole_nodes=True)[:3].sum() == 19
    assert shapes_of(instance, 0, "rtx") == set()
    assert shapes_of(instance, 4, "a100") == {(0, 2), (0, 4), (0, 8)}
    assert shapes_of(instance, 4, "t4") == {(0, 2), (0, 4), (1, 8)}


def test_other_sizes_of_nodes_have_whole_nodes_too() -> None:
    """Six GPUs a node: 1, 2, 4 and all six, then twelve; no more nodes than a job may span."""
    cluster = Cluster((NodeGroup("n", 3, 6),))
    instance = Instance(cluster, (Job("a"),), SIA.replace(max_nodes_per_job=2))
    expected = {(0, 1), (0, 2), (0, 4), (0, 6), (1, 12)}
    assert shapes_of(instance, 0, "") == expected
    every = allowed_shapes(instance, whole_nodes=False)[0, 0]
    assert np.flatnonzero(every[0]).tolist() == list(range(1, 7))
    assert np.flatnonzero(every[1]).tolist() == list(range(2, 13))


def test_coefficients_are_rounded_and_clipped_as_published() -> None:
    """u^-0.5 to two decimals, no more than 3000, doubled and shifted; idling costs 1.1."""
    utility = np.array([1.0, 2.0, 7.3, SIA.idle, 1e-7, 1e-12])
    published = np.array([1.0, 0.71, 0.37, 1.1, 3000.0, 3000.0])
    found = published_cost(utility, -0.5, 2)
    np.testing.assert_allclose(found, 2.0 * (published - 1.0), rtol=0, atol=1e-9)
    np.testing.assert_allclose(published_cost(utility[:3], 1.0, 1), [0.0, -1.0, -6.3], atol=1e-9)
    np.testing.assert_allclose(published_cost(utility[:3], 0.0, 2), [0.0, -0.69, -1.99], atol=1e-9)


def test_configurations_of_a_known_round() -> None:
    """Idle, keep, and what is worth more than idling; a pinned job only keeps."""
    modes = tuple(Mode(kind, curve(0.8), kind) for kind in ("t4", "a100"))
    jobs = (
        Job("runs", modes=modes, age=1e4, placement=((6, 2),), mode="a100", max_replicas=2),
        Job("pinned", modes=modes, placement=((0, 4), (1, 4)), mode="t4", preemptible=False),
        Job("slow", SpeedupTable((0.5,), ())),
    )
    found = enumerate_configurations(Instance(CLUSTER, jobs, SIA))
    rows = zip(
        found.job.tolist(),
        found.kind.tolist(),
        found.gpu_type.tolist(),
        found.replicas.tolist(),
        strict=True,
    )
    assert set(rows) == {
        (0, Kind.IDLE, 0, 0),
        (0, Kind.KEEP, 0, 2),
        *((0, Kind.ONE_NODE, kind, gpus) for kind in (0, 2) for gpus in (1, 2)),
        (1, Kind.KEEP, 2, 8),
        (2, Kind.IDLE, 0, 0),
    }
    assert found.demand[found.kind == Kind.KEEP].tolist() == [[2, 0, 0], [0, 0, 8]]
    assert (found.demand.sum(axis=1) == found.replicas).all()
    assert type_capacity(Instance(CLUSTER, jobs, SIA)).tolist() == [16, 24, 24]


def enumerated_optimum(instance: Instance, found: Configurations, cost: np.ndarray) -> float:
    """The best of all combinations of configurations that fit into the types' GPUs."""
    capacity = type_capacity(instance)
    choices = [np.flatnonzero(found.job == job) for job in range(instance.num_jobs)]
    used, total = np.zeros((1, capacity.size)), np.zeros(1)
    for mine in choices:
        pairs = np.array(list(itertools.product(range(total.size), mine)))
        used, total = used[pairs[:, 0]] + found.demand[pairs[:, 1]], total[pairs[:, 0]]
        total = total + cost[pairs[:, 1]]
        fits = (used <= capacity).all(axis=1)
        used, total = used[fits], total[fits]
        # of equal demands the cheapest will do
        order = np.lexsort((total, *used.T))
        used, total = used[order], total[order]
        first = np.append(True, (np.diff(used, axis=0) != 0).any(axis=1))
        used, total = used[first], total[first]
    return float(total.min())


@pytest.mark.parametrize("first", few(range(0, 500, 50), 3))
@pytest.mark.parametrize("shapes", ["sia", "any"])
def test_the_program_is_decided_as_by_enumeration(first: int, shapes: str) -> None:
    """1,000 tiny rounds: rounded costs, to the last multiple of the rounding."""
    from goodalloc.solvers.interface.watch import Watch
    from goodalloc.solvers.milp.exchange_core import decide_configurations

    for seed in range(first, first + 50):
        draw = random_mode_instance if seed % 2 else random_instance
        instance = draw(seed, -0.5 if seed % 4 < 2 else 1.0)
        found = enumerate_configurations(instance, whole_nodes=shapes == "sia")
        power = instance.rules.power
        cost = published_cost(found.utility, power, 2)
        decision = decide_configurations(
            found.job,
            cost,
            found.demand,
            type_capacity(instance),
            Watch(Stop()),
            gap=0.99 * 0.01 / abs(power),
        )
        optimum = enumerated_optimum(instance, found, cost)
        assert decision.objective == pytest.approx(optimum, abs=1e-6), instance.name


@pytest.mark.parametrize("first", few(range(0, 60, 20), 1))
@pytest.mark.parametrize("decimals", [2, None])
def test_the_solver_is_feasible_and_between_nothing_and_the_bounds(
    first: int, decimals: int | None
) -> None:
    """Whatever the shapes, the power and the resources: feasible, and no bound lies."""
    for seed in range(first, first + 20):
        for draw, shapes in itertools.product(
            (random_instance, random_mode_instance), ("sia", "any")
        ):
            instance = draw(seed, None)
            optimum = solve_brute_force(instance, break_ties=False).bound
            result = solve(instance, "sia", shapes=shapes, decimals=decimals)
            what = f"{instance.name} at p = {instance.rules.power:g}, {shapes}"
            assert result.allocation is not None, f"{what}: {result.message}"
            assert not violations(instance, result.allocation), what
            assert result.fitness <= optimum * (1 + 1e-12), what
            assert result.bound >= optimum * (1 - 1e-12), what
            assert "refuted" not in result.message, what
            again = solve(instance, "sia", shapes=shapes, decimals=decimals)
            assert again.allocation == result.allocation


def test_the_relaxation_is_no_worse_than_the_knapsack_where_it_claims_to_bound() -> None:
    """Every number of GPUs, modes of one type each, powers as they are."""
    claimed = 0
    for seed in range(150):
        instance = random_mode_instance(seed, -1.0)
        if not is_relaxation(instance, whole_nodes=False):
            continue
        claimed += 1
        result = solve(instance, "sia", shapes="any", decimals=None)
        assert result.bound_source == "Sia's program"
        assert result.bound <= knapsack_bound(instance) * (1 + 1e-7)
    assert claimed > 5


def typed_round(seed: int, rules: Rules = SIA, jobs: int = 12) -> Instance:
    """Jobs with made-up speedups on the three types of the published cluster."""
    generator = np.random.default_rng(seed)
    made = []
    for index in range(jobs):
        modes = tuple(
            Mode(
                kind,
                SpeedupTable(
                    *(
                        tuple((speed * np.arange(1, 25) ** power).tolist())
                        for power in (0.9, generator.uniform(0.6, 0.9))
                    )
                ),
                kind,
            )
            for kind, speed in zip(("t4", "a100", "rtx"), generator.uniform(1, 4, 3), strict=True)
        )
        made.append(Job(f"job{index}", modes=modes, age=1e4))
    return Instance(CLUSTER, tuple(made), rules)


@pytest.mark.parametrize("seed", range(6))
def test_relabelling_jobs_and_types_changes_nothing(seed: int) -> None:
    """Other names and another order of jobs and groups: the same value of the program."""
    instance = typed_round(seed)
    other = {"t4": "zz", "a100": "mm", "rtx": "aa"}
    groups = tuple(
        NodeGroup(group.name, group.nodes, group.gpus, other[group.gpu_type])
        for group in reversed(CLUSTER.groups)
    )
    jobs = tuple(
        job.replace(
            modes=tuple(
                Mode(mode.name, mode.model, other[mode.gpu_type]) for mode in reversed(job.modes)
            )
        )
        for job in reversed(instance.jobs)
    )
    renamed = Instance(Cluster(groups), jobs, SIA)
    one, two = (solve(i, "sia", decimals=None).fitness for i in (instance, renamed))
    assert one == pytest.approx(two, rel=1e-8)
    rounded = []
    for given in (instance, renamed):
        allocation = solve_sia(given).allocation
        assert allocation is not None
        rounded.append(published_cost(utilities(given, allocation), -0.5, 2).sum())
    assert rounded[0] == pytest.approx(rounded[1], abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_with_power_one_the_total_goodput_is_greatest(seed: int) -> None:
    """One type, every number of GPUs, idling worth next to nothing: dynamic programming agrees."""
    generator = np.random.default_rng(seed)
    rules = Rules(
        power=1.0,
        floor=0.0,
        idle_utility=1e-9,
        speedup_scale="job",
        interference_avoidance=False,
        restart_delay=0.0,
    )
    goodputs = np.cumsum(generator.uniform(0.0, 1.0, (5, 8)), axis=1)
    jobs = tuple(
        Job(f"job{i}", SpeedupTable(tuple(row.tolist()), tuple(row.tolist())), max_replicas=8)
        for i, row in enumerate(goodputs)
    )
    instance = Instance(Cluster.uniform(3, 4), jobs, rules)
    best = np.zeros(13)
    for row in goodputs:
        value = np.concatenate([[0.0], row])
        best = np.array(
            [max(best[g - k] + value[k] for k in range(min(g, 8) + 1)) for g in range(13)]
        )
    result = solve(instance, "sia", shapes="any", decimals=None)
    assert result.status is Status.OPTIMAL
    assert result.fitness * 5 == pytest.approx(best[12], rel=1e-8)


def test_a_round_of_sia_is_placed_as_decided() -> None:
    """Whole-node shapes on nodes of a power of two: nobody is left out, all GPUs are used."""
    instance = typed_round(3, jobs=40)
    answer = solve_sia(instance)
    assert answer.allocation is not None
    assert answer.message == ""
    assert answer.allocation.job_replicas.sum() == 64
    found = enumerate_configurations(instance)
    cost = published_cost(found.utility, -0.5, 2)
    utility = mode_utilities(instance)
    reached = [
        utility.moved[instance.first_mode[j] + answer.allocation.mode[j], int(nodes > 1), gpus]
        for j, (nodes, gpus) in enumerate(
            zip(answer.allocation.job_nodes, answer.allocation.job_replicas, strict=True)
        )
    ]
    program = build_sia_program(found.job, cost, found.demand, type_capacity(instance))
    from goodalloc.solvers.interface.watch import Watch
    from goodalloc.solvers.milp.highs_program import run_mixed_integer

    whole = run_mixed_integer(program, Watch(Stop()), gap=1e-6)
    assert published_cost(np.array(reached), -0.5, 2).sum() == pytest.approx(whole.objective)


def test_out_of_time_what_runs_goes_on() -> None:
    """And the answer says why it is no better."""
    jobs = (Job("runs", curve(0.9), placement=((0, 2),)), *(Job(f"new{i}") for i in range(3)))
    instance = Instance(CLUSTER, jobs, SIA)
    answer = solve_sia(instance, stop=Stop(seconds=1e-9))
    assert answer.allocation == instance.current
    assert answer.limit == "time"


@pytest.mark.parametrize("power", [math.inf, -math.inf])
def test_infinite_powers_are_decided_as_their_sign(power: float) -> None:
    """As for p = 1 or -1; a bound is left to others."""
    instance = typed_round(1, SIA.replace(power=power))
    finite = typed_round(1, SIA.replace(power=math.copysign(1.0, power)))
    assert solve_sia(instance).allocation == solve_sia(finite).allocation
    assert solve_sia(instance, shapes="any", decimals=None).bound == math.inf


@pytest.mark.parametrize("power", [-1e6, -1e4, -1e3, -100.0, -30.0, 30.0, 100.0, 1e3, 1e4, 1e6])
def test_every_power_ends_and_no_bound_lies(power: float) -> None:
    """However large: costs stay finite, an allocation comes out, bounds hold, whatever the gap."""
    instances = [
        draw(seed, power) for seed in range(3) for draw in (random_instance, random_mode_instance)
    ]
    for instance in (*instances, typed_round(2, SIA.replace(power=power), jobs=30)):
        for shapes, decimals, gap in itertools.product(("sia", "any"), (2, None), (1e-9, 0.5)):
            stop = Stop(seconds=20.0, gap=gap)
            result = solve(instance, "sia", stop=stop, shapes=shapes, decimals=decimals)
            assert result.allocation is not None, result.message
            assert result.message == "" or "found no nodes" in result.message
            assert result.fitness <= result.bound * (1 + 1e-12)
    for instance in instances:
        result = solve(instance, "sia", shapes="any", decimals=None)
        assert result.bound >= solve_brute_force(instance, break_ties=False).bound * (1 - 1e-12)


@pytest.mark.parametrize("power", [300.0, 1e3, 1e4, 1e6])
@pytest.mark.parametrize("decimals", [2, None])
def test_at_great_powers_the_best_job_gets_what_makes_it_best(
    power: float, decimals: int | None
) -> None:
    """By default and unrounded, though a bound on the fitness is far above it; so is one proved."""
    for rules in (SIA, Rules(floor=1e-5)):
        plain = generate_typed(1, 40, cluster=sia_cluster())
        instance = Instance(plain.cluster, plain.jobs, rules.replace(power=power))
        greatest = max(enumerate_configurations(instance).utility)
        result = solve(instance, "sia", decimals=decimals)
        assert result.message == ""
        assert result.fitness >= greatest * 40 ** (-1 / power) * (1 - 1e-9)
        if decimals is None:
            every = solve(instance, "sia", shapes="any", decimals=None)
            assert every.status is Status.OPTIMAL
            assert every.fitness >= result.fitness * (1 - 1e-9)


@pytest.mark.parametrize("power", [1.0, 100.0, 1e4, -100.0, -1e4])
def test_what_pinned_jobs_leave_sets_the_scale(power: float) -> None:
    """A job that could be ten times as fast, were it not for a pinned one: the others count."""
    fast = SpeedupTable((1.0, 2.0, 3.0, 40.0), ())
    jobs = (
        Job("pinned", curve(0.5), placement=((0, 1),), preemptible=False, max_replicas=1),
        Job("fast", fast, max_replicas=4),
        Job("slow", curve(0.5), max_replicas=4),
    )
    rules = Rules(power=power, restart_delay=0.0, fair_share="one_gpu", speedup_scale="job")
    instance = Instance(Cluster.uniform(1, 4), jobs, rules)
    assert enumerate_configurations(instance, whole_nodes=False).utility.max() < 4
    optimum = solve_brute_force(instance, break_ties=False).bound
    result = solve(instance, "sia", shapes="any", decimals=None)
    assert result.fitness == pytest.approx(optimum, rel=1e-8)


def test_options_that_make_no_sense_are_refused() -> None:
    """One sentence names the option."""
    instance = typed_round(0)
    with pytest.raises(ValueError, match="shapes is 'square'; expected one of sia, any"):
        solve(instance, "sia", shapes="square")
    with pytest.raises(ValueError, match="decimals is -1; expected an integer of at least 0"):
        solve(instance, "sia", decimals=-1)


def test_in_its_own_shapes_no_replica_takes_more_than_its_gpus_share() -> None:
    """Cores then never keep a job from a node; with any shapes jobs may take what they want."""
    plain = generate_typed(1, 30, cluster=sia_cluster())
    instance = equip(plain, 1, cores=24.0)
    share = {"t4": 6.0, "a100": 3.0, "rtx2080ti": 3.0}
    most = {}
    for shapes in ("sia", "any"):
        allocation = solve(instance, "sia", shapes=shapes).allocation
        assert allocation is not None
        modes = [
            job.modes[index] for job, index in zip(instance.jobs, allocation.mode, strict=True)
        ]
        runs = allocation.job_replicas > 0
        most[shapes] = max(
            dict(mode.resources)["cpu"] / share[mode.gpu_type]
            for mode, there in zip(modes, runs, strict=True)
            if there
        )
    assert most["sia"] <= 1 < most["any"]
