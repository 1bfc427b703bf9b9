"""The command `report`, and results that `reproduce --store` keeps in the repository."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.cli import report
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.studies import documents
from goodalloc.experiments.studies.classical import hesrpt
from goodalloc.experiments.studies.framework.stored_result import (
    Confirmation,
    confirm_stored,
    read_stored,
    write_stored,
)
from goodalloc.experiments.support.module_code import code_digests

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = "hesrpt-summary: jobs=16; power=0.5: {equal_above_%:.1f} %"


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study of few jobs and decisions."""
    monkeypatch.setattr(hesrpt, "JOBS", (4,))
    monkeypatch.setattr(hesrpt, "DECISIONS", 20)


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """A document with a wrong number."""
    path = tmp_path / "page.md"
    path.write_text(f"It is <!-- value {TEMPLATE} -->7.0 %<!-- /value -->.\n", encoding="utf-8")
    return path


def test_a_wrong_number_is_found_and_then_corrected(
    document: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--check` changes nothing and ends with 1."""
    before = document.read_text(encoding="utf-8")
    assert main(["report", "--check", str(document)]) == 1
    assert "1 document, 1 difference to correct" in capsys.readouterr().out
    assert document.read_text(encoding="utf-8") == before
    assert main(["report", str(document)]) == 0
    capsys.readouterr()
    right = documents.stored_result("hesrpt").summary
    (row,) = (row for row in right if (row["jobs"], row["power"]) == ("16", "0.5"))
    assert f"-->{float(row['equal_above_%']):.1f} %<!--" in document.read_text(encoding="utf-8")
    assert main(["report", "--check", "--json", str(document)]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("hesrpt-summary", "fig4-summary"), "Study 'fig4' does not exist"),
        (("equal_above", "equals_above"), "column 'equals_above_%' does not exist"),
        (("<!-- /value -->", ""), "expected all"),
        (("{equal_above_%:.1f} %", "{equal_above_%:.1f}"), "is in %, which nothing says"),
    ],
)
def test_a_document_that_makes_no_sense_is_refused_by_name(
    document: Path, change: tuple[str, str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence, and it stays as it is."""
    text = document.read_text(encoding="utf-8").replace(*change)
    document.write_text(text, encoding="utf-8")
    assert main(["report", str(document)]) == 2
    complaint = capsys.readouterr().err
    assert f"File '{document}'" in complaint
    assert words in complaint
    assert document.read_text(encoding="utf-8") == text


def test_a_stale_result_is_listed_with_what_renews_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its command, and the minutes that it took; a benchmark tells when it was measured."""
    found = documents.stored_result("hesrpt")
    modules = {"models.round.job": "00000000"}
    stale = replace(found, origin=replace(found.origin, processor_seconds=90.0, modules=modules))
    monkeypatch.setattr(report, "stored_names", lambda: ("hesrpt",))
    monkeypatch.setattr(report, "benchmark_names", lambda: ("bench-round",))
    monkeypatch.setattr(report, "stored_result", lambda name: stale)
    assert main(["report", "--stale", "--json"]) == 0
    first, measured, *others = json.loads(capsys.readouterr().out)
    assert first["result"] == "hesrpt"
    assert first["why"] == "models.round.job changed"
    assert first["minutes"] == 1.5
    assert first["command"] == "goodalloc reproduce hesrpt --store"
    assert measured["result"] == "bench-round"
    assert measured["why"] == f"measured at {found.origin.commit[:7]}"
    assert {row["why"] for row in others} == {"never stored"}


def test_what_all_stored_results_took_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under the list of stale ones: how many there are of each kind, and their processor hours."""
    rows = [("whole", "full", "1.5"), ("other", "full", "2"), ("whole-quick", "quick", "0.25")]
    names = ("result", "kind", "processor_hours")
    found = [dict(zip(names, row, strict=True)) for row in rows]
    monkeypatch.setattr(report, "stored_rows", lambda name: found if name == "origins" else [])
    assert main(["report", "--stale"]) == 0
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert last.startswith("stored results: 2 full in 3.5, 1 quick in 0.2 processor hours;")


@pytest.mark.usefixtures("brief")
def test_stored_rows_are_those_of_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the command, the commit, the seconds of all tasks and the code of their modules."""
    monkeypatch.setattr(report, "results_folder", lambda name: tmp_path / "stored")
    monkeypatch.setattr(report, "commit_of_code", lambda: "1" * 40)
    command = ["reproduce", "hesrpt", "--quick", "--store", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    stored = read_stored(tmp_path / "stored", "hesrpt-quick")
    written = (tmp_path / "out" / "hesrpt-quick.csv").read_bytes()
    assert (tmp_path / "stored" / "hesrpt-quick.csv").read_bytes() == written
    assert stored.origin.command == "goodalloc reproduce hesrpt --quick"
    assert stored.origin.commit == "1" * 40
    assert stored.origin.processor_seconds > 0.0
    assert "models.classical.hesrpt" in stored.origin.modules
    assert str(tmp_path) not in (tmp_path / "stored" / "hesrpt-quick.json").read_text("utf-8")
    _confirm(tmp_path, monkeypatch)
    origin = next((tmp_path / "out").rglob("origin.json"))
    changed = json.loads(origin.read_text("utf-8"))
    changed["modules"]["models.classical.hesrpt"] = "00000000"
    origin.write_text(json.dumps(changed), encoding="utf-8")
    assert main(command) == 2
    assert "its records are of other code" in capsys.readouterr().err
    assert main(["--confirm" if word == "--store" else word for word in command]) == 2
    assert "its records are of other code" in capsys.readouterr().err


def _confirm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stored quick rows confirm a whole result whose code changed, if they come out again."""
    folder = tmp_path / "stored"
    for suffix in (".csv", "-summary.csv", ".json"):
        text = (folder / f"hesrpt-quick{suffix}").read_text(encoding="utf-8")
        (folder / f"hesrpt{suffix}").write_text(text, encoding="utf-8")
    monkeypatch.setattr(report, "stored_result", lambda name: read_stored(folder, name))
    monkeypatch.setattr(report, "commit_of_code", lambda: "2" * 40)
    whole = folder / "hesrpt.json"
    document = json.loads(whole.read_text("utf-8"))
    document["modules"]["models.classical.hesrpt"] = "00000000"
    whole.write_text(json.dumps(document), encoding="utf-8")
    assert read_stored(folder, "hesrpt").origin.changed_modules == ("models.classical.hesrpt",)
    command = ["reproduce", "hesrpt", "--confirm", "--out", str(tmp_path / "out")]
    assert main([*command, "--quick"]) == 0
    for name in ("hesrpt", "hesrpt-quick"):
        origin = read_stored(folder, name).origin
        assert (origin.changed_modules, origin.confirmed) == ((), "2" * 40)
        assert origin.commit == "1" * 40


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "", ""),
        ("16,0.1,0,", "16,0.1,3,", "in row 1 of the quick run seed is '0', and was '3'"),
        ("\n16,0.1,0,", "\n16,0.1,0,,,,\n16,0.1,0,", "rows, and its stored one"),
        ("modules", "models.gone", "module models.gone changed and took no part in the quick run"),
    ],
)
def test_a_result_is_confirmed_only_by_equal_rows(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    """And where all code that changed took part in them."""
    found = documents.stored_result("hesrpt-quick")
    rows = [dict(row) for row in found.rows]
    modules = {one: told for one, told in found.origin.modules.items() if one != "models.round.job"}
    first = replace(found.origin, modules=modules, confirmed="")
    whole = {**modules, "models.gone": "00000000"} if old == "modules" else modules
    write_stored(tmp_path, "hesrpt", rows, None, replace(first, modules=whole))
    write_stored(tmp_path, "hesrpt-quick", rows, None, first)
    path = tmp_path / "hesrpt-quick.csv"
    if old != "modules":
        path.write_text(path.read_text("utf-8").replace(old, new, 1 if old else 0), "utf-8")
    sample = read_stored(tmp_path, "hesrpt-quick")
    study = "experiments.studies.classical.hesrpt"
    now = Confirmation(rows, (), code_digests(["models.round.job"]), "2" * 40, study)
    if words:
        with pytest.raises(ValueError, match=words):
            confirm_stored(tmp_path, "hesrpt", sample, now)
    else:
        confirm_stored(tmp_path, "hesrpt", sample, now)
    origin = read_stored(tmp_path, "hesrpt").origin
    assert origin.confirmed == ("" if words else "2" * 40)
    assert ("models.round.job" in origin.modules) == (not words)  # it took part this time


def test_a_whole_run_confirms_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """It would be stored; and both at once are refused."""
    assert main(["reproduce", "gavel-levels", "--confirm", "--store"]) == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_code_that_is_not_committed_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Tests and documents may differ, since they change no result."""

    def git(*words: str) -> None:
        names = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *names, *words], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.setattr(report, "repository", lambda: tmp_path)
    with pytest.raises(ValueError, match="has no history of commits"):
        report.commit_of_code()
    git("init")
    (tmp_path / "models").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "models" / "one.py").write_text("x = 1\n")
    git("add", "--all")
    git("commit", "--message", "One")
    (tmp_path / "tests" / "new.py").write_text("x = 1\n")
    (tmp_path / "README.md").write_text("One.\n")
    assert len(report.commit_of_code()) == 40
    (tmp_path / "models" / "one.py").write_text("x = 2\n")
    with pytest.raises(ValueError, match=r"File 'models/one\.py' differs from the last commit"):
        report.commit_of_code()


@pytest.mark.usefixtures("brief")
def test_a_task_whose_origin_cannot_be_read_is_refused_before_its_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the file, which stays as it is."""
    command = ["reproduce", "hesrpt", "--quick", "--out", str(tmp_path)]
    assert main(command) == 0
    origin = next(tmp_path.rglob("origin.json"))
    origin.write_text("{", encoding="utf-8")
    assert main(command) != 0
    assert f"File '{origin}' tells no origin of records" in capsys.readouterr().err
    assert origin.read_text(encoding="utf-8") == "{"


@pytest.mark.parametrize(
    ("seed", "words"),
    [("0", ""), ("9", "row 1 of the quick run is none of the stored ones")],
)
def test_some_workloads_of_a_quick_run_confirm_it(tmp_path: Path, seed: str, words: str) -> None:
    """If their rows are among the stored ones."""
    found = documents.stored_result("hesrpt-quick")
    rows = [dict(row) | {"workload_numbers": "1 2"} for row in found.rows]
    modules = {**found.origin.modules, "models.round.job": "00000000"}
    origin = replace(found.origin, modules=modules, confirmed="")
    write_stored(tmp_path, "hesrpt", rows, None, origin)
    write_stored(tmp_path, "hesrpt-quick", rows, None, origin)
    sample = read_stored(tmp_path, "hesrpt-quick")
    part = [rows[0] | {"seed": seed, "workload_numbers": "1"}]
    study = "experiments.studies.classical.hesrpt"
    now = Confirmation(part, (), code_digests(["models.round.job"]), "2" * 40, study, part=True)
    if words:
        with pytest.raises(ValueError, match=words):
            confirm_stored(tmp_path, "hesrpt", sample, now)
    else:
        confirm_stored(tmp_path, "hesrpt", sample, now)
    told = read_stored(tmp_path, "hesrpt").origin
    assert told.changed_modules == (("models.round.job",) if words else ())
