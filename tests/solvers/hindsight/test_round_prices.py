"""Prices for bounds in rounds with restarts: they prove more than those for all schedules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.hindsight.round_prices import _Programme


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


@pytest.mark.parametrize("seed", few([1, 2, 0, 3], 2))
def test_the_gradient_is_that_of_the_cost(seed: int) -> None:
    """By differences, where the cheapest schedule stays the same."""
    problem, bound, rounds = drawn_in_rounds(seed)
    programme = _programme_of(problem.trainings[0], [problem.jobs[0]], rounds)
    starts = rounds.seconds * np.arange(len(bound.prices))
    step = 1e-7
    with jax.enable_x64(True):
        _, slope = _compiled()(bound.prices, programme, starts)
        assert (np.asarray(slope) > 0.0).any()
        for place in np.ndindex(bound.prices.shape):
            ends = []
            for sign in (-1.0, 1.0):
                moved = bound.prices.copy()
                moved[place] += sign * step
                ends.append(float(_compiled()(moved, programme, starts)[0]))
            difference = (ends[1] - ends[0]) / (2 * step)
            assert float(slope[place]) == pytest.approx(difference, rel=1e-4, abs=1e-4)


def programme_of_many() -> tuple[_Programme, Floats]:
    """Return the programme of jobs on two types of which some come together, and its rounds."""
    random = np.random.default_rng(7)
    speedup = np.array([1.0, 1.8, 2.4, 3.1]) * random.uniform(0.8, 1.2, (2, 3, 1))
    work = random.uniform(40.0, 500.0, 3)
    training = Training("one", work, np.array([1.0, 2.0, 3.0, 4.0]), speedup)
    begins = random.integers(0, 1500, 12) // 300 * 300 + 27.0  # 27 s into a round
    jobs = [OfflineJob(f"{place}", "one", 0.0, float(at), 2.0) for place, at in enumerate(begins)]
    return _programme_of(training, jobs, Rounds(60.0, {"one": 20.0})), np.arange(0.0, 7200.0, 60.0)


def test_the_gradient_is_the_automatic_derivative() -> None:
    """On random prices, under which jobs wait, change, come together and end in many rounds."""
    programme, starts = programme_of_many()
    random = np.random.default_rng(8)
    with jax.enable_x64(True):
        for _ in range(5):
            prices = random.uniform(0.0, 3.0, (starts.size, 2))
            automatic = jax.grad(lambda one: _compiled()(one, programme, starts)[0])(prices)
            _, slope = _compiled()(prices, programme, starts)
            assert (np.asarray(slope) > 0.0).sum() > 10
            assert np.allclose(slope, automatic, rtol=1e-12, atol=1e-9)


def test_no_cost_is_above_its_gradient_at_other_prices() -> None:
    """The cost is concave: with ties, too, as of prices of zero and whole ones."""
    programme, starts = programme_of_many()
    random = np.random.default_rng(9)
    shape = (starts.size, 2)
    tried = [np.zeros(shape), np.ones(shape), 4.0 * np.ones(shape)]
    tried += [random.integers(0, 4, shape).astype(float) for _ in range(3)]
    tried += [random.gamma(0.5, 1.0, shape) for _ in range(3)]
    with jax.enable_x64(True):
        found = [_compiled()(prices, programme, starts) for prices in tried]
    for prices, (cost, slope) in zip(tried, found, strict=True):
        for other, (its_cost, _) in zip(tried, found, strict=True):
            above = float(cost) + float((np.asarray(slope) * (other - prices)).sum())
            assert float(its_cost) <= above * (1.0 + 1e-12)


def test_options_below_a_line_between_others_are_left_out() -> None:
    """Unless they are a corner in another phase."""
    rates = np.array([[1.0, 1.0], [1.4, 2.0], [2.0, 2.2], [3.0, 2.3]])
    options = RoundOptions(np.zeros(4, int), np.array([1.0, 2.0, 3.0, 4.0]), rates)
    assert _corners(options).gpus.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert _corners(options._replace(rates=rates[:, :1])).gpus.tolist() == [1.0, 4.0]


def test_at_a_limit_the_best_prices_so_far_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the last ones, which the search may only have tried."""
    problem, bound, rounds = drawn_in_rounds(2)
    tried: list[tuple[float, Floats]] = []

    def climb(evaluate: Any, prices: Any, *_: object) -> Any:
        for factor in (1.0, 2.0, 1.2, 0.5, 3.0):
            tried.append((evaluate(factor * prices)[0], factor * prices))
        return prices

    monkeypatch.setattr("goodalloc.solvers.hindsight.round_prices.climb_prices", climb)
    found = round_prices(problem, bound, rounds, stop=Stop(seconds=1e-9))
    value, prices = max(tried, key=lambda pair: pair[0])
    assert found.tolist() == prices.tolist()
    assert value > tried[-1][0]
    assert round_prices(problem, bound, rounds).tolist() == bound.prices.tolist()


def test_with_many_weights_or_without_time_the_prices_stay_as_they_are() -> None:
    """Every weight would have a programme of its own."""
    problem, bound, rounds = drawn_in_rounds(2)  # compiled for the gradient
    found = round_prices(problem, bound, rounds, stop=Stop(seconds=1e-9))
    assert found == pytest.approx(bound.prices, rel=1e-9, abs=1e-9)  # tried once, as they are
    many = tuple(
        OfflineJob(f"{place}", "one", 0.0, 10.0, 1.0 + place) for place in range(MOST_KINDS + 1)
    )
    found = round_prices(replace(problem, jobs=many), bound, rounds)
    assert found is bound.prices
