"""A fitness taken apart and put together again."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.rounds.benchmark_set import load_benchmark
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.round.objective import fitness, utilities
from goodalloc.models.round.starved_jobs import Starvation, starvation, starvation_of
from goodalloc.solvers.certificates.solve import solve
from tests.support.random_instances import random_instance, random_mode_instance

powers = st.one_of(
    st.sampled_from([-math.inf, -10.0, -1.0, -1e-6, 0.0, 1e-6, 1.0, 2.0, math.inf]),
    st.floats(-50.0, 50.0),
)
utility = st.floats(1e-7, 1e3)


@given(
    st.lists(st.tuples(utility, st.booleans()), min_size=1, max_size=30),
    st.one_of(st.just(0.001), utility),
    powers,
)
def test_the_parts_give_the_fitness(
    jobs: list[tuple[float, bool]], idle: float, power: float
) -> None:
    """For every power, whoever starves: nobody, some, all."""
    served = np.array([holds for _, holds in jobs])
    worth = np.where(served, [value for value, _ in jobs], idle)
    found = starvation(worth, served, idle, power)
    assert (found.jobs, found.starved) == (len(jobs), int(np.count_nonzero(~served)))
    assert found.fitness(power) == pytest.approx(float(power_mean(worth, power)), rel=1e-9)
    assert math.isnan(found.served) == (found.starved == found.jobs)


@given(st.integers(0, 20), st.integers(1, 20), utility, utility, powers)
def test_the_equation_is_that_of_the_page(
    starved: int, served: int, idle: float, mean: float, power: float
) -> None:
    """Equation (1), and its limits."""
    share = starved / (starved + served)
    if abs(power) < 1e-3:
        if power == 0:
            expected = idle**share * mean ** (1 - share)
        else:
            return
    elif math.isinf(power):
        expected = mean if not starved else max(idle, mean) if power > 0 else min(idle, mean)
    else:
        scale = max(idle, mean) if power > 0 else min(idle, mean)
        terms = share * (idle / scale) ** power + (1 - share) * (mean / scale) ** power
        expected = scale * terms ** (1 / power)
    found = Starvation(starved + served, starved, idle, mean).fitness(power)
    assert found == pytest.approx(expected, rel=1e-9)


@given(st.integers(1, 20), st.integers(0, 20), utility, utility, powers)
def test_more_starved_is_worse_where_idling_is(
    starved: int, served: int, idle: float, mean: float, power: float
) -> None:
    """And the fitness lies between what idling is worth and what being served is."""
    few = Starvation(starved + served + 1, starved, idle, mean).fitness(power)
    more = Starvation(starved + served + 1, starved + 1, idle, mean).fitness(power)
    better, worse = (few, more) if idle < mean else (more, few)
    assert worse <= better * (1 + 1e-9)
    assert min(idle, mean) * (1 - 1e-9) <= few <= max(idle, mean) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_the_parts_of_allocations_give_their_fitness(seed: int) -> None:
    """Of random rounds with and without modes, as they are, empty, and as decided."""
    for instance in (random_instance(seed), random_mode_instance(seed)):
        shape = (instance.num_jobs, instance.cluster.num_nodes)
        found = solve(instance, "greedy")
        for allocation in (instance.current, Allocation.empty(*shape), found.allocation):
            assert allocation is not None
            parts = starvation_of(instance, allocation)
            value = fitness(instance, allocation)
            assert parts.fitness(instance.rules.power) == pytest.approx(value, rel=1e-9)
            held = allocation.job_replicas > 0
            assert (utilities(instance, allocation)[~held] == parts.idle).all()
        if found.allocation is not None:
            parts = starvation_of(instance, found.allocation)
            assert found.starved == parts.starved
            assert found.served_fitness == pytest.approx(parts.served, nan_ok=True)


def test_starved_jobs_decide_the_published_objective() -> None:
    """The benefit of serving one job more outweighs all that the others could lose."""
    instance = load_benchmark("tiny-disturbed")
    best = solve(instance, "highs")
    assert best.starved == 0
    assert best.served_fitness == best.fitness
    starving = Starvation(160, 20, 0.001, 0.0924).fitness(-1.0)
    assert starving < 0.1 * Starvation(160, 0, 0.001, 0.0866).fitness(-1.0)
