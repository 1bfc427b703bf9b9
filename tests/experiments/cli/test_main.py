"""The command line: what each command prints and writes, its exit codes, and how fast it starts."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from matplotlib.figure import Figure

import goodalloc.models
from goodalloc.data.files.instance import instance_text, read_instance
from goodalloc.data.rounds.benchmark_set import benchmark_names, best_known_values, load_benchmark
from goodalloc.data.rounds.column_file import write_columns
from goodalloc.data.rounds.column_rounds import generate_columns
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.cli.rounds import columns as columns_command
from goodalloc.experiments.cli.rounds.compare import draw_comparison
from goodalloc.experiments.reporting.plots import save
from goodalloc.formulations.basics.power_mean_cost import fitness_from_cost
from goodalloc.models.columns.round_columns import RoundColumns
from goodalloc.models.round.starved_jobs import Starvation
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.interface.result import Status
from goodalloc.solvers.interface.result_file import read_result

if TYPE_CHECKING:
    from collections.abc import Callable

PLUGIN = """
import signal
import time
from goodalloc.models.round.allocation import Allocation
from goodalloc.solvers.interface.result import Answer, Limit

def stay(instance):
    return instance.current

def crash(instance):
    raise RuntimeError("it broke")

def leave(instance):
    raise SystemExit(0)

def refuse(instance):
    return [int("many")]

def overfull(instance):
    return [[9] * instance.cluster.num_nodes] * instance.num_jobs

def interrupted(instance):
    raise KeyboardInterrupt

def stopped(instance):
    return Answer(instance.current, limit=Limit.INTERRUPTED)

def stopped_early(instance):
    return Answer(None, limit=Limit.INTERRUPTED)

def sleepy(instance):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
    print("asleep", flush=True)
    time.sleep(60)
