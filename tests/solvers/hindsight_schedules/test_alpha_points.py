"""Alpha-points: parts of the work that end in order of time, and schedules that they make."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.formulations.hindsight.price_bound import job_bound
from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
from goodalloc.solvers.hindsight.best_prices import Stage, hindsight_bound
from goodalloc.solvers.hindsight.priced_schedule import WorthScheduler
from goodalloc.solvers.hindsight_schedules.alpha_points import (
    ALPHAS,
    alpha_point_worths,
    end_chances,
)
from tests.support.hindsight.tiny_traces import UNIT, tiny_trace

SEARCH = (Stage(UNIT, (20.0, 5.0), 15),)
SEEDS = st.integers(0, 10**6)


@settings(max_examples=10)
@given(SEEDS, st.sampled_from([0.01, 1.0, 30.0]))
def test_probabilities_of_the_ends_have_the_sum_one(seed: int, smoothing: float) -> None:
    """And the likeliest end is that of the job's bound."""
    problem = tiny_trace(seed)
    bound = hindsight_bound(problem, SEARCH)
    for job, pattern, found in zip(
        problem.jobs, bound.patterns, end_chances(problem, bound, smoothing), strict=True
    ):
        assert found.chances.sum() == pytest.approx(1.0)
        assert (found.chances >= 0).all()
        multipliers = bound.multipliers[job.training]
        behind = job.weight * (bound.edges[-1] - job.release)
        if job_bound(job, multipliers, bound.edges, bound.prices) < behind:
            assert found.patterns[found.chances.argmax()] == pattern


def test_a_job_alone_ends_most_likely_when_its_work_is_done() -> None:
    """Fifty seconds of work on the only GPU."""
    training = Training("one", np.array([50.0]), np.array([1.0]), np.array([[[1.0]]]))
    jobs = (OfflineJob("a", "one", 0.0, 0.0),)
    problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 1.0}))
    bound = hindsight_bound(problem, SEARCH)
    (found,) = end_chances(problem, bound, 0.01)
    end = bound.edges[found.chances.argmax() + 1]
    assert 50.0 <= end <= 50.0 + UNIT


@settings(max_examples=10)
@given(SEEDS)
def test_a_greater_part_of_the_work_is_never_done_earlier(seed: int) -> None:
    """By the intervals in which jobs end."""
    problem = tiny_trace(seed)
    for found in end_chances(problem, hindsight_bound(problem, SEARCH), 20.0):
        reached = np.cumsum(found.chances)
        ends = [int(np.argmax(reached >= alpha - 1e-12)) for alpha in ALPHAS]
        assert ends == sorted(ends)
        assert [found.at(alpha) for alpha in ALPHAS] == found.patterns[ends].tolist()


@settings(max_examples=10)
@given(SEEDS)
def test_the_best_alpha_is_no_worse_than_any_that_was_tried(seed: int) -> None:
    """Whatever the parts."""
    problem = tiny_trace(seed)
    bound, scheduler = hindsight_bound(problem, SEARCH), WorthScheduler(problem)
    values = [
        problem.total(scheduler.run(alpha_point_worths(problem, bound, alphas)))
        for alphas in ((0.5,), (0.2,), (0.2, 0.5))
    ]
    assert values[2] == pytest.approx(min(values))


@pytest.mark.parametrize(
    ("alphas", "message"),
    [((), "no part of the work"), ((0.5, 1.5), "is 1.5; expected 0 to 1"), ((np.nan,), "is nan")],
)
def test_parts_that_are_none_are_refused(alphas: tuple[float, ...], message: str) -> None:
    """In a sentence."""
    problem = tiny_trace(1)
    with pytest.raises(ValueError, match=message):
        alpha_point_worths(problem, hindsight_bound(problem, SEARCH), alphas)


def test_a_smoothing_of_zero_is_refused() -> None:
    """It would divide by it."""
    problem = tiny_trace(1)
    with pytest.raises(ValueError, match=r"smoothing is 0\.0; expected a finite"):
        end_chances(problem, hindsight_bound(problem, SEARCH), 0.0)
