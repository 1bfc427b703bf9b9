"""Rounds in columns as Parquet files: written and read back, drawn and solved by commands."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.rounds import (
    generate_columns,
    generate_mode_columns,
    read_columns,
    write_columns,
)
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.verification import verify_columns
from goodalloc.models import Allocation, Cluster, Instance, Job, NodeGroup
from goodalloc.models.columns import ModeColumns, RoundColumns, column_violations
from goodalloc.models.round import Rules
from goodalloc.solvers.columns import solve_columns

if TYPE_CHECKING:
    from goodalloc.data.rounds import State

pa = pytest.importorskip("pyarrow", reason="needs goodalloc[parquet]")
pq = pytest.importorskip("pyarrow.parquet", reason="needs goodalloc[parquet]")


@pytest.mark.parametrize("state", ["cold", "running", "disturbed"])
def test_a_round_is_read_as_it_was_written(state: State, tmp_path: Path) -> None:
    """Every job of it; equal rounds have equal bytes."""
    columns = generate_columns(2, 60, 15, 4, state=state, rules=Rules(power=0.0))
    path = tmp_path / "round.parquet"
    write_columns(columns, path)
    found = read_columns(path)
    assert found.instance() == columns.instance()
    assert 0 < found.num_kinds <= columns.num_kinds  # steps of progress may have equal models
    before = path.read_bytes()
    write_columns(found, path)
    assert path.read_bytes() == before


def test_jobs_without_models_and_nodes_of_all_sizes_are_kept(tmp_path: Path) -> None:
    """Also where no job ever ran."""
    cluster = Cluster((NodeGroup("big", 1, 4), NodeGroup("small", 2, 2)))
    columns = RoundColumns.of(Instance(cluster, (Job("a"), Job("b", max_replicas=4))))
    write_columns(columns, tmp_path / "round.parquet")
    assert read_columns(tmp_path / "round.parquet").instance() == columns.instance()


@pytest.mark.parametrize("state", ["cold", "running", "disturbed"])
def test_a_round_of_modes_is_read_as_it_was_written(state: State, tmp_path: Path) -> None:
    """Every job and mode of it; equal rounds have equal bytes."""
    columns = generate_mode_columns(2, 60, state=state)
    path = tmp_path / "round.parquet"
    write_columns(columns, path)
    found = read_columns(path)
    assert isinstance(found, ModeColumns)
    assert found.modes == columns.modes
    assert found.instance() == columns.instance()
    before = path.read_bytes()
    write_columns(found, path)
    assert path.read_bytes() == before
    changed(path, mode=["v100-2"] * 60)
    with pytest.raises(ValueError, match=r"Job 0: mode is 'v100-2'; expected one of 't4-2', "):
        read_columns(path)
    changed(path, mode=None)
    with pytest.raises(ValueError, match="Column 'mode' is missing"):
        read_columns(path)


def test_rounds_of_modes_are_drawn_and_solved_by_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the cores of every node, or none; placements name the mode."""
    path, out = str(tmp_path / "round.parquet"), tmp_path / "placements.csv"
    groups = ["--group", "a:6:4:t4", "--group", "b:2:8:a100"]
    draw = ["generate", "--jobs", "30", "--out", path, *groups]
    for cores, modes in ((["--cores", "32"], 7), ([], 2)):
        assert main([*draw, *cores]) == 0
        columns = read_columns(path)
        assert isinstance(columns, ModeColumns)
        assert len(columns.modes) == modes
        assert main(["solve", path, "--out", str(out)]) == 0
        rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
        assert rows
        assert {row["mode"] for row in rows} <= {mode.name for mode in columns.modes}
        told = capsys.readouterr().out
        assert "(by prices of GPUs and resources)" in told
        assert "ties         not applied: a round in columns" in told
    assert main(["generate", "--jobs", "30", "--out", path, "--cores", "32"]) == 2
    assert "--cores: expected --group with it" in capsys.readouterr().err
    assert main([*draw, "--cores", "4"]) == 2
    assert "has fewer cores than GPUs" in capsys.readouterr().err
    assert main([*draw[:-1], "b:2:8:v100"]) == 2
    assert "has GPUs of type 'v100'; expected one of" in capsys.readouterr().err


