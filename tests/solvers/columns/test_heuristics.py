"""Heuristics beside the price: allocations obey, and the pieces of DeDe's iteration are right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.rounds import generate
from goodalloc.models import fitness, violations
from goodalloc.models.round import Rules
from goodalloc.solvers.columns import (
    TabulatedUtilities,
    convex_slopes,
    decouple,
    price_then_greedy,
    wanted_replicas,
)
from goodalloc.solvers.columns.decoupled import _within

if TYPE_CHECKING:
    from collections.abc import Callable

    from goodalloc.data.rounds import State
    from goodalloc.models import Allocation

STATES: tuple[State, ...] = ("cold", "running", "disturbed", "settled")


@pytest.mark.parametrize("allocate", [price_then_greedy, decouple])
@pytest.mark.parametrize("power", [1.0, 0.0, -1.0])
def test_allocations_obey_and_stay_below_the_bound(
    allocate: Callable[[TabulatedUtilities], Allocation], power: float
) -> None:
    """And come within a tenth of it, where jobs are as many as GPUs."""
    for seed, state in enumerate(STATES):
        instance = generate(seed, 160, 40, 4, state=state, rules=Rules(power=power))
        utilities = TabulatedUtilities(instance)
        found = allocate(utilities)
        assert not violations(instance, found)
        bound = wanted_replicas(utilities).bound
        assert 0.9 * bound <= fitness(instance, found) <= bound * (1 + 1e-12)


def test_jobs_that_gain_nothing_are_decoupled_too() -> None:
    """Such as those just submitted, whose restart would cost all that they made."""
    instance = generate(0, 6, 2, 4)
    jobs = tuple(job.replace(age=0.0) for job in instance.jobs)
    utilities = TabulatedUtilities(instance.replace(jobs=jobs, rules=Rules()))
    with np.errstate(all="raise"):
        assert not violations(utilities.columns, decouple(utilities))


@given(st.integers(0, 9999), st.integers(1, 5), st.integers(2, 7))
def test_slopes_are_those_of_the_greatest_convex_function_below(
    seed: int, jobs: int, width: int
) -> None:
    """Below every cost, touched at both ends of every slope, and never falling."""
    random = np.random.default_rng(seed)
    cost = random.normal(0.0, 1.0, (jobs, width))
    cost[:, 1:][random.random((jobs, width - 1)) < 0.2] = np.inf
    slope = convex_slopes(cost)
    assert (np.diff(slope, axis=1) >= -1e-12).all()
    below = cost[:, :1] + np.concatenate([np.zeros((jobs, 1)), np.cumsum(slope, axis=1)], axis=1)
    assert (below <= cost + 1e-9).all()
    assert below.min(axis=1) == pytest.approx(cost.min(axis=1))


@settings(max_examples=60)
@given(st.integers(0, 9999), st.integers(1, 4), st.integers(1, 6))
def test_shares_are_the_nearest_that_a_block_holds(seed: int, blocks: int, jobs: int) -> None:
    """No feasible point is nearer than the one returned."""
    random = np.random.default_rng(seed)
    shares, gpus = random.normal(0.5, 2.0, (blocks, jobs)), random.uniform(0.1, 6.0, blocks)
    found = _within(shares, gpus)
    assert (found >= 0.0).all()
    assert (found.sum(axis=1) <= gpus * (1 + 1e-9)).all()
    for _ in range(50):
        other = random.dirichlet(np.ones(jobs + 1), blocks)[:, :jobs] * gpus[:, None]
        distance, least = ((other - shares) ** 2).sum(axis=1), ((found - shares) ** 2).sum(axis=1)
        assert (least <= distance + 1e-9).all()
