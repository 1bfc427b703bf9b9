"""The Borda count: scores do not depend on the order of jobs, and nobody starves with the knob."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.solvers.parameter_servers.borda import borda_scores, normalised_ranks, service_order

JOBS = st.lists(
    st.tuples(st.floats(-1e6, 1e6), st.floats(0, 1e9), st.booleans()), min_size=1, max_size=30
)


@given(JOBS, st.randoms(use_true_random=False))
def test_scores_follow_their_jobs_wherever_these_stand(
    jobs: list[tuple[float, float, bool]], random: object
) -> None:
    """A permutation of the jobs permutes the scores."""
    order = list(range(len(jobs)))
    random.shuffle(order)  # type: ignore[attr-defined]
    scores = borda_scores(*zip(*jobs, strict=True))
    again = borda_scores(*zip(*(jobs[i] for i in order), strict=True))
    assert again.tolist() == scores[order].tolist()


@given(JOBS)
def test_scores_lie_between_nothing_and_two_and_equal_jobs_have_equal_ones(
    jobs: list[tuple[float, float, bool]],
) -> None:
    """Both kinds of jobs, every number of them."""
    scores = borda_scores(*zip(*(jobs + jobs[:1]), strict=True))
    assert ((scores >= 0) & (scores <= 2)).all()
    assert scores[0] == scores[-1]


@given(JOBS, st.floats(0.1, 10))
def test_only_the_order_of_what_is_ranked_counts(
    jobs: list[tuple[float, float, bool]], factor: float
) -> None:
    """Service in other units gives the same scores, where no two come to be equal."""
    effect, attained, known = zip(*jobs, strict=True)
    scaled = [value * factor for value in attained]
    if len(set(scaled)) == len(set(attained)):
        found = borda_scores(effect, scaled, known)
        assert found == pytest.approx(borda_scores(effect, attained, known))


def test_a_golden_count_of_five_jobs() -> None:
    """By hand: ranks by service 0, 1/4, 1/2, 3/4, 1; by effect 0, 1/2, 1 of the predictable."""
    scores = borda_scores(
        [5.0, np.nan, 9.0, np.nan, 1.0], [10, 20, 30, 40, 50], [True, False, True, False, True]
    )
    assert scores.tolist() == [0.5, 0.5, 0.5, 1.5, 2.0]


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    """Two in the middle of four."""
    assert normalised_ranks([1.0, 2.0, 2.0, 3.0]).tolist() == [0.0, 0.5, 0.5, 1.0]
    assert normalised_ranks([7.0]).tolist() == [0.0]
    assert normalised_ranks([]).tolist() == []


def test_jobs_are_served_by_level_and_as_submitted_within_one() -> None:
    """A score at a bound is in the lower level."""
    order = service_order(
        [1.9, 0.1, 0.9, 0.0, 4 / 3], executed=[0] * 5, waited=[0] * 5, levels=(2 / 3, 4 / 3)
    )
    assert order.tolist() == [1, 3, 2, 0, 4]


@given(st.floats(0.5, 8), st.integers(2, 12))
def test_with_the_knob_a_job_of_the_last_level_is_served_again_and_again(
    promote: float, others: int
) -> None:
    """One server; the last job always has the worst score, yet never waits for ever."""
    scores = [0.0] * others + [2.0]
    executed, waited = np.ones(others + 1), np.zeros(others + 1)
    served = np.zeros(others + 1, dtype=int)
    for _ in range(400):
        order = service_order(scores, executed=executed, waited=waited, promote=promote)
        first = int(order[0])
        served[first] += 1
        waited += 1
        executed[first] += 1
        waited[first] = 0
    assert served[-1] >= 2


def test_without_the_knob_the_last_level_waits() -> None:
    """So that the test above says something."""
    order = service_order([0.0, 2.0], executed=[1, 1], waited=[0, 1e9])
    assert order.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: borda_scores([1.0], [1.0, 2.0], [True]), "shapes"),
        (lambda: borda_scores([np.nan], [1.0], [True]), "nan"),
        (lambda: borda_scores([1.0], [np.nan], [False]), "nan"),
        (lambda: service_order([0], executed=[0], waited=[0], levels=(1, 0)), "ascending"),
        (lambda: service_order([0], executed=[0], waited=[0], levels=(1, 1)), "ascending"),
        (lambda: service_order([0], executed=[0], waited=[0], promote=-1), "promote"),
        (lambda: service_order([0], executed=[0], waited=[0], promote=np.nan), "promote"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(call: object, message: str) -> None:
    """In one sentence."""
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]
