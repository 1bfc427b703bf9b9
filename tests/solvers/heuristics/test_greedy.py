"""Greedy marginal gain: feasible, deterministic, never below what it starts from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable
from goodalloc.models.round.objective import fitness, utilities
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.exact.brute_force import solve_brute_force
from goodalloc.solvers.heuristics.greedy import BestSteps, solve_greedy
from goodalloc.solvers.heuristics.occupancy import Occupancy, merits
from goodalloc.solvers.interface.stop import Stop
from tests.support.random_instances import random_instance


def linear(name: str, slope: float = 1.0, **options: object) -> Job:
    """A job whose speedup is linear wherever it runs."""
    speedups = tuple((slope * np.arange(1, 17)).tolist())
    return Job(name, SpeedupTable(speedups, speedups), age=1e4).replace(**options)


@given(seed=st.integers(0, 10**6))
def test_greedy_obeys_every_rule(seed: int) -> None:
    """On instances with every rule and kind of job the answer passes the checker."""
    instance = random_instance(seed)
    answer = solve_greedy(instance)
    assert answer.allocation is not None
    assert violations(instance, answer.allocation) == ()


@given(seed=st.integers(0, 10**6))
def test_greedy_is_never_below_what_runs(seed: int) -> None:
    """It is at least as good as the current placements, where those obey the rules."""
    instance = random_instance(seed)
    answer = solve_greedy(instance)
    assert answer.allocation is not None
    if not violations(instance, instance.current):
        before = fitness(instance, instance.current)
        assert fitness(instance, answer.allocation) >= before * (1 - 1e-9)


def test_greedy_is_near_the_optimum_of_small_instances() -> None:
    """Never above the optimum of an enumeration, and at the harmonic mean at it mostly."""
    at_the_optimum = 0
    for seed in range(30):
        instance = random_instance(seed, power=-1.0)
        best = solve_brute_force(instance).allocation
        found = solve_greedy(instance).allocation
        assert best is not None
        assert found is not None
        optimum, value = fitness(instance, best), fitness(instance, found)
        assert value <= optimum * (1 + 1e-9)
        at_the_optimum += value >= optimum * (1 - 1e-9)
    assert at_the_optimum >= 20


def test_every_job_gets_a_gpu_before_any_gets_two() -> None:
    """At a negative power a starved job weighs more than any growth."""
    jobs = tuple(linear(f"job{i}", slope=1.0 + i) for i in range(6))
    instance = Instance(Cluster.uniform(2, 4), jobs)
    answer = solve_greedy(instance)
    assert answer.allocation is not None
    assert answer.allocation.job_replicas.min() == 1
    assert answer.allocation.job_replicas.sum() == 8


def test_a_table_that_is_not_concave_does_not_block() -> None:
    """A job that gains only from its fourth GPU on gets four at once."""
    stubborn = SpeedupTable((0.0, 0.0, 0.0, 8.0), ())
    jobs = (Job("stubborn", stubborn, age=1e4), linear("other", max_replicas=1))
    instance = Instance(Cluster.uniform(2, 4), jobs)
    answer = solve_greedy(instance)
    assert answer.allocation is not None
    assert answer.allocation.job_replicas.tolist() == [4, 1]


def test_a_running_job_goes_back_when_moving_costs_too_much() -> None:
    """A job that restarts have eaten up keeps its placement beside a starved one."""
    worn = linear("worn", age=60.0, restarts=10, placement=((1, 2),))
    instance = Instance(Cluster.uniform(2, 2), (worn, linear("new")))
    answer = solve_greedy(instance)
    assert answer.allocation is not None
    assert answer.allocation.placement(0) == ((1, 2),)
    assert utilities(instance, answer.allocation)[1] > 0.1


def test_a_pinned_job_stays() -> None:
    """A job that is not preemptible keeps its GPUs though another would use them better."""
    pinned = linear("pinned", slope=0.01, placement=((0, 4),), preemptible=False)
    instance = Instance(Cluster.uniform(1, 4), (pinned, linear("other")))
    answer = solve_greedy(instance)
    assert answer.allocation is not None
    assert answer.allocation.matrix().tolist() == [[4], [0]]


def test_a_start_is_extended() -> None:
    """A start that only lacks GPUs is never made worse."""
    instance = Instance(Cluster.uniform(2, 4), (linear("first"), linear("second")))
    start = Allocation.from_matrix([[2, 0], [0, 2]])
    answer = solve_greedy(instance, start=start)
    assert answer.allocation is not None
    assert fitness(instance, answer.allocation) > fitness(instance, start)


def test_time_ends_the_search_with_something_feasible() -> None:
    """With hardly any time the answer still obeys the rules."""
    instance = Instance(Cluster.uniform(8, 4), tuple(linear(f"job{i}") for i in range(16)))
    answer = solve_greedy(instance, stop=Stop(seconds=1e-9))
    assert answer.limit is not None
    assert answer.allocation is not None
    assert violations(instance, answer.allocation) == ()


@pytest.mark.parametrize("power", [-np.inf, -300.0, -1.0, 0.0, 1.0, 300.0, np.inf])
def test_merits_rank_as_the_power_mean_does(power: float) -> None:
    """A larger utility has a larger merit at every power, and none overflows."""
    (values,) = merits((np.array([1e-3, 0.5, 1.0, 7.0, 1e4]),), power)
    assert np.isfinite(values).all()
    assert (np.diff(values) >= 0).all()
    assert values[0] < values[-1]
    if abs(power) <= 1.0:  # not clipped
        assert (np.diff(values) > 0).all()


@given(seed=st.integers(0, 10**6))
def test_a_step_gains_what_it_promises(seed: int) -> None:
    """The step of a job raises its merit by what it promises, and by the slope a further GPU."""
    instance = random_instance(seed, power=-1.0)
    occupancy = Occupancy(instance, [job.placement for job in instance.jobs])
    steps = BestSteps(occupancy)
    for job in np.flatnonzero(~instance.pinned).tolist():
        step = steps.of(job)
        if step.slope == -np.inf:
            continue
        merit, held = occupancy.merit[job], int(occupancy.held[job])
        steps.take(job, step)
        further = int(occupancy.held[job]) - held
        gained = occupancy.merit[job] - merit
        assert gained == pytest.approx(step.gain)
        assert gained > 0
        if further > 0:
            assert gained == pytest.approx(step.slope * further)
        assert violations(instance, occupancy.allocation()) == ()


def test_rules_change_what_greedy_does() -> None:
    """With interference avoidance two wide jobs share no node."""
    jobs = (linear("first", min_replicas=3), linear("second", min_replicas=3))
    cluster = Cluster.uniform(3, 2)
    apart = solve_greedy(Instance(cluster, jobs)).allocation
    assert apart is not None
    assert (apart.job_replicas > 0).sum() == 1
    together = solve_greedy(Instance(cluster, jobs, Rules(interference_avoidance=False))).allocation
    assert together is not None
    assert together.job_replicas.tolist() == [3, 3]


@pytest.mark.parametrize("power", [-1e6, -300.0, 300.0, 1e6])
def test_jobs_with_modes_are_served_at_great_powers(power: float) -> None:
    """Where the cost of idling is beyond float64 nobody idles beside free GPUs."""
    modes = (Mode("gpu", SpeedupTable((1.0, 2.0), ())),)
    jobs = tuple(Job(name, modes=modes, age=1e4) for name in ("one", "two"))
    instance = Instance(Cluster.uniform(1, 2), jobs, Rules(power=power))
    answer = solve_greedy(instance)
    assert answer.allocation is not None
    assert answer.allocation.replicas.sum() == 2
    assert power > 0 or (answer.allocation.job_replicas == 1).all()
