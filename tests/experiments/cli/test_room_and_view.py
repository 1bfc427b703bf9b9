"""`goodalloc room` and `goodalloc view` from the command line: plans, pages, and refusals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


def test_room_prints_a_proved_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """Which jobs move from where to where, and what the gang gets."""
    assert main(["room", "large-settled", "--gang", "3:2"]) == 0
    text = capsys.readouterr().out
    assert "the least possible" in text
    assert "the gang gets" in text
    assert main(["room", "large-settled", "--gang", "3:2", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["proven"]
    assert len(data["gang_nodes"]) == 3
    assert data["cost"] == len(data["moves"])


def test_room_stops_jobs_by_their_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    """The cost is what the stopped jobs hold."""
    command = ["room", "medium-disturbed", "--gang", "20:4", "--by", "stops", "--cost", "gpus"]
    assert main([*command, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["cost"] == sum(one["GPUs"] for one in data["stops"]) > 0
    assert main([*command, "--greedy"]) == 0
    assert "without a proof" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--gang", "1:5"], "0 nodes have 5 GPUs, and it needs 1"),
        (["--gang", "7:1", "--greedy"], "the greedy way found no room"),
        (["--gang", "16:4"], "which is proved"),
        (["--gang", "7:1", "--seconds", "0.00001"], "within the time limit"),
    ],
)
def test_room_says_why_there_is_none(
    options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proved, not found by the greedy way, or not in time; exit code 1."""
    assert main(["room", "even-disturbed", *options]) == 1
    assert sentence in capsys.readouterr().out


@pytest.mark.parametrize("gang", ["x", "2", "2:", "2:x", "0:1", "2:4:", "2:4:a:b", "-1:2"])
def test_other_gangs_are_refused(gang: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, exit code 2."""
    assert main(["room", "tiny-cold", f"--gang={gang}"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_types_that_are_not_there_and_needless_limits_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each in one sentence."""
    assert main(["room", "tiny-cold", "--gang", "1:1:v100"]) == 2
    assert "gpu_type is 'v100'" in capsys.readouterr().err
    assert main(["room", "tiny-cold", "--gang", "1:1", "--greedy", "--seconds", "1"]) == 2
    assert "--seconds" in capsys.readouterr().err


def test_view_writes_a_page_and_refuses_what_it_cannot_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A round by its name; not over its own input, nor for replays of a round."""
    pytest.importorskip("bokeh", reason="needs goodalloc[view]")
    target = tmp_path / "page.html"
    assert main(["view", "tiny-cold", "--out", str(target)]) == 0
    assert "MB" in capsys.readouterr().out
    assert "Round tiny-cold" in target.read_text(encoding="utf-8")
    assert main(["view", "tiny-cold", "--policies", "pollux", "--out", str(target)]) == 2
    assert "--policies" in capsys.readouterr().err
    assert main(["view", str(target), "--out", str(target)]) == 2
    assert main(["view", str(tmp_path / "missing.json"), "--out", str(target)]) == 2
    assert main(["view", "tiny-cold", "--out", str(tmp_path)]) == 2
