"""Losses of drawn jobs, and what is believed of their steps while they come in."""

from __future__ import annotations

import dataclasses
import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.workloads.loss_runs import Course, draw_losses
from goodalloc.models.losses.loss_forecast import MOST_EPOCHS, LossRun, forecast
from goodalloc.models.parameter_servers.predictability import LARGEST_ERROR
from tests.support.few import few

COURSES = get_args(Course)
SEEDS = st.integers(0, 10_000)


def drawn(seed: int, course: Course, *, noise: float = 0.005, steps: float = 1000.0) -> LossRun:
    """The losses of a job of so many steps."""
    return draw_losses(np.random.default_rng(seed), steps, course, noise=noise)


@given(SEEDS, st.sampled_from(COURSES), st.floats(0.1, 1e9))
def test_losses_fall_to_the_target_at_the_last_step(
    seed: int, course: Course, steps: float
) -> None:
    """Without noise; only a stopped job is not there yet."""
    run = drawn(seed, course, noise=0.0, steps=steps)
    epochs = steps / run.steps_per_epoch
    assert 30 <= epochs <= 90
    assert len(run.losses) == math.floor(epochs * (1 + 1e-12))
    assert run.target < min(run.losses)
    assert drawn(seed, course, noise=0.0, steps=steps) == run
    if course != "stopped":
        last = min(run.losses[-2:])
        assert last < run.target * 1.5


@given(SEEDS, st.sampled_from(COURSES), st.floats(0.0, 1.0))
@settings(max_examples=30)
def test_the_future_makes_no_difference(seed: int, course: Course, part: float) -> None:
    """Nor do the steps since the last fit."""
    run = drawn(seed, course)
    done = part * 1000.0
    seen = math.floor(done / run.steps_per_epoch)
    other = dataclasses.replace(run, losses=(*run.losses[:seen], *(9.0 for _ in run.losses[seen:])))
    assert forecast(run, done) == forecast(other, done)


@given(SEEDS, st.sampled_from(COURSES), st.floats(0.0, 1.0))
@settings(max_examples=40)
def test_no_more_epochs_are_believed_than_the_user_allows(
    seed: int, course: Course, part: float
) -> None:
    """And an error is not below 0."""
    run = drawn(seed, course)
    found = forecast(run, part * 1000.0)
    assert 0 < found.steps <= MOST_EPOCHS * run.steps_per_epoch * (1 + 1e-12)
    assert found.error >= 0
    if part * 1000.0 < 4 * run.steps_per_epoch * (1 - 1e-9):
        assert found.steps == pytest.approx(part * 1000.0 + 20 * run.steps_per_epoch)
        assert math.isinf(found.error)


def test_the_end_of_a_lawful_course_shows_early_and_of_others_not() -> None:
    """Medians of twenty jobs at half of their steps, and how many are trusted then."""
    off, sure = {}, {}
    for course in COURSES:
        found = [forecast(drawn(seed, course), 500.0) for seed in range(20)]
        off[course] = np.median([abs(f.steps / 1000.0 - 1.0) for f in found])
        sure[course] = np.mean([f.error <= 0.25 for f in found])
    assert off["lawful"] < 0.05
    assert min(off["stepwise"], off["stopped"]) > 0.3
    assert sure["lawful"] > 0.85
    assert max(sure["stepwise"], sure["stopped"]) < 0.25


def test_without_noise_a_lawful_course_is_known_after_a_few_epochs() -> None:
    """To the step; the interval closes."""
    run = LossRun(10.0, tuple(1.0 / (0.002 * 10.0 * k + 0.2) + 0.5 for k in range(1, 61)), 1.25)
    steps = (1.0 / 0.75 - 0.2) / 0.002
    assert math.isinf(forecast(run, 110.0).error)
    assert forecast(run, 130.0).steps == pytest.approx(steps, rel=1e-3)
    assert forecast(run, 130.0).error < 0.01


@pytest.mark.parametrize(
    "known", few([(14, 17, 20), (4, 5, 6, 8, 10, 12, 14, 16, 20)], 1), ids=["late", "any"]
)
def test_few_of_the_forecasts_that_are_trusted_are_wrong(known: tuple[int, ...]) -> None:
    """Of two dozen lawful jobs, whatever number of losses is known."""
    trusted, wrong = 0, 0
    for seed in range(25):
        run = drawn(seed, "lawful")
        for epochs in known:
            found = forecast(run, epochs * run.steps_per_epoch)
            if found.error <= LARGEST_ERROR:
                trusted += 1
                wrong += abs(found.steps / 1000.0 - 1.0) > LARGEST_ERROR
    assert trusted > 12
    assert wrong < 0.15 * trusted


def test_a_plateau_looks_like_the_end_of_nothing() -> None:
    """All epochs that are allowed are believed, and nothing is sure."""
    run = LossRun(10.0, tuple(1.0 / (0.2 * k + 0.2) + 2.0 for k in range(1, 41)), 1.0)
    assert forecast(run, 400.0) == (MOST_EPOCHS * 10.0, math.inf)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps_per_epoch", 0.0),
        ("steps_per_epoch", float("nan")),
        ("target", -1.0),
        ("target", float("inf")),
        ("most_epochs", 0.0),
        ("most_epochs", "many"),
        ("losses", (1.0, 0.0)),
        ("losses", (float("nan"),)),
        ("losses", (1.0, float("inf"))),
    ],
)
def test_losses_that_make_no_sense_are_refused(field: str, value: object) -> None:
    """By their name, losses with their epoch."""
    good = drawn(0, "lawful")
    where = "of epoch" if field == "losses" else field
    with pytest.raises(ValueError, match=f"Losses: {where}"):
        dataclasses.replace(good, **{field: value})  # type: ignore[arg-type]


def test_draws_that_make_no_sense_are_refused() -> None:
    """By the name of what is drawn."""
    random = np.random.default_rng(0)
    for steps in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="Losses: steps is"):
            draw_losses(random, steps, "lawful")
    with pytest.raises(ValueError, match="Losses: course is 'odd'; expected one of lawful, step"):
        draw_losses(random, 1.0, "odd")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Losses: noise is"):
        draw_losses(random, 1.0, "lawful", noise=-0.1)
    with pytest.raises(ValueError, match="Forecast: done is"):
        forecast(drawn(0, "lawful"), -1.0)
