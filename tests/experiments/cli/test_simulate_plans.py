"""`simulate --plans`: a user's own jobs with execution plans, and what is refused."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from goodalloc.experiments.cli.main import main
from goodalloc.experiments.cli.replay_arguments import POLICIES_HELP
from goodalloc.experiments.cli.simulate import with_room_for_gaps
from goodalloc.experiments.studies.gavel.measured_replay import plot_completions
from goodalloc.experiments.studies.gavel.rate_simulator import Completed
from goodalloc.experiments.studies.plans.plan_policies import PLAN_POLICIES

if TYPE_CHECKING:
    from pathlib import Path

TIMES = """\
model,parameters,global_batch,gpu_type,nodes,gpus_per_node,iteration_s
bert,1.3B,128,a100,1,1,inf
bert,1.3B,128,a100,1,2,4
bert,1.3B,128,a100,2,2,2.5
bert,1.3B,128,t4,1,2,20
"""

JOBS = """\
job,submit_s,model,parameters,global_batch,steps,gpus,gpu_type
first,0,bert,1.3B,128,450,2,a100
second,100,bert,1.3B,128,450,2,a100
"""

GROUPS = ("--group", "fast:1:2:a100", "--group", "slow:1:2:t4")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the two tables are, and the user stands."""
    (tmp_path / "measured.csv").write_text(TIMES, encoding="utf-8")
    (tmp_path / "jobs.csv").write_text(JOBS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def simulate(*arguments: str) -> int:
    """The command, on those tables."""
    return main(["simulate", "jobs.csv", "--plans", ".", "--out", "out", *arguments])


def test_jobs_run_at_the_speed_of_their_plans(folder: Path) -> None:
    """Alone on two fast GPUs each: 450 steps of 4 s after a restart, the second when these end."""
    assert simulate("--group", "fast:1:2:a100", "--policies", "first-come") == 0
    jobs = pd.read_csv(folder / "out" / "jobs.csv").set_index("name")
    assert (jobs.completion - jobs.start).to_dict() == {"first": 1830, "second": 1830}
    assert jobs.start.to_dict() == {"first": 0, "second": 2100}
    assert (folder / "out" / "replay.png").stat().st_size > 5000


def test_four_gpus_are_two_whole_nodes(folder: Path) -> None:
    """With a plan for them a job runs on both, where that is fastest for it."""
    (folder / "jobs.csv").write_text(JOBS.rsplit("second", 1)[0], encoding="utf-8")
    arguments = ("--group", "fast:2:2:a100", "--policies", "exact-speeds", "--restart-delay", "0")
    assert simulate(*arguments) == 0
    job = pd.read_csv(folder / "out" / "jobs.csv").iloc[0]
    assert (job.completion, job.gpu_seconds) == (1125, 4500)


def test_every_policy_replays_and_says_how_good_its_decisions_are(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proven gaps of those that decide exactly; the most examples a second for all."""
    assert simulate(*GROUPS, "--policies", ",".join(PLAN_POLICIES), "--json") == 0
    rows = {row["policy"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows.keys() == PLAN_POLICIES.keys()
    assert all(row["jobs"] == 2 and row["decision_ms"] > 0 for row in rows.values())
    exact = {name for name, row in rows.items() if row["worst_proven_gap"] is not None}
    assert exact == {"sia", *(name for name in rows if name.startswith("exact-"))}
    assert all(rows[name]["worst_proven_gap"] <= 1e-6 for name in exact)
    assert rows["exact-examples"]["below_most_examples_percent"] < 1e-4


def test_without_gaps_decisions_are_not_compared(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does a shortfall appear."""
    assert simulate(*GROUPS, "--policies", "arena", "--no-gaps", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["below_most_examples_percent"] is None


def test_no_policy_is_below_the_bound(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which is the time of the jobs alone where they do not meet."""
    apart = JOBS.replace(",100,", ",7200,")
    (folder / "jobs.csv").write_text(apart, encoding="utf-8")
    alone = ("--group", "fast:1:2:a100")
    assert simulate(*alone, "--policies", "first-come,exact-remaining", "--bound", "--json") == 0
    *rows, bound = json.loads(capsys.readouterr().out)
    assert bound["policy"] == "bound"
    assert bound["average_jct_hours"] == pytest.approx(1830 / 3600, rel=2e-3)
    assert bound["above_bound_percent"] == 0.0
    assert bound["makespan_hours"] is None
    assert all(0.0 <= row["above_bound_percent"] < 0.2 for row in rows)
    (folder / "jobs.csv").write_text(JOBS, encoding="utf-8")
    policies = ",".join(PLAN_POLICIES)
    crowded = [*GROUPS, "--policies", policies, "--bound", "--json", "--out", "crowded"]
    assert main(["simulate", "jobs.csv", "--plans", ".", *crowded]) == 0
    *rows, bound = json.loads(capsys.readouterr().out)
    assert bound["average_jct_hours"] > 1830 / 3600
    assert all(row["above_bound_percent"] >= 0.0 for row in rows)


def test_the_picture_has_the_bound_where_there_is_one() -> None:
    """A line, named with its hours."""
    done = {"fifo": [Completed("a", 0.0, 0.0, 7200.0, 0, 1.0)]}
    plain, bounded = (plot_completions(done, bound).axes[0] for bound in (None, 1.5))
    assert len(bounded.lines) == len(plain.lines) + 1
    line = bounded.lines[-1]
    assert line.get_label() == "bound on the average (1.5 h)"
    assert np.array_equal(line.get_xdata(), [1.5, 1.5])


@pytest.mark.parametrize(("top", "shown"), [(2e-6, 0.01), (3.0, 3.0)])
def test_the_axis_of_gaps_is_never_that_of_rounding(top: float, shown: float) -> None:
    """It reaches a hundredth of a per cent; other axes stay as they are."""
    figure = Figure()
    gaps, other = figure.subplots(1, 2)
    gaps.set_ylabel("gap of the decision's fitness (%)")
    for ax in (gaps, other):
        ax.set_ylim(-0.003, top)
    with_room_for_gaps(figure)
    assert gaps.get_ylim() == (-0.003, shown)
    assert other.get_ylim() == (-0.003, top)


def test_a_bound_is_refused_where_hindsight_gives_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Jobs with goodput models have a command of their own; measured rates have none."""
    assert main(["simulate", "--bound"]) == 2
    assert "expected --plans with it, or the command hindsight" in capsys.readouterr().err
    assert main(["simulate", "jobs.csv", "--rates", "measured.csv", "--bound"]) == 2
    assert "argument --bound: jobs with measured rates" in capsys.readouterr().err


def test_drawn_jobs_run_by_the_plans_that_ship(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same seed gives the same jobs, as many as the load says."""
    command = ["simulate", "--plans", "shipped", "--load", "0.05", "--policies", "arena", "--json"]
    command += ["--group", "a100:8:4:a100", "--seed", "3", "--no-gaps"]
    assert main([*command, "--out", str(tmp_path / "one")]) == 0
    assert main([*command, "--out", str(tmp_path / "two")]) == 0
    capsys.readouterr()
    one, two = ((tmp_path / name / "jobs.csv").read_bytes() for name in ("one", "two"))
    assert one == two
    assert len(pd.read_csv(tmp_path / "one" / "jobs.csv")) == 8


def test_jobs_are_drawn_of_what_the_cluster_can_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No training without a plan there, and no request for more GPUs than there are."""
    command = ["simulate", "--plans", "shipped", "--load", "0.1", "--policies", "arena", "--json"]
    for group in ("a10:1:2:a10", "a100:1:4:a100"):
        out = ["--group", group, "--no-gaps", "--out", str(tmp_path / group)]
        assert main([*command, *out]) == 0
        assert json.loads(capsys.readouterr().out)[0]["jobs"] == 16
    (tmp_path / "measured.csv").write_text(TIMES.replace("t4,1,2,20", "t4,1,2,inf"))
    nothing = ["--plans", str(tmp_path), "--group", "a100:2:1:a100", "--out", str(tmp_path / "no")]
    assert main([*command, *nothing]) == 2
    assert "Cluster: its nodes have 1 GPUs 'a100'; expected GPUs for" in capsys.readouterr().err


def test_policies_of_ones_own_are_replayed_once(folder: Path) -> None:
    """By their dotted path; what is done is not done again."""
    (folder / "mine_plans.py").write_text(
        "from goodalloc.solvers.plans import FirstComePlans as Mine\n", encoding="utf-8"
    )
    assert simulate(*GROUPS, "--policies", "mine_plans:Mine,first-come") == 0
    jobs = pd.read_csv(folder / "out" / "jobs.csv")
    own, shipped = (
        jobs[jobs.policy == name].completion.tolist() for name in ("mine_plans:Mine", "first-come")
    )
    assert own == shipped
    record = folder / "out" / "first-come" / "record.json"
    before = record.stat().st_mtime_ns
    assert simulate(*GROUPS, "--policies", "first-come") == 0
    assert record.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("1 / 0", "Policy 'own:Own' failed at 0 s (ZeroDivisionError: division by zero)"),
        ("None", "Policy 'own:Own' failed at 0 s (TypeError: 'NoneType' object is not iterable)"),
        ("{'first': 4}", "Policy 'own:Own' failed at 0 s (TypeError: "),
        ("{'x': ('a100', 2)}", "Policy 'own:Own' breaks a rule at 0 s: job 'x' is not there."),
        ("{'first': ('a100', 4)}", "Policy 'own:Own' breaks a rule at 0 s: job 'first' is to run"),
    ],
)
def test_a_policy_that_fails_is_named_and_may_be_mended(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    body: str,
    sentence: str,
) -> None:
    """In one sentence; its folder, in which nothing was replayed, takes the next version."""
    frame = "class Own:\n    def decide(self, round_):\n        return {}\n"
    (folder / "own.py").write_text(frame.format(body), encoding="utf-8")
    monkeypatch.delitem(sys.modules, "own", raising=False)
    assert simulate(*GROUPS, "--policies", "own:Own") == 2
    assert sentence in capsys.readouterr().err
    served = "{job.job.name: job.job.request for job in round_.jobs[:1]}"
    (folder / "own.py").write_text(frame.format(served) + "# mended\n", encoding="utf-8")
    monkeypatch.delitem(sys.modules, "own", raising=False)
    assert simulate(*GROUPS, "--policies", "own:Own") == 0
    assert len(pd.read_csv(folder / "out" / "jobs.csv")) == 2


def test_the_help_names_every_policy() -> None:
    """As the error for an unknown one does."""
    told = POLICIES_HELP.partition("--plans")[2].replace("\n", " ").split()
    assert [name.rstrip(",") for name in told] == list(PLAN_POLICIES)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--policies", "pollux"), "Policy is 'pollux'; expected one for jobs with execution"),
        (("--policies", "areno"), "Policy is 'areno' (did you mean arena?)"),
        (("--policies", "math:pi"), "Policy 'math:pi' is a float; expected a function"),
        (("--policies", "builtins:dict"), "Policy 'builtins:dict' makes a dict; expected one with"),
        (("--policies", "math:sqrt"), "Policy 'math:sqrt' cannot be made without arguments"),
        (("--load", "2"), "argument --load: the jobs are those of 'jobs.csv'; expected none"),
        (("--seconds", "2"), "argument --seconds: jobs with execution plans have no use for it"),
        (("--outages", "0-60:1"), "argument --outages: jobs with execution plans"),
        (("--interval", "20"), "argument --interval: it is 20; expected 300 or none"),
        (("--rates", "jobs.csv"), "argument --plans: the speeds are those of --rates"),
        (("--group", "other:1:2:v100"), "Node group 'other' has GPUs of type 'v100'"),
        (("--group", "odd:1:3:a100"), "Node group 'odd' has nodes of 3 GPUs 'a100'"),
        (("--group", "big:1:4:a100"), "Node group 'big' has nodes of 4 GPUs 'a100'"),
        (("--plans", "nowhere"), "File 'nowhere/measured.csv' does not exist"),
        (("--plans", "measured.csv"), "Folder 'measured.csv' is a file; expected that with"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    """Before anything is replayed, with exit code 2."""
    assert simulate(*GROUPS, *arguments) == 2
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert complaint.startswith(f"goodalloc: error: {sentence}")
    assert not list((folder / "out").glob("*/record.json"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("first,0", "first,-1"), "line 2: submit_s is '-1'"),
        (("450,2", "nan,2"), "line 2: steps is 'nan'"),
        (("450,2", "0,2"), "line 2: steps is '0'"),
        (("450,2", "450,0"), "line 2: gpus is '0'"),
        (("450,2,a100", "450,2,h100"), "line 2: gpu_type is 'h100'; expected one of a100, t4"),
        (("bert", "gpt"), "line 2: model is 'gpt'; expected one of bert"),
        (("128", "256"), "line 2: global_batch is '256'; expected a size and a batch of bert"),
        (("1.3B", "6B"), "line 2: global_batch is '128'; expected a size and a batch of bert"),
        (("second", "first"), "line 3: job is 'first'; expected a name of its own"),
        (("steps", "work"), "column 'steps' is missing"),
    ],
)
def test_a_bad_table_of_jobs_is_refused_by_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], sentence: str
) -> None:
    """The file, the line, what is there and what was expected."""
    (folder / "jobs.csv").write_text(JOBS.replace(*change, 1), encoding="utf-8")
    assert simulate(*GROUPS) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("2,4", "2,-4"), "line 3: iteration_s is '-4'; expected seconds above 0, or inf"),
        (("2,4", "2,0"), "line 3: iteration_s is '0'"),
        (("2,4", "2,slow"), "line 3: iteration_s is 'slow'"),
        (("2,2,2.5", "1,2,2.5"), "line 4: iteration_s is '2.5'; expected one time for each"),
        (("1.3B", "13"), "line 3: parameters is '13'; expected a size such as 760M"),
    ],
)
def test_a_bad_table_of_times_is_refused_by_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], sentence: str
) -> None:
    """Numbers that make no sense, and two times for one shape."""
    (folder / "measured.csv").write_text(TIMES.replace(*change), encoding="utf-8")
    assert simulate(*GROUPS) == 2
    assert sentence in capsys.readouterr().err


