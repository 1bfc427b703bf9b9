"""Rounds whose models are uncertain: the mean or the least of speedups over draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.rounds.benchmark_set import load_benchmark
from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import speedup_table
from goodalloc.models.round.uncertain_instance import Uncertainty, robust_instance
from goodalloc.solvers.certificates.solve import solve

TINY = load_benchmark("tiny-cold")


@pytest.mark.parametrize("view", ["mean", "least"])
def test_without_uncertainty_the_speedups_are_those_of_the_models(view: Any) -> None:
    """All draws are the fitted parameters."""
    exact = Uncertainty(0.0, 0.0, view)
    assert speedup_table(robust_instance(TINY, exact)) == pytest.approx(speedup_table(TINY))


@settings(max_examples=30)
@given(st.floats(0.01, 0.5), st.floats(0.0, 0.5), st.integers(0, 1000))
def test_the_least_speedup_is_at_most_the_mean(step: float, scale: float, seed: int) -> None:
    """And both are among those of the draws: none negative, none of a job on no GPU."""
    least, mean = (
        speedup_table(robust_instance(TINY, Uncertainty(step, scale, view, pairs=2, seed=seed)))
        for view in ("least", "mean")
    )
    assert (least <= mean * (1 + 1e-12)).all()
    assert (least >= 0.0).all()
    assert not mean[:, :, 0].any()
    assert (least < mean).any()


def test_every_draw_is_one_of_a_pair_of_opposite_errors() -> None:
    """Their logarithms sum to nothing; another job, mode or seed has others."""
    uncertainty = Uncertainty(0.3, 0.6, pairs=50)
    draws = uncertainty.draws("mine", 0)
    assert draws.shape == (100, 7)
    assert np.log(draws).sum(axis=0) == pytest.approx(np.zeros(7), abs=1e-12)
    assert np.log(draws[:, :6]).std() == pytest.approx(0.3, rel=0.1)
    assert np.log(draws[:, 6]).std() == pytest.approx(0.6, rel=0.3)
    others = [uncertainty.draws("yours", 0), uncertainty.draws("mine", 1)]
    others.append(Uncertainty(0.3, 0.6, pairs=50, seed=1).draws("mine", 0))
    assert not any(np.array_equal(draws, other) for other in others)


def test_jobs_that_never_ran_and_tables_stay_as_they_are() -> None:
    """Only fitted models are uncertain."""
    table = SpeedupTable((1.0, 1.5), (0.0, 1.2))
    first, second, *others = TINY.jobs
    mixed = TINY.replace(jobs=(first.replace(model=None), second.replace(model=table), *others))
    robust = robust_instance(mixed, Uncertainty())
    assert robust.jobs[0].model is None
    assert robust.jobs[1].model == table
    known = [isinstance(job.model, GoodputModel) for job in mixed.jobs[2:]]
    assert [isinstance(job.model, SpeedupTable) for job in robust.jobs[2:]] == known


def test_a_robust_round_is_decided_exactly() -> None:
    """By any solver: its optimum is proved as that of every other round."""
    robust = robust_instance(TINY, Uncertainty(0.5, 0.5))
    exact, brute = solve(robust, "highs"), solve(robust, "brute_force")
    assert exact.fitness == pytest.approx(brute.fitness)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"step_time": -0.1}, "step_time is -0.1"),
        ({"noise_scale": math.nan}, "noise_scale is nan"),
        ({"view": "best"}, "view is 'best'"),
        ({"pairs": 0}, "pairs is 0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_an_uncertainty_that_makes_no_sense_is_refused(changes: Any, words: str) -> None:
    """By name and value."""
    with pytest.raises(ValueError, match=f"Uncertainty: {words}"):
        Uncertainty(**changes)