"""

SMALL = "small-running"


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of solvers outside the library."""
    (tmp_path / "outside_solvers.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "outside_solvers"


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a command prints; it must end with the code."""
    assert main([str(argument) for argument in arguments]) == code
    return capsys.readouterr().out


def test_solve_prints_what_was_proved(capsys: pytest.CaptureFixture[str]) -> None:
    """Status, fitness, bound and gap, and for few jobs who gets which GPUs."""
    text = run(capsys, "solve", SMALL)
    assert "status       optimal" in text
    assert "gap          0 %" in text
    assert "served       12 of 12 jobs" in text
    for job in load_benchmark(SMALL).jobs:
        assert f"\n{job.name} " in text


def test_solve_writes_a_result_that_check_accepts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file holds the same fitness that the checker recomputes from it."""
    out = tmp_path / "result.json"
    printed = json.loads(run(capsys, "solve", SMALL, "--out", str(out), "--json"))
    result = read_result(out, load_benchmark(SMALL))
    assert result.status is Status.OPTIMAL
    assert result.fitness == printed["fitness"]
    checked = json.loads(run(capsys, "check", SMALL, str(out), "--json"))
    assert checked == {"feasible": True, "violations": [], "fitness": result.fitness}
    text = run(capsys, "solve", SMALL, "--solver", "greedy", "--start", str(out))
    assert "status" in text


def test_stages_of_a_solve_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its outcome and seconds; the last says whether ties were decided."""
    text = run(capsys, "solve", "even-settled", "--stages")
    assert re.search(r"stages +one price: no proof \(\d+\.\d{3} s\)\n", text)
    assert re.search(r"\n +ties: applied \(\d+\.\d{3} s\)\n", text)
    stages = json.loads(run(capsys, "solve", "even-settled", "--stages", "--json"))["stages"]
    assert [stage["name"] for stage in stages][::2] == ["one price", "pattern program"]
    assert stages[2]["bound"] == pytest.approx(0.199861430818, rel=1e-9)
    assert "stages" not in run(capsys, "solve", "even-settled")


def test_stages_are_refused_for_solvers_that_record_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["solve", SMALL, "--stages", "--solver", "greedy"]) == 2
    assert "--stages: solver 'greedy' records no stages" in capsys.readouterr().err


def test_a_solver_from_outside_is_called_by_its_path(
    plugin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A function package.module:function is a solver; its bound comes from the knapsack."""
    text = run(capsys, "solve", SMALL, "--solver", f"{plugin}:stay")
    assert "status       feasible" in text
    assert "(knapsack, without certificate)" in text


def test_a_file_in_place_of_a_module_names_the_same_solver(
    plugin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As people type it; elsewhere than in the current folder it is no module."""
    compared = run(capsys, "compare", SMALL, "--solvers", f"greedy,{plugin}.py:stay")
    assert f"{plugin}:stay" in compared
    assert main(["solve", SMALL, "--solver", f"elsewhere/{plugin}.py:stay"]) == 2
    assert "cannot be loaded" in capsys.readouterr().err


def test_an_infeasible_answer_is_never_reported(
    plugin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The result holds no allocation, says which rule was broken, and the exit code is 1."""
    text = run(capsys, "solve", SMALL, "--solver", f"{plugin}:overfull", "--json", code=1)
    assert json.loads(text)["placements"] is None
    assert "infeasible allocation refused" in json.loads(text)["message"]


def test_a_certificate_that_is_not_written_is_told(
    plugin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where there is no allocation to certify."""
    file = tmp_path / "certificate.json"
    solver = ("--solver", f"{plugin}:overfull", "--certificate", str(file))
    told = run(capsys, "solve", SMALL, *solver, code=1)
    assert f"certificate  none: {file} is not written" in told
    assert not file.exists()
    told = run(capsys, "solve", SMALL, "--certificate", str(file))
    assert f"certificate  {file}\n" in told
    assert file.exists()


def test_a_crash_of_a_solver_is_one_line(plugin: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback; exit code 1, for the input was not bad."""
    assert main(["solve", SMALL, "--solver", f"{plugin}:crash"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("goodalloc: error: RuntimeError: it broke, in ")
    assert ".py, line " in error
    assert error.count("\n") == 1


def test_a_solver_that_ends_the_program_is_a_failure(
    plugin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever its exit code says."""
    assert main(["solve", SMALL, "--solver", f"{plugin}:leave"]) == 1
    told = capsys.readouterr().err
    assert (
        told
        == "goodalloc: error: the given code ended the program (exit code 0); expected a result.\n"
    )


def test_a_bad_value_in_a_solver_names_the_solver_and_the_line(
    plugin: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the environment variable adds the traceback."""
    solver = f"{plugin}:refuse"
    assert main(["solve", SMALL, "--solver", solver]) == 2
    sentence = capsys.readouterr().err
    assert sentence.startswith("goodalloc: error: invalid literal for int() with base 10: 'many'")
    assert f"(raised by solver '{solver}': ValueError: invalid literal" in sentence
    assert sentence.count("\n") == 1
    monkeypatch.setenv("GOODALLOC_TRACEBACK", "1")
    assert main(["solve", SMALL, "--solver", solver]) == 2
    traced = capsys.readouterr().err
    assert traced.startswith("Traceback (most recent call last)")
    assert traced.splitlines()[-1] == sentence.splitlines()[-1]


@pytest.mark.parametrize(
    ("solver", "code"), [("interrupted", 130), ("stopped_early", 130), ("stopped", 0)]
)
def test_an_interrupt_reports_the_best_so_far(
    solver: str, code: int, plugin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """130 only if there is nothing to report."""
    text = run(capsys, "solve", SMALL, "--solver", f"{plugin}:{solver}", code=code)
    assert ("stopped by an interrupt" in text) == (solver != "interrupted")


def test_an_interrupted_comparison_reports_what_is_done(
    plugin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The solvers that came before the interrupt are in the table; exit code 130 says the rest."""
    command = "compare", SMALL, "--solvers", f"{plugin}:stay,{plugin}:interrupted,greedy"
    rows = json.loads(run(capsys, *command, "--json", code=130))
    assert [row["solver"] for row in rows] == [f"{plugin}:stay"]
    assert "interrupted before all solvers had run" in run(capsys, *command, code=130)


def test_control_c_ends_without_a_traceback(plugin: str, tmp_path: Path) -> None:
    """A real signal to a real process: exit code 130 and one line."""
    importable = str(Path(goodalloc.models.__path__[0]).parent.parent)
    command = [sys.executable, "-m", "goodalloc.experiments.cli.main", "solve", SMALL]
    process = subprocess.Popen(
        [*command, "--solver", f"{plugin}:sleepy"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([importable, str(tmp_path)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "asleep\n"
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert error == "goodalloc: error: interrupted before anything was found.\n"


def test_check_says_which_rules_are_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 and a line for each violation."""
    first, second = (job.name for job in load_benchmark(SMALL).jobs[:2])
    document = {
        "format": "goodalloc-allocation",
        "version": 1,
        "instance": SMALL,
        "placements": {first: {"node-0": 4}, second: {"node-0": 4}},
    }
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    text = run(capsys, "check", SMALL, str(path), code=1)
    assert "Node 'node-0' holds 8 replicas; it has 4 GPUs." in text
    found = json.loads(run(capsys, "check", SMALL, str(path), "--json", code=1))
    assert found["feasible"] is False
    assert "capacity" in {item["rule"] for item in found["violations"]}


def test_generate_writes_or_prints_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --out a file, without it the text of that file; --json is an instance too."""
    options = ["generate", "--jobs", "9", "--group", "a:2:4", "--group", "b:1:8", "--seed", "3"]
    out = tmp_path / "nine.json"
    run(capsys, *options, "--state", "disturbed", "--rules", "osdi21", "--out", str(out))
    instance = read_instance(out)
    assert instance.num_jobs == 9
    assert instance.cluster.node_names == ("a-0", "a-1", "b-0")
    text = run(capsys, *options, "--state", "disturbed", "--rules", "osdi21")
    assert text == instance_text(instance) == out.read_text(encoding="utf-8")
    data = json.loads(run(capsys, *options, "--state", "disturbed", "--json"))
    assert data["format"] == "goodalloc-instance"


def test_generate_draws_rounds_on_types_of_gpu_and_sia_decides_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Groups with a type: every job has a mode for each, and the solver is known by its name."""
    out = tmp_path / "typed.json"
    groups = ["--group", "aws:2:4:t4", "--group", "dgx:1:8:a100"]
    options = ["--jobs", "9", "--seed", "3", "--state", "running", "--rules", "sia"]
    run(capsys, "generate", *options, *groups, "--out", str(out))
    instance = read_instance(out)
    assert {mode.gpu_type for mode in instance.modes} == {"t4", "a100"}
    found = json.loads(run(capsys, "solve", str(out), "--solver", "sia", "--json"))
    assert found["solver"] == "sia"
    assert set(found["modes"]) == set(found["placements"]) == {job.name for job in instance.jobs}


@pytest.mark.parametrize("formulation", ["pattern", "node"])
@pytest.mark.parametrize("suffix", ["lp", "mps"])
def test_an_exported_program_has_the_optimum_of_the_instance(
    formulation: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another solver that reads the file finds the fitness that was proved."""
    import highspy

    out = tmp_path / f"model.{suffix}"
    arguments = ("--to", str(out), "--formulation", formulation, "--json")
    reference = json.loads(run(capsys, "export", "tiny-disturbed", *arguments))["reference"]
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.readModel(str(out))
    solver.run()
    jobs = load_benchmark("tiny-disturbed").num_jobs
    cost = solver.getInfo().objective_function_value
    fitness = fitness_from_cost(cost, jobs, -1.0, reference)
    assert fitness == pytest.approx(best_known_values()["tiny-disturbed"].fitness, rel=1e-6)


def test_compare_writes_table_picture_and_results(
    plugin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broken solver is a row; all rows are judged by the best bound."""
    out = tmp_path / "out"
    solvers = f"highs,greedy,{plugin}:crash"
    text = run(capsys, "compare", SMALL, "--solvers", solvers, "--seeds", "0-1", "--out", str(out))
    assert "failed: RuntimeError: it broke" in text
    with (out / "compare.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 6
    assert len({row["bound"] for row in rows}) == 1
    assert (out / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert read_result(out / "greedy-seed-1.json", load_benchmark(SMALL)).seed == 1


def test_a_comparison_is_not_written_beside_that_of_another_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same round again may be; nothing of the first one changes otherwise."""
    options = ["--solvers", "greedy", "--out", str(tmp_path)]
    for _ in range(2):
        assert main(["compare", "tiny-cold", *options]) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(["compare", SMALL, *options]) == 2
    assert "holds results of 'tiny-cold'" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_time_of_a_fast_solver_can_be_read(tmp_path: Path) -> None:
    """Where one power of ten is on the axis, the ticks between have numbers, too."""
    figure = Figure()
    left, right = figure.subplots(1, 2)
    result = replace(solve(load_benchmark("tiny-cold"), "greedy"), solve_seconds=0.03, history=())
    draw_comparison([result], left, right)
    save(figure, tmp_path / "compare.png")
    first, last = right.get_xlim()
    told = [
        tick.label1.get_text()
        for tick in right.xaxis.get_minor_ticks()
        if first <= tick.get_loc() <= last
    ]
    assert told
    assert all(told)


def test_the_demonstration_leaves_a_table_and_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the slow genetic algorithm it takes seconds."""
    out = tmp_path / "demo"
    text = run(capsys, "demo", "--solvers", "highs,greedy", "--out", str(out))
    assert "160 jobs on 16 nodes, 64 GPUs" in text
    assert "optimal" in text
    assert re.search(r"\nhighs +optimal +96 +0 +0\.2500", text)  # starved, more so, the served
    with (out / "demo.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        served = Starvation(160, int(row["starved"]), 0.001, float(row["served fitness"]))
        assert served.fitness(-1.0) == pytest.approx(float(row["fitness"]), rel=1e-9)
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "demo.csv").read_text().count("\n") == 5


def test_help_and_version_end_well(capsys: pytest.CaptureFixture[str]) -> None:
    """0 for both; without a command the help is shown and the code is 2."""
    assert "solve" in run(capsys, "--help")
    assert "--seconds" in run(capsys, "solve", "--help")
    assert run(capsys, "--version").startswith("goodalloc ")
    assert "solve" in run(capsys, code=2)


def test_json_is_the_only_output_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """One line of strict JSON on standard output, nothing on standard error."""
    assert main(["compare", SMALL, "--solvers", "greedy,highs", "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""

    def refuse(literal: str) -> None:
        raise AssertionError(literal)

    assert len(json.loads(printed.out, parse_constant=refuse)) == 2


def test_no_command_but_those_that_need_them_loads_heavy_modules(
    run_python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Deciding 160 jobs exactly imports neither JAX nor plotting, and takes 3 processor seconds."""
    program = """
import sys
import time
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.cli.rounds import columns as columns_command
assert main(["solve", "over-disturbed"]) == 0
heavy = {"jax", "matplotlib", "pandas", "cvxpy", "pyomo", "scipy", "torch"} & set(sys.modules)
assert not heavy, heavy
assert time.process_time() < 3, time.process_time()
"""
    done = run_python("-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_an_interrupt_while_modules_are_loaded_is_told_in_a_sentence(
    run_python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """As one while a command works: exit code 130, and no traceback."""
    program = """
import sys
from importlib.abc import MetaPathFinder
from goodalloc.experiments.cli.main import main
class Interrupting(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
sys.exit(main(["solve", "tiny-cold"]))
"""
    done = run_python("-c", program, cwd=tmp_path)
    assert done.returncode == 130
    assert done.stderr == "goodalloc: error: interrupted before anything was found.\n"


def test_every_benchmark_name_is_an_instance_for_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of the same name in the working directory comes first."""
    monkeypatch.chdir(tmp_path)
    Path("tiny-cold").write_text("not an instance")
    assert main(["solve", "tiny-cold"]) == 2
    assert "'tiny-cold'" in capsys.readouterr().err
    assert "tiny-cold" in benchmark_names()


def test_generate_scatters_free_gpus_in_a_file_of_either_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some of the GPUs are held; `room` reads an instance and a round in columns alike."""
    out = tmp_path / "scattered.json"
    run(
        capsys,
        "generate",
        "--state",
        "scattered",
        "--jobs",
        "40",
        "--nodes",
        "16",
        "--out",
        str(out),
    )
    instance = read_instance(out)
    assert 0 < instance.current.replicas.sum() < instance.cluster.num_gpus
    columns = tmp_path / "scattered.parquet"
    write_columns(RoundColumns.of(instance), columns)
    texts = [
        run(capsys, "room", str(path), "--gang", "2:4", "--by", "stops", "--json")
        for path in (out, columns)
    ]
    first, second = (json.loads(text) for text in texts)
    assert first["cost"] == second["cost"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--nodes", "4"], "argument --jobs: expected a number with --state scattered."),
        (["--jobs", "4", "--load", "2"], "argument --load: expected none with --state scattered."),
        (["--jobs", "4", "--cores", "2"], "argument --cores: expected none"),
        (["--jobs", "4", "--group", "a:2:4"], "argument --group: expected none"),
    ],
)
def test_what_scattered_rounds_do_not_know_is_refused(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence names the argument."""
    assert main(["generate", "--state", "scattered", *options]) == 2
    assert message in capsys.readouterr().err


def test_solvers_are_not_compared_on_rounds_that_take_them_hours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the command that decides such a round."""
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    monkeypatch.setattr(columns_command, "MOST_COMPARED", 7)
    path = tmp_path / "round.parquet"
    write_columns(generate_columns(seed=0, jobs=8, nodes=2, gpus_per_node=4), path)
    assert main(["compare", str(path), "--solvers", "greedy"]) == 2
    assert f"has 8 jobs; expected at most 7 to compare solvers. `goodalloc solve {path}`" in (
        capsys.readouterr().err
    )


def test_a_command_leaves_the_path_of_imports_as_it_was() -> None:
    """However it ends: a process may run thousands of commands."""
    before = sys.path.copy()
    assert main(["report", "--stale"]) == 0
    assert main(["simulate", "missing.csv"]) == 2
    assert sys.path == before
