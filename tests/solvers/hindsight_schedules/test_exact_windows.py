"""Windows decided exactly: schedules stay feasible, are never worse, and come in the best order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from goodalloc.solvers.hindsight.priced_schedule import WorthScheduler
from goodalloc.solvers.hindsight_schedules.exact_windows import WindowSearch, decide_windows
from goodalloc.solvers.interface.stop import Stop
from tests.support.few import few
from tests.support.hindsight.tiny_traces import UNIT, tiny_trace

if TYPE_CHECKING:
    from goodalloc.models.hindsight.offline_schedule import OfflineSchedule

SEEDS = st.integers(0, 10**6)


def drawn_schedule(problem: OfflineProblem, seed: int) -> OfflineSchedule:
    """A schedule by worths at random."""
    random = np.random.default_rng(seed)
    phases = [problem.training(job.training).num_phases for job in problem.jobs]
    segments: OfflineSchedule = {}
    worths = [random.lognormal(0.0, 1.0, number) for number in phases]
    WorthScheduler(problem, UNIT).run(worths, segments)
    return segments


@settings(max_examples=5)
@given(SEEDS, st.sampled_from([1, 2]), st.sampled_from([UNIT, 3 * UNIT, 10 * UNIT]))
def test_windows_keep_a_schedule_feasible_and_make_it_no_worse(
    seed: int, types: int, seconds: float
) -> None:
    """On tiny traces; and the completion times are those of the segments."""
    problem = tiny_trace(seed, types=types)
    segments = drawn_schedule(problem, seed)
    search = WindowSearch(seconds=seconds, step=UNIT / 2, jobs=2, windows=2, seed=seed)
    found = decide_windows(problem, segments, search)
    assert schedule_violations(problem, found.segments) == []
    assert found.completion == pytest.approx(completion_times(problem, found.segments))
    before = problem.total(completion_times(problem, segments))
    after = problem.total(found.completion)
    assert after < before if found.improved else after == before
    assert found.improved <= found.solved + found.unsolved <= search.windows


@pytest.mark.parametrize("seed", few(range(8), 3))
def test_jobs_on_one_gpu_come_in_the_best_order(seed: int) -> None:
    """If the windows hold all of them: that of least work first."""
    random = np.random.default_rng(seed)
    works = 60.0 * random.permutation(np.arange(1.0, 5.0))
    trainings = tuple(
        Training(f"job {index}", np.array([work]), np.array([1.0]), np.array([[[1.0]]]))
        for index, work in enumerate(works.tolist())
    )
    jobs = tuple(OfflineJob(one.name, one.name, 0.0, 0.0) for one in trainings)
    problem = OfflineProblem(trainings, jobs, Supply.constant({"t4": 1.0}))
    ends = np.cumsum(works).tolist()
    segments: OfflineSchedule = {
        job.name: (Segment(end - work, end, 0, 1.0),)
        for job, work, end in zip(jobs, works.tolist(), ends, strict=True)
    }
    search = WindowSearch(seconds=600.0, step=60.0, jobs=4, windows=12, seed=seed)
    found = decide_windows(problem, segments, search)
    assert sorted(found.completion.tolist()) == np.cumsum(np.sort(works)).tolist()


def test_windows_that_are_too_large_are_passed_over() -> None:
    """They count neither as solved nor as unsolved."""
    problem = tiny_trace(3)
    segments = drawn_schedule(problem, 3)
    found = decide_windows(problem, segments, WindowSearch(most_columns=1))
    assert found[2:] == (0, 0, 0)
    assert found.segments == segments


def test_windows_without_time_stay_as_they_are() -> None:
    """And count as unsolved."""
    problem = tiny_trace(3)
    segments = drawn_schedule(problem, 3)
    found = decide_windows(problem, segments, WindowSearch(windows=2), stop=Stop(seconds=1e-9))
    assert found[2:] == (0, 2, 0)
    assert found.segments == segments


def test_the_share_that_is_done_is_reported() -> None:
    """A window at a time."""
    problem = tiny_trace(3)
    shares: list[float] = []
    search = WindowSearch(windows=4)
    decide_windows(problem, drawn_schedule(problem, 3), search, report=shares.append)
    assert shares == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(
    ("option", "value"),
    [("seconds", 0.0), ("seconds", np.nan), ("step", -1.0), ("jobs", 0), ("windows", 0)],
)
def test_numbers_that_make_no_sense_are_refused(option: str, value: Any) -> None:
    """Each in a sentence that names it."""
    with pytest.raises(ValueError, match=f"Windows: {option} is"):
        replace(WindowSearch(), **{option: value})
