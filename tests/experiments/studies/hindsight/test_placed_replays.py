"""The study of schedules with hindsight that are replayed to the second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.data.workloads.generator import draw_workload
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.studies.hindsight.day_task import DayTask
from goodalloc.experiments.studies.hindsight.placed_replays import (
    PLACED_REPLAYS,
    placed_row,
    plot_placed_days,
)
from goodalloc.models.round.cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

JOBS = tuple(job for job in draw_workload(3, jobs=60) if job.application in {"ncf", "cifar10"})[:6]


def test_a_day_is_worked_out_once_and_stands_between_bound_and_replay(tmp_path: Path) -> None:
    """The table and the figure take its row."""
    day = DayTask(tmp_path, JOBS, Setting(Cluster.uniform(2, 4)), None, 10)
    day.run()
    row = placed_row(3, len(JOBS), day.found())
    assert row.bound_s <= row.ideal_s < row.replayed_s
    assert row.bound_s < row.bound_on_replays_s < row.replayed_s
    assert row.planned_s == row.replayed_s
    assert row.bound_over_replayed == pytest.approx(
        row.bound_over_ideal * row.ideal_over_replayed, abs=1e-4
    )
    shown = PLACED_REPLAYS.shown([row, row])
    assert [line["workload"] for line in shown] == [3, 3, "mean"]
    assert shown[0]["bound (s)"] == format(row.bound_s, ".0f")
    labels = [tick.get_text() for tick in plot_placed_days([row]).axes[0].get_yticklabels()]
    assert labels == ["workload 3"]
