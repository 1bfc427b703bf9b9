"""Policies that know the true work that is left: exact knapsacks, feasible placements."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.solvers.foresight.round_knapsack import best_numbers
from goodalloc.solvers.foresight.worth_policy import PlannedWorths, WorthPolicy


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 5))
def test_the_numbers_of_gpus_are_the_best_of_all(seed: int, jobs: int, gpus: int) -> None:
    """Against all choices, with gains that may fall and be negative."""
    gain = np.random.default_rng(seed).normal(size=(jobs, gpus + 1))
    found = best_numbers(gain)
    assert found.sum() <= gpus
    best = max(
        sum(gain[row, number] for row, number in enumerate(numbers))
        for numbers in product(range(gpus + 1), repeat=jobs)
        if sum(numbers) <= gpus
    )
    assert gain[np.arange(jobs), found].sum() == pytest.approx(best)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 5))
def test_of_equal_sums_the_last_jobs_get_the_fewest_gpus(seed: int, jobs: int, gpus: int) -> None:
    """So that the same gains always give the same numbers."""
    gain = np.random.default_rng(seed).integers(-2, 3, size=(jobs, gpus + 1)).astype(float)
    best = max(
        (numbers for numbers in product(range(gpus + 1), repeat=jobs) if sum(numbers) <= gpus),
        key=lambda numbers: (
            sum(gain[row, number] for row, number in enumerate(numbers)),
            [-number for number in reversed(numbers)],
        ),
    )
    assert tuple(best_numbers(gain)) == best


def test_the_numbers_of_one_job_and_of_none_are_told() -> None:
    """Of the best ones it gets the fewest."""
    assert best_numbers(np.array([[0.0, 1.0, 1.0]])).tolist() == [1]
    assert best_numbers(np.zeros((0, 3))).tolist() == []


@pytest.mark.parametrize(
    ("restart_delay", "hold", "complaint"),
    [
        (-1.0, 60.0, "restart_delay is -1"),
        (float("nan"), 60.0, "restart_delay is nan"),
        (30.0, 0.0, "hold is 0"),
        (30.0, float("inf"), "hold is inf"),
    ],
)
def test_seconds_that_make_no_sense_are_refused(
    restart_delay: float, hold: float, complaint: str
) -> None:
    """One sentence names the number."""
    with pytest.raises(ValueError, match=complaint):
        WorthPolicy({}, PlannedWorths({}), lambda _name, _gpus: (), restart_delay, hold)
