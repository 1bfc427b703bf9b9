"""AITurbo against others by the share of unpredictable jobs: rows, summary, and the command."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from goodalloc.data.parameter_servers.workload import PsWorkloadOptions, ps_workload
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.parameter_servers import aiturbo_replay
from goodalloc.experiments.studies.parameter_servers.aiturbo_replay import (
    AITURBO_REPLAY,
    NODES,
    PUBLISHED,
    PUBLISHED_MAKESPAN,
    SHARES,
    ShareRow,
    summarise_shares,
)
from goodalloc.experiments.studies.parameter_servers.aiturbo_task import (
    CONTENDERS,
    RECORD,
    PsReplay,
    replay_outcome,
)
from goodalloc.experiments.studies.parameter_servers.setting import PsSetting

if TYPE_CHECKING:
    from pathlib import Path

SMALL = PsSetting(nodes=2)


def test_a_row_obeys_the_laws() -> None:
    """Short jobs and long ones make up all; what is a share is one."""
    workload = ps_workload(1, PsWorkloadOptions(jobs=6, hours=0.2))
    found = replay_outcome("optimus", workload, SMALL)
    average = (found.short_jct_hours + found.long_jct_hours) / 2
    assert found.average_jct_hours == pytest.approx(average)
    assert 0 < found.short_jct_hours < found.long_jct_hours < found.makespan_hours
    for percent in (found.cpu_percent, found.gpu_percent, found.difference_p80_percent):
        assert 0 < percent < 100
    assert list(found.differences_percent) == sorted(found.differences_percent)
    assert found.differences_percent[80] == pytest.approx(found.difference_p80_percent, rel=1e-4)
    assert found.starts_per_job >= 1


def test_policies_that_predict_nothing_do_the_same_at_every_share() -> None:
    """Common random numbers: the jobs are the same ones."""
    for policy in ("fcfs", "srtf", "tiresias", "optimus-told"):
        assert CONTENDERS[policy].blind
        rows = [
            replay_outcome(policy, ps_workload(2, options), SMALL)
            for options in (
                PsWorkloadOptions(
                    jobs=5, hours=0.2, unpredictable=share, told=CONTENDERS[policy].told
                )
                for share in (0.0, 1.0)
            )
        ]
        assert rows[0] == rows[1]


def test_the_published_ratios_are_those_of_the_follow_on() -> None:
    """Optimus falls behind the hybrid and Tiresias catches up as fewer jobs can be predicted."""
    assert PUBLISHED["optimus"][50] == pytest.approx(2.5 / 1.24)
    optimus, tiresias = (
        [PUBLISHED[name][share] for share in SHARES] for name in ("optimus", "tiresias")
    )
    assert optimus == sorted(optimus)
    assert tiresias == sorted(tiresias, reverse=True)
    assert min(*optimus, *tiresias, *PUBLISHED_MAKESPAN.values()) > 1
    assert {*PUBLISHED, *PUBLISHED_MAKESPAN} <= CONTENDERS.keys()


def test_the_summary_sets_means_beside_what_is_published() -> None:
    """By hand: two workloads; Optimus takes half as long as AITurbo."""
    rows = [
        ShareRow(nodes, policy, share, seed, 60, *[hours * seed] * 8)
        for nodes in NODES
        for policy in CONTENDERS
        for share in SHARES
        for seed in (1, 3)
        for hours in (1.0 if policy == "optimus" else 2.0,)
    ]
    found = summarise_shares(rows)
    shown = {(row["nodes"], row["policy"], row["unpredictable_%"]): row for row in found}
    assert len(shown) == len(NODES) * len(CONTENDERS) * len(SHARES)
    row = shown[4, "optimus", 100]
    assert (row["workloads"], row["jct_h"], row["over_aiturbo"]) == (2, 2.0, 0.5)
    assert (row["half_width"], row["published"], row["makespan_published"]) == (0.0, 3.9, "")
    row = shown[4, "optimus", 50]
    assert (row["makespan_over"], row["makespan_published"]) == (0.5, pytest.approx(1.57, abs=0.01))
    assert shown[12, "fcfs", 0]["published"] == ""


def test_a_replay_is_done_once_and_its_folder_holds_no_other(tmp_path: Path) -> None:
    """The second time nothing is written."""
    task = PsReplay(tmp_path / "one", "fcfs", 50, 0, 2, SMALL)
    told: list[float] = []
    task.run(told.append)
    numbers = task.folder / RECORD
    first = numbers.stat().st_mtime_ns
    task.run(told.append)
    assert numbers.stat().st_mtime_ns == first
    assert told == [1.0, 1.0]
    assert task.record().starts_per_job == 1.0
    with pytest.raises(ValueError, match="holds another replay: seed in its"):
        PsReplay(task.folder, "fcfs", 50, 1, 2, SMALL).run()
    with pytest.raises(ValueError, match=r"holds another replay: .*workload"):
        PsReplay(task.folder, "optimus", 75, 0, 2, SMALL).run()


def test_reproduce_aiturbo_replay_writes_a_row_for_every_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three policies, two shares, one of them blind; a table, a CSV, a picture."""
    kept = {name: CONTENDERS[name] for name in ("aiturbo", "tiresias", "fcfs")}
    monkeypatch.setattr(aiturbo_replay, "CONTENDERS", kept)
    monkeypatch.setattr(aiturbo_replay, "SHARES", (0, 50))
    monkeypatch.setattr(aiturbo_replay, "NODES", (4,))
    tiny = PsWorkloadOptions(jobs=4, hours=0.1)
    monkeypatch.setattr(aiturbo_replay, "PsWorkloadOptions", lambda: tiny)
    monkeypatch.setattr(aiturbo_replay, "PsReplay", partial(PsReplay, drawn=tiny))
    command = ["reproduce", "aiturbo-replay", "--workloads", "3,4", "--out", str(tmp_path)]
    assert main([*command, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {row["policy"] for row in shown} == set(kept)
    assert {row["workload"] for row in shown} == {3, 4}
    table = pd.read_csv(tmp_path / "aiturbo-replay.csv")
    assert len(table) == 3 * 2 * 2
    assert set(table["jobs"]) == {4}
    assert len(list((tmp_path / "replays").iterdir())) == 2 * (2 + 1 + 1)
    assert (tmp_path / "aiturbo-replay.png").read_bytes().startswith(b"\x89PNG")


def test_what_makes_no_difference_is_refused(tmp_path: Path) -> None:
    """Other policies for Pollux."""
    with pytest.raises(ValueError, match="makes no difference there"):
        AITURBO_REPLAY.refuse_ignored(Plan(tmp_path, pollux=("pollux-genetic",)))