def test_plans_are_wanted_for_their_policies(capsys: pytest.CaptureFixture[str]) -> None:
    """Where they are not given, one sentence says so."""
    for name in ("arena", "exact-rubick", "gavel-one-by-one"):
        assert main(["simulate", "--policies", name]) == 2
        told = f"Policy '{name}' chooses execution plans; expected --plans"
        assert told in capsys.readouterr().err


def test_a_job_without_a_plan_on_the_cluster_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor one without a plan as requested; and nodes without a type."""
    (folder / "jobs.csv").write_text(JOBS.replace("450,2", "450,1"), encoding="utf-8")
    assert simulate(*GROUPS, "--policies", "arena") == 2
    told = "Job 'first' asks for 1 GPUs 'a100'; expected what it has a plan for on this cluster: 2"
    assert told in capsys.readouterr().err
    (folder / "jobs.csv").write_text(JOBS.replace("450,2", "450,4"), encoding="utf-8")
    assert simulate(*GROUPS, "--policies", "arena") == 2  # of which there is but one node of two
    assert "Job 'first' asks for 4 GPUs 'a100'" in capsys.readouterr().err
    (folder / "jobs.csv").write_text(JOBS, encoding="utf-8")
    assert simulate("--group", "one:1:1:a100", "--policies", "arena") == 2
    assert "Job 'first' trains bert 1.3B 128; expected a plan that fits" in capsys.readouterr().err
    assert simulate("--nodes", "2", "--gpus-per-node", "2", "--policies", "arena") == 2
    assert "Cluster: its GPUs have no type" in capsys.readouterr().err
