"""What units are worth by SLAQ: its two laws are found again, and odd losses are worth nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from goodalloc.models.losses.extrapolation import extrapolate
from goodalloc.models.losses.reduction import LossHistory, loss_reductions
from goodalloc.models.support.array_types import Floats

if TYPE_CHECKING:
    from goodalloc.models.losses.reduction import NormalisedBy

Law = Callable[[Floats], Floats]

AHEAD = np.array([[0.0, 1.0, 5.0, 20.0]])

sublinear = st.builds(
    lambda a, b, c, d: lambda k: 1.0 / (a * k**2 + b * k + c) + d,
    st.floats(0.0, 0.01),
    st.floats(0.005, 0.2),
    st.floats(0.2, 2.0),
    st.floats(0.0, 1.0),
)
linear = st.builds(
    lambda rate, height, floor: lambda k: height * np.exp(-rate * k) + floor,
    st.floats(0.01, 0.2),
    st.floats(0.5, 4.0),
    st.floats(0.0, 1.0),
)


def history(losses: Floats | list[float], every: float = 1.0) -> LossHistory:
    """Losses measured from step 0 on, the last one just now."""
    measured = np.array(losses, dtype=float)
    return LossHistory(0.0, every, measured, every * max(len(measured) - 1, 0))


def true_falls(law: Law, done: float) -> Floats:
    """How far the loss falls."""
    return law(np.array([done])) - law(done + AHEAD[0])


@given(st.one_of(sublinear, linear), st.integers(8, 60))
@settings(max_examples=100, deadline=None)
def test_both_laws_are_found_again(law: Law, count: int) -> None:
    """Without noise, a fall of at least 1 % within a fifth, over at most as many steps again."""
    losses = law(np.arange(float(count)))
    true = true_falls(law, count - 1.0)
    asked = (AHEAD[0] <= count) & (true > 0.01 * (losses[0] - losses[-1]))
    assume(asked.any())
    found = loss_reductions([history(losses)], AHEAD, "first_loss")[0] * losses[0]
    assert found[0] == 0.0
    assert found[asked] == pytest.approx(true[asked], rel=0.2)


@pytest.mark.parametrize("name", ["sublinear", "linear"])
def test_noise_hardly_matters_on_average(name: str) -> None:
    """Half a per cent: the median error of the fall over the next 20 steps is below a quarter."""
    steps, errors = np.arange(30.0), []
    for seed in range(100):
        random = np.random.default_rng(seed)
        rate = random.uniform(0.01, 0.05)

        def law(k: Floats, rate: float = rate) -> Floats:
            return 1.0 / (rate * k + 0.5) if name == "sublinear" else 2.0 * np.exp(-rate * k) + 0.2

        noisy = law(steps) * np.exp(0.005 * random.standard_normal(30))
        found = loss_reductions([history(noisy)], AHEAD, "first_loss")[0] * noisy[0]
        errors.append(abs(found[-1] / true_falls(law, 29.0)[-1] - 1.0))
    assert np.median(errors) < 0.25


@given(st.lists(st.floats(1e-3, 1e3), min_size=0, max_size=60), st.floats(0.1, 100.0))
@settings(max_examples=40, deadline=None)
def test_whatever_was_measured_gains_are_finite_and_grow_with_the_steps(
    losses: list[float], every: float
) -> None:
    """At least 0 and 0 for no step; and never below a loss of 0, once there are two."""
    ahead = np.array([np.concatenate([[0.0], np.geomspace(0.1, 1e4, 30)])])
    for normalised_by in ("largest_fall", "first_loss"):
        gains = loss_reductions([history(losses, every)], ahead, normalised_by)[0]
        assert np.isfinite(gains).all()
        assert gains[0] == 0.0
        assert (np.diff(gains) >= -1e-9 * (1.0 + gains[:-1])).all()
        if len(losses) >= 2 and normalised_by == "first_loss":
            assert gains.max() * losses[0] <= 1.001 * max(losses)


@pytest.mark.parametrize("losses", [[1.0, 1.0], [1.0] * 10, [1.0, 1.1], [1.0, 1.1, 1.3, 1.7, 1.8]])
def test_a_loss_that_stays_or_rises_is_worth_nothing(losses: list[float]) -> None:
    """However many steps there are."""
    assert loss_reductions([history(losses)], AHEAD).tolist() == [[0.0] * 4]


@pytest.mark.parametrize("losses", [[], [3.0], [np.nan, np.nan]])
def test_a_new_job_is_worth_its_steps(losses: list[float]) -> None:
    """In units of what lies between two measurements."""
    assert loss_reductions([history(losses, 2.0)], AHEAD).tolist() == [[0.0, 0.5, 2.5, 10.0]]


def test_two_losses_are_continued_straight_to_zero() -> None:
    """From 3 to 2: two more such falls, not three."""
    assert loss_reductions([history([3.0, 2.0])], AHEAD).tolist() == [[0.0, 1.0, 2.0, 2.0]]


@given(sublinear, st.floats(0.01, 100.0), st.floats(0.01, 100.0))
@settings(max_examples=50, deadline=None)
def test_units_of_losses_and_steps_make_no_difference(
    law: Law, higher: float, longer: float
) -> None:
    """A loss so many times as high, measured so many times as rarely."""
    losses = law(np.arange(20.0))
    plain = loss_reductions([history(losses)], AHEAD)
    scaled = loss_reductions([history(higher * losses, longer)], longer * AHEAD)
    assert scaled == pytest.approx(plain, rel=1e-6, abs=1e-9)


def test_jobs_are_valued_side_by_side_as_alone() -> None:
    """Whatever lengths their histories have."""
    histories = [history(1.0 / (np.arange(float(n)) + 1.0)) for n in (0, 1, 3, 4, 12, 90)]
    ahead = np.repeat(AHEAD, len(histories), axis=0)
    together = loss_reductions(histories, ahead)
    for row, alone in zip(together, histories, strict=True):
        assert row == pytest.approx(loss_reductions([alone], AHEAD)[0], rel=1e-9)
    assert loss_reductions([], np.zeros((0, 3))).shape == (0, 3)


def test_missing_losses_are_left_out() -> None:
    """The law is the same without them."""
    losses = 1.0 / (0.1 * np.arange(30.0) + 1.0)
    gaps = np.where(np.arange(30) % 3 == 1, np.nan, losses)
    whole, part = (loss_reductions([history(v)], AHEAD, "first_loss") for v in (losses, gaps))
    assert part[0, 1:] == pytest.approx(whole[0, 1:], rel=1e-2)


def test_what_is_fitted_is_one_of_the_two_laws() -> None:
    """A geometric fall is law (2), a harmonic one law (1); both go through their points."""
    steps = np.arange(25.0)[None]
    for losses, linear_ in ((0.9**steps + 0.3, True), (2.0 / (0.3 * steps + 1.0), False)):
        found = extrapolate(steps, losses, np.ones_like(steps))
        assert bool(found.linear[0]) is linear_
        assert found.loss(steps) == pytest.approx(losses, abs=5e-3)


@pytest.mark.parametrize(
    ("given_", "ahead", "normalised_by", "complaint"),
    [
        (history([1.0]), AHEAD, "last_loss", "normalised_by is 'last_loss'"),
        (history([1.0]), -AHEAD, "first_loss", "ahead is -1.0"),
        (history([1.0]), AHEAD[0], "first_loss", "ahead has shape"),
        (history([1.0]), AHEAD * np.nan, "first_loss", "ahead is nan"),
        (history([-1.0]), AHEAD, "first_loss", "losses is -1.0"),
        (history([np.inf]), AHEAD, "first_loss", "losses is inf"),
        (history([1.0], 0.0), AHEAD, "first_loss", "every is 0.0"),
        (LossHistory(-1.0, 1.0, np.ones(1), 0.0), AHEAD, "first_loss", "first is -1.0"),
        (LossHistory(0.0, 1.0, np.ones(1), np.nan), AHEAD, "first_loss", "done is nan"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    given_: LossHistory, ahead: Floats, normalised_by: NormalisedBy, complaint: str
) -> None:
    """With the item, the value and what was expected."""
    with pytest.raises(ValueError, match=complaint):
        loss_reductions([given_], ahead, normalised_by)
