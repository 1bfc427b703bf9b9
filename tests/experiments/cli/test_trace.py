"""Command `trace`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from goodalloc.experiments.cli.main import main
from tests.data.traces import made_traces as made

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> str:
    """A log as of Helios."""
    path = tmp_path / "cluster_log.csv"
    path.write_text(made.HELIOS)
    return str(path)


def test_jobs_of_a_trace_are_summarised_and_written(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["trace", "helios", log, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "3 jobs submitted in 0.0 days, from 2020-06-09 18:41:01" in text
    assert "left out: 1 (have no GPU), 1 (ran for no second), 1 (have another state)\n" in text
    assert pd.read_csv(out / "jobs.csv").num_gpus.tolist() == [1, 4, 16]
    assert pd.read_csv(out / "summary.csv").gpus.tolist() == ["1", "3 to 4", "9 to 16", "all"]
    assert (out / "trace.png").read_bytes().startswith(b"\x89PNG")


def test_workloads_are_simulated_from_the_jobs_of_a_trace(tmp_path: Path) -> None:
    """Those that were submitted in the eight hours from two o'clock."""
    log, out = tmp_path / "log.csv", tmp_path / "out"
    log.write_text(re.sub(" 1[89]:", " 04:", made.HELIOS))
    assert main(["trace", "helios", str(log), "--out", str(out)]) == 0
    simulate = ["simulate", "--philly", str(out / "jobs.csv"), "--load", "0.0125", "--policies"]
    assert main([*simulate, "tiresias", "--out", str(tmp_path / "replay")]) == 0
    replayed = pd.read_csv(tmp_path / "replay" / "tiresias" / "jobs.csv")
    assert len(replayed) == 2
    assert replayed.completion.notna().all()


def test_a_list_without_jobs_at_that_time_of_the_day_is_refused(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["trace", "helios", log, "--out", str(out)]) == 0
    simulate = ["simulate", "--philly", str(out / "jobs.csv"), "--load", "0.01", "--policies"]
    assert main([*simulate, "tiresias", "--out", str(tmp_path / "replay")]) == 2
    assert (
        "expected at most 0, as many as the list has in the 8 h from 2:00"
        in capsys.readouterr().err
    )


def test_a_summary_is_printed_as_json(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "helios", log, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["jobs"], found["begin"]) == (3, "2020-06-09 18:41:01")
    assert found["summary"][-1]["gpu_hours"] == pytest.approx(1.0 + 4 * 249 / 3600 + 32.0)


def test_an_hour_of_servers_is_decided_on_its_racks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    folder, out = made.write_hour(tmp_path / "asi"), tmp_path / "out"
    hour = ["trace", "server-hours", str(folder), "--day", "3", "--hour", "7"]
    assert main([*hour, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "4 nodes in 3 racks, 18 of 28 GPUs held\n3 jobs, waiting: 1\n" in text
    assert main(["topology", str(out / "round.json"), str(out / "tree.json")]) == 0
    found = capsys.readouterr().out
    assert "optimal" in found
    assert "moved or stopped: 0 of 2 running jobs" in found


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["helios", "LOG", "--day", "1"], "argument --day: expected none with 'helios'"),
        (["server-hours", "LOG", "--day", "1"], "argument --hour: expected one"),
        (["server-hours", "LOG", "--hour", "1"], "argument --day: expected one"),
        (["server-hours", "LOG", "--day", "1", "--hour", "24"], "argument --hour: got '24'"),
        (["server-hours", "LOG", "--day", "1", "--hour", "2"], "there is no such file"),
        (["helios", "LOG", "--out", "LOG"], "cannot be created"),
        (["helios", "LOG", "--out", "LOG/below"], "cannot be created"),
        (["helios", "nowhere.csv"], "File 'nowhere.csv' cannot be read"),
        (["pai", "LOG"], "pai_task_table.csv' cannot be read"),
        (["hellos", "LOG"], "did you mean helios?"),
    ],
)
def test_bad_arguments_get_one_sentence(
    words: list[str], sentence: str, log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", *(word.replace("LOG", log) for word in words)]) == 2
    complaint = capsys.readouterr().err
    assert sentence in complaint
    assert complaint.count("\n") == 1
