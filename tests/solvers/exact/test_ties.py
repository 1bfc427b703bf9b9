"""The rule between equally good allocations, against the enumeration of all of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.rounds.generator import generate
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import fitness, utilities, utility_table
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.exact.brute_force import enumerate_allocations
from goodalloc.solvers.exact.highs import solve_highs
from goodalloc.solvers.exact.ties import TieRule, canonical
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from tests.support.random_instances import random_instance

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Allocation

#: Powers at which float64 tells any two allocations apart that are not equally good.
POWERS = (-1.0, 0.0, 0.5, 1.0, 2.0, math.inf, -math.inf)

#: What breaks ties of the infinite powers first.
GENTLER = {math.inf: 1.0, -math.inf: -1.0}


def rank(instance: Instance, allocation: Allocation) -> tuple[int, int, int]:
    """What the rule minimises: running jobs not kept, GPUs, and the order of the jobs."""
    runs = instance.current.job_replicas > 0
    moved = runs & ~allocation.unchanged(instance.current)
    replicas = allocation.job_replicas
    order = int(np.arange(1, instance.num_jobs + 1) @ replicas)
    return int(moved.sum()), int(replicas.sum()), order


def equally_good(instance: Instance) -> list[Allocation]:
    """All optimal allocations; at an infinite power those with the best gentler mean."""
    found, power = enumerate_allocations(instance), instance.rules.power
    value = np.asarray(power_mean(found.utility, power))
    best = value >= value.max() * (1 - 1e-11)
    if power in GENTLER:
        second = np.where(best, power_mean(found.utility, GENTLER[power]), 0.0)
        best &= second >= second.max() * (1 - 1e-11)
    return [found.allocation(int(index)) for index in np.flatnonzero(best)]


def tying(seed: int, power: float) -> Instance:
    """A random round with many ties: jobs of few speedups, all alike."""
    generator = np.random.default_rng(seed)
    instance = random_instance(seed, power)
    speedups = SpeedupTable((1.0, 2.0, 2.0, 3.0), (0.0, 2.0, 2.0, 3.0))
    jobs = tuple(
        job.replace(model=speedups, age=1e4, restarts=int(generator.integers(2)))
        for job in instance.jobs
    )
    instance = instance.replace(jobs=jobs, rules=instance.rules.replace(restart_delay=0.0))
    utility_table(instance)
    return instance


def check(instance: Instance, seed: int) -> None:
    """The rule's best is returned, whichever optimal allocation it starts from."""
    optimal = equally_good(instance)
    best = min(rank(instance, allocation) for allocation in optimal)
    answer = solve_highs(instance)
    assert answer.allocation is not None
    assert rank(instance, answer.allocation) == best, instance.name
    generator = np.random.default_rng(seed)
    for index in generator.integers(len(optimal), size=2).tolist():
        found, rule = canonical(instance, optimal[index], Watch(Stop()))
        assert rule is TieRule.APPLIED
        assert violations(instance, found) == ()
        assert rank(instance, found) == best, instance.name
        assert found == answer.allocation, instance.name


@pytest.mark.parametrize("power", POWERS)
def test_the_rule_decides_between_all_optimal_allocations(power: float) -> None:
    """Random rounds as they are, and rounds full of ties."""
    for seed in range(80_000, 80_004):
        check(random_instance(seed, power), seed)
        check(tying(seed, power), seed)


@pytest.mark.slow
@pytest.mark.parametrize("power", POWERS)
def test_the_rule_decides_on_hundreds(power: float) -> None:
    """200 rounds of either kind."""
    for seed in range(81_000, 81_200):
        check(random_instance(seed, power), seed)
        check(tying(seed, power), seed)


def job(name: str, *speedups: float, **options: object) -> Job:
    """An old job with these speedups."""
    return Job(name, SpeedupTable(speedups, speedups), age=1e6).replace(**options)


FREE = Rules(restart_delay=0.0)


def test_a_running_job_stays_where_it_is() -> None:
    """Any node would do; it keeps its own, the last."""
    jobs = (job("new", 1.0), job("runs", 1.0, placement=((2, 1),)))
    instance = Instance(Cluster.uniform(3, 2), jobs, FREE)
    allocation = solve_highs(instance).allocation
    assert allocation is not None
    assert allocation.placement(1) == ((2, 1),)


def test_gpus_that_gain_nothing_are_left_free() -> None:
    """A second GPU is worth nothing, so nobody gets it."""
    instance = Instance(Cluster.uniform(1, 4), (job("one", 1.0, 1.0, 1.0), job("two", 1.0, 1.0)))
    allocation = solve_highs(instance).allocation
    assert allocation is not None
    assert allocation.job_replicas.tolist() == [1, 1]


def test_the_first_of_equal_jobs_comes_first() -> None:
    """Three equal jobs for one GPU."""
    instance = Instance(Cluster.uniform(1, 1), tuple(job(name, 1.0) for name in "abc"), FREE)
    allocation = solve_highs(instance).allocation
    assert allocation is not None
    assert allocation.job_replicas.tolist() == [1, 0, 0]


@pytest.mark.parametrize("power", [-10.0, -1.0, 1.0, -math.inf])
def test_equal_calls_give_equal_bytes(power: float) -> None:
    """Two runs, and the optimum of either as the start of a third, end on the same nodes."""
    instance = generate(5, 30, 10, state="disturbed", rules=Rules(power=power))
    utility_table(instance)
    first, second = (solve_highs(instance).allocation for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.matrix().tobytes() == second.matrix().tobytes()
    assert solve_highs(instance, start=first).allocation == first


def test_breaking_ties_costs_nothing() -> None:
    """The objective is that of the optimum that was found, at any power."""
    for seed in range(82_000, 82_020):
        instance = random_instance(seed)
        one, other = (solve_highs(instance, break_ties=ties).allocation for ties in (False, True))
        assert one is not None
        assert other is not None
        assert fitness(instance, other) == pytest.approx(fitness(instance, one), rel=1e-9)


def test_leximin_ranks_survive_the_rule() -> None:
    """Ties are those of all sorted utilities."""
    for seed in range(83_000, 83_012):
        instance = random_instance(seed, -math.inf)
        best = max(sorted(row) for row in enumerate_allocations(instance).utility.tolist())
        allocation = solve_highs(instance, leximin=True).allocation
        assert allocation is not None
        assert sorted(utilities(instance, allocation).tolist()) == pytest.approx(best, rel=1e-9)


def test_without_time_the_allocation_is_returned_as_it_is() -> None:
    """An expired clock is no reason to lose an optimum."""
    instance = tying(3, -1.0)
    for allocation in equally_good(instance)[:3]:
        late = Watch(Stop(seconds=1e-9))
        assert canonical(instance, allocation, late).allocation == allocation


@pytest.mark.parametrize("power", POWERS)
def test_an_optimum_that_is_in_place_stays(power: float) -> None:
    """With an optimal allocation applied and nothing else changed nothing moves."""
    for seed in range(82_000, 82_010):
        instance = random_instance(seed, power)
        found = solve_highs(instance).allocation
        assert found is not None
        jobs = [
            job.replace(placement=placement)
            for job, placement in zip(instance.jobs, found.placements(), strict=True)
        ]
        settled = instance.replace(jobs=tuple(jobs))
        for start in (None, settled.current):
            assert solve_highs(settled, start=start).allocation == settled.current, instance.name
