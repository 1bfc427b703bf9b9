"""Bounds of jobs in rounds with restarts: below every schedule, and close to the cheapest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from goodalloc.models.hindsight.offline_problem import OfflineJob
from goodalloc.models.hindsight.rounds import Rounds
from goodalloc.solvers.hindsight import rounds_with_restarts
from goodalloc.solvers.hindsight.rounds_with_restarts import round_job_bounds
from tests.support.hindsight.lone_rounds import ROUND, cheapest_by_enumeration, drawn_in_rounds


def shares(seed: int, spacing: float, late: float = 4.0) -> list[float]:
    """Assert bound <= cheapest schedule for drawn jobs; return the quotients."""
    problem, bound, rounds = drawn_in_rounds(seed, late=late)
    nothing = replace(bound, job_bounds=np.full(len(problem.jobs), 1e-3))
    for start in (bound, nothing):
        found = round_job_bounds(problem, start, rounds, spacing=spacing)
        least = [
            cheapest_by_enumeration(problem, bound.prices, rounds, job) for job in problem.jobs
        ]
        assert (found <= np.array(least) * (1 + 1e-9)).all(), seed
        assert (found >= start.job_bounds).all(), seed
    found = round_job_bounds(problem, bound, rounds, spacing=spacing)
    return [float(share) for share in found / np.array(least)]


@pytest.mark.parametrize("seed", range(25))
def test_no_sequence_of_gpus_is_cheaper_than_the_bound(seed: int) -> None:
    """Of all, one for every round, whatever the nodes are."""
    coarse = shares(seed, 5.0)
    assert all(share > 0 for share in coarse)


@pytest.mark.slow
def test_no_sequence_of_gpus_is_cheaper_on_hundreds_of_jobs() -> None:
    """No violation on 800."""
    for seed in range(1000, 1400):
        shares(seed, 1.0)


def test_the_bound_is_close_to_the_cheapest_schedule() -> None:
    """In the mean over drawn jobs to 0.2 %, and in the worst case to 2 %."""
    found = [share for seed in range(100, 120) for share in shares(seed, 0.5, late=0.0)]
    assert np.mean(found) > 0.998
    assert min(found) > 0.98


def test_options_in_small_groups_give_the_same_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit, also of jobs that come in the same round, one later than the other."""
    for seed in range(6):
        problem, bound, rounds = drawn_in_rounds(seed)
        one = problem.jobs[1]
        beside = replace(one, name="beside", begin=one.begin + 0.7)
        assert rounds.first(beside) == rounds.first(one)
        problem = replace(problem, jobs=(*problem.jobs, beside))
        bound = replace(bound, job_bounds=np.append(bound.job_bounds, 0.0))
        together = round_job_bounds(problem, bound, rounds, spacing=0.5)
        for cells in (1, 500):
            monkeypatch.setattr(rounds_with_restarts, "CELLS", cells)
            apart = round_job_bounds(problem, bound, rounds, spacing=0.5)
            assert apart.tolist() == together.tolist()
        monkeypatch.undo()


def test_a_restart_makes_the_bound_greater() -> None:
    """By as much as jobs that have to change lose."""
    gains = []
    for seed in range(10):
        problem, bound, _ = drawn_in_rounds(seed)
        none, long = (
            round_job_bounds(problem, bound, Rounds(ROUND, {"one": restart})).sum()
            for restart in (0.0, 8.0)
        )
        gains.append(long / none)
    assert np.mean(gains) > 1.05


def test_a_restart_that_is_not_told_is_refused() -> None:
    """By the name of the training."""
    problem, bound, _ = drawn_in_rounds(0)
    with pytest.raises(ValueError, match="training 'one' has no restart"):
        round_job_bounds(problem, bound, Rounds(ROUND, {"two": 3.0}))


@pytest.mark.parametrize(
    ("seconds", "restart", "sentence"),
    [
        (0.0, 1.0, "Rounds: seconds"),
        (float("nan"), 1.0, "Rounds: seconds"),
        (10.0, -1.0, "Rounds: restart of 'one'"),
        (10.0, float("inf"), "Rounds: restart of 'one'"),
    ],
)
def test_rounds_that_make_no_sense_are_refused(
    seconds: float, restart: float, sentence: str
) -> None:
    """In a sentence that names what is wrong."""
    with pytest.raises(ValueError, match=sentence):
        Rounds(seconds, {"one": restart})


@pytest.mark.parametrize(
    ("begin", "restart", "first"),
    [(0.0, 3.0, 0), (13.0, 3.0, 1), (12.0, 3.0, 0), (23.0, 3.0, 2), (25.0, 30.0, 1)],
)
def test_the_first_round_ends_its_restart_no_later_than_a_job_begins(
    begin: float, restart: float, first: int
) -> None:
    """So that every schedule of a replay is one in rounds; a restart takes a round at most."""
    assert Rounds(ROUND, {"one": restart}).first(OfflineJob("a", "one", 0.0, begin)) == first
