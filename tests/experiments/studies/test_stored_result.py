"""Stored results: what is written is read, and code that changed is noticed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.experiments.studies.framework.stored_result import (
    ResultOrigin,
    read_stored,
    spent_on,
    write_stored,
)
from goodalloc.experiments.support.module_code import code_digests
from goodalloc.experiments.support.tasks import ORIGIN, run_tasks

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [{"policy": "fifo", "hours": 2.5}, {"policy": "srtf", "hours": 1.25}]
MODULES = code_digests(["models.round.job"])


def origin(**changes: Any) -> ResultOrigin:
    """As a command would write it."""
    usual: dict[str, Any] = {
        "command": "goodalloc reproduce mine",
        "commit": "0" * 40,
        "machine": "2 cores",
        "processor_seconds": 1.5,
        "versions": {"numpy": "2.4.6"},
        "modules": MODULES,
    }
    return ResultOrigin(**usual | changes)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Rows, summary and origin."""
    write_stored(tmp_path, "mine", ROWS, ROWS[:1], origin())
    found = read_stored(tmp_path, "mine")
    assert [row["hours"] for row in found.rows] == ["2.5", "1.25"]
    assert [row["policy"] for row in found.summary] == ["fifo"]
    assert found.origin == origin()
    write_stored(tmp_path, "other", ROWS, None, origin())
    assert read_stored(tmp_path, "other").summary == read_stored(tmp_path, "other").rows
    assert found.origin.changed_modules == ()


def test_code_that_changed_or_is_gone_is_named() -> None:
    """In alphabetical order; unchanged modules are not."""
    modules = MODULES | {"models.round.cluster": "00000000", "models.gone": "11111111"}
    assert origin(modules=modules).changed_modules == ("models.gone", "models.round.cluster")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"commit": None}, "Stored result: commit: name is null; expected"),
        ({"processor_seconds": -1}, "processor_seconds is -1; expected"),
        ({"modules": []}, "Stored result: modules is \\[\\]; expected an object"),
        ({"commits": "0"}, "key 'commits' is unknown"),
        (
            {"format": "goodalloc-result"},
            "format is 'goodalloc-result'; expected 'goodalloc-stored",
        ),
    ],
)
def test_a_malformed_origin_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    """With the name of its file."""
    write_stored(tmp_path, "mine", ROWS, ROWS, origin())
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change), encoding="utf-8")
    with pytest.raises(ValueError, match=words) as refused:
        read_stored(tmp_path, "mine")
    assert str(refused.value).startswith(f"File '{path}': ")


def test_a_table_without_rows_is_refused(tmp_path: Path) -> None:
    """Its heading alone says nothing."""
    write_stored(tmp_path, "mine", ROWS, ROWS, origin())
    (tmp_path / "mine.csv").write_text("policy,hours\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"mine\.csv' has no rows"):
        read_stored(tmp_path, "mine")


class Work:
    """A task that leaves a folder."""

    def __init__(self, folder: Path, policy: str = "") -> None:
        self.folder, self.policy = folder, policy

    def run(self, report: Any) -> None:
        self.folder.mkdir(exist_ok=True)
        sum(range(2_000_000))


def test_tasks_tell_their_seconds_and_their_code(tmp_path: Path) -> None:
    """Runs add up, and code that changed between two of them stays noticed."""
    tasks = [Work(tmp_path / "a"), Work(tmp_path / "b")]
    assert run_tasks(tasks) == {}
    seconds, modules = spent_on(tasks)
    assert seconds > 0.0
    assert modules == code_digests(modules)
    path = tmp_path / "a" / ORIGIN
    document = json.loads(path.read_text(encoding="utf-8"))
    name = next(iter(document["modules"]))
    document["modules"][name] = "00000000"
    document["processor_seconds"] = 100.0
    path.write_text(json.dumps(document), encoding="utf-8")
    assert run_tasks(tasks) == {}
    assert json.loads(path.read_text(encoding="utf-8"))["processor_seconds"] > 100.0
    with pytest.raises(ValueError, match=f"module {name} has changed since"):
        spent_on(tasks)


def test_a_folder_of_unknown_origin_is_refused(tmp_path: Path) -> None:
    """Also if the file is not what it should be."""
    with pytest.raises(ValueError, match="nothing tells by which"):
        spent_on([Work(tmp_path)])
    (tmp_path / ORIGIN).write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="tells no origin of records"):
        spent_on([Work(tmp_path)])


@pytest.mark.parametrize(
    ("policy", "study", "counts"),
    [
        ("", "classical.hesrpt", False),
        ("pollux", "classical.hesrpt", False),
        ("goodalloc.experiments.studies.classical.hesrpt:Mine", "classical.hesrpt", True),
        ("goodalloc.experiments.studies.classical.hesrpt:Mine", "classical.allox", False),
    ],
)
def test_a_task_is_of_a_study_only_if_its_policy_is(
    policy: str, study: str, counts: bool, tmp_path: Path
) -> None:
    """Its process may have loaded others, whose code may change."""
    modules = code_digests(["models.round.job"])
    modules[f"experiments.studies.{study}"] = "00000000"
    document = {"processor_seconds": 1.0, "modules": modules}
    (tmp_path / ORIGIN).write_text(json.dumps(document), encoding="utf-8")
    if counts:
        with pytest.raises(ValueError, match=f"{study} has changed since"):
            spent_on([Work(tmp_path, policy)])
    else:
        assert spent_on([Work(tmp_path, policy)]) == (1.0, code_digests(["models.round.job"]))
