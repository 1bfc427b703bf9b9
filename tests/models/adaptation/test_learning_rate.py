"""Tests of the rules for the learning rate."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.adaptation.learning_rate import LEARNING_RATE_RULES, learning_rate_factor
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics, efficiency

MOMENTS = st.floats(1e-6, 1e6)
EXAMPLES = st.integers(1, 10_000)
RULES = tuple(LEARNING_RATE_RULES)


@given(MOMENTS, MOMENTS, EXAMPLES, EXAMPLES)
def test_adascale_s_factor_per_unit_of_scale_is_pollux_s_efficiency(
    square: float, variance: float, initial: int, batch: int
) -> None:
    """r / S = (phi + M0) / (phi + M)."""
    gradient = GradientStatistics(square, variance)
    factor = learning_rate_factor("adascale", gradient, initial, batch)
    expected = efficiency(gradient, initial, batch)
    assert factor * initial / batch == pytest.approx(expected, rel=1e-9)


@given(MOMENTS, MOMENTS, EXAMPLES, st.integers(1, 100))
def test_no_rule_goes_beyond_the_linear_one(
    square: float, variance: float, initial: int, times: int
) -> None:
    """1 <= factor <= S for every rule, where S is at least 1."""
    gradient = GradientStatistics(square, variance)
    for rule in RULES:
        factor = learning_rate_factor(rule, gradient, initial, initial * times)
        assert 1.0 - 1e-9 <= factor <= times * (1.0 + 1e-9)


@given(MOMENTS, MOMENTS, EXAMPLES)
def test_at_the_initial_batch_size_the_rate_stays_as_it_was_tuned(
    square: float, variance: float, initial: int
) -> None:
    """S = 1: every factor is 1."""
    gradient = GradientStatistics(square, variance)
    for rule in RULES:
        assert learning_rate_factor(rule, gradient, initial, initial) == pytest.approx(1.0)


def test_the_factors_are_the_published_ones() -> None:
    """At four times the batch."""
    gradient = GradientStatistics(1.0, 3.0)
    found = [learning_rate_factor(rule, gradient, 32, 128) for rule in RULES]
    assert found == [1.0, 4.0, 2.0, pytest.approx(4.0 / 1.75)]


def test_without_statistics_adascale_does_not_scale() -> None:
    """A step counts as one, as published where the denominator is not positive."""
    assert learning_rate_factor("adascale", None, 32, 128) == 1.0


@pytest.mark.parametrize(
    ("rule", "square", "initial", "batch", "sentence"),
    [
        ("cosine", 1.0, 1, 1, "rule is 'cosine'; expected one of constant, linear"),
        ("linear", -1.0, 1, 1, "square is -1.0"),
        ("linear", math.nan, 1, 1, "square is nan"),
        ("linear", 1.0, 0, 1, "initial is 0"),
        ("linear", 1.0, 1, 0, "batch is 0"),
        ("linear", 1.0, 1, True, "batch is true"),
        ("linear", 1.0, 1.5, 1, "initial is 1.5"),
    ],
)
def test_what_makes_no_sense_is_refused(
    rule: str, square: float, initial: int, batch: int, sentence: str
) -> None:
    """Item, value, what was expected."""
    with pytest.raises(ValueError, match=sentence):
        learning_rate_factor(rule, GradientStatistics(square, 1.0), initial, batch)
