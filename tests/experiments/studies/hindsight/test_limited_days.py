"""Days with hindsight within a time limit: a row, its picture, and what is not compared."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from goodalloc.data.workloads.generator import draw_workload
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.studies.catalogue import ENTRIES, REPRODUCTIONS
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.hindsight.limited_days import LimitedDay, LimitedRow
from goodalloc.experiments.studies.hindsight.placed_replays import PlacedRow
from goodalloc.models.round.cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> LimitedDay:
    """Two jobs within an hour, of which no search needs more than its steps."""
    folder, jobs = tmp_path_factory.mktemp("limited"), draw_workload(0, jobs=2)
    return LimitedDay(folder, jobs, Setting(Cluster.uniform(1, 4)), None, 10, limit=3600.0)


def test_a_day_within_a_limit_has_the_steps_that_it_made(day: LimitedDay) -> None:
    """All of them here; bounds are below what they bound."""
    day.run()
    row = day.row(3)
    assert (row.workload, row.jobs, row.limit_s) == (3, 2, 3600.0)
    assert (row.ideal_steps, row.replayed_steps) == (10, 2)
    assert 0.0 < row.bound_s <= row.bound_on_replays_s <= row.replayed_s
    assert row.bound_s <= row.ideal_s <= row.replayed_s
    assert row.bound_over_replayed == pytest.approx(row.bound_s / row.replayed_s, rel=1e-5)
    assert 0.0 < row.seconds < 600.0
    assert [*row.placed] == [*row[: len(PlacedRow._fields)]]
    study = REPRODUCTIONS["hindsight-minute"]
    shown = study.shown([row, row._replace(workload=4, ideal_steps=20)])
    assert [line["workload"] for line in shown] == [3, 4, "mean"]
    assert [line["steps"] for line in shown] == ["10", "20", "15 ± 64"]


def test_a_record_belongs_to_its_limit(day: LimitedDay) -> None:
    assert day.description() != replace(day, limit=60.0).description()


def test_what_depends_on_the_machine_is_not_compared() -> None:
    """When a stored result is confirmed."""
    clocked = {*ENTRIES["hindsight-minute"].clocked}
    assert {*LimitedRow._fields} - clocked == {"workload", "jobs", "limit_s"}


def test_its_picture_has_a_line_for_every_day(day: LimitedDay, tmp_path: Path) -> None:
    day.run()
    study = REPRODUCTIONS["hindsight-minute"]
    figure = study.plot(Plan(tmp_path), [day.row(1), day.row(2)])
    figure.savefig(tmp_path / "days.png")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["workload 1", "workload 2"]
