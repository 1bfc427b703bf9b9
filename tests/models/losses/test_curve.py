"""Loss curves: recovery, spikes, scale, how sure the remaining steps are, what is refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.models.losses.curve_fitting import fit_loss_curve, spikes
from goodalloc.models.losses.loss_curve import (
    Convergence,
    LossCurve,
    TargetLoss,
    curves_through,
    remaining_steps,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from goodalloc.models.losses.loss_curve import LossCurveFit

curves = st.builds(
    LossCurve,
    st.floats(1e-4, 0.1),
    st.floats(0.05, 3.0),
    st.one_of(st.just(0.0), st.floats(0.05, 2.0)),
)
counts = st.integers(8, 120)
reaches = st.floats(1.0, 30.0)
seeds = st.integers(0, 10_000)


def steps_of(curve: LossCurve, count: int, reach: float) -> Any:
    """Evenly spaced steps, to where the falling part is 1 / (1 + reach) of its height."""
    return np.linspace(0.0, reach * curve.offset / curve.rate, count)


def measured(curve: LossCurve, steps: Any, noise: float, seed: int) -> Any:
    """Losses with multiplicative noise."""
    generator = np.random.default_rng(seed)
    return curve.loss(steps) * np.exp(generator.normal(0.0, noise, len(steps)))


def with_spikes(losses: Any, seed: int) -> Any:
    """Every tenth loss, on average, is 2 to 10 times too large."""
    generator = np.random.default_rng(seed)
    hit = generator.random(len(losses)) < 0.1
    return np.where(hit, losses * generator.uniform(2.0, 10.0, len(losses)), losses)


@given(curves, counts, reaches)
@settings(deadline=None)
def test_a_curve_without_noise_is_recovered(curve: LossCurve, count: int, reach: float) -> None:
    """All three coefficients, and with them any number of steps."""
    steps = steps_of(curve, count, reach)
    fit = fit_loss_curve(steps, curve.loss(steps))
    assert fit.curve == pytest.approx(curve, rel=1e-3, abs=1e-4)
    assert fit.curve.loss(steps) == pytest.approx(curve.loss(steps), rel=1e-6)
    assert fit.error < 1e-6
    assert fit.spikes == 0


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("curve", [LossCurve(0.06, 1.0, 0.0), LossCurve(0.02, 0.3, 0.4)])
def test_spikes_hardly_matter(curve: LossCurve, noise: float) -> None:
    """With a tenth of the losses far too large the curve is where it was, in 24 of 25 cases."""
    steps = steps_of(curve, 50, 5.0)
    late = steps >= steps[-1] / 2
    truth, off = curve.loss(steps[late]), []
    for seed in range(50):
        losses = with_spikes(measured(curve, steps, noise, seed), seed + 1000)
        off.append(np.abs(fit_loss_curve(steps, losses).curve.loss(steps[late]) / truth - 1).max())
    assert np.quantile(off, 0.96) < 1e-4 + 3 * noise


@given(curves, counts, reaches, seeds, st.floats(0.01, 100.0), st.floats(0.01, 100.0))
@settings(max_examples=25, deadline=None)
def test_units_make_no_difference(
    curve: LossCurve, count: int, reach: float, seed: int, longer: float, higher: float
) -> None:
    """Steps so many times as long, losses so many times as high."""
    steps = steps_of(curve, count, reach)
    losses = measured(curve, steps, 0.02, seed)
    one, other = fit_loss_curve(steps, losses), fit_loss_curve(longer * steps, higher * losses)
    within = one.curve.loss(steps) * higher
    assert other.curve.loss(longer * steps) == pytest.approx(within, rel=1e-4)
    assert other.error == pytest.approx(one.error, rel=1e-2, abs=1e-6)
    assert other.spikes == one.spikes


def test_remaining_steps_scale_with_the_units() -> None:
    """Estimate and interval, of a curve with noise."""
    curve = LossCurve(0.02, 0.3, 0.4)
    steps = np.linspace(0, 500, 60)
    losses = measured(curve, steps, 0.02, 3)
    fits = fit_loss_curve(steps, losses), fit_loss_curve(10 * steps, 3 * losses)
    one, other = (
        remaining_steps(fit, done, TargetLoss(target))
        for fit, done, target in zip(fits, (500, 5000), (0.46, 1.38), strict=True)
    )
    assert np.array(other) == pytest.approx(10 * np.array(one), rel=1e-3)
    assert 0 < one.low < one.estimate < one.high < math.inf


@given(curves, st.floats(0.0, 1e5))
def test_a_curve_reaches_the_loss_that_it_has(curve: LossCurve, step: float) -> None:
    """The step with the loss of a step is that step, as far as the loss can tell."""
    again = float(curve.step_at(curve.loss(step)))
    assert curve.loss(again) == pytest.approx(curve.loss(step), rel=1e-12)
    assert again == pytest.approx(step, rel=1e-4, abs=1e-3 / float(curve.rate))


def test_a_loss_below_the_asymptote_is_never_reached() -> None:
    """Nor the asymptote itself; a loss that is there already is reached at once."""
    curve = LossCurve(0.01, 0.5, 0.4)
    assert curve.step_at(0.4) == math.inf
    assert curve.step_at(np.array([0.3, 0.9, 2.4, 5.0])).tolist() == pytest.approx(
        [math.inf, 150.0, 0.0, 0.0]
    )
    flat = LossCurve(0.0, 0.5, 0.4)
    assert [float(flat.step_at(loss)) for loss in (2.3, 2.5)] == [math.inf, 0.0]
    steps = np.linspace(0, 1000, 50)
    fit = fit_loss_curve(steps, curve.loss(steps))
    assert remaining_steps(fit, 1000, TargetLoss(0.39)) == (math.inf,) * 3
    assert remaining_steps(fit, 1000, TargetLoss(3.0)) == (0.0,) * 3


@given(curves, st.floats(1.0, 1000.0), st.floats(1e-3, 1.0))
def test_convergence_is_where_the_loss_falls_by_less(
    curve: LossCurve, epoch: float, fall: float
) -> None:
    """Over the ten epochs before it, by just so much; or the job never trained on, or too long."""
    goal = Convergence(epoch, fall)
    step = float(goal.step(curve))
    fell = float(curve.loss(step - 10 * epoch) - curve.loss(step))
    assert 10 * epoch <= step <= 100 * epoch
    if 10 * epoch < step < 100 * epoch:
        assert fell == pytest.approx(fall, rel=1e-6)
    elif step == 100 * epoch:
        assert fell >= fall * (1 - 1e-9)
    else:
        assert fell <= fall * (1 + 1e-9)


def test_a_job_whose_loss_does_not_fall_has_converged() -> None:
    """A curve that rises is fitted by a flat one, and no loss below is ever reached."""
    steps = np.arange(50.0)
    fit = fit_loss_curve(steps, 1.0 + 0.01 * steps)
    assert fit.curve.loss(0.0) == pytest.approx(fit.curve.loss(50.0), rel=1e-2)
    assert remaining_steps(fit, 50, Convergence(1.0, 0.1)) == (0.0,) * 3
    assert remaining_steps(fit, 50, TargetLoss(0.5)).estimate > 1e6


@pytest.mark.parametrize("emphasis", [1.0, 4.0])
def test_more_points_make_surer(emphasis: float) -> None:
    """The median width of the interval falls with every fourfold number of measurements."""
    curve, target, widths = LossCurve(0.02, 0.3, 0.4), TargetLoss(0.5), []
    for count in (16, 64, 256):
        steps = np.linspace(0, 300, count)
        found = [
            remaining_steps(
                fit_loss_curve(steps, measured(curve, steps, 0.02, seed), emphasis=emphasis),
                300,
                target,
            )
            for seed in range(15)
        ]
        widths.append(float(np.median([one.high - one.low for one in found])))
    assert widths[0] > 1.3 * widths[1] > 1.69 * widths[2]


def test_the_truth_is_within_the_interval_about_as_often_as_it_says() -> None:
    """With and without spikes: nine of ten times are asked for, more than three of four are had."""
    curve, steps = LossCurve(0.02, 0.3, 0.4), np.linspace(0, 300, 60)
    truth = float(curve.step_at(0.5)) - 300
    for spiky in (False, True):
        held = []
        for seed in range(20):
            losses = measured(curve, steps, 0.03, seed)
            fit = fit_loss_curve(steps, with_spikes(losses, seed + 1000) if spiky else losses)
            found = remaining_steps(fit, 300, TargetLoss(0.5))
            assert found.low <= found.estimate <= found.high
            held.append(found.low <= truth <= found.high)
        assert np.mean(held) > 0.75


def test_the_interval_widens_with_the_confidence() -> None:
    """And is the same for equal seeds."""
    steps = np.linspace(0, 300, 60)
    fit = fit_loss_curve(steps, measured(LossCurve(0.02, 0.3, 0.4), steps, 0.03, 0))
    goal = TargetLoss(0.5)
    half, most = (remaining_steps(fit, 300, goal, confidence=part) for part in (0.5, 0.95))
    assert most.low < half.low < half.estimate < half.high < most.high
    assert remaining_steps(fit, 300, goal, confidence=0.5) == half
    assert remaining_steps(fit, 300, goal, confidence=0.5, seed=1) != half


def test_recent_points_count_more() -> None:
    """Of a curve that bends away from the law, the end is what is fitted."""
    steps = np.linspace(0, 1000, 120)
    losses = np.where(
        steps < 500, 2.0 - steps / 500, 1.0 - 0.3 * (1 - np.exp(-(steps - 500) / 200))
    )
    last = steps > 800
    errors = [
        np.abs(fit_loss_curve(steps, losses, emphasis=e).curve.loss(steps[last]) - losses[last])
        for e in (1.0, 4.0)
    ]
    assert errors[1].mean() < 0.5 * errors[0].mean()
    even = fit_loss_curve(steps, losses, segments=1, emphasis=4.0)
    assert even.curve == fit_loss_curve(steps, losses, emphasis=1.0).curve


@given(curves, counts, reaches, seeds)
@settings(max_examples=25, deadline=None)
def test_the_order_of_the_measurements_makes_no_difference(
    curve: LossCurve, count: int, reach: float, seed: int
) -> None:
    """They are put in the order of their steps."""
    steps = steps_of(curve, count, reach)
    losses = measured(curve, steps, 0.02, seed)
    order = np.random.default_rng(seed).permutation(count)
    assert fit_loss_curve(steps[order], losses[order]).curve == fit_loss_curve(steps, losses).curve


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.floats(1e-3, 1e3)),
        min_size=4,
        max_size=30,
        unique_by=lambda pair: pair[0],
    ),
    st.floats(1e-3, 1e3),
)
@settings(max_examples=25, deadline=None)
def test_whatever_is_measured_there_is_an_answer(
    points: list[tuple[float, float]], target: float
) -> None:
    """Of arbitrary losses: finite coefficients of at least 0, an interval about the estimate."""
    steps, losses = zip(*points, strict=True)
    fit = fit_loss_curve(steps, losses)
    assert all(0 <= value < math.inf for value in fit.curve)
    assert fit.error >= 0
    for goal in (TargetLoss(target), Convergence(10.0)):
        found = remaining_steps(fit, max(steps), goal, draws=50)
        assert 0 <= found.low <= found.estimate <= found.high


def test_a_spike_leaves_the_median_of_its_neighbours() -> None:
    """A lone one does, with neighbours where it is steep; nothing of a curve that only falls."""
    falling = 1.0 / (0.1 * np.arange(30.0) + 0.2)
    assert not spikes(falling).any()
    falling[10] *= 3.0
    assert np.flatnonzero(spikes(falling)).tolist() == [8, 9, 10]
    assert not spikes(np.array([1.0] * 10 + [0.5] * 10)).any()


@given(st.tuples(st.floats(0.0, 10.0), st.floats(11.0, 50.0), st.floats(60.0, 200.0)), curves)
def test_the_curve_through_three_points_of_a_curve_is_that_curve(
    steps: tuple[float, float, float], curve: LossCurve
) -> None:
    """Its losses are; where they do not fall there is a flat curve, or one to 0."""
    at = np.array(steps)
    again = curves_through(at, curve.loss(at)[np.newaxis])
    assert again.loss(at) == pytest.approx(curve.loss(at), rel=1e-4)
    flat = curves_through(at, np.array([[1.0, 3.0, 2.0]]))
    assert flat.loss(at) == pytest.approx([2.0, 2.0, 2.0])
    above = 3.0 - (at[1] - at[0]) / (at[2] - at[0])  # half as far below 3 as the straight line
    concave = curves_through(at, np.array([[3.0, above, 1.0]]))
    assert concave.asymptote == 0
    assert concave.loss(at[[0, 2]]) == pytest.approx([3.0, 1.0])


FIT = fit_loss_curve(np.arange(10), LossCurve(0.1, 0.2, 0.3).loss(np.arange(10)))
TEN = np.arange(10.0)


def left(fit: LossCurveFit = FIT, done: Any = 10, **changes: Any) -> object:
    """Remaining steps but for the changes."""
    return remaining_steps(fit, done, TargetLoss(0.5), **changes)


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: fit_loss_curve([1, 2, 3], [3, 2, 1]), r"3 different steps; expected at least 4"),
    (lambda: fit_loss_curve([], []), r"0 different steps"),
    (lambda: fit_loss_curve([1, 1, 2, 2, 3], [3, 3, 2, 2, 1]), r"3 different steps"),
    (lambda: fit_loss_curve(TEN, TEN[1:]), r"steps have shape \(10,\) and losses \(9,\)"),
    (lambda: fit_loss_curve(1.0, 1.0), r"steps have shape \(\)"),
    (lambda: fit_loss_curve(TEN - 1, TEN + 1), r"Loss curve\[0\]: steps is -1.0; expected 0 or"),
    (lambda: fit_loss_curve(TEN, TEN), r"losses is 0.0; expected a finite number above 0"),
    (lambda: fit_loss_curve(TEN, np.full(10, math.nan)), r"losses is nan"),
    (lambda: fit_loss_curve(TEN, np.full(10, math.inf)), r"losses is inf"),
    (lambda: fit_loss_curve(TEN, -np.ones(10)), r"losses is -1.0"),
    (lambda: fit_loss_curve(np.full(10, math.inf), TEN + 1), r"steps is inf"),
    (lambda: fit_loss_curve(["a"] * 10, TEN), r"steps is \['a', .*expected a finite number"),
    (lambda: fit_loss_curve(TEN, [[1.0], [2.0, 3.0]]), r"losses is \[\[1.0\], \[2.0, 3.0\]\]"),
    (lambda: fit_loss_curve(TEN, TEN + 1, segments=0), r"segments is 0; expected an integer"),
    (lambda: fit_loss_curve(TEN, TEN + 1, emphasis=0.5), r"emphasis is 0.5; .* at least 1"),
    (lambda: fit_loss_curve(TEN, TEN + 1, emphasis=math.inf), r"emphasis is inf"),
    (lambda: TargetLoss(0.0), r"Target loss is 0.0; expected a finite number above 0"),
    (lambda: TargetLoss(math.nan), r"Target loss is nan"),
    (lambda: Convergence(0.0), r"steps_per_epoch is 0.0"),
    (lambda: Convergence(1.0, -0.05), r"fall is -0.05"),
    (lambda: Convergence(1.0, epochs=0.0), r"epochs is 0.0"),
    (lambda: Convergence(1.0, most_epochs=math.inf), r"most_epochs is inf"),
    (lambda: left(done=-1), r"done is -1; expected a finite number of at least 0"),
    (lambda: left(done=math.nan), r"done is nan"),
    (lambda: left(confidence=0.0), r"confidence is 0.0; expected a finite number above 0"),
    (lambda: left(confidence=1.0), r"confidence is 1.0; expected below 1"),
    (lambda: left(draws=1), r"draws is 1; expected an integer of at least 2"),
    (lambda: left(seed=-1), r"seed is -1; expected an integer of at least 0"),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_input_is_refused_in_a_sentence(call: Callable[[], object], words: str) -> None:
    """With the item, its value and what was expected."""
    with pytest.raises(ValueError, match=words):
        call()
