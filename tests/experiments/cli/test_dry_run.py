"""`--dry-run` lists what a command would do, and does nothing."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.workloads.generator import draw_workload
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.studies.framework import reproduction

if TYPE_CHECKING:
    from pathlib import Path


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """What a command prints as JSON."""
    assert main([*arguments, "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_the_runs_of_the_benchmark_that_are_left_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The smallest instances; after the runs were made none is left."""
    out = ("--solvers", "greedy", "--seconds", "30", "--out", str(tmp_path / "gap"))
    planned = rows(capsys, "gap", "--subset", "2", "--dry-run", *out)
    assert [row["instance"] for row in planned] == ["tiny-cold", "tiny-disturbed"]
    assert [(row["runs"], row["left"], row["most_minutes"]) for row in planned] == [(1, 1, 0.5)] * 2
    assert not (tmp_path / "gap").exists()
    assert main(["gap", "--subset", "2", *out]) == 0
    capsys.readouterr()
    planned = rows(capsys, "gap", "--subset", "2", "--dry-run", *out)
    assert [row["left"] for row in planned] == [0, 0]


def test_the_tasks_of_studies_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With minutes at the speed of this machine; a study that lacks its data says so."""
    monkeypatch.setattr(reproduction, "draw_workload", cache(draw_workload))
    out = ("--dry-run", "--out", str(tmp_path / "out"))
    planned = {row["name"]: row for row in rows(capsys, "reproduce", "aiturbo", *out)}
    assert planned["exchange"]["tasks"] == 18
    assert planned["exchange"]["minutes"] > 0
    assert "--artifact" in planned["predictability"]["tasks"]
    planned = {row["name"]: row for row in rows(capsys, "reproduce", "hindsight-all", *out)}
    assert planned["family"]["tasks"] > 30
    assert planned["hindsight-relaxations"]["tasks"] == 2
    assert not (tmp_path / "out").exists()
    (quick,) = rows(capsys, "reproduce", "exchange", "--quick", *out)
    assert quick["minutes"] == ""


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_the_list_of_commands_is_grouped(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """Every command once, under what it is for."""
    main(arguments)
    text = capsys.readouterr().out
    for group in (
        "decide a round:",
        "make and check:",
        "replay and reproduce:",
        "measure and train:",
    ):
        assert group in text
    assert text.count("\n  solve ") == text.count("\n  launch ") == 1


def test_quick_is_no_error_where_it_leaves_nothing_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The study is run whole, as without it."""
    out = ("--dry-run", "--out", str(tmp_path))
    whole, quick = (rows(capsys, "reproduce", "fig1", *words, *out) for words in ((), ("--quick",)))
    assert [row["tasks"] for row in whole] == [row["tasks"] for row in quick]
