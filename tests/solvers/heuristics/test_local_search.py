"""Local search: feasible after every move, deterministic, never below its start."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import fitness, utilities
from goodalloc.solvers.exact.brute_force import solve_brute_force
from goodalloc.solvers.heuristics import local_search
from goodalloc.solvers.heuristics.greedy import solve_greedy
from goodalloc.solvers.heuristics.local_search import EvictionPrices, improve, solve_local_search
from goodalloc.solvers.heuristics.occupancy import Occupancy
from goodalloc.solvers.interface.result import Limit
from goodalloc.solvers.interface.stop import Stop
from tests.support.random_instances import random_instance


def concave(name: str, **options: object) -> Job:
    """A job whose speedup grows with the root of its GPUs."""
    speedups = tuple(np.sqrt(np.arange(1, 17)).tolist())
    return Job(name, SpeedupTable(speedups, speedups), age=1e4).replace(**options)


@given(seed=st.integers(0, 10**6), from_current=st.booleans())
def test_local_search_obeys_every_rule_and_never_loses(seed: int, from_current: bool) -> None:
    """From greedy's answer or from what runs: feasible, and at least as good as the start."""
    instance = random_instance(seed)
    start = instance.current if from_current else solve_greedy(instance).allocation
    assert start is not None
    answer = solve_local_search(instance, start=start)
    assert answer.allocation is not None
    assert violations(instance, answer.allocation) == ()
    if not violations(instance, start):
        assert fitness(instance, answer.allocation) >= fitness(instance, start)
    values = [incumbent.fitness for incumbent in answer.history]
    assert values == sorted(values)


@given(seed=st.integers(0, 10**6))
def test_every_pass_keeps_books(seed: int) -> None:
    """After a pass free GPUs, flags and merits are those of the rows, and every rule holds."""
    instance = random_instance(seed)
    occupancy = Occupancy(instance, [()] * instance.num_jobs)
    before = occupancy.merit.sum()
    improve(occupancy)
    fresh = Occupancy(instance, occupancy.rows)
    assert fresh.rows == occupancy.rows
    assert np.array_equal(fresh.free, occupancy.free)
    assert np.array_equal(fresh.distributed, occupancy.distributed)
    assert np.array_equal(fresh.merit, occupancy.merit)
    assert fresh.residents == occupancy.residents
    assert occupancy.merit.sum() >= before
    assert violations(instance, occupancy.allocation()) == ()


def test_local_search_is_near_the_optimum_of_small_instances() -> None:
    """Never above the optimum of an enumeration, and mostly at it."""
    at_the_optimum = 0
    for seed in range(30):
        instance = random_instance(seed, power=-1.0)
        best = solve_brute_force(instance).allocation
        found = solve_local_search(instance).allocation
        assert best is not None
        assert found is not None
        optimum, value = fitness(instance, best), fitness(instance, found)
        assert value <= optimum * (1 + 1e-9)
        at_the_optimum += value >= optimum * (1 - 1e-9)
    assert at_the_optimum >= 24


def test_a_starved_job_gets_in_by_shrinking_another() -> None:
    """In a full cluster a starved job takes GPUs from one that has many."""
    instance = Instance(Cluster.uniform(1, 4), (concave("wide"), concave("starved")))
    start = Allocation.from_matrix([[4], [0]])
    answer = solve_local_search(instance, start=start)
    assert answer.allocation is not None
    assert answer.allocation.job_replicas.tolist() == [2, 2]


def test_a_job_that_is_pushed_out_settles_elsewhere() -> None:
    """A job gives up its node to one that needs it whole, and moves to the free one."""
    whole = Job("whole", SpeedupTable((0.0, 0.0, 0.0, 4.0), ()), age=1e4)
    small = concave("small", max_replicas=1)
    cluster = Cluster.uniform(2, 4)
    instance = Instance(cluster, (whole, small, concave("other", max_replicas=1)))
    start = Allocation.from_matrix([[0, 0], [1, 0], [0, 1]])
    answer = solve_local_search(instance, start=start)
    assert answer.allocation is not None
    assert sorted(answer.allocation.job_replicas.tolist()) == [1, 1, 4]


def test_two_jobs_swap_rows() -> None:
    """Two worn-out jobs that each sit where the other ran change places."""
    jobs = tuple(
        concave(f"job{i}", age=50.0, restarts=20, placement=((i, 2),), min_replicas=2)
        for i in range(2)
    )
    instance = Instance(Cluster.uniform(2, 2), jobs)
    start = Allocation.from_matrix([[0, 2], [2, 0]])
    answer = solve_local_search(instance, start=start)
    assert answer.allocation == instance.current


def test_a_pinned_job_is_never_evicted() -> None:
    """GPUs of a job that is not preemptible have no price."""
    pinned = concave("pinned", placement=((0, 4),), preemptible=False)
    instance = Instance(Cluster.uniform(1, 4), (pinned, concave("starved")))
    occupancy = Occupancy(instance, [pinned.placement, ()])
    assert EvictionPrices(occupancy).price[0].tolist() == [0.0, *[np.inf] * 4]
    answer = solve_local_search(instance, start=Allocation.empty(2, 1))
    assert answer.allocation is not None
    assert answer.allocation.matrix().tolist() == [[4], [0]]


def test_prices_are_the_least_losses() -> None:
    """Freeing GPUs of a node takes them from the job that loses least."""
    instance = Instance(Cluster.uniform(1, 4), (concave("wide"), concave("narrow")))
    occupancy = Occupancy(instance, [((0, 3),), ((0, 1),)])
    prices = EvictionPrices(occupancy)
    loss = occupancy.merit[0] - occupancy.moved[0, 0, 2]
    assert prices.price[0, 1] == pytest.approx(loss)
    assert prices.plan[0][1] == {0: ((0, 2),)}


def test_limits_end_the_search() -> None:
    """One pass at most, and hardly any time, each end the search and say so."""
    instance = Instance(Cluster.uniform(8, 4), tuple(concave(f"job{i}") for i in range(20)))
    start = Allocation.empty(20, 8)
    once = solve_local_search(instance, start=start, stop=Stop(iterations=1))
    assert (once.limit, once.iterations) == (Limit.ITERATIONS, 1)
    late = solve_local_search(instance, start=start, stop=Stop(seconds=1e-9))
    assert late.limit is Limit.TIME
    assert late.allocation is not None
    assert violations(instance, late.allocation) == ()


def test_an_interrupt_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends the search with the start, or with what was improved before."""
    instance = Instance(Cluster.uniform(1, 4), (concave("wide"), concave("starved")))
    work, calls = local_search.improve, [0]

    def interrupted(*given: Any) -> int:
        calls[0] += 1
        if calls[0] > passes:
            raise KeyboardInterrupt
        return work(*given)

    monkeypatch.setattr(local_search, "improve", interrupted)
    start = Allocation.from_matrix([[4], [0]])
    for passes in (0, 1):
        calls[0] = 0
        answer = solve_local_search(instance, start=start)
        assert answer.limit is Limit.INTERRUPTED
        assert answer.allocation is not None
        assert (answer.allocation == start) == (passes == 0)
        assert fitness(instance, answer.allocation) >= fitness(instance, start)


def test_equal_calls_give_equal_answers() -> None:
    """There is no randomness."""
    instance = random_instance(17, power=-1.0)
    first, second = (solve_local_search(instance).allocation for _ in range(2))
    assert first == second
    assert first is not None
    assert np.isfinite(utilities(instance, first)).all()
