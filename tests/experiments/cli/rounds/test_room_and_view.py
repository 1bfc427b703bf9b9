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
        (["--gang", "1:5"], "0 nodes have 5 GPUs, and the gang needs 1"),
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


def test_a_front_shows_moves_against_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No greedy plan is cheaper, and more nodes never cost less; then none is possible."""
    command = ["room", "even-disturbed", "--gang", "1:4", "--front", "1-16"]
    assert main([*command, "--out", str(tmp_path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    costs = [row["cost"] for row in rows]
    assert costs == sorted(costs)
    assert all(row["proven"] and row["cost"] == row["moves"] for row in rows)
    assert all(row["cost"] <= row["greedy_cost"] for row in rows if row["greedy_cost"] is not None)
    assert [row["nodes"] for row in rows] == list(range(1, len(rows) + 1))
    assert (tmp_path / "front.csv").read_text().startswith("nodes,moves,cost,proven,greedy_cost")
    assert (tmp_path / "front.png").read_bytes().startswith(b"\x89PNG")
    assert main([*command, "--out", str(tmp_path)]) == 0
    expected = f"no moves make room for {len(rows) + 1} nodes, which is proved"
    assert expected in capsys.readouterr().out


def test_a_front_without_any_plan_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["room", "even-disturbed", "--gang", "1:4", "--front", "16"]) == 1
    assert "no moves make room for 16 nodes, which is proved" in capsys.readouterr().out


def test_quotas_keep_what_groups_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A group that holds no more than its quota loses no job; groups are read from a file, too."""
    command = ["room", "medium-disturbed", "--gang", "20:4", "--by", "stops", "--json"]
    assert main(command) == 0
    stopped = [one["job"] for one in json.loads(capsys.readouterr().out)["stops"]]
    group = stopped[0].rpartition("-")[0]
    assert main([*command, "--quota", f"{group}=1000"]) == 0
    kept = [one["job"] for one in json.loads(capsys.readouterr().out)["stops"]]
    assert not [job for job in kept if job.startswith(f"{group}-")]
    groups = tmp_path / "groups.csv"
    groups.write_text(f"job,group\n{stopped[0]},mine\n")
    assert main([*command, "--groups", str(groups), "--quota", "mine=1000"]) == 0
    kept = [one["job"] for one in json.loads(capsys.readouterr().out)["stops"]]
    assert stopped[0] not in kept


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--priority", "1"], "--priority: expected --priorities with it"),
        (["--quota", "ncf=4"], "--quota: expected it with --by stops only"),
        (["--by", "stops", "--groups", "x.csv"], "--groups: expected it with --quota"),
        (["--by", "stops", "--quota", "ncf"], "expected GROUP=GPUS, as research=64"),
        (["--by", "stops", "--quota", "=4"], "expected GROUP=GPUS, as research=64"),
        (["--by", "stops", "--quota", "ncf=-1"], "expected a whole number"),
        (["--by", "stops", "--quota", "ncf=1", "--quota", "ncf=2"], "has 1 and 2; expected one"),
        (["--by", "stops", "--quota", "nobody=1"], "Quota of group 'nobody'"),
        (["--by", "stops", "--front", "1-3"], "--by: expected none with --front"),
        (["--greedy", "--front", "1-3"], "--greedy: expected none with --front"),
        (["--seconds", "1", "--front", "1-3"], "--seconds: expected none with --front"),
        (["--front", "0-3"], "got 0; expected numbers of nodes above 0"),
        (["--front", "x"], "--front"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["room", "medium-disturbed", "--gang", "2:4", *options]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_groups_of_unknown_jobs_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = tmp_path / "groups.csv"
    command = ["room", "medium-disturbed", "--gang", "2:4", "--by", "stops", "--quota", "a=1"]
    for row in ("nobody,a", "cifar10-0,a\ncifar10-0,a"):
        groups.write_text(f"job,group\n{row}\n")
        assert main([*command, "--groups", str(groups)]) == 2
        assert "expected jobs of the round, each once" in capsys.readouterr().err


def test_only_jobs_of_lower_priority_make_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each stopped job kept in its turn, until none of the first ones is left."""
    command = ["room", "medium-disturbed", "--gang", "20:4", "--by", "stops", "--json"]
    assert main(command) == 0
    free = json.loads(capsys.readouterr().out)
    kept = [one["job"] for one in free["stops"]]
    priorities = tmp_path / "priorities.csv"
    priorities.write_text("job,priority\n" + "".join(f"{job},2.5\n" for job in kept))
    asked = [*command, "--priorities", str(priorities), "--priority"]
    assert main([*asked, "2.5"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["proven"]
    assert found["cost"] >= free["cost"]
    assert not {one["job"] for one in found["stops"]} & set(kept)
    assert main([*asked, "3"]) == 0
    assert json.loads(capsys.readouterr().out)["cost"] == free["cost"]
    assert main([*asked[:-1], "--priority", "-1"]) == 1  # all others have 0, and none is below
    assert not json.loads(capsys.readouterr().out)["found"]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("nobody,1", "expected jobs of the round, each once"),
        ("cifar10-0,1\ncifar10-0,2", "expected jobs of the round, each once"),
        ("cifar10-0,high", "priority is 'high'; expected a finite number"),
    ],
)
def test_priorities_that_make_no_sense_are_refused(
    rows: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the line of the file."""
    priorities = tmp_path / "priorities.csv"
    priorities.write_text(f"job,priority\n{rows}\n")
    command = ["room", "medium-disturbed", "--gang", "2:4", "--priorities", str(priorities)]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "line" in said


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
    solved = tmp_path / "solved.json"
    assert main(["solve", "tiny-cold", "--out", str(solved)]) == 0
    shown = ["view", "tiny-cold", "--allocation", str(solved), "--out", str(target)]
    assert main(shown) == 0
    assert main([*shown, "--policies", "pollux"]) == 2
    assert main(["view", str(tmp_path), *shown[2:]]) == 2
    assert main(["view", str(target), "--out", str(target)]) == 2
    assert main(["view", str(tmp_path / "missing.json"), "--out", str(target)]) == 2
    assert main(["view", "tiny-cold", "--out", str(tmp_path)]) == 2
