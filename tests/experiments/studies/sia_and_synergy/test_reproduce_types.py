"""`goodalloc reproduce sia`, `mixed` and the replayed part of `restrictions`, on few jobs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from goodalloc.data.workloads.workload import write_workload
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.studies.catalogue import REPRODUCTIONS
from goodalloc.experiments.studies.comparisons import mixed_cluster
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.sia_and_synergy import (
    sia_gavel,
    sia_replay,
    sia_restrictions,
)
from tests.support.replay.replays import SHORT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """A folder as Sia's artifact has it, but for the measurements."""
    folder = tmp_path / "artifact" / "workloads" / "philly"
    folder.mkdir(parents=True)
    write_workload(SHORT, folder / "workload-1.csv")
    return tmp_path / "artifact"


class ProfilesPlan(Plan):
    """Workloads of an artifact, with the shipped profiles as the truth."""

    @property
    def traces(self) -> None:
        """None."""
        return


def test_sia_stands_beside_what_its_simulator_gave(
    tmp_path: Path, artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deviations are relative, of Sia alone, else blank; the paper's is of blind Pollux."""
    names = ("sia", "pollux", "pollux-blind")
    monkeypatch.setattr(sia_replay, "LABELS", {name: name for name in names})
    plan = ProfilesPlan(tmp_path / "out", (1,), artifact=artifact)
    reproduction = REPRODUCTIONS["sia"]
    for task in reproduction.tasks(plan):
        task.run(lambda _: None)
    rows = reproduction.rows(plan)
    assert [row.policy for row in rows] == [*names]
    first, *others = rows
    assert first.artifact_average_jct_hours == 0.545
    assert first.average_jct_hours_deviation_percent == pytest.approx(
        100 * (first.average_jct_hours / 0.545 - 1), rel=1e-2
    )
    assert {row.artifact_makespan_hours for row in others} == {None}
    assert [row.published_below_percent for row in rows] == [None, None, 30.0]
    assert first.sia_below_percent == 0.0
    for row in others:
        assert row.sia_below_percent == pytest.approx(
            100 * (1 - first.average_jct_hours / row.average_jct_hours), abs=0.5
        )
    assert {(row.knows, row.batch) for row in rows} == {("measured", "adaptive")}
    assert reproduction.shown(rows)[0]["jct"] == first.average_jct_hours
    picture = tmp_path / "sia.png"
    reproduction.plot(plan, rows).savefig(picture)
    assert picture.stat().st_size > 5_000


def test_pollux_is_replayed_as_the_plan_selects_it(tmp_path: Path) -> None:
    """Every selected version with and without types."""
    plan = Plan(tmp_path, (1,), ("pollux-genetic", "sia-exact"), quick=True)
    tasks = [task for task in REPRODUCTIONS["sia"].tasks(plan) if isinstance(task, ReplayTask)]
    policies = [task.policy.rpartition(":")[2] for task in tasks]
    assert policies == ["sia", "pollux-genetic", "pollux_genetic_blind", "sia-exact"]


def test_gavel_is_replayed_rule_by_rule(
    tmp_path: Path, artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published values stand beside the chain, differences beside every row but the first."""
    names = ("gavel-throughput", "gavel-rounds", "gavel-as-there", "allox")
    steps = {name: sia_gavel.STEPS[name] for name in names}
    steps["gavel-as-there"] = steps["gavel-as-there"]._replace(after="gavel-rounds")
    monkeypatch.setattr(sia_gavel, "STEPS", steps)
    monkeypatch.setattr(sia_gavel, "CHAIN", names[:-1])
    plan = ProfilesPlan(tmp_path / "out", (1,), artifact=artifact)
    reproduction = REPRODUCTIONS["sia-gavel"]
    for task in reproduction.tasks(plan):
        task.run(lambda _: None)
    rows = reproduction.rows(plan)
    assert [row.policy for row in rows] == [*names]
    assert [row.artifact_makespan_hours for row in rows] == [35.63, 35.63, 35.63, None]
    assert [math.isnan(row.parted.jobs) for row in rows] == [True, False, False, True]
    assert rows[1].parted.first_job == "ncf-0"
    assert [row.interval_seconds for row in rows] == [60, 360, 360, 60]
    assert [line["parted jobs"] is None for line in reproduction.shown(rows)] == [
        True,
        False,
        False,
        True,
    ]
    picture = tmp_path / "gavel.png"
    reproduction.plot(plan, rows).savefig(picture)
    assert picture.stat().st_size > 5_000


def test_the_batch_limit_of_the_simulator_makes_another_replay(tmp_path: Path) -> None:
    """Its description and its folder say so; without measurements the applications are the same."""
    tasks = {task.folder: task for task in sia_gavel.SIA_GAVEL.tasks(Plan(tmp_path, (1,)))}
    assert len(tasks) == len(sia_gavel.STEPS)
    limited = [task for task in tasks.values() if isinstance(task, sia_gavel.SimulatorTask)]
    assert len(limited) == 4
    assert {task.description()["yolov3_limit"] for task in limited} == {16}
    assert limited[0].applications["yolov3"].batch.atomic_maximum == 8


def test_another_workload_has_nothing_beside_it(tmp_path: Path) -> None:
    """Drawn ones, whole or by half."""
    plan = Plan(tmp_path, (1,), quick=True)
    assert len(sia_replay.sia_workload(plan, 1)) == 80
    for task in REPRODUCTIONS["sia"].tasks(plan):
        assert isinstance(task, ReplayTask)
        assert task.setting.free_moves


def test_the_losses_of_a_replay_are_measured_once_and_kept(
    tmp_path: Path, artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every third round; none of the roads beats the bound; a second run leaves the file alone."""
    monkeypatch.setattr(sia_restrictions, "EVERY", 3)
    monkeypatch.setattr(sia_restrictions, "LEAST_JOBS", 1)
    monkeypatch.setattr(sia_restrictions, "SIZES", ((10, 1),))
    monkeypatch.setattr(sia_restrictions, "SEEDS", range(1))
    plan = ProfilesPlan(tmp_path / "out", (1,), artifact=artifact)
    reproduction = REPRODUCTIONS["restrictions"]
    (task,) = reproduction.tasks(plan)
    shares: list[float] = []
    task.run(shares.append)
    assert shares == sorted(shares)
    kept = (task.folder / sia_restrictions.ROUNDS).read_bytes()
    task.run(lambda _: pytest.fail("done already"))
    assert (task.folder / sia_restrictions.ROUNDS).read_bytes() == kept
    rows = reproduction.rows(plan)
    replayed = [row for row in rows if row.state == "replayed"]
    assert len(replayed) == len(json.loads(kept)) == len(shares) > 0
    for row in replayed:
        for road in sia_restrictions.ROADS:
            assert sia_restrictions.loss(row, road) >= -1e-6
    assert [row["jobs"] for row in reproduction.shown(rows)] == [10, "replayed"]
    assert isinstance(task, sia_restrictions.ReplayedLosses)
    other = replace(task, number=2, workload=task.workload[:2])
    with pytest.raises(ValueError, match="holds another replay: workload"):
        other.run(lambda _: None)


def test_the_mixed_cluster_is_replayed_under_every_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Means over two workloads of short jobs; the picture is drawn."""
    monkeypatch.setattr(mixed_cluster, "draw_workload", lambda number, load: SHORT[number:])
    monkeypatch.setattr(mixed_cluster, "POLICIES", {"sia": "Sia", "synergy-tune": "Synergy-TUNE"})
    plan = Plan(tmp_path, (1, 2))
    reproduction = REPRODUCTIONS["mixed"]
    for task in reproduction.tasks(plan):
        task.run(lambda _: None)
    rows = reproduction.rows(plan)
    assert len(rows) == 4
    shown = reproduction.shown(rows)
    assert [row["workloads"] for row in shown] == [2, 2]
    own = [row.average_jct_hours for row in rows if row.policy == "sia"]
    assert shown[0]["average_jct_hours"] == pytest.approx(sum(own) / 2, rel=1e-3)
    picture = tmp_path / "mixed.png"
    reproduction.plot(plan, rows).savefig(picture)
    assert picture.stat().st_size > 5_000
