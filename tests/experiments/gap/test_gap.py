"""The gap benchmark: resumes, survives whatever a solver does, and sums up honestly."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import goodalloc.models
from goodalloc.data.documents.append_lines import append_lines
from goodalloc.data.files.instance import write_instance
from goodalloc.data.rounds.equipped import equip
from goodalloc.data.rounds.generator import generate
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.cli.rounds import compare as cli_experiments
from goodalloc.experiments.gap import gap
from goodalloc.experiments.gap.gap import (
    GAP_COLUMNS,
    GapPlan,
    append_row,
    pack_history,
    read_rows,
    repair,
    run_gap,
    typed_rows,
    unpack_history,
)
from goodalloc.experiments.gap.gap_bounds import with_least_bounds
from goodalloc.experiments.reporting.report import solver_averages
from goodalloc.experiments.reporting.statistics import (
    performance_profile,
    share_within,
    shifted_geometric_mean,
)
from goodalloc.solvers.interface.result import Incumbent

if TYPE_CHECKING:
    from collections.abc import Callable
from tests.support.few import few

PLUGIN = """
import os, time

def stay(instance):
    with open(__file__ + ".calls", "a") as stream:
        stream.write(instance.name + "\\n")
    return instance.current

def crash(instance):
    raise RuntimeError("it\\nbroke")

def die(instance):
    os._exit(9)

def hang(instance):
    time.sleep(600)

def half(instance):
    matrix = instance.current.matrix()
    matrix[::2] = 0
    return matrix

def nobody(instance):
    return instance.current.matrix() * 0

def slow(instance):
    time.sleep(0.3)
    return instance.current
"""

LOCK = """
import time
from pathlib import Path
from goodalloc.experiments.support.folder_lock import locked

with locked(Path({folder!r})):
    print("locked", flush=True)
    time.sleep(60)
"""

INTERRUPTIBLE = """
import signal, sys
from goodalloc.experiments.cli.main import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
sys.exit(main())
"""

INSTANCES = ("tiny-disturbed", "small-running")


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of solvers outside the library, known to worker processes too."""
    (tmp_path / "gap_solvers.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "gap_solvers"


def test_without_solvers_each_instance_is_decided_by_its_usual_ones(tmp_path: Path) -> None:
    """Those of an instance with modes know modes."""
    equipped = tmp_path / "equipped.json"
    write_instance(equip(generate(1, 4, 2, 8), 1), equipped)
    plan = GapPlan((INSTANCES[0], str(equipped)))
    found = [(task.instance, task.solver) for task in plan.tasks()]
    assert (INSTANCES[0], "local_search") in found
    assert [name for at, name in found if at == str(equipped)] == [
        "highs",
        "greedy",
        "genetic",
        "synergy_tune",
        "synergy_greedy",
    ]


def test_rows_that_exist_are_not_repeated(plugin: str, tmp_path: Path) -> None:
    """A second run adds only what is new: another seed, another limit."""
    table, calls = tmp_path / "gap.csv", tmp_path / "gap_solvers.py.calls"
    plan = GapPlan(INSTANCES, (f"{plugin}:stay",))
    first = run_gap(plan, table)
    assert len(first) == 2
    assert run_gap(plan, table) == first
    assert calls.read_text().count("\n") == 2
    assert len(run_gap(GapPlan(INSTANCES, (f"{plugin}:stay",), (0, 1)), table)) == 4
    assert calls.read_text().count("\n") == 4
    run_gap(GapPlan(INSTANCES, (f"{plugin}:stay",), seconds=5.0), table)
    assert len(read_rows(table)) == 6


def test_a_failure_or_a_timeout_is_a_row(
    plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception, a dead process and a hang are recorded, and the next solver still runs."""
    monkeypatch.setattr(gap, "GRACE_SECONDS", 2.0)
    solvers = tuple(f"{plugin}:{name}" for name in ("crash", "die", "hang", "stay"))
    rows = run_gap(GapPlan(INSTANCES[:1], solvers, seconds=0.5), tmp_path / "gap.csv")
    assert [row["status"] for row in rows] == ["failed", "failed", "timeout", "feasible"]
    assert rows[0]["message"] == "failed: RuntimeError: it broke"
    assert rows[1]["message"] == "failed: process died with exit code 9"
    assert float(rows[2]["solve_seconds"]) >= 3
    averages = {row["solver"]: row for row in solver_averages(typed_rows(rows))}
    assert averages[f"{plugin}:hang"]["failed"] == 1
    assert averages[f"{plugin}:stay"]["failed"] == 0


def test_a_table_has_one_writer(
    plugin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second run on the folder is refused in one sentence until the first has ended."""
    (tmp_path / "first.py").write_text(LOCK.format(folder=str(tmp_path)))
    first = subprocess.Popen(
        [sys.executable, str(tmp_path / "first.py")],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(goodalloc.models.__path__[0]).parent.parent)},
    )
    assert first.stdout is not None
    assert first.stdout.readline() == "locked\n"
    arguments = ["gap", "--instances", "tiny-cold", "--solvers", f"{plugin}:stay"]
    arguments += ["--out", str(tmp_path), "--json"]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert "is being written by another run; wait for it to end or choose another" in error
    assert error.count("\n") == 1
    first.kill()
    first.communicate()
    assert main(arguments) == 0
    assert len(read_rows(tmp_path / "gap.csv")) == 1