def changed(path: Path, **columns: Any) -> None:
    """Replace columns of a file; None removes one."""
    table = pq.read_table(path)
    for name, values in columns.items():
        place = table.column_names.index(name)
        table = table.remove_column(place)
        if values is not None:
            table = table.append_column(name, pa.array(values))
    pq.write_table(table, path)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"age": None}, "Column 'age' is missing; expected one"),
        ({"gamma": None}, "Column 'gamma' is missing"),
        ({"age": [1.0, None, 1.0, 1.0]}, "Column 'age' is empty in 1 rows"),
        ({"age": [1.0, -2.0, 1.0, 1.0]}, "Job 1: age is -2.0; expected 0 to inf"),
        ({"max_replicas": [1, 1, 0, 1]}, "Job 2: max_replicas is 0"),
        ({"nodes": [[0], [1], [], []], "gpus": [[1], [], [], []]}, "Job 1: nodes and gpus differ"),
        ({"nodes": [[9], [], [], []], "gpus": [[1], [], [], []]}, "node 9 is unknown"),
        ({"nodes": [[0], [], [], []], "gpus": [[9], [], [], []]}, "Node 0: present placements"),
        ({"gamma": [None, 1.0, 1.0, 1.0]}, "Job 0: a part of its model is empty"),
        ({"restarts": [0.0, 1.9, 0.0, 0.0]}, "Job 1: restarts is 1.9; expected a whole number"),
        ({"max_replicas": [1.5, 1.0, 1.0, 1.0]}, "Job 0: max_replicas is 1.5; expected a whole"),
        ({"nodes": [[1, 1], [], [], []], "gpus": [[1, 1], [], [], []]}, "Job 0: expected each of"),
        ({"nodes": [[], [1], [], []], "gpus": [[], [0], [], []]}, "Job 1: expected each of its"),
        ({"nodes": [0, 1, 0, 1]}, "Column 'nodes' is of int64; expected lists of whole numbers"),
        ({"nodes": [[0.5], [], [], []], "gpus": [[1], [], [], []]}, "Column 'nodes' is of list"),
        (
            {"nodes": [[0], [], [], []], "gpus": [[None], [], [], []]},
            "Column 'gpus' is of list|Column 'gpus': a list has an empty item",
        ),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(
    columns: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    """With its name, the job and the value."""
    path = tmp_path / "round.parquet"
    write_columns(generate_columns(0, 4, 2, 4), path)
    changed(path, **columns)
    with pytest.raises(ValueError, match=sentence) as raised:
        read_columns(path)
    assert str(raised.value).startswith(f"File '{path}'")


@pytest.mark.parametrize(
    "change",
    [
        {"placement": {"node-0": 1}},
        {"min_replicas": 2},
        {"placement": {"node-0": 1}, "preemptible": False},
        {"weight": 2.0},
    ],
)
def test_an_example_with_what_columns_do_not_state_is_refused(
    change: dict[str, Any], tmp_path: Path
) -> None:
    """The checker of certificates would refuse it later."""
    path = tmp_path / "round.parquet"
    write_columns(generate_columns(0, 4, 2, 4), path)
    table = pq.read_table(path)
    document = json.loads(table.schema.metadata[b"goodalloc"])
    document["jobs"][0] |= {"max_replicas": 4, **change}
    pq.write_table(table.replace_schema_metadata({b"goodalloc": json.dumps(document)}), path)
    with pytest.raises(ValueError, match="Metadata: expected one job, with modes alone"):
        read_columns(path)


def test_a_round_in_which_nobody_runs_is_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its allocation is a heading alone; an empty file is none."""
    path, placed, proof = (str(tmp_path / name) for name in ("r.parquet", "p.csv", "c.json"))
    rules = Rules(idle_utility=50.0)
    write_columns(replace(generate_columns(0, 4, 2, 4), rules=rules), path)
    assert main(["solve", path, "--out", placed, "--certificate", proof]) == 0
    assert Path(placed).read_text("utf-8").splitlines() == ["job,node,gpus"]
    assert main(["verify", path, placed, proof]) == 0
    assert "verified" in capsys.readouterr().out
    assert verify_columns.main([path, placed, proof]) == 0
    Path(placed).write_text("job,gpus\n", "utf-8")
    assert main(["verify", path, placed, proof]) == 2
    assert "lacks the column 'node'; an allocation in columns is" in capsys.readouterr().err


def test_other_files_are_refused(tmp_path: Path) -> None:
    """Those that are not there, are no Parquet, or are other tables."""
    path = tmp_path / "round.parquet"
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        read_columns(path)
    path.write_text("nonsense")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        read_columns(path)
    pq.write_table(pa.table({"age": [1.0]}), path)
    with pytest.raises(ValueError, match="key 'goodalloc' is missing; expected a round"):
        read_columns(path)


def test_a_round_is_drawn_and_solved_by_two_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the placements as CSV, which obey the rules."""
    monkeypatch.chdir(tmp_path)
    size = ["--jobs", "400", "--nodes", "100", "--gpus-per-node", "4", "--state", "disturbed"]
    assert main(["generate", *size, "--out", "big.parquet"]) == 0
    assert "400 jobs, 100 nodes" in capsys.readouterr().out
    assert main(["solve", "big.parquet", "--out", "placements.csv"]) == 0
    assert "by the price of a GPU" in capsys.readouterr().out
    assert main(["solve", "big.parquet", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    columns = read_columns("big.parquet")
    assert data["fitness"] == solve_columns(columns).fitness
    assert data["gap"] <= 1e-9
    rows = list(csv.DictReader(Path("placements.csv").read_text(encoding="utf-8").splitlines()))
    entries = np.array([[int(row[name]) for name in ("job", "node", "gpus")] for row in rows])
    job, node, gpus = entries.T
    allocation = Allocation.from_entries(job, node, gpus, 400, 100)
    assert not column_violations(columns, allocation)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["solve", "no.parquet"], "does not exist"),
        (["solve", "no.parquet", "--leximin"], "argument --leximin: expected none for a round"),
        (["solve", "no.parquet", "--start", "a.json"], "argument --start: expected none"),
        (["solve", "no.parquet", "--solver", "greedy"], "argument --solver: expected none"),
        (["generate", "--out", "a.parquet"], "argument --jobs: expected a number"),
        (["generate", "--load", "1", "--out", "a.parquet"], "argument --load: expected none"),
        (["generate", "--jobs", "4", "--rules", "x", "--out", "a.parquet"], "argument --rules: g"),
        (["generate", "--jobs", "4", "--rules", "sia", "--out", "a.parquet"], "is 'least'"),
    ],
)
def test_commands_that_make_no_sense_are_refused(
    arguments: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a sentence, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
