"""Progress in logs: rare plain lines, and none where nobody wants them."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from goodalloc.data.workloads.workload import write_workload
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.reporting import progress
from goodalloc.experiments.reporting.progress import INTERVAL, ProgressLines, progress_bar
from tests.support.replay.replays import SHORT


def lines(times: list[float], steps: list[float], total: float) -> list[str]:
    """What is said when these steps are done at these times, after a start at 0."""
    clock = iter([0.0, *times])
    stream = io.StringIO()
    with ProgressLines("simulate", total, stream, clock=lambda: next(clock)) as bar:
        for step in steps:
            bar.update(step)
    return stream.getvalue().splitlines()


def test_a_line_says_share_time_passed_and_time_left() -> None:
    """The rest is taken to be as fast as what is done."""
    assert lines([120.0], [3.0], 8) == ["simulate: 38 % after 120 s, about 200 s left"]
    assert lines([60.0], [8.0], 8) == ["simulate: 100 % after 60 s, about 0 s left"]


def test_the_time_left_is_not_told_by_the_first_steps() -> None:
    """They compile programs, too."""
    assert lines([50.0], [0.2], 100) == ["simulate: 0 % after 50 s"]
    assert lines([50.0], [5.0], 100) == ["simulate: 5 % after 50 s, about 950 s left"]


def test_lines_are_rare() -> None:
    """A step a second for five minutes: one line every 30 s."""
    said = lines([float(second) for second in range(1, 301)], [1.0] * 300, 300)
    assert len(said) == 300 / INTERVAL
    assert said[0] == "simulate: 10 % after 30 s, about 270 s left"


def test_short_runs_and_runs_without_progress_say_nothing() -> None:
    """Nothing before the first interval is over, nor while nothing is done."""
    assert lines([1.0, 29.0], [1.0, 1.0], 2) == []
    assert lines([40.0], [0.0], 2) == []


def test_a_terminal_gets_a_bar_and_a_quiet_command_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines are for logs only."""
    assert isinstance(progress_bar("gap", 2, quiet=False), ProgressLines)
    assert progress_bar("gap", 2, quiet=True).disable
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress_bar("gap", 2, quiet=False) as bar:
        bar.update()
    assert "/2 [" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["simulate", "workload.csv", "--policies", "fifo", "--nodes", "2", "--no-gaps"],
        ["compare", "tiny-disturbed", "--solvers", "greedy"],
        ["gap", "--instances", "tiny-disturbed", "--solvers", "greedy"],
    ],
    ids=lambda command: command[0],
)
def test_commands_write_lines_to_a_log_unless_they_print_json(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each line begins with the name of the command; the last says that all is done."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    write_workload(SHORT, Path("workload.csv"))
    assert main([*command, "--out", "with"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert all(line.startswith(f"{command[0]}: ") for line in said)
    assert said[-1].startswith(f"{command[0]}: 100 % after ")
    assert main([*command, "--out", "without", "--json"]) == 0
    assert capsys.readouterr().err == ""
