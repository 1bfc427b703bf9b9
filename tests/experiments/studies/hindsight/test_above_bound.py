"""Policies above the bound: the steps from Pollux to the bound, and the records of a day."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.data.workloads.generator import HOUR, draw_workload
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.studies.comparisons.terms import POLLUX, Cell
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.hindsight.above_bound import (
    HINDSIGHT,
    HINDSIGHT_LOADS,
    LADDER,
    _rows_of_day,
    plot_above,
    plot_loads,
)
from goodalloc.experiments.studies.hindsight.beside_bound import (
    BOUND,
    IDEAL,
    ON_REPLAYS,
    WITHOUT_NODES,
)
from goodalloc.experiments.studies.hindsight.day_task import DayTask
from goodalloc.experiments.studies.hindsight.known_task import known_task
from goodalloc.models.round.cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.studies.hindsight.above_bound import (
        AboveRow,
    )
    from goodalloc.experiments.studies.hindsight.day_task import DayRecord

JOBS = tuple(
    job
    for job in draw_workload(3, jobs=60)
    if job.application in {"ncf", "cifar10"} and job.replicas <= 4
)[:4]
SETTING = Setting(Cluster.uniform(1, 4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the records."""
    return tmp_path_factory.mktemp("hindsight")


@pytest.fixture(scope="module")
def day(folder: Path) -> DayRecord:
    """Record of a little day."""
    task = DayTask(folder, JOBS, SETTING, None, 10).among(folder, "day")
    task.run()
    return task.found()


@pytest.fixture(scope="module")
def rows(folder: Path, day: DayRecord) -> list[AboveRow]:
    """Rows of the day, with a queue in Pollux's place."""
    tasks = {}
    for cell, policy in ((POLLUX, "fifo"), (Cell("srtf", "true remaining", "requested"), "srtf")):
        tasks[cell] = ReplayTask(folder / policy, policy, JOBS, SETTING)
        tasks[cell].run()
    return _rows_of_day(1.0, 6, day, tasks)


def test_the_bounds_are_below_the_schedules_of_the_day(day: DayRecord) -> None:
    """The one on replays is above that on schedules, and no schedule with restarts below it."""
    assert day.bound_on_replays is not None
    assert day.without_nodes is not None
    assert day.planned is not None
    assert day.replayed is not None
    assert 0 < day.bound <= day.ideal
    assert day.bound < day.bound_on_replays <= min(day.without_nodes, day.planned, day.replayed)


def test_the_steps_from_pollux_to_the_bound_add_up(rows: list[AboveRow], day: DayRecord) -> None:
    """In per cent of Pollux's time, from 100 down to the bound."""
    by_policy = {row.policy: row for row in rows}
    assert by_policy["pollux"].of_pollux_percent == 100.0
    assert by_policy[BOUND].average_jct_hours == pytest.approx(day.bound / HOUR, rel=1e-5)
    assert by_policy[BOUND].above_bound_percent == 0.0
    steps = [row.step_percent for row in rows if row.step_percent is not None]
    assert 100.0 - sum(steps) == pytest.approx(by_policy[BOUND].of_pollux_percent)
    assert by_policy["srtf"].step_percent is None
    assert all(row.above_bound_percent >= 0.0 for row in rows)


def test_whatever_was_replayed_is_above_the_bound_on_replays(rows: list[AboveRow]) -> None:
    """The ideal schedule and the bound on schedules are no replays."""
    above = {row.policy: row.above_replays_percent for row in rows}
    assert above.pop(IDEAL) is None
    assert above.pop(BOUND) is None
    assert above.pop(ON_REPLAYS) == 0.0
    assert all(percent is not None and percent > 0.0 for percent in above.values())


def test_the_table_and_the_pictures_have_every_policy(rows: list[AboveRow]) -> None:
    """The ladder has its bars, and every policy its point."""
    table = HINDSIGHT.shown(rows)
    assert [row["policy"] for row in table] == [row.policy for row in rows]
    steps, above = plot_above(rows).axes
    assert [text.get_text() for text in steps.get_yticklabels()] == [
        "pollux (measured)",
        "replayed schedule",
        WITHOUT_NODES,
        ON_REPLAYS,
        IDEAL,
        BOUND,
    ]
    assert len(above.get_yticklabels()) == len(rows) - 2
    assert plot_loads(rows).axes[0].get_ylabel() == "average completion time (h)"


def test_a_quick_plan_has_one_load_and_one_policy_with_foresight(tmp_path: Path) -> None:
    """Whole plans have all."""
    quick = Plan(tmp_path, quick=True)
    kinds = [type(task).__name__ for task in HINDSIGHT.tasks(quick)]
    assert kinds.count("KnownTask") == 1
    assert kinds.count("DayTask") == 1
    assert len(HINDSIGHT_LOADS.tasks(quick)) == 3
    assert len(HINDSIGHT_LOADS.tasks(Plan(tmp_path))) == 12
    assert [type(task).__name__ for task in HINDSIGHT.tasks(Plan(tmp_path))].count("KnownTask") == 3
    assert {step[0] for step in LADDER} >= {"pollux", WITHOUT_NODES, BOUND}


def test_replays_with_other_foresight_have_folders_of_their_own(tmp_path: Path) -> None:
    """And descriptions."""
    plan = Plan(tmp_path)
    one, other = (known_task(plan, JOBS, what) for what in ("remaining work", "plans"))
    assert one.folder != other.folder
    assert one.description() != other.description()
