"""Figures 5 and 6: what is replayed for them and what their tables say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.studies.pollux import timelines
from goodalloc.experiments.studies.pollux.timelines import FIGURE_5, FIGURE_6
from tests.support.replay.replays import SHORT
from tests.support.replay.studies import carry_out

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_figure_5_compares_the_policies_over_time(tmp_path: Path) -> None:
    """A row a policy, with GPUs that exist and an efficiency of at most one; two panels."""
    plan = carry_out(FIGURE_5, tmp_path)
    rows = FIGURE_5.rows(plan)
    assert [row.policy for row in rows] == ["fifo", "optimus", "tiresias"]
    for row in rows:
        assert 0 < row.mean_gpus_all <= 64
        assert 0 < row.efficiency_all <= 1
    assert [ax.get_ylabel() for ax in FIGURE_5.plot(plan, rows).axes] == [
        "allocated GPUs",
        "statistical efficiency (%)",
    ]


def test_figure_6_follows_each_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for every job and number of jobs beside it; the hours add up to its time."""
    monkeypatch.setattr(timelines, "COADAPTED", SHORT[:2])
    plan = carry_out(FIGURE_6, tmp_path)
    rows = FIGURE_6.rows(plan)
    assert {row.job for row in rows} == {job.name for job in SHORT[:2]}
    assert {row.active_jobs for row in rows} <= {1, 2}
    assert all(row.mean_gpus >= 1 and row.running_hours > 0 for row in rows)
    assert len(FIGURE_6.plot(plan, rows).axes) == 3
