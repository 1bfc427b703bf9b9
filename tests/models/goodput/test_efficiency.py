"""Tests of statistical efficiency."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.goodput.statistical_efficiency import (
    GradientStatistics,
    adascale_gain,
    efficiency,
    noise_scale,
)

MOMENTS = st.floats(1e-6, 1e6)
EXAMPLES = st.integers(1, 10_000)


@given(MOMENTS, MOMENTS, EXAMPLES, EXAMPLES)
def test_efficiency_is_the_ratio_of_noise_scales(
    square: float, variance: float, initial: int, batch: int
) -> None:
    """gain / r = (phi + M0) / (phi + M)."""
    gradient = GradientStatistics(square, variance)
    phi = noise_scale(gradient, initial)
    expected = (phi + initial) / (phi + batch)
    assert efficiency(gradient, initial, batch) == pytest.approx(expected, rel=1e-12)


@given(MOMENTS, MOMENTS, EXAMPLES, st.floats(1.0, 100.0))
def test_the_gain_lies_between_one_and_the_batch_ratio(
    square: float, variance: float, initial: int, ratio: float
) -> None:
    """A larger batch never makes a step worse, nor better than in proportion."""
    gain = adascale_gain(GradientStatistics(square, variance), initial, initial * ratio)
    assert 1.0 - 1e-12 <= gain <= ratio * (1.0 + 1e-12)


def test_a_vanishing_gradient_makes_every_example_count() -> None:
    """With square = 0 the noise scale is infinite and efficiency 1 at any batch."""
    gradient = GradientStatistics(0.0, 3.0)
    assert noise_scale(gradient, 10) == math.inf
    assert efficiency(gradient, 10, np.array([10, 100, 1000])) == pytest.approx(1.0)


def test_no_noise_makes_larger_batches_useless() -> None:
    """With variance = 0 a step is a step, whatever its batch."""
    gradient = GradientStatistics(2.0, 0.0)
    assert noise_scale(gradient, 10) == 0.0
    assert adascale_gain(gradient, 10, 1000) == 1.0
    assert efficiency(gradient, 10, 1000) == pytest.approx(0.01)


def test_without_any_statistics_the_gain_is_one() -> None:
    """Where the denominator is not positive the gain is 1, as published."""
    gradient = GradientStatistics(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    gain = adascale_gain(gradient, 10, 20)
    assert gain[0] == 1.0
    assert gain[1] == pytest.approx(2.0 / 1.5)
    assert noise_scale(gradient, 10)[0] == 0.0
