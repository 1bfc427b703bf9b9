"""Figures 5 and 6: what is replayed for them and what their tables say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest

from goodalloc.experiments.studies.pollux import timelines
from goodalloc.experiments.studies.pollux.timelines import FIGURE_5, FIGURE_6, contention
from tests.support.replay.replays import SHORT
from tests.support.replay.studies import carry_out

if TYPE_CHECKING:
    from pathlib import Path


def test_figure_5_compares_the_policies_over_time(tmp_path: Path) -> None:
    """A row a policy, with GPUs that exist and an efficiency of at most one; two panels."""
    plan = carry_out(FIGURE_5, tmp_path)
    rows = FIGURE_5.rows(plan)
    assert [row.policy for row in rows] == ["fifo", "optimus", "tiresias"]
    for row in rows:
        assert 0 < row.mean_gpus_all <= 64
        assert 0 < row.efficiency_all <= 1
        assert row.few_jobs_gpus is not None
        assert row.few_jobs_gpus >= 1
        assert row.few_jobs_batch is not None
        assert row.few_jobs_batch >= 1
        assert (row.many_jobs_hours, row.many_jobs_gpus) == (0, None)
    assert [ax.get_ylabel() for ax in FIGURE_5.plot(plan, rows).axes] == [
        "allocated GPUs",
        "statistical efficiency (%)",
    ]


def test_figure_6_follows_each_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for every job and phase, in order; a batch per GPU is one between least and most."""
    monkeypatch.setattr(timelines, "COADAPTED", SHORT[:2])
    plan = carry_out(FIGURE_6, tmp_path)
    rows = FIGURE_6.rows(plan)
    assert {row.job for row in rows} == {job.name for job in SHORT[:2]}
    assert {row.active_jobs for row in rows} <= {1, 2}
    assert all(row.mean_gpus >= 1 and row.running_hours > 0 for row in rows)
    for row in rows:
        assert row.batch_per_gpu <= row.mean_batch_size
        assert (row.published != "") == (row.job == SHORT[0].name and row.phase in {1, 3, 5})
    starts = [(row.job, row.phase, row.start_hours) for row in rows]
    assert starts == sorted(starts)
    assert len(FIGURE_6.plot(plan, rows).axes) == 4


def test_contention_is_told_by_the_number_of_active_jobs() -> None:
    """By hand: of three rounds the first has a job with all GPUs, the last sixteen with one."""
    rounds = pd.DataFrame({"time": [60, 120], "efficiency": [0.5, 0.9], "training_gpus": [64, 16]})
    samples = pd.DataFrame(
        {
            "time": [60, *[120] * 16],
            "gpus": [64, *[1] * 16],
            "times_initial": [16.0, *[1.0, 4.0] * 8],
        }
    )
    alone, crowded = (contention(rounds[rounds.time == time], samples, 60) for time in (60, 120))
    assert alone == pytest.approx((1 / 60, 64, 16, 0.5), rel=1e-3)
    assert crowded == pytest.approx((1 / 60, 1, 2, 0.9), rel=1e-3)
    assert contention(rounds[:0], samples, 60) == (0, None, None, None)
