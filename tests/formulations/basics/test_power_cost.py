"""The power mean as a sum of costs, and the facts that keep its numbers small."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.formulations.basics.power_mean_cost import (
    LARGEST_TERM,
    fitness_from_cost,
    greatest_possible,
    least_useful,
    power_cost,
    safe_reference,
    settled_level,
    settled_rows,
)
from goodalloc.models.round.generalised_mean import power_mean

POWERS = st.one_of(
    st.sampled_from([-10.0, -2.0, -1.0, -1e-9, 0.0, 1e-9, 0.5, 1.0, 2.0]),
    st.floats(-8.0, 8.0, allow_subnormal=False),
)
UTILITIES = st.lists(st.floats(1e-3, 20.0), min_size=1, max_size=12).map(np.array)


@given(UTILITIES, POWERS, st.floats(0.05, 5.0))
def test_total_cost_gives_back_the_power_mean(
    utilities: np.ndarray, power: float, share: float
) -> None:
    """Equation (2) inverts equation (1), at references near the mean."""
    mean = float(power_mean(utilities, power))
    reference = mean * math.exp((share - 2.5) / (1.0 + abs(power)))
    total = float(power_cost(utilities, power, reference).sum())
    found = fitness_from_cost(total, utilities.size, power, reference)
    assert found == pytest.approx(mean, rel=1e-9)


@given(st.floats(1e-3, 20.0), st.floats(1e-3, 20.0), POWERS)
def test_cost_falls_as_utility_rises(one: float, other: float, power: float) -> None:
    """A better utility never costs more."""
    low, high = sorted((one, other))
    costs = power_cost(np.array([low, high]), power, reference=low)
    assert costs[0] >= costs[1]


def test_cost_beyond_float64_is_infinite() -> None:
    """Without a warning: what costs so much is never chosen, or always."""
    assert power_cost(1e-3, -1e6) == math.inf
    assert power_cost(1e3, 1e6) == -math.inf


def test_cost_passes_smoothly_through_power_zero() -> None:
    """Tiny powers cost what the geometric mean costs, without loss of digits."""
    utilities = np.array([0.001, 0.7, 3.0])
    for power in (1e-12, -1e-12):
        np.testing.assert_allclose(power_cost(utilities, power), -np.log(utilities), rtol=1e-10)


@pytest.mark.parametrize("power", [math.inf, -math.inf, math.nan])
def test_infinite_powers_are_refused(power: float) -> None:
    """The minimum and the maximum are not sums of costs."""
    with pytest.raises(ValueError, match=r"Power is .*; expected a finite number"):
        power_cost(1.0, power)
    with pytest.raises(ValueError, match=r"Power is .*; expected a finite number"):
        fitness_from_cost(1.0, 1, power)


def test_a_bound_that_proves_nothing_is_infinite() -> None:
    """Minus infinity as a bound on the cost bounds no fitness of a power up to 0."""
    assert fitness_from_cost(-math.inf, 3, -1.0) == math.inf
    assert fitness_from_cost(-math.inf, 3, 0.0) == math.inf
    assert fitness_from_cost(-math.inf, 3, 1.0) == math.inf


@given(UTILITIES, st.floats(-10.0, -0.1), st.floats(1e-3, 1.0))
def test_useless_choices_make_any_allocation_worse(
    utilities: np.ndarray, power: float, share: float
) -> None:
    """Fact 1: with one utility below `least_useful` the mean is below that of the allocation."""
    mean = float(power_mean(utilities, power))
    useless = least_useful(mean, utilities.size, power) * share
    others = np.full(utilities.size, 1e6)
    others[0] = useless
    assert power_mean(others, power) < mean
    assert utilities.min() >= least_useful(mean, utilities.size, power)


@given(UTILITIES, st.floats(0.1, 10.0))
def test_impossible_choices_exceed_the_bound(utilities: np.ndarray, power: float) -> None:
    """No utility of an allocation is above what a bound on its mean admits."""
    mean = float(power_mean(utilities, power))
    assert utilities.max() <= greatest_possible(mean, utilities.size, power)


@given(st.floats(-20.0, 20.0), st.floats(1e-3, 1.0), st.floats(1.0, 50.0), st.floats(0.0, 1.0))
def test_safe_reference_keeps_terms_small(
    power: float, least: float, greatest: float, where: float
) -> None:
    """No scaled term between the least and the greatest utility exceeds the trusted size."""
    mean = least + where * (greatest - least)
    reference = safe_reference(mean, least, greatest, power)
    terms = (np.array([least, greatest]) / reference) ** power
    assert terms.max() <= LARGEST_TERM * (1 + 1e-9)


def test_settled_jobs_are_those_that_outweigh_the_rest() -> None:
    """At p = -10 two starved jobs outweigh the others; at p = -1 they do not."""
    utilities = np.array([0.5, 0.001, 2.0, 0.001])
    assert settled_level(utilities, -10.0) == 0.001
    assert settled_level(utilities, -1.0) is None
    assert settled_level(utilities, 2.0) is None
    assert settled_level(np.full(3, 0.2), -10.0) is None


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.data())
def test_settled_rows_mean_no_worse_rank_by_rank(levels: list[int], data: st.DataObject) -> None:
    """Utilities satisfy the rows exactly if, sorted, none of the settled ranks is worse."""
    reached = np.sort(np.array(levels, dtype=float))
    level = data.draw(st.sampled_from(levels))
    other = np.sort(
        data.draw(
            st.lists(st.floats(0.5, 6.0), min_size=len(levels), max_size=len(levels)).map(np.array)
        )
    )
    rows = settled_rows(reached, level)
    settled = reached <= level
    better = bool(np.all(other[settled] >= reached[settled]) and np.all(other[~settled] > level))
    within = all(np.count_nonzero(other < row.below) <= row.jobs for row in rows)
    assert within == better
