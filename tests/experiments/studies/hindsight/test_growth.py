"""Growth of bound and schedule with hindsight: traces of several days, rows and picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest

from goodalloc.experiments.cli.main import main
from goodalloc.experiments.hindsight.day_search import USUAL_SEARCH, DaySearch
from goodalloc.experiments.studies.catalogue import ENTRIES
from goodalloc.experiments.studies.hindsight import growth
from goodalloc.experiments.studies.hindsight.growth import (
    DAY,
    SIZES,
    GrowthRow,
    Size,
    days_of_jobs,
    growth_row,
    plot_growth,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_every_day_has_its_jobs_and_all_names_differ() -> None:
    """Of eight hours each, in the order of their submission."""
    jobs = days_of_jobs(Size(11, 3, 300.0), seed=2)
    times = [job.time for job in jobs]
    assert times == sorted(times)
    assert [sum(time // DAY == day for time in times) for day in range(3)] == [4, 4, 3]
    assert all(time % DAY < DAY / 3 for time in times)
    assert len({job.name for job in jobs}) == 11


def test_a_row_has_a_bound_below_its_schedule() -> None:
    """On a trace of few jobs; seconds and memory are positive."""
    row = growth_row(Size(6, 2, 1200.0, steps=2), seed=0)
    assert 0.4 < row.bound_over_schedule <= 1.0
    assert row.bound_s <= row.schedule_s
    assert (row.jobs, row.days, row.gpus) == (6, 2, 4)
    assert min(row[8:13]) > 0.0
    assert (row.plan_seconds, row.replay_bound_seconds) == (0.0, 0.0)
    assert sum(row[8:15]) == pytest.approx(row.seconds, abs=0.01)
    assert 50 < row.peak_mebibytes < 10_000
    assert len(plot_growth([row, row._replace(jobs=12)]).axes) == 2


def test_all_seconds_of_a_row_are_those_of_a_clock() -> None:
    """So that they are not compared when a stored result is confirmed."""
    seconds = {column for column in GrowthRow._fields if column.endswith("seconds")}
    assert {*seconds, "peak_mebibytes"} == set(ENTRIES["hindsight-growth"].clocked)


def test_a_day_of_as_many_steps_as_usual_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the bound on all replays is timed, too."""
    monkeypatch.setattr(growth, "USUAL_SEARCH", DaySearch(steps=2))
    row = growth_row(Size(6, 2, 1200.0, steps=2), seed=0)
    assert min(row.plan_seconds, row.replay_bound_seconds) > 0.0
    assert sum(row[8:15]) == pytest.approx(row.seconds, abs=0.01)


def test_a_day_is_timed_as_it_is_looked_back_at_and_traces_grow_to_a_week() -> None:
    """The day with prices of five minutes and of a round; growing traces with those of five."""
    usual, finest, *growing = SIZES
    assert usual == Size(160, 1, USUAL_SEARCH.interval, USUAL_SEARCH.steps)
    assert finest == usual._replace(interval=60.0)
    assert [size.jobs for size in growing] == [160, 500, 1500, 5000]
    assert {(size.interval, size.steps) for size in growing} == {(300.0, growth.STEPS)}


def test_reproduce_writes_rows_and_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quickly, with few jobs."""
    monkeypatch.setattr(growth, "QUICK_SIZES", (Size(4, 1, 1200.0, 1), Size(6, 2, 1200.0, 1)))
    assert main(["reproduce", "hindsight-growth", "--quick", "--out", str(tmp_path)]) == 0
    rows = pd.read_csv(tmp_path / "hindsight-growth-quick.csv")
    assert rows.jobs.tolist() == [4, 6]
    assert (rows.bound_s <= rows.schedule_s).all()
    assert (tmp_path / "hindsight-growth-quick.png").stat().st_size > 5000
