"""Benchmarks whose rows are kept: what is stored, and what is refused beforehand."""

from __future__ import annotations

from pathlib import Path

import pytest

from goodalloc.experiments.benchmarks import fitting, start_up
from goodalloc.experiments.benchmarks.stored import FILES, FOLDERS, main
from goodalloc.experiments.cli import report
from goodalloc.experiments.studies import documents
from goodalloc.experiments.studies.framework.stored_result import read_stored


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the results, for code that is committed."""
    monkeypatch.setattr(report, "results_folder", lambda _: tmp_path)
    for module in (report, "goodalloc.experiments.benchmarks.stored"):
        where = module if isinstance(module, str) else module.__name__
        monkeypatch.setattr(f"{where}.commit_of_code", lambda: "0" * 40)
    return tmp_path


def test_the_rows_of_a_benchmark_are_stored_with_their_origin(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Command, commit, and the processor seconds of its own processes."""
    monkeypatch.setattr(start_up, "COMMANDS", {"--help": 0.3})
    assert main(["start_up", "--repeats", "1"]) == 0
    assert "stored: bench-start_up" in capsys.readouterr().out
    found = read_stored(results, "bench-start_up")
    (row,) = found.rows
    assert row["command"] == "--help"
    assert found.origin.command == "make bench BENCH=start_up OPTIONS='--repeats 1'"
    assert found.origin.commit == "0" * 40
    tenth = 0.05  # which they are rounded by
    assert found.origin.processor_seconds >= float(row["seconds"]) - tenth


def test_rows_of_another_machine_have_a_name_of_their_own(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the usual one stay; the command names it as well."""
    monkeypatch.setattr(start_up, "COMMANDS", {"--help": 0.3})
    assert main(["start_up", "--called", "start_up-gpu", "--repeats", "1"]) == 0
    assert "stored: bench-start_up-gpu" in capsys.readouterr().out
    found = read_stored(results, "bench-start_up-gpu").origin.command
    assert found.endswith("benchmarks.stored start_up --called start_up-gpu --repeats 1")
    assert not (results / "bench-start_up.csv").exists()


@pytest.mark.parametrize("given", [["--reference", "{}"], ["--reference={}"]])
def test_no_folder_of_this_machine_is_stored(
    given: list[str], results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of the option stands for it."""

    def measured(words: list[str]) -> int:
        Path(words[-1]).write_text("jobs\n1\n")
        return 0

    monkeypatch.setattr(fitting, "main", measured)
    assert main(["fitting", *(word.format(tmp_path) for word in given), "--repeats", "2"]) == 0
    command = read_stored(results, "bench-fitting").origin.command
    words = " ".join(given).format("REFERENCE")
    assert command == f"make bench BENCH=fitting OPTIONS='{words} --repeats 2'"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["rounds"], r"Benchmark 'rounds' does not exist or writes no table (did you mean round?)"),
        (["start_up", "--out", "here.csv"], "Option --out: rows are stored in the repository"),
    ],
)
def test_what_cannot_be_stored_is_refused(
    words: list[str], complaint: str, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence, with exit code 2, and nothing is written."""
    assert main(words) == 2
    assert complaint in capsys.readouterr().err
    assert not list(results.iterdir())


def test_every_benchmark_that_can_be_stored_has_a_module() -> None:
    """Beside this one."""
    folder = documents.repository() / "experiments" / "benchmarks"
    assert all((folder / f"{name}.py").is_file() for name in (*FILES, *FOLDERS))
