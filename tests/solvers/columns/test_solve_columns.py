"""Rounds in columns decided: bounds hold, allocations obey, and the optimum is found and proved."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.rounds import generate, generate_columns, generate_mode_columns
from goodalloc.formulations.gpu_rounds import best_price, knapsack_bound
from goodalloc.models import Cluster, Instance, Job, NodeGroup, fitness, violations
from goodalloc.models.columns import RoundColumns
from goodalloc.models.round import Rules
from goodalloc.solvers import solve
from goodalloc.solvers.columns import (
    joined,
    search_price,
    solve_columns,
    solve_many_columns,
    split_round,
)

if TYPE_CHECKING:
    from goodalloc.data.rounds import State

STATES: tuple[State, ...] = ("cold", "running", "disturbed", "settled")
POWERS = (1.0, 0.0, -1.0, -10.0, -math.inf)


@given(st.integers(0, 9999), st.integers(1, 12), st.integers(2, 6), st.integers(1, 40))
def test_the_best_price_is_the_one_that_asks_all_jobs_every_time(
    seed: int, jobs: int, width: int, gpus: int
) -> None:
    """The same bound; responses that fit just above the price, and do not just below."""
    random = np.random.default_rng(seed)
    cost = random.normal(0.0, 10.0 ** random.integers(-3, 4), (jobs, width))
    cost[:, 0] = np.abs(cost).max()
    cost[random.random(cost.shape) < 0.2] = np.inf
    cost[:, 0] = np.where(np.isfinite(cost[:, 0]), cost[:, 0], 0.0)
    found, usual = search_price(cost, gpus), best_price(cost, gpus)
    assert found.bound == pytest.approx(usual.bound, rel=1e-9, abs=1e-9)
    assert found.fewest.sum() <= gpus
    assert (found.most >= found.fewest).all()
    assert found.price == 0.0 or found.most.sum() > gpus


@settings(max_examples=60)
@given(st.integers(0, 999), st.integers(1, 4), st.sampled_from(POWERS))
def test_no_allocation_is_beyond_the_bound(seed: int, jobs: int, power: float) -> None:
    """On tiny rounds, against every allocation."""
    cluster = Cluster((NodeGroup("a", 1, 3), NodeGroup("b", 1, 2)))
    rules = Rules(power=power)
    instance = generate(seed, jobs, cluster=cluster, state=STATES[seed % 4], rules=rules)
    answer = solve_columns(RoundColumns.of(instance))
    assert not violations(instance, answer.allocation)
    assert answer.fitness == pytest.approx(fitness(instance, answer.allocation), rel=1e-14)
    best = solve(instance, "brute_force").fitness
    assert best is not None
    assert answer.fitness <= best * (1 + 1e-12)
    assert best <= answer.bound * (1 + 1e-12)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("state", STATES)
def test_rounds_of_many_jobs_are_proved_optimal(state: State, power: float) -> None:
    """As HiGHS proves them; at p = 1, where jobs run, by prices of slots."""
    for gpus in (4, 8):
        instance = generate(7, 400, 400 // gpus, gpus, state=state, rules=Rules(power=power))
        answer = solve_columns(RoundColumns.of(instance))
        assert not violations(instance, answer.allocation)
        if power < math.inf and math.isfinite(power):
            pool = knapsack_bound(instance)
            assert answer.bound == pytest.approx(pool, rel=1e-9 if answer.slots is None else 1e-3)
            assert answer.bound <= pool * (1 + 1e-9)
        assert answer.gap <= (1e-9 if power < 1.0 else 1e-4)
        assert set(answer.seconds) == {"table", "prices", "packing", "check"}


def test_what_is_said_to_be_optimal_is_what_the_exact_solver_finds() -> None:
    """To the digits of both."""
    instance = generate(3, 200, 50, 4, state="disturbed")
    answer, exact = solve_columns(RoundColumns.of(instance)), solve(instance, "highs")
    assert exact.fitness == pytest.approx(answer.fitness, rel=1e-9)
    assert (answer.price or 0.0) > 0.0


def test_smaller_jobs_are_moved_together_for_one_that_needs_a_node() -> None:
    """Four nodes with one free GPU each, and a new job whose speed needs four on one node."""
    model = generate(0, 30, 8, 4).jobs
    ran = next(job.model for job in model if job.model is not None)
    old = [
        Job(f"old-{node}-{index}", ran, 1e7, 0, ((node, 1),), max_replicas=1)
        for node in range(4)
        for index in range(3)
    ]
    new = Job("new", age=1e7, max_replicas=4)
    instance = Instance(Cluster.uniform(4, 4), (*old, new), Rules(power=1.0))
    answer = solve_columns(RoundColumns.of(instance))
    placement = answer.allocation.placement(len(old))
    assert [gpus for _, gpus in placement] == [4]
    assert answer.allocation.job_replicas.tolist() == [1] * 12 + [4]


@settings(max_examples=25)
@given(st.integers(0, 99), st.integers(1, 40), st.integers(1, 4))
def test_parts_of_a_round_are_the_whole_and_their_answers_obey_its_rules(
    seed: int, jobs: int, parts: int
) -> None:
    """Every job and node in one part; nobody gains by the split."""
    cluster = Cluster((NodeGroup("a", 3, 4), NodeGroup("b", 2, 2)))
    instance = generate(seed, jobs, cluster=cluster, state=STATES[seed % 4])
    columns = RoundColumns.of(instance)
    found = list(split_round(columns, parts, seed))
    assert sorted(job for part in found for job in part.jobs.tolist()) == list(range(jobs))
    allocation = joined(columns, found, [solve_columns(part.columns).allocation for part in found])
    assert not violations(instance, allocation)
    bound = solve_columns(columns).bound
    assert fitness(instance, allocation) <= bound * (1 + 1e-12)
    if parts == 1:
        assert fitness(instance, allocation) == pytest.approx(solve_columns(columns).fitness)


def test_a_split_into_more_parts_than_nodes_is_refused() -> None:
    """As some would have no GPU."""
    with pytest.raises(ValueError, match="POP: parts is 3; expected"):
        list(split_round(generate_columns(0, 5, 2, 4), 3, 0))


def test_a_round_that_columns_do_not_decide_is_refused() -> None:
    """The best single job needs no prices."""
    columns = replace(generate_columns(0, 5, 2, 4), rules=Rules(power=math.inf))
    with pytest.raises(ValueError, match="power is inf; expected at most 40 in columns"):
        solve_columns(columns)


@pytest.mark.slow
def test_a_hundred_thousand_jobs_are_proved_in_seconds() -> None:
    """In little memory, with the same answer each time."""
    columns = generate_columns(0, 100_000, 25_000, 4, state="disturbed")
    one, other = solve_columns(columns), solve_columns(columns)
    assert one.gap <= 1e-9
    assert one.allocation == other.allocation


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 999),
            st.integers(1, 30),
            st.sampled_from([1, 2, 5]),
            st.sampled_from([1, 4]),
            st.sampled_from(STATES),
            st.sampled_from(POWERS),
            st.sampled_from(["one_node", "one_gpu", "packed"]),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_many_rounds_at_once_are_decided_as_each_by_itself(rounds: list[tuple[Any, ...]]) -> None:
    """To the last bit, whatever their sizes, clusters and rules."""
    columns = [
        RoundColumns.of(
            generate(
                seed,
                jobs,
                nodes=nodes,
                gpus_per_node=gpus,
                state=state,
                rules=Rules(power=power, fair_share=fair),
            )
        )
        for seed, jobs, nodes, gpus, state, power, fair in rounds
    ]
    for one, found in zip(columns, solve_many_columns(columns), strict=True):
        alone = solve_columns(one)
        assert found.allocation == alone.allocation
        assert (found.fitness, found.bound) == (alone.fitness, alone.bound)
        assert (found.price, found.reference) == (alone.price, alone.reference)


def test_no_rounds_have_no_answers() -> None:
    """And a round beyond the powers of columns is refused before any is decided."""
    assert solve_many_columns([]) == []
    wild = generate_columns(seed=0, jobs=3, nodes=2)
    wild = replace(wild, rules=replace(wild.rules, power=50.0))
    with pytest.raises(ValueError, match="power is 50; expected at most 40"):
        solve_many_columns([wild])


def test_rounds_of_modes_are_refused() -> None:
    """Rather than decided as if every job had one mode."""
    columns = generate_mode_columns(seed=0, jobs=64)
    for decide in (solve_columns, lambda one: solve_many_columns([one])):
        with pytest.raises(ValueError, match="its jobs have modes; expected none, or"):
            decide(columns)
