"""Studies in pairs: what is replayed, what is compared, and what the intervals say."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.pollux.paired_comparison import Pair, Way, paired_study
from goodalloc.experiments.studies.pollux.scenario import DISTURBED, LARGE, PUBLISHED, Scenario
from goodalloc.experiments.studies.pollux.studies import (
    DISTURBANCES,
    EXACTNESS,
    EXPERIENCE,
    KNOWLEDGE,
    NOISE,
    OBJECTIVES,
    REMAINING_TIME,
    SCALE,
)
from goodalloc.models.round.cluster import Cluster
from tests.support.replay.studies import carry_out

TINY = Scenario("tiny", setting=Setting(Cluster.uniform(8, 4)))


def test_a_way_against_itself_changes_nothing(tmp_path: Path) -> None:
    """Neither on average nor in any workload: the interval is empty."""
    same = Way("one", "fifo"), Way("two", "fifo")
    study = paired_study("same", [Pair(TINY, *same)])
    plan = carry_out(study, tmp_path, workloads=(1, 2))
    (row,) = study.rows(plan)
    assert row.average_change_percent == (0.0, 0.0)
    assert row.average_hours == row.baseline_hours > 0


def test_changes_are_of_each_workload_and_have_a_sign(tmp_path: Path) -> None:
    """Queueing is no faster than sharing with batch sizes that adapt."""
    study = paired_study("slower", [Pair(TINY, Way("queue", "fifo"), Way("share", "equal"))])
    plan = carry_out(study, tmp_path, workloads=(1, 2))
    (row,) = study.rows(plan)
    assert row.average_hours > row.baseline_hours
    assert row.average_change_percent.mean > 0
    assert row.workloads == 2
    assert row.average_change_percent.half_width > 0
    figure = study.plot(plan, [row])
    assert "95 % intervals" in figure.axes[0].get_xlabel()


def test_one_workload_has_no_interval_and_gaps_are_judged_where_asked(tmp_path: Path) -> None:
    """The half-width is NaN; the gap of a queue is real."""
    pair = Pair(TINY, Way("exact"), Way("queue", "fifo"))
    study = paired_study("gaps", [pair], gaps=True)
    (row,) = study.rows(carry_out(study, tmp_path))
    assert math.isnan(row.average_change_percent.half_width)
    assert row.mean_gap < 1e-9 < row.baseline_mean_gap <= row.baseline_worst_gap


def test_noise_is_on_what_is_observed_and_a_quick_run_has_two_of_its_pairs(tmp_path: Path) -> None:
    """Every pair but those of other decisions is of a way with errors against the same without."""
    tasks = NOISE.tasks(Plan(tmp_path, workloads=(1,)))
    quick = NOISE.tasks(Plan(tmp_path, workloads=(1,), quick=True))
    assert len(quick) == 4 < len(tasks)
    noisy, exact = quick[:2]
    assert noisy.setting.noise.step_time > 0.0 == exact.setting.noise.step_time  # type: ignore[attr-defined]
    robust = [task for task in tasks if task.policy in ("pollux-robust", "pollux-worst")]  # type: ignore[attr-defined]
    assert len({task.folder for task in robust}) == 6


def test_scenarios_add_jobs_under_names_of_their_own() -> None:
    """Parts multiply the load, a burst comes at once; the same number gives the same jobs."""
    plan = Plan(Path("nowhere"))
    published = PUBLISHED.workload(plan, 3)
    burst = next(one for one in DISTURBED if one.burst).workload(plan, 3)
    large = LARGE.workload(plan, 3)
    assert set(published) <= set(burst)
    assert sum(job.time == 3 * 3600 and "burst" in job.name for job in burst) == 80
    assert len(large) == 4 * len(published)
    assert large == LARGE.workload(plan, 3) != LARGE.workload(plan, 4)
    for jobs in (burst, large):
        assert len({job.name for job in jobs}) == len(jobs)
        assert list(jobs) == sorted(jobs, key=lambda job: job.time)


@pytest.mark.parametrize(
    ("study", "ways"),
    [
        (EXACTNESS, 12),
        (DISTURBANCES, 6),
        (SCALE, 3),
        (OBJECTIVES, 5),
        (REMAINING_TIME, 3),
        (KNOWLEDGE, 3),
        (EXPERIENCE, 3),
    ],
)
def test_the_studies_replay_every_way_once(tmp_path: Path, study: object, ways: int) -> None:
    """Shared baselines are replayed once a workload; different ways never share a folder."""
    plan = Plan(tmp_path)
    tasks = study.tasks(plan)  # type: ignore[attr-defined]
    assert len({task.folder for task in tasks}) == len(set(tasks)) == ways
