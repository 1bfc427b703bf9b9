"""Prices for bounds in rounds with restarts: they prove more than those for all schedules."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

from goodalloc.models.hindsight.offline_problem import OfflineJob, Training
from goodalloc.models.hindsight.rounds import Rounds
from goodalloc.solvers.hindsight.best_prices import hindsight_bound, stages_to
from goodalloc.solvers.hindsight.round_prices import (
    MOST_KINDS,
    _compiled,
    _corners,
    _programme_of,
    round_prices,
)
from goodalloc.solvers.hindsight.rounds_with_restarts import RoundOptions, round_job_bounds
from goodalloc.solvers.interface.stop import Stop
from tests.support.few import few
from tests.support.hindsight.lone_rounds import drawn_in_rounds
from tests.support.hindsight.tiny_traces import UNIT, tiny_trace


def test_searched_prices_prove_more_than_those_for_all_schedules() -> None:
    """On a tiny trace of three jobs, in rounds of a unit with a restart."""
    assert gain(2) > 0.1


@pytest.mark.slow
def test_searched_prices_prove_more_on_most_traces() -> None:
    """On most tiny traces of one type, in rounds of a unit with a restart."""
    gains = [gain(seed) for seed in range(4)]
    assert np.mean(gains) > 0.01
    assert sum(one > 0.0 for one in gains) >= 3


def gain(seed: int) -> float:
    """By how much the bound of a tiny trace rises in the search."""
    drawn = tiny_trace(seed)
    jobs = tuple(replace(job, begin=job.begin + 3.0) for job in drawn.jobs)
    problem = replace(drawn, jobs=jobs)
    rounds = Rounds(UNIT, {training.name: 3.0 for training in problem.trainings})
    bound = hindsight_bound(problem, stages_to(UNIT))
    shares: list[float] = []
    found = round_prices(problem, bound, rounds, report=shares.append)
    there = problem.supply.mean(bound.edges) * np.diff(bound.edges)[:, None]
    values = []
    for prices in (bound.prices, found):
        free = replace(bound, prices=prices, job_bounds=np.full(len(jobs), -np.inf))
        by_job = round_job_bounds(problem, free, rounds, spacing=0.5)
        values.append(float(by_job.sum() - (there * prices).sum()))
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    return values[1] / values[0] - 1.0


@pytest.mark.parametrize("seed", few([2, 0, 1, 3], 1))
def test_the_gradient_is_that_of_the_cost(seed: int) -> None:
    """By differences, where the cheapest schedule stays the same."""
    problem, bound, rounds = drawn_in_rounds(seed)
    programme = _programme_of(problem.trainings[0], [problem.jobs[0]], rounds)
    starts = rounds.seconds * np.arange(len(bound.prices))
    step = 1e-7
    with jax.enable_x64(True):
        _, slope = _compiled()(bound.prices, programme, starts)
        for row in range(len(bound.prices)):
            ends = []
            for sign in (-1.0, 1.0):
                moved = bound.prices.copy()
                moved[row, 0] += sign * step
                ends.append(float(_compiled()(moved, programme, starts)[0]))
            difference = (ends[1] - ends[0]) / (2 * step)
            assert float(slope[row, 0]) == pytest.approx(difference, rel=1e-4, abs=1e-4)


def test_the_gradient_is_the_automatic_derivative() -> None:
    """On random prices, under which jobs wait, change, begin together and end in many rounds."""
    generator = np.random.default_rng(7)
    work = generator.uniform(200.0, 900.0, 3)
    speedup = np.array([1.0, 1.8, 2.4, 3.1]) * generator.uniform(0.8, 1.2, (2, 3, 1))
    training = Training("one", work, np.array([1.0, 2.0, 3.0, 4.0]), speedup)
    jobs = [
        OfflineJob(f"{place}", "one", float(release), float(release) + 7.0, 2.0)
        for place, release in enumerate(generator.integers(0, 1500, 12) // 300 * 300)
    ]
    programme = _programme_of(training, jobs, Rounds(60.0, {"one": 20.0}))
    starts = 60.0 * np.arange(120)
    with jax.enable_x64(True):
        for _ in range(5):
            prices = generator.uniform(0.0, 3.0, (120, 2)).round(1)
            automatic = jax.grad(lambda one: _compiled()(one, programme, starts)[0])(prices)
            _, slope = _compiled()(prices, programme, starts)
            assert (np.asarray(slope) > 0.0).sum() > 10
            assert np.allclose(slope, automatic, rtol=1e-12, atol=1e-9)


def test_options_below_a_line_between_others_are_left_out() -> None:
    """Unless they are a corner in another phase."""
    rates = np.array([[1.0, 1.0], [1.4, 2.0], [2.0, 2.2], [3.0, 2.3]])
    options = RoundOptions(np.zeros(4, int), np.array([1.0, 2.0, 3.0, 4.0]), rates)
    assert _corners(options).gpus.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert _corners(options._replace(rates=rates[:, :1])).gpus.tolist() == [1.0, 4.0]


def test_with_many_weights_and_after_a_limit_the_prices_stay_as_they_are() -> None:
    """Every weight would have a programme of its own."""
    problem, bound, rounds = drawn_in_rounds(2)  # compiled for the gradient
    found = round_prices(problem, bound, rounds, stop=Stop(seconds=1e-9))
    assert found.tolist() == bound.prices.tolist()
    many = tuple(
        OfflineJob(f"{place}", "one", 0.0, 10.0, 1.0 + place) for place in range(MOST_KINDS + 1)
    )
    found = round_prices(replace(problem, jobs=many), bound, rounds)
    assert found is bound.prices
