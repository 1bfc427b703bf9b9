"""Answers of a user's own solver: the document's example, refusals that are told, and files."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from goodalloc.data.library import core_rounds, find_round
from goodalloc.data.library.stored_files import file_of
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.library import read_runs
from goodalloc.experiments.library.actions import MOST_TOLD

ROOT = Path(__file__).resolve().parents[3]

#: The document, and the files of the solvers that it shows: one of rounds without trees, one of
#: rounds on trees.
DOCUMENT, SOLVER, ON_TREES = ROOT / "experiments" / "LIBRARY.md", "by_mode.py", "by_level.py"

#: Small rounds, more than are told one by one.
NAMES = tuple(one.name for one in core_rounds() if one.jobs <= 40 and "modes" not in one.features)[
    : MOST_TOLD + 2
]

#: Solvers of these tests.
HERE = "tests.experiments.library.test_submissions"


def written(solver: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Write a solver of the document to a folder, go there, and return the command beside it."""
    text = DOCUMENT.read_text(encoding="utf-8")
    (command,) = re.findall(rf"^goodalloc (library run .*{solver}:.*)$", text, flags=re.MULTILINE)
    name = command.partition(f"{solver}:")[2].split()[0]
    programs = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    (program,) = [one for one in programs if f"def {name}(" in one]
    (folder / solver).write_text(program, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)  # of the processes, which begin where this one did
    monkeypatch.delitem(sys.modules, Path(solver).stem, raising=False)
    return str(command).split()


def test_the_solver_on_trees_of_the_document_is_ranked_beside_those_that_ship(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On small rounds: no answer is refused, and the package's own solver is before it."""
    command = written(ON_TREES, tmp_path, monkeypatch)
    assert main([*command, "--most-jobs", "20"]) == 0
    capsys.readouterr()
    assert main(["library", "verify", command[-1]]) == 0
    assert "0 whose answer the checker refused in the run, 0 refused now" in capsys.readouterr().out
    assert main(["library", "rank", command[-1], "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    names = [row["solver"] for row in told["ranks"]]
    (mine,) = [name for name in names if name.endswith(":equal_shares")]
    assert names.index("goodalloc") < names.index(mine)
    assert {"merged", "domains", "best-fit"} < set(names)
    assert main(["library", "rank", command[-1], "--class", "easy", "--json"]) == 0
    easy = json.loads(capsys.readouterr().out)
    assert {row["solver"] for row in easy["ranks"]} == set(names)
    assert set(easy["rounds"]) < set(told["rounds"])
    assert told["classes"]["easy"] == easy["ranks"]
    assert main(["library", "verify", command[-1], "--class", "easy"]) == 2
    assert "all of its runs are verified; expected no selection" in capsys.readouterr().err


def test_what_only_rounds_on_trees_have_is_found_by_a_hint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Few solvers take them, so that they are selected on purpose."""
    assert main(["library", "list", "--feature", "uplinks"]) == 2
    said = capsys.readouterr().err
    number = re.search(r"select no round together \((\d+) with --feature tree\)", said)
    assert number is not None
    assert main(["library", "list", "--feature", "uplinks,tree", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == int(number[1])


def test_the_solver_of_the_document_answers_every_round_of_the_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With modes and without, as the commands beside it say; no answer is refused."""
    command = written(SOLVER, tmp_path, monkeypatch)
    assert main(command) == 0
    folder = command[-1]
    core = core_rounds()
    runs = read_runs(tmp_path / folder)
    assert {run.round for run in runs} == {one.name for one in core}
    assert sum("modes" in find_round(run.round).features for run in runs) > len(core) / 3
    assert f"{len(core)} of {len(core)} rounds answered" in capsys.readouterr().out
    assert main(["library", "verify", folder]) == 0
    assert "0 whose answer the checker refused in the run, 0 refused now" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("solver", "counted", "reason"),
    [
        (
            "everything",
            "0 without an answer, 7 whose answer the checker refused in the run, 0 refused now",
            "infeasible allocation refused: ",
        ),
        (
            "fails",
            "7 without an answer, 0 whose answer the checker refused in the run, 0 refused now",
            "failed: RuntimeError: no idea about ",
        ),
    ],
)
def test_answers_that_the_checker_refused_are_told_apart_from_none(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    solver: str,
    counted: str,
    reason: str,
) -> None:
    """By `verify`; both it and `run` tell the first rounds with their reasons, and the rest."""
    folder = str(tmp_path / "mine")
    words = ["--solver", f"{HERE}:{solver}", "--rounds", ",".join(NAMES), "--seconds", "5"]
    assert main(["library", "run", *words, "--out", folder]) == 1
    ran = capsys.readouterr().out.splitlines()
    assert main(["library", "verify", folder]) == (solver == "everything")
    verified = capsys.readouterr().out.splitlines()
    assert counted in verified[0]
    for lines in (ran, verified):
        told = [line for line in lines if reason in line]
        assert [line.partition(": ")[0] for line in told] == list(NAMES[:MOST_TOLD])
        assert told[0].count(reason.partition(":")[0]) == 1
        assert lines[-1] == "and 2 more without an answer"


def test_what_the_library_has_is_written_where_something_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Round and answer, without the certificate, which is missing; the last sentence says so."""
    name = "pai-20x26-first-come-5"
    assert not file_of("certificates", name).is_file()
    files = [str(tmp_path / one) for one in ("round.json", "best.json", "proof.json")]
    options = ["--out", files[0], "--answer", files[1], "--certificate", files[2]]
    assert main(["library", "get", name, *options]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[-1] == (
        f"Round '{name}': '{files[2]}' is not written, as the library ships no certificate of it."
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.json", "round.json"]
    assert main(["check", *files[:2]]) == 0


def test_an_empty_note_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In one sentence, before anything runs."""
    words = ["library", "run", "--solver", "greedy", "--out", str(tmp_path / "mine")]
    assert main([*words, "--note", " "]) == 2
    assert "argument --note: got ' '; expected 1 to 200" in capsys.readouterr().err
    assert not (tmp_path / "mine").exists()
