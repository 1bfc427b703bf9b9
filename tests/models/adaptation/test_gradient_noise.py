"""Tests of the estimators of gradient noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.adaptation.gradient_noise import (
    ADAM_STEPS,
    GradientAverage,
    adam_preconditioner,
    averaged,
    from_consecutive_gradients,
    from_local_gradients,
    from_two_batches,
    statistics_of,
)
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics, noise_scale

SQUARES = st.floats(0.0, 1e6)
SCALES = st.floats(0.1, 100.0)
TRUE = np.array([1.0, -2.0, 0.5])
DEVIATIONS = np.array([3.0, 0.5, 2.0])
INITIAL = 8


def gradients(count: int, examples: int, seed: int, draws: int = 20_000) -> np.ndarray:
    """Mean gradients of batches, Gaussian, of shape (draws, count, 3)."""
    noise = np.random.default_rng(seed).normal(size=(draws, count, len(TRUE)))
    return TRUE + DEVIATIONS / math.sqrt(examples) * noise


def squares(vectors: np.ndarray) -> np.ndarray:
    """Squared norms over the last axis."""
    total: np.ndarray = np.square(vectors).sum(axis=-1)
    return total


def assert_unbiased(estimates: list[GradientStatistics]) -> None:
    """The means are the true moments, within five standard errors."""
    expected = squares(TRUE), squares(DEVIATIONS) / INITIAL
    for found, value in zip(np.array(estimates).T, expected, strict=True):
        error = found.std() / math.sqrt(len(found))
        assert abs(found.mean() - value) < 5.0 * error
        assert error < 0.02 * value


@pytest.mark.parametrize(("count", "examples"), [(2, 4), (2, 8), (5, 3), (16, 8)])
def test_local_gradients_give_unbiased_statistics(count: int, examples: int) -> None:
    """Of Gaussian gradients, whatever the batch size and the number of replicas."""
    drawn = gradients(count, examples, seed=count)
    local, mean = squares(drawn).mean(axis=1), squares(drawn.mean(axis=1))
    scale = count * examples / INITIAL
    pairs = zip(local.tolist(), mean.tolist(), strict=True)
    assert_unbiased([from_local_gradients(one, all_, count, scale) for one, all_ in pairs])


def test_consecutive_gradients_give_unbiased_statistics() -> None:
    """As long as the true gradient stays where it is."""
    first, second = gradients(2, 16, seed=1, draws=60_000).swapaxes(0, 1)
    product = np.einsum("ij,ij->i", first, second)
    rows = zip(squares(first).tolist(), squares(second).tolist(), product.tolist(), strict=True)
    assert_unbiased([from_consecutive_gradients(*row, 16 / INITIAL) for row in rows])


def test_two_batch_sizes_give_unbiased_statistics() -> None:
    """Independent batches of 4 and 32 examples."""
    small = squares(gradients(1, 4, seed=2, draws=60_000))[:, 0].tolist()
    large = squares(gradients(1, 32, seed=3, draws=60_000))[:, 0].tolist()
    pairs = zip(small, large, strict=True)
    assert_unbiased([from_two_batches(one, 4, other, 32, INITIAL) for one, other in pairs])


@given(SQUARES, SQUARES, st.integers(2, 64), st.integers(1, 512), st.integers(1, 512))
def test_local_gradients_are_two_batch_sizes(
    local: float, mean: float, count: int, examples: int, initial: int
) -> None:
    """(2) is (1) with b = m and B = c m."""
    total = count * examples
    found = from_local_gradients(local, mean, count, total / initial)
    other = from_two_batches(local, examples, mean, total, initial)
    size = max(local, mean, 1e-9)
    assert found.square == pytest.approx(other.square, rel=1e-9, abs=1e-9 * size)
    assert found.variance == pytest.approx(
        other.variance, rel=1e-9, abs=1e-9 * size * total / initial
    )


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=2), SCALES)
def test_the_difference_estimate_is_two_local_gradients(pair: list[float], scale: float) -> None:
    """(3) is (2) with c = 2 and the examples of both steps."""
    one, other = pair
    found = from_consecutive_gradients(one**2, other**2, one * other, scale)
    mean = ((one + other) / 2.0) ** 2
    expected = from_local_gradients((one**2 + other**2) / 2.0, mean, 2, 2.0 * scale)
    np.testing.assert_allclose(
        np.array(found), np.array(expected), rtol=1e-9, atol=1e-9 * (1.0 + scale)
    )


@given(SQUARES, SQUARES, st.integers(2, 64), SCALES, st.floats(1e-3, 1e3))
def test_the_statistics_scale_with_the_square_of_the_gradient(
    local: float, mean: float, count: int, scale: float, factor: float
) -> None:
    """Gradients in other units leave the noise scale as it is."""
    found = from_local_gradients(local, mean, count, scale)
    larger = from_local_gradients(factor * local, factor * mean, count, scale)
    size = factor * (local + mean) * (1.0 + scale)
    np.testing.assert_allclose(
        np.array(larger), factor * np.array(found), rtol=1e-9, atol=1e-12 * size
    )


@given(SQUARES, SQUARES, st.integers(2, 64), SCALES, st.integers(1, 1000))
def test_the_noise_scale_in_examples_does_not_depend_on_the_initial_batch(
    local: float, mean: float, count: int, batch: float, initial: int
) -> None:
    """M0 cancels: phi is a number of examples."""
    found = from_local_gradients(local, mean, count, batch / initial)
    other = from_local_gradients(local, mean, count, batch)
    assert found.variance * initial == pytest.approx(other.variance, rel=1e-9, abs=1e-9)


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), SCALES), min_size=1))
def test_the_noise_scale_is_never_negative(steps: list[tuple[float, float, float]]) -> None:
    """Single estimates may be negative; what is clipped and averaged is not."""
    average = GradientAverage()
    for square, variance, scale in steps:
        average = averaged(average, GradientStatistics(square, variance), scale)
    found = statistics_of(average)
    assert found is not None
    assert found.square >= 0.0
    assert found.variance >= 1e-6
    assert noise_scale(found, INITIAL) >= 0.0


@given(SQUARES, st.floats(1e-3, 1e6), st.lists(SCALES, min_size=1, max_size=9), st.floats(0, 0.99))
def test_the_average_of_equal_estimates_is_the_estimate(
    square: float, variance: float, scales: list[float], decay: float
) -> None:
    """From the first one on: the average is corrected for having begun at 0."""
    average = GradientAverage()
    for scale in scales:
        average = averaged(average, GradientStatistics(square, variance), scale, decay)
        assert statistics_of(average) == pytest.approx((square, variance), rel=1e-6, abs=1e-9)


@given(st.integers(1, 20))
def test_a_step_at_a_larger_batch_counts_as_so_many_steps(scale: int) -> None:
    """Theta^S: one step at S is S equal ones at M0."""
    start = averaged(GradientAverage(), GradientStatistics(1.0, 1.0), 1.0)
    estimate = GradientStatistics(3.0, 7.0)
    many = start
    for _ in range(scale):
        many = averaged(many, estimate, 1.0)
    assert averaged(start, estimate, scale) == pytest.approx(many, rel=1e-9)


def test_without_any_estimate_there_are_no_statistics() -> None:
    """None, not a number."""
    assert statistics_of(GradientAverage()) is None


def test_adam_s_preconditioner_is_the_one_of_its_step() -> None:
    """Worked by hand; in its first steps it is 1."""
    moment = np.array([4.0, 0.25])
    corrected = moment / (1.0 - 0.9**10)
    found = adam_preconditioner(moment, 10, 0.9, 1e-8)
    np.testing.assert_allclose(found, 1.0 / (np.sqrt(corrected) + 1e-8))
    np.testing.assert_array_equal(adam_preconditioner(moment, ADAM_STEPS - 1, 0.9, 0.0), [1, 1])
    unseen = adam_preconditioner(np.array([4.0, 0.0]), 10, 0.9, 0.0)
    np.testing.assert_allclose(unseen, [1.0 / np.sqrt(corrected[0]), 0.0])


@given(st.floats(1e-3, 1e3))
def test_preconditioned_noise_does_not_depend_on_the_scale_of_the_loss(factor: float) -> None:
    """Adam divides by it: |P g| is the same for any factor on all gradients (epsilon 0)."""
    gradient, moment = np.array([1.0, -2.0, 3.0]), np.array([2.0, 5.0, 1.0])
    one = squares(adam_preconditioner(moment, 50, 0.999, 0.0) * gradient)
    scaled = adam_preconditioner(factor**2 * moment, 50, 0.999, 0.0) * (factor * gradient)
    assert squares(scaled) == pytest.approx(one, rel=1e-9)


NAN = math.nan


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((NAN, 1.0, 2, 1.0), "local_square is nan; expected a finite number of at least 0"),
        ((-1.0, 1.0, 2, 1.0), "local_square is -1.0"),
        ((1.0, math.inf, 2, 1.0), "mean_square is inf"),
        ((1.0, 1.0, 1, 1.0), "count is 1; expected an integer of at least 2"),
        ((1.0, 1.0, 2.5, 1.0), "count is 2.5"),
        ((1.0, 1.0, 2, 0.0), "scale is 0.0; expected a finite number above 0"),
    ],
)
def test_local_gradients_that_make_no_sense_are_refused(
    arguments: tuple[float, float, int, float], sentence: str
) -> None:
    """Item, value, what was expected."""
    with pytest.raises(ValueError, match=sentence):
        from_local_gradients(*arguments)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((NAN, 1.0, 1.0, 1.0), "previous_square is nan"),
        ((1.0, -1.0, 1.0, 1.0), "square is -1.0"),
        ((1.0, 1.0, NAN, 1.0), "product is nan"),
        ((1.0, 1.0, 1.0, -2.0), "scale is -2.0"),
    ],
)
def test_consecutive_gradients_that_make_no_sense_are_refused(
    arguments: tuple[float, float, float, float], sentence: str
) -> None:
    """Item, value, what was expected."""
    with pytest.raises(ValueError, match=sentence):
        from_consecutive_gradients(*arguments)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((NAN, 1, 1.0, 2, 1), "small_square is nan"),
        ((1.0, 1, -1.0, 2, 1), "large_square is -1"),
        ((1.0, 0, 1.0, 2, 1), "small is 0"),
        ((1.0, 2, 1.0, 2, 1), "large is 2; expected an int"),
        ((1.0, 1, 1.0, 2, 0), "initial is 0"),
    ],
)
def test_two_batches_that_make_no_sense_are_refused(
    arguments: tuple[float, int, float, int, int], sentence: str
) -> None:
    """Item, value, what was expected."""
    with pytest.raises(ValueError, match=sentence):
        from_two_batches(*arguments)


@pytest.mark.parametrize(
    ("estimate", "scale", "decay", "sentence"),
    [
        ((NAN, 1.0), 1.0, 0.9, "square is nan"),
        ((1.0, math.inf), 1.0, 0.9, "variance is inf"),
        ((1.0, 1.0), 0.0, 0.9, "scale is 0.0"),
        ((1.0, 1.0), 1.0, 1.5, "decay is 1.5"),
        ((1.0, 1.0), 1.0, 1.0, "decay is 1.0; expected 0 to below 1"),
        ((1.0, 1.0), 1.0, NAN, "decay is nan"),
    ],
)
def test_an_estimate_that_makes_no_sense_is_refused(
    estimate: tuple[float, float], scale: float, decay: float, sentence: str
) -> None:
    """Before it spoils the average for good."""
    with pytest.raises(ValueError, match=sentence):
        averaged(GradientAverage(), GradientStatistics(*estimate), scale, decay)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((-1, 0.9, 1e-8), "steps is -1"),
        ((9, 1.1, 1e-8), "decay is 1.1"),
        ((9, 0.9, NAN), "epsilon is nan"),
    ],
)
def test_an_adam_that_makes_no_sense_is_refused(
    arguments: tuple[int, float, float], sentence: str
) -> None:
    """Item, value, what was expected."""
    with pytest.raises(ValueError, match=sentence):
        adam_preconditioner(np.ones(2), *arguments)


@pytest.mark.parametrize("floors", [(-1.0, 0.0), (0.0, NAN)])
def test_floors_that_make_no_sense_are_refused(floors: tuple[float, float]) -> None:
    """A statistic is not negative."""
    with pytest.raises(ValueError, match="expected a finite number of at least 0"):
        statistics_of(GradientAverage(1.0, 1.0, 1.0), *floors)
