"""No command writes its results over what it reads, or two results to one file."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.cli.main import _joined, main
from tests.data.traces import made_traces as made
from tests.experiments.cli.test_hindsight import JOBS

if TYPE_CHECKING:
    from pathlib import Path

RATES = "model,gpu_type,gpus,nodes,steps_per_s\nbert,t4,1,1,2.0\n"
RATED = "job,submit_s,model,steps,gpus\na,0,bert,100,1\n"


def check_kept(
    capsys: pytest.CaptureFixture[str], path: Path, *words: str, told: str = "would be written over"
) -> None:
    """Check that a command is refused and a file keeps its bytes."""
    before = path.read_bytes()
    assert main(list(words)) == 2
    assert told in capsys.readouterr().err
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["jobs.csv", "prices.csv", "problem.json"])
def test_hindsight_keeps_the_workload(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(JOBS)
    check_kept(capsys, path, "hindsight", str(path), "--steps", "1", "--out", str(tmp_path))


def test_lists_of_jobs_from_which_a_workload_is_drawn_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also tables of pairs that share GPUs."""
    for name, command in (("jobs.csv", "hindsight"), ("summary.csv", "simulate")):
        path = tmp_path / name
        path.write_text(JOBS)
        check_kept(capsys, path, command, "--philly", str(path), "--out", str(tmp_path))
    words = ["simulate", "--policies", "gandiva", "--pairs", str(path), "--out", str(tmp_path)]
    check_kept(capsys, path, *words)


def test_solve_keeps_the_allocation_that_it_starts_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "best.json"
    assert main(["solve", "tiny-cold", "--solver", "greedy", "--out", str(path)]) == 0
    words = ["solve", "tiny-cold", "--start", str(path), "--out", str(path)]
    check_kept(capsys, path, *words, told="is named twice")


def test_rank_keeps_the_files_of_the_submissions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of which a table beside the page could have the name."""
    runs = tmp_path / "runs.csv"
    runs.write_text("round,sha256\n")
    page = str(tmp_path / "runs.html")
    check_kept(capsys, runs, "library", "rank", str(tmp_path), "--out", page)


def test_simulate_keeps_workloads_and_rates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs, rates, out = tmp_path / "jobs.csv", tmp_path / "rates.csv", ["--out", str(tmp_path)]
    jobs.write_text(RATED)
    rates.write_text(RATES)
    check_kept(capsys, jobs, "simulate", str(jobs), "--rates", str(rates), *GROUP, *out)
    summary = tmp_path / "summary.csv"
    summary.write_text(JOBS)
    check_kept(capsys, summary, "simulate", str(summary), "--policies", "fifo", *out)


#: A node whose type has a rate.
GROUP = ("--group", "a:1:1:t4")


def test_trace_keeps_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(made.HELIOS)
    check_kept(capsys, path, "trace", "helios", str(path), "--out", str(tmp_path))


def test_get_and_rank_write_each_result_to_a_file_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the file of the round is not named."""
    monkeypatch.chdir(tmp_path)
    assert main(["library", "get", "tiny-cold", "--answer", "tiny-cold.json"]) == 2
    assert "is named twice" in capsys.readouterr().err
    for name in ("rank.csv", "rank.png"):
        assert main(["library", "rank", "--out", name]) == 2
        assert "expected the name of a page, as rank.html" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_foresight_knows_no_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", "--tree", "standard", "--policies", "foresight-work", "--load", "0.1"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 2
    assert "Policy 'foresight-work' knows no tree" in capsys.readouterr().err


def test_words_of_another_program_are_passed_on_as_they_are() -> None:
    """Those behind two dashes; of our own, a value joins an option once."""
    behind = ["--", "echo", "--flag", "-1", "-0.5x"]
    assert _joined(["launch", "--nodes", "1", *behind]) == ["launch", "--nodes", "1", *behind]
    assert _joined(["--power", "-1", "-2"]) == ["--power=-1", "-2"]


def test_a_table_without_its_columns_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And an empty one is no JSON file."""
    pytest.importorskip("pyarrow", reason="needs goodalloc[parquet]")
    files = [str(tmp_path / name) for name in ("c.parquet", "a.csv", "c.json")]
    assert main(["generate", "--jobs", "4", "--nodes", "2", "--out", files[0]]) == 0
    assert main(["solve", files[0], "--out", files[1], "--certificate", files[2]]) == 0
    shutil.copy(files[1], tmp_path / "kept.csv")
    for text, told in (("", "expected a CSV file"), ("job,gpus\n", "lacks the column 'node'")):
        (tmp_path / "a.csv").write_text(text)
        capsys.readouterr()
        assert main(["verify", *files]) == 2
        assert told in capsys.readouterr().err
    for option in ("--gap", "--seed", "--cross-check-seconds"):
        assert main(["solve", files[0], option, "1"]) == 2
        assert f"argument {option}: expected none" in capsys.readouterr().err
