"""Offline problems and their schedules: what is refused, and what a schedule is worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)
from goodalloc.models.hindsight.offline_schedule import (
    Segment,
    completion_times,
    schedule_violations,
)

ONE = Training("one", np.array([60.0]), np.array([1.0, 2.0]), np.array([[[1.0, 1.5]]]))
TWO = Training("two", np.array([30.0, 20.0]), np.array([1.0]), np.array([[[1.0], [2.0]]]))
PAIR = Supply.constant({"t4": 2.0})


def job(name: str = "a", training: str = "one", **fields: Any) -> OfflineJob:
    """Return a job that is there from the start."""
    return OfflineJob(name, training, **{"release": 0.0, "begin": 0.0, **fields})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"work": [0.0]}, r"phase\[0\]: work is 0.0; expected a finite number above 0"),
        ({"work": [60.0, 1.0]}, r"work have shape \(2,\); expected \(1,\)"),
        ({"gpus": [2.0, 1.0]}, r"entry\[1\]: gpus is 1.0; expected finite numbers that ascend"),
        ({"rates": [[[1.0, -1.0]]]}, "a rate is -1; expected finite numbers from 0"),
        ({"rates": [[[1.0, np.nan]]]}, "a rate is nan; expected finite numbers from 0"),
        ({"rates": [[[0.0, 0.0]]]}, "phase 0 advances on no number of GPUs"),
        ({"rates": [1.0]}, "expected one for every type of GPU, phase and number of GPUs"),
    ],
)
def test_a_training_that_makes_no_sense_is_refused(fields: dict[str, Any], words: str) -> None:
    """In one sentence that names it."""
    whole = {"work": [60.0], "gpus": [1.0, 2.0], "rates": [[[1.0, 1.5]]], **fields}
    with pytest.raises(ValueError, match=words):
        Training("mine", **{name: np.array(value) for name, value in whole.items()})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"release": -1.0}, "Job 'a': release is -1.0; expected a finite number of at least 0"),
        ({"release": 9.0}, "Job 'a': begin is 0.0; expected a finite number of at least 9"),
        ({"weight": 0.0}, "Job 'a': weight is 0.0; expected a finite number above 0"),
        ({"begin": np.inf}, "Job 'a': begin is inf; expected a finite number"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(fields: dict[str, Any], words: str) -> None:
    """In one sentence that names it."""
    with pytest.raises(ValueError, match=words):
        job(**fields)


@pytest.mark.parametrize(
    ("types", "times", "gpus", "words"),
    [
        ((), [0.0], [[]], "expected different names"),
        (("t4", "t4"), [0.0], [[1.0, 1.0]], "expected different names"),
        (("t4",), [1.0], [[1.0]], r"times are \[1.0\]; expected to ascend from 0"),
        (("t4",), [0.0, 0.0], [[1.0], [1.0]], "expected to ascend from 0"),
        (("t4",), [0.0], [[-1.0]], "a number of GPUs is -1; expected finite numbers from 0"),
        (("t4",), [0.0, 5.0], [[1.0], [0.0]], "type 't4' has no GPU in the end"),
    ],
)
def test_a_supply_that_makes_no_sense_is_refused(
    types: tuple[str, ...], times: list[float], gpus: list[list[float]], words: str
) -> None:
    """In one sentence."""
    with pytest.raises(ValueError, match=words):
        Supply(types, np.array(times), np.array(gpus))


@pytest.mark.parametrize(
    ("jobs", "supply", "words"),
    [
        ((), PAIR, "it has no jobs"),
        ((job(), job()), PAIR, "job 'a' occurs 2 times"),
        ((job(training="three"),), PAIR, "training 'three' is unknown; expected one of one, two"),
        (
            (job(),),
            Supply.constant({"t4": 1.0, "a100": 1.0}),
            "it has rates for 1 types of GPU; expected 2",
        ),
    ],
)
def test_a_problem_that_makes_no_sense_is_refused(
    jobs: tuple[OfflineJob, ...], supply: Supply, words: str
) -> None:
    """In one sentence."""
    with pytest.raises(ValueError, match=words):
        OfflineProblem((ONE, TWO), jobs, supply)


def test_the_supply_of_an_interval_is_the_mean_over_it() -> None:
    """Nodes that go and come back in the middle of an interval count in part."""
    supply = Supply(("t4",), np.array([0.0, 15.0, 25.0]), np.array([[4.0], [2.0], [4.0]]))
    assert supply.mean(np.array([0.0, 10.0, 20.0, 60.0])).ravel().tolist() == [4.0, 3.0, 3.75]


def test_phases_are_done_one_after_the_other() -> None:
    """Thirty seconds at one a second, ten at two, with a break between."""
    problem = OfflineProblem((TWO,), (job(training="two"),), PAIR)
    held = {"a": (Segment(0.0, 20.0, 0, 1.0), Segment(50.0, 100.0, 0, 1.0))}
    assert completion_times(problem, held).tolist() == [70.0]
    assert schedule_violations(problem, held) == []
    assert problem.total(completion_times(problem, held)) == 70.0


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ({"b": ()}, "Job 'b' is unknown."),
        ({}, "Job 'a' is never complete."),
        ({"a": (Segment(0.0, 50.0, 0, 1.0),)}, "Job 'a' is never complete."),
        ({"a": (Segment(0.0, 50.0, 0, 3.0),)}, "it runs on 3 GPUs of type 0"),
        ({"a": (Segment(0.0, 50.0, 1, 1.0),)}, "it runs on 1 GPUs of type 1"),
        ({"a": (Segment(9.0, 9.0, 0, 1.0),)}, "the segment ends at 9 s"),
        (
            {"a": (Segment(0.0, 50.0, 0, 1.0), Segment(40.0, 90.0, 0, 1.0))},
            "at 40 s: the segment ends at 90 s; expected it from 50 s on",
        ),
    ],
)
def test_what_a_schedule_violates_is_told(held: dict[str, tuple[Segment, ...]], words: str) -> None:
    """In sentences that name the job."""
    found = schedule_violations(OfflineProblem((ONE,), (job(),), PAIR), held)
    assert any(words in sentence for sentence in found), found


def test_more_gpus_than_there_are_is_told() -> None:
    """From the moment on in which they are held."""
    problem = OfflineProblem((ONE,), (job("a"), job("b")), PAIR)
    held = {"a": (Segment(0.0, 60.0, 0, 2.0),), "b": (Segment(30.0, 90.0, 0, 1.0),)}
    assert schedule_violations(problem, held) == [
        "From 30 s on 3 GPUs of type 't4' are held; expected at most 2.",
    ]


def test_seconds_on_some_gpus_are_of_the_best_type_and_number_up_to_them() -> None:
    """Fewer GPUs may be faster; a training that cannot run on so few is refused."""
    rates = np.array([[[1.0, 2.0, 1.5], [0.0, 4.0, 1.0]], [[0.5, 0.5, 9.0], [0.5, 0.5, 9.0]]])
    training = Training("two", np.array([12.0, 8.0]), np.array([1.0, 2.0, 4.0]), rates)
    assert training.seconds_on(1) == 24.0 + 16.0
    assert training.seconds_on(3) == 6.0 + 2.0
    assert training.seconds_on(4) == pytest.approx(20.0 / 9.0)
    with pytest.raises(ValueError, match=r"'two': it cannot run on 0.5 GPUs"):
        training.seconds_on(0.5)
