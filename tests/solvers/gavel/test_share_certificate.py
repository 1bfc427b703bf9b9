"""Prices prove bounds: whatever they are, and no more than they can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.gavel.time_sharing_file import (
    ShareProblem,
    time_shares_to_dict,
    time_sharing_to_dict,
)
from goodalloc.experiments.verification.verify_time_shares import verify
from goodalloc.formulations.gavel.share_certificate import SharePrices, certify, no_prices
from goodalloc.models.gavel.share_goal import Gain, Level, Total, Worst, max_min
from goodalloc.models.gavel.time_sharing import TimeSharing, largest_rates, rates
from goodalloc.solvers.gavel.pop import solve_in_parts
from goodalloc.solvers.gavel.share_certificate_file import share_certificate_to_dict
from goodalloc.solvers.gavel.time_shares import ShareResult
from tests.support.policies.time_shares import drawn, random_shares

if TYPE_CHECKING:
    from goodalloc.models.gavel.share_goal import Goal
    from goodalloc.models.support.array_types import Floats


TWO = TimeSharing("ab", [[1.0], [1.0]], [1])
EQUAL = SharePrices(np.ones(2), np.zeros(2), np.ones(1), np.zeros(2))


def any_goal(sharing: TimeSharing, random: np.random.Generator) -> Goal:
    """Of any kind and scale; some jobs do not count."""

    def some(*shape: int) -> Floats:
        scale = np.exp(random.normal(0.0, 3.0, shape)) * 10.0 ** random.integers(-9, 9)
        return np.asarray(scale * (random.random(shape) < 0.8))

    jobs = sharing.num_jobs
    kind = random.integers(4)
    if kind == 0:
        return Gain(some(sharing.num_lines, sharing.num_types))
    if kind == 1:
        return Level(some(jobs), some(jobs) + np.eye(jobs)[0])
    return (Worst if kind == 2 else Total)(some(jobs), some(jobs))


def any_prices(sharing: TimeSharing, random: np.random.Generator) -> SharePrices:
    """Of any scale, many of them 0."""

    def some(size: int) -> Floats:
        return np.asarray(np.exp(random.normal(0.0, 4.0, size)) * (random.random(size) < 0.6))

    jobs = sharing.num_jobs
    found = SharePrices(some(jobs), some(jobs), some(sharing.num_types), some(jobs))
    return found._replace(rates=found.rates / largest_rates(sharing))


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 6), st.booleans(), st.booleans())
def test_any_prices_give_a_bound_that_the_checker_accepts_and_no_shares_beat(
    seed: int, jobs: int, pairs: bool, promises: bool
) -> None:
    """Of every goal, with pairs and promises; and no prices prove what shares disprove."""
    sharing, random = drawn(seed, jobs, pairs=pairs), np.random.default_rng(seed)
    goal, prices = any_goal(sharing, random), any_prices(sharing, random)
    shares = [random_shares(sharing, random) for _ in range(8)]
    promised = None
    if promises:
        promised = np.min([rates(sharing, one) for one in shares], axis=0)
    found = certify(sharing, goal, prices, promised)
    problem = ShareProblem(sharing, goal, promised)
    asked = time_sharing_to_dict(problem)
    for one in shares:
        value = goal.value(sharing, one)
        if not np.isfinite(value):
            continue
        answer = time_shares_to_dict(one, sharing)
        better = np.subtract if goal.larger_is_better else np.add
        disproved = float(better(value, 1e-9 * abs(value)))
        for bound, holds in ((found.bound, True), (disproved, False)):
            result = ShareResult(one, value, bound, goal.larger_is_better, prices=found.prices)
            verdict = verify(asked, answer, share_certificate_to_dict(problem, result))
            assert verdict.verified == holds or (value == 0.0 and not holds), verdict
        sign = 1.0 if goal.larger_is_better else -1.0
        assert sign * value <= sign * found.bound + 1e-12 * abs(value)


def test_prices_of_jobs_that_do_not_count_prove_no_less() -> None:
    """Job b has no step: its floor is nobody's due, and a alone reaches level 1."""
    goal = Level(np.array([0.0, 0.9]), np.array([1.0, 0.0]))
    assert goal.value(TWO, np.array([[1.0], [0.0]])) == 1.0
    assert 1.0 <= certify(TWO, goal, EQUAL).bound <= 1.0 + 1e-12


@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e-12, 1e-15])
def test_the_bound_of_small_delays_holds(unit: float) -> None:
    """In any unit it is the least that the larger of two delays can be."""
    goal = Worst(unit * np.array([0.1, 0.2]), unit * np.ones(2))
    low, high = 0.0, 1.0
    for _ in range(60):  # a has this part of the GPU
        part = (low + high) / 2.0
        low, high = (part, high) if 0.1 + 1.0 / part > 0.2 + 1.0 / (1.0 - part) else (low, part)
    best = goal.value(TWO, np.array([[high], [1.0 - high]]))
    bound = certify(TWO, goal, EQUAL).bound
    assert bound <= best
    assert bound == pytest.approx(best, rel=1e-12, abs=0.0)


def test_without_prices_the_job_that_limits_a_goal_alone_bounds_it() -> None:
    """Job a has a rate of 1 on every GPU, and all the time is 1."""
    nothing = no_prices(TWO)
    level = certify(TWO, Level(np.zeros(2), np.array([2.0, 1.0])), nothing)
    worst = certify(TWO, Worst(np.array([1.0, 0.0]), np.array([4.0, 3.0])), nothing)
    total = certify(TWO, Total(np.array([1.0, 2.0]), np.ones(2)), nothing)
    assert level.bound == pytest.approx(0.5, rel=1e-12)
    assert worst.bound == pytest.approx(5.0, rel=1e-12)
    assert total.bound == pytest.approx(3.0, rel=1e-12)
    assert level.prices.rates.tolist() == worst.prices.rates.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("price", [1e300, 1e308])
def test_prices_too_large_for_numbers_prove_what_none_do(price: float) -> None:
    """Their sums overflow."""
    huge = SharePrices(*(np.full_like(part, price) for part in EQUAL))
    for goal in (Level(np.zeros(2), np.ones(2)), Worst(np.ones(2), np.ones(2))):
        assert np.isfinite(certify(TWO, goal, huge).bound)


def test_parts_have_no_certificate_but_one_part_has() -> None:
    """What a split proves is nothing."""
    sharing = drawn(1, 8)
    problem = ShareProblem(sharing, max_min(sharing))
    whole = solve_in_parts(sharing, lambda part, _: max_min(part), 1, 0).result
    assert verify(
        time_sharing_to_dict(problem),
        time_shares_to_dict(whole.shares, sharing),
        share_certificate_to_dict(problem, whole),
    ).verified
    split = solve_in_parts(sharing, lambda part, _: max_min(part), 2, 0).result
    with pytest.raises(ValueError, match="Certificate: the result has no prices; expected one"):
        share_certificate_to_dict(problem, split)
