"""Reproductions: what is published, what is replayed for it, and how both are put side by side."""

import json
from pathlib import Path

import pandas as pd
import pytest

from goodalloc.data.workload import write_workload
from goodalloc.data.workload_generator import draw_workload
from goodalloc.experiments import reproduce
from goodalloc.experiments.cli import main
from goodalloc.experiments.replay_task import ReplayTask, run_tasks
from goodalloc.experiments.reproduce import AVERAGE, REPRODUCTIONS, Case, Plan
from goodalloc.experiments.workers import ALONE, Workers
from tests.test_replay import SAME
from tests.test_simulator import SHORT, SMALL


@pytest.mark.parametrize("name", list(REPRODUCTIONS))
def test_every_case_has_a_label_of_its_own_and_published_hours(name: str) -> None:
    """Labels tell the cases apart; averages are hours, below a day."""
    cases = REPRODUCTIONS[name]
    assert len({case.label for case in cases}) == len(cases)
    for case in cases:
        assert 0.1 < case.published[AVERAGE] < 24


def test_a_case_is_replayed_under_its_own_conditions(tmp_path: Path) -> None:
    """Load, interval, interference, power and requests reach the replay."""
    assert {len(t.workload) for t in Plan("fig8a", tmp_path).tasks()} == {80, 160, 240, 320}
    assert {t.setting.interval for t in Plan("fig8b", tmp_path).tasks()} == {30, 60, 120, 240, 480}
    interference = [
        (t.setting.interference, t.interference_avoidance) for t in Plan("fig8c", tmp_path).tasks()
    ]
    assert interference == [(0.0, True), (0.0, False), (0.25, False), (0.5, False)]
    tasks = Plan("table2", tmp_path).tasks()
    assert [task.power for task in tasks] == [-1, -1, -1, -1, -1, 1, -10]
    assert [t.policy for t in tasks].count("pollux") == 3
    tuned, realistic = tasks[2].workload, tasks[4].workload
    assert tuned == draw_workload(6)
    assert realistic == draw_workload(6, requests="realistic")


def test_the_artifacts_folder_gives_workloads_and_traces(tmp_path: Path) -> None:
    """The published files by their published names; half of the jobs when quick."""
    for name in ("workloads", "workloads-realistic"):
        (tmp_path / name).mkdir()
        write_workload(SHORT, tmp_path / name / "workload-6.csv")
    tasks = Plan("table2", tmp_path / "out", artifact=tmp_path).tasks()
    assert all(task.workload == SHORT for task in tasks)
    assert {task.traces for task in tasks} == {str(tmp_path / "traces")}
    quick = Plan("table2", tmp_path / "out", artifact=tmp_path, quick=True).tasks()
    assert all(task.workload == SHORT[::2] for task in quick)


def test_reproduce_puts_published_and_ours_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of two tiny cases over two workloads, its CSV and its picture."""
    tiny = (
        Case("first", "tiresias", {AVERAGE: 1.0}, load=0.02),
        Case("second", "pollux", {AVERAGE: 2.0}, load=0.02),
    )
    monkeypatch.setitem(reproduce.REPRODUCTIONS, "table2", tiny)
    command = [
        "reproduce", "table2", "--policies", "fifo", "--workloads", "1,2", "--out", str(tmp_path),
        "--json",
    ]  # fmt: skip
    assert main(command) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["case"], first["policy"], first["published"]) == ("first", "tiresias", 1.0)
    assert second["policy"] == "fifo"
    for row in (first, second):
        assert row["workloads"] == 2
        assert 0 < row["least"] <= row["ours"] <= row["greatest"]
        assert row["deviation"] == f"{row['ours'] / row['published'] - 1:+.0%}"
    assert len(pd.read_csv(tmp_path / "table2" / "table2.csv")) == 2
    assert (tmp_path / "table2" / "table2.png").read_bytes().startswith(b"\x89PNG")


def test_workers_write_the_same_bytes_as_one_process(tmp_path: Path) -> None:
    """Two replays side by side in processes of their own."""

    def tasks(folder: str) -> list[ReplayTask]:
        return [
            ReplayTask(tmp_path / folder / policy, policy, SHORT, SMALL, gaps=False)
            for policy in ("tiresias", "fifo")
        ]

    shares: list[float] = []
    run_tasks(tasks("alone"), ALONE, shares.append)
    assert sum(shares) == pytest.approx(2.0)
    run_tasks(tasks("workers"), Workers(2))
    for policy in ("tiresias", "fifo"):
        for name in SAME:
            one, other = (tmp_path / folder / policy / name for folder in ("alone", "workers"))
            assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["table9"], "What to reproduce is 'table9'"),
        (["table2", "--artifact", "nowhere"], "nowhere"),
        (["table2", "--policies", "magic"], "Policy is 'magic'"),
        (["table2", "--workloads", "x"], "argument --workloads"),
        (["table2", "--workers", "0"], "argument --workers"),
    ],
)
def test_bad_reproductions_are_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    """Exit code 2, and no traceback."""
    assert main(["reproduce", *arguments, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1
