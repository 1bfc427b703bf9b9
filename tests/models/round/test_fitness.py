"""Tests of the power mean and of the price of a restart."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.round.generalised_mean import power_mean, restart_factor

VALUES = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8)
POWERS = st.floats(-200.0, 200.0)


@given(VALUES, st.floats(-20.0, 20.0).filter(lambda power: abs(power) > 0.01))
def test_power_mean_is_its_formula(values: list[float], power: float) -> None:
    """Against plain powers, where those are accurate."""
    expected = np.mean(np.power(values, power)) ** (1 / power)
    assert power_mean(values, power) == pytest.approx(expected, rel=1e-11)


@given(VALUES, POWERS, POWERS)
def test_power_mean_rises_with_its_power(values: list[float], one: float, other: float) -> None:
    """The power mean inequality, between the minimum and the maximum."""
    low, high = sorted((one, other))
    means = [power_mean(values, power) for power in (-math.inf, low, high, math.inf)]
    assert means[0] == min(values)
    assert means[-1] == max(values)
    assert all(a <= b * (1 + 1e-12) for a, b in itertools.pairwise(means))


@given(VALUES, POWERS, st.floats(1e-3, 1e3))
def test_power_mean_scales_with_its_values(
    values: list[float], power: float, factor: float
) -> None:
    """Twice the values, twice the mean."""
    scaled = power_mean(np.array(values) * factor, power)
    assert scaled == pytest.approx(power_mean(values, power) * factor, rel=1e-11)


def test_well_known_means() -> None:
    """Arithmetic, geometric and harmonic mean of 1 and 4."""
    assert power_mean([1.0, 4.0], 1) == pytest.approx(2.5)
    assert power_mean([1.0, 4.0], 0) == pytest.approx(2.0)
    assert power_mean([1.0, 4.0], -1) == pytest.approx(1.6)
    assert power_mean([1.0, 4.0], 1e-320) == pytest.approx(2.0)
    assert power_mean([1.0, 4.0], 1e-12) == pytest.approx(2.0)


@pytest.mark.parametrize("power", [-200.0, -10.0, -1.0, 0.0, -math.inf])
def test_a_zero_makes_the_mean_zero(power: float) -> None:
    """For p <= 0 one starved job is enough, without a warning."""
    assert power_mean([0.0, 1e-3, 5.0], power) == 0.0


def test_a_zero_counts_as_nothing_for_positive_powers() -> None:
    """For p > 0 a zero only dilutes the mean; all zeros give zero."""
    assert power_mean([0.0, 2.0], 1) == pytest.approx(1.0)
    assert power_mean([0.0, 2.0], 2) == pytest.approx(math.sqrt(2.0))
    assert power_mean([0.0, 0.0], 3) == 0.0


@pytest.mark.parametrize("power", [-200.0, -10.0, 10.0, 200.0])
def test_extreme_powers_do_not_overflow(power: float) -> None:
    """Values whose powers are far outside double precision."""
    values = np.array([1e-300, 1e-3, 1e300])
    expected = values.min() if power < 0 else values.max()
    assert power_mean(values, power) == pytest.approx(expected * 3 ** (-1 / power), rel=1e-9)


def test_power_mean_reduces_the_axis_it_is_told() -> None:
    """One mean per row or per column."""
    table = np.array([[1.0, 2.0, 4.0], [3.0, 3.0, 3.0]])
    np.testing.assert_allclose(power_mean(table, 0), [2.0, 3.0])
    np.testing.assert_allclose(power_mean(table, 1, axis=0), [2.0, 2.5, 3.5])


def test_power_mean_refuses_what_has_no_mean() -> None:
    """A power that is not a number, and no values."""
    with pytest.raises(ValueError, match="power is nan"):
        power_mean([1.0], math.nan)
    with pytest.raises(ValueError, match="no entries along axis -1"):
        power_mean([], -1)


def test_power_mean_runs_on_jax() -> None:
    """The same numbers within a compiled function."""
    import jax
    import jax.numpy as jnp

    values = np.array([[0.5, 2.0, 3.0], [0.0, 1.0, 1.0]])
    with jax.enable_x64(True):
        found = jax.jit(lambda array: power_mean(array, -1.0))(jnp.asarray(values))
    np.testing.assert_allclose(np.asarray(found), power_mean(values, -1.0), rtol=1e-14)


def test_restarts_cost_what_they_took_of_a_job_so_far() -> None:
    """max(age - delay restarts, 0) / (age + delay)."""
    assert restart_factor(0.0, 0, 30.0) == 0.0
    assert restart_factor(570.0, 0, 30.0) == pytest.approx(0.95)
    assert restart_factor(570.0, 3, 30.0) == pytest.approx(0.8)
    assert restart_factor(60.0, 5, 30.0) == 0.0
    np.testing.assert_allclose(restart_factor(np.array([0.0, 90.0]), 0, 0.0), [1.0, 1.0])
