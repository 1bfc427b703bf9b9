"""Policies of the study of Sia above the bound, on a little cluster of two types of GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from goodalloc.data.workloads.generator import draw_workload
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.hindsight import beside_bound, types_above_bound
from goodalloc.experiments.studies.hindsight.beside_bound import BOUND, IDEAL
from goodalloc.experiments.studies.hindsight.day_task import DayTask
from goodalloc.experiments.studies.hindsight.types_above_bound import (
    TYPES,
    plot_types,
    summarise_types,
)
from goodalloc.experiments.studies.sia_and_synergy import sia_replay
from goodalloc.experiments.studies.sia_and_synergy.sia_replay import SIA_REPLAY
from goodalloc.models.round.cluster import Cluster, NodeGroup

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.studies.hindsight.types_above_bound import TypesRow

#: Short jobs that come at once, so that they wait for GPUs.
JOBS = tuple(
    replace(job, time=30 * place)
    for place, job in enumerate(
        [one for one in draw_workload(3, jobs=60) if one.application in {"ncf", "cifar10"}][:6]
    )
)
SETTING = Setting(
    Cluster((NodeGroup("slow", 1, 4, "t4"), NodeGroup("fast", 1, 4, "a100"))), free_moves=True
)

#: Policies beside Sia; `pollux-blind` comes with `pollux`.
BESIDE = ("pollux", "sia-exact", "allox", "gavel")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[TypesRow]:
    """Rows of the little day under all policies."""
    plan = Plan(tmp_path_factory.mktemp("types"), workloads=(3,), pollux=BESIDE, quick=True)
    with pytest.MonkeyPatch.context() as patch:
        for module in (sia_replay, types_above_bound):
            patch.setattr(module, "sia_workload", lambda *_: JOBS)
            patch.setattr(module, "sia_setting", lambda: SETTING)
        patch.setattr(beside_bound, "QUICK_STEPS", 10)
        for task in TYPES.tasks(plan):
            task.run(lambda _: None)
        return TYPES.rows(plan)


def test_no_policy_is_below_the_bound_on_types(rows: list[TypesRow]) -> None:
    """Those that know types and that do not, with fixed and with adaptive batch sizes."""
    names = [row.policy for row in rows]
    assert names == ["sia", "pollux", "pollux-blind", *BESIDE[1:], IDEAL, BOUND]
    assert {row.batch for row in rows} == {"adaptive", "requested"}
    hours = {row.policy: row.average_jct_hours for row in rows}
    assert 0.2 * min(hours.values()) < hours[BOUND] == min(hours.values())
    assert all(row.above_bound_percent > 0.0 for row in rows if row.policy != BOUND)


def test_nothing_is_replayed_with_hindsight_on_types(tmp_path: Path) -> None:
    """The record has bound and ideal schedule only, and the task comes to its end."""
    shares: list[float] = []
    task = DayTask(tmp_path, JOBS[:2], SETTING, None, 5)
    task.run(shares.append)
    day = task.found()
    assert (day.planned, day.replayed) == (None, None)
    assert 0.0 < day.bound <= day.ideal
    assert max(shares) == pytest.approx(1.0)


def test_the_tasks_are_the_replays_of_sia_and_a_day_for_each_workload(tmp_path: Path) -> None:
    """On the same default workloads."""
    plan = TYPES.own(Plan(tmp_path, workloads=()))
    assert plan == SIA_REPLAY.own(Plan(tmp_path, workloads=()))
    of_sia, tasks = list(SIA_REPLAY.tasks(plan)), list(TYPES.tasks(plan))
    assert tasks[: len(of_sia)] == of_sia
    (day,) = tasks[len(of_sia) :]
    assert isinstance(day, DayTask)
    assert day.setting.cluster.gpu_types == ("a100", "rtx2080ti", "t4")
    assert isinstance(of_sia[0], ReplayTask)
    assert day.workload == of_sia[0].workload


def test_policies_whose_jobs_share_gpus_are_refused(tmp_path: Path) -> None:
    """The bound does not hold for them."""
    TYPES.require(Plan(tmp_path, pollux=BESIDE))
    with pytest.raises(ValueError, match="jobs share GPUs under 'gavel-packed', where the bound"):
        TYPES.require(Plan(tmp_path, pollux=("pollux", "gavel-packed")))


def test_the_table_and_the_picture_have_every_policy(rows: list[TypesRow]) -> None:
    """Means, intervals and extremes over the workloads; from the bound up."""
    again = [
        row._replace(workload=1, above_bound_percent=row.above_bound_percent + 2.0) for row in rows
    ]
    table = summarise_types([*rows, *again])
    assert [line["policy"] for line in table] == [row.policy for row in rows]
    first = rows[0].above_bound_percent
    assert (table[0]["at least (%)"], table[0]["at most (%)"]) == (
        f"{first:.0f}",
        f"{first + 2.0:.0f}",
    )
    assert "±" in table[0]["above the bound (%)"]
    (ax,) = plot_types([*rows, *again]).axes
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert labels[:2] == [BOUND, IDEAL]
    assert {"Sia", "Pollux, exactly, one model for all types"} <= set(labels)
    assert len(labels) == len(rows)