def test_the_report_covers_earlier_plans(
    plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows under the same limits stay in the averages; those under others do not come in."""
    monkeypatch.setattr(cli_experiments, "draw_gap_benchmark", lambda *_: None)
    arguments = ["gap", "--solvers", f"{plugin}:stay", "--out", str(tmp_path), "--json"]
    for more in (["--instances", ",".join(INSTANCES)], ["--instances", INSTANCES[0]]):
        assert main([*arguments, *more]) == 0
        assert json.loads(capsys.readouterr().out)[0]["runs"] == 2
    assert main([*arguments, "--instances", INSTANCES[0], "--seconds", "5"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["runs"] == 1
    assert len(read_rows(tmp_path / "gap.csv")) == 3


def test_an_interrupt_while_drawing_says_what_there_is(
    plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows and their averages were written before."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_experiments, "draw_gap_benchmark", interrupt)
    arguments = ["gap", "--instances", "tiny-cold", "--solvers", f"{plugin}:stay"]
    assert main([*arguments, "--out", str(tmp_path)]) == 130
    assert "interrupted while drawing" in capsys.readouterr().err
    assert len(read_rows(tmp_path / "gap.csv")) == 1
    assert (tmp_path / "averages.csv").is_file()


def test_a_warm_worker_has_imported_what_the_solver_needs(
    run_python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Also what CVXPY leaves until it solves something."""
    program = """
import sys
from goodalloc.experiments.gap.worker import _warm_up
assert "clarabel" not in sys.modules
_warm_up("convex")
assert "clarabel" in sys.modules
"""
    done = run_python("-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_killed_benchmark_goes_on_where_it_was(plugin: str, tmp_path: Path) -> None:
    """After kill -9 the rows are whole, and a second start makes the missing ones."""
    table = tmp_path / "out" / "gap.csv"
    importable = str(Path(goodalloc.models.__path__[0]).parent.parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([importable, str(tmp_path)])}
    arguments = [
        "gap",
        "--instances",
        "tiny-cold",
        "--solvers",
        f"{plugin}:slow",
        "--seeds",
        "0-7",
        "--out",
        str(table.parent),
        "--json",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "goodalloc.experiments.cli.main", *arguments],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while len(read_rows(table)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = table.read_bytes()
    assert 2 <= len(read_rows(table)) < 8
    table.write_bytes(before + b"tiny-cold,half a row")
    assert main(arguments) == 0
    assert table.read_bytes().startswith(before)
    rows = read_rows(table)
    assert [row["seed"] for row in rows] == [str(seed) for seed in range(8)]


@pytest.mark.parametrize("option", few([["--json"], []], 1))
def test_control_c_says_how_to_go_on(plugin: str, tmp_path: Path, option: list[str]) -> None:
    """Exit code 130 and one sentence, with nothing for a program to take for the whole."""
    table = tmp_path / "out" / "gap.csv"
    importable = str(Path(goodalloc.models.__path__[0]).parent.parent)
    arguments = [
        "gap",
        "--instances",
        "tiny-cold",
        "--solvers",
        f"{plugin}:slow",
        "--seeds",
        "0-9",
        "--out",
        str(table.parent),
        *option,
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *arguments],
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([importable, str(tmp_path)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 60
    while len(read_rows(table)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    printed, error = process.communicate(timeout=60)
    assert (process.returncode, printed) == (130, "")
    done = len(read_rows(table))
    assert 2 <= done < 10
    sentence = error.splitlines()[-1]
    assert sentence.startswith(f"goodalloc: error: interrupted; {done} runs are in {table}, ")
    assert (table.parent / "averages.csv").is_file()
    assert main(arguments) == 0
    assert len(read_rows(table)) == 10


def test_half_a_row_is_cut_off_and_foreign_files_are_left_alone(tmp_path: Path) -> None:
    """Only a table of the benchmark's own is repaired."""
    table = tmp_path / "gap.csv"
    append_row(table, {"instance": "a", "message": 'says "no", twice'})
    whole = table.read_bytes()
    table.write_bytes(whole + b"b,c")
    repair(table)
    assert table.read_bytes() == whole
    table.write_bytes(whole[:10])
    repair(table)
    assert table.read_bytes() == b""
    table.write_text("my,own\ntable")
    with pytest.raises(ValueError, match="is not a table"):
        repair(table)
    assert table.read_text() == "my,own\ntable"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["b", "c"], r"line 3 has 2 cells; expected \d+"),
        (["x"] * (len(GAP_COLUMNS) + 1), r"line 3 has \d+ cells"),
        ({"fitness": "high"}, "line 3: fitness is 'high'; expected a number, or the line removed"),
        ({"bound": "nan"}, "bound is 'nan'"),
        ({"solve_seconds": "0.5tiny-cold"}, "solve_seconds is '0.5tiny-cold'"),
        ({"gap_limit": ""}, "gap_limit is ''"),
        ({"seconds_limit": "soon"}, "seconds_limit is 'soon'"),
    ],
)
def test_a_row_that_is_none_is_refused_with_its_line(
    tmp_path: Path, cells: list[str] | dict[str, str], words: str
) -> None:
    """Rather than taken for one; what an unknown number leaves empty is in order."""
    table = tmp_path / "gap.csv"
    good = {"instance": "a", "seconds_limit": 1.0, "gap_limit": 1e-9, "bound": "inf"}
    append_row(table, good)
    assert [row["bound"] for row in read_rows(table)] == ["inf"]
    if isinstance(cells, dict):
        append_row(table, good | cells)
    else:
        append_lines(table, ",".join(cells) + "\n")
    with pytest.raises(ValueError, match=words) as caught:
        read_rows(table)
    assert f"File '{table}': " in str(caught.value)


def test_a_full_disk_leaves_no_half_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a write took of it is undone, and the next row is whole."""
    table, row = tmp_path / "gap.csv", {"instance": "a", "seconds_limit": 1.0, "gap_limit": 1e-9}
    append_row(table, row)
    before = table.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 7, limits[1]))
    try:
        with pytest.raises(ValueError, match=r"gap\.csv' cannot be written \(file too large\)"):
            append_row(table, row)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert table.read_bytes() == before
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: write(handle, content[:5]))
    append_row(table, row)
    assert len(read_rows(table)) == 2


def test_a_line_that_was_never_finished_is_cut_off_before_the_next(tmp_path: Path) -> None:
    """In any file that grows by lines."""
    path = tmp_path / "decisions.jsonl"
    append_lines(path, "one\n", "heading\n")
    path.write_bytes(path.read_bytes() + b"half")
    append_lines(path, "two\nthree\n", "heading\n")
    assert path.read_text() == "heading\none\ntwo\nthree\n"
    path.write_bytes(b"half")
    append_lines(path, "one\n")
    assert path.read_text() == "one\n"
    with pytest.raises(ValueError, match="cannot be written"):
        append_lines(tmp_path, "one\n")
    with pytest.raises(ValueError, match="cannot be written"):
        append_lines(tmp_path / "none" / "file", "one\n")


def test_the_command_sums_up_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One command: table, averages and pictures; gaps are those to the best known bound."""
    out = tmp_path / "out"
    arguments = ["gap", "--instances", ",".join(INSTANCES), "--solvers", "highs,greedy"]
    assert main([*arguments, "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert all(word in printed.out for word in ("geometric", "mean", "gap"))
    assert "geometric mean gap" in (out / "averages.csv").read_text()
    assert "Traceback" not in printed.err
    names = {path.name for path in out.iterdir()}
    pictures = {f"gap_over_time-{name}.png" for name in INSTANCES}
    pictures |= {"gap_profile.png", "performance_profile.png"}
    assert names == pictures | {"gap.csv", "averages.csv"}
    header = (out / "gap.csv").read_text().partition("\n")[0]
    assert tuple(header.split(",")) == GAP_COLUMNS
    rows = typed_rows(read_rows(out / "gap.csv"))
    assert all(row["version"] and row["gap"] >= 0 for row in rows)  # type: ignore[operator]


def test_a_history_survives_its_cell() -> None:
    """The first and last incumbents are kept whatever its length; values are exact."""
    history = [Incumbent(0.1 * i, i, 1 / (1000 - i)) for i in range(999)]
    points = unpack_history(pack_history(history))
    assert len(points) <= gap.HISTORY_POINTS + 1
    assert points[0][1] == history[0].fitness
    assert points[-1][1] == history[-1].fitness
    assert unpack_history(pack_history([])) == []


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(1e-3, 1e3))
def test_the_shifted_geometric_mean_lies_between_extremes(
    values: list[float], shift: float
) -> None:
    """It is at least the least, at most the arithmetic mean, and equal values give themselves."""
    mean = shifted_geometric_mean(values, shift)
    tolerance = 1e-9 * (max(values) + shift)
    assert min(values) - tolerance <= mean <= sum(values) / len(values) + tolerance
    same = shifted_geometric_mean([values[0]] * 3, shift)
    assert same == pytest.approx(values[0], rel=1e-9, abs=1e-9 * shift)


def test_a_performance_profile_counts_wins_and_failures() -> None:
    """Solver 0 wins two of three problems; solver 1 fails on the last."""
    first, second = performance_profile([[1.0, 2.0], [4.0, 1.0], [1.0, math.nan]])
    assert first.value.tolist() == [1.0, 4.0]
    assert first.share.tolist() == [2 / 3, 1.0]
    assert second.value.tolist() == [1.0, 2.0]
    assert second.share.tolist() == [1 / 3, 2 / 3]


def test_failed_runs_count_against_a_profile() -> None:
    """The share never reaches 1 where a run failed."""
    profile = share_within([0.1, math.nan, 0.1, math.inf])
    assert profile.value.tolist() == [0.1]
    assert profile.share.tolist() == [0.5]


def test_a_gap_stands_beside_who_starves(plugin: str, tmp_path: Path) -> None:
    """Each row says how many jobs more starve than in the best, and what the others are worth."""
    solvers = ("highs", f"{plugin}:half", f"{plugin}:nobody")
    rows = run_gap(GapPlan(("small-running",), solvers), tmp_path / "gap.csv")
    best, half, nobody = rows
    assert (best["more_starved"], best["served_over_best"]) == ("0", "1.0")
    assert int(half["starved"]) - int(best["starved"]) == int(half["more_starved"]) >= 6
    ratio = float(half["served_fitness"]) / float(best["served_fitness"])
    assert float(half["served_over_best"]) == pytest.approx(ratio)
    assert (nobody["starved"], nobody["served_over_best"]) == ("12", "")
    averages = {row["solver"]: row for row in solver_averages(typed_rows(rows))}
    assert averages["highs"]["mean more starved"] == 0
    assert averages[solvers[1]]["mean more starved"] == int(half["more_starved"])
    assert averages[solvers[1]]["served over best"] == pytest.approx(ratio)
    assert math.isnan(averages[solvers[2]]["served over best"])  # type: ignore[arg-type]


def test_gaps_are_to_the_least_bound_that_any_run_proved() -> None:
    """What one solver proved counts for all runs of the instance, and for no other instance."""

    def row(instance: str, solver: str, fitness: str, bound: str, status: str) -> dict[str, str]:
        return {
            "instance": instance,
            "solver": solver,
            "fitness": fitness,
            "bound": bound,
            "gap": "",
            "gap_limit": "1e-06",
            "status": status,
            "evidence": "solver",
            "bound_source": "program",
        }

    found = with_least_bounds(
        [
            row("a", "highs", "2.0", "2.0", "optimal"),
            row("a", "greedy", "1.5", "3.0", "feasible"),
            row("a", "lucky", "2.0", "3.0", "feasible"),
            row("a", "broken", "", "", "failed"),
            row("b", "greedy", "1.5", "3.0", "feasible"),
        ]
    )
    assert [entry["bound"] for entry in found] == ["2.0", "2.0", "2.0", "2.0", "3.0"]
    assert [entry["bound_source"] for entry in found[-2:]] == [
        "program of highs",
        "program of greedy",
    ]
    assert [entry["gap"] for entry in found] == ["0.0", "0.25", "0.0", "", "0.5"]
    assert [entry["status"] for entry in found] == [
        "optimal",
        "feasible",
        "optimal",
        "failed",
        "feasible",
    ]
