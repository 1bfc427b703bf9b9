"""`simulate --rates`: a user's own jobs by measured rates, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest

from goodalloc.experiments.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

RATES = """\
model,gpu_type,gpus,nodes,steps_per_s
bert,a100,1,1,4
bert,a100,2,1,8
bert,t4,1,1,1
resnet,t4,1,1,2
"""

JOBS = """\
job,submit_s,steps,gpus,model
large,0,28800,2,bert
small,0,3600,1,bert
late,60,7200,1,resnet
"""

GROUPS = ("--group", "fast:1:2:a100", "--group", "slow:1:2:t4")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the two tables are, and the user stands."""
    (tmp_path / "rates.csv").write_text(RATES, encoding="utf-8")
    (tmp_path / "jobs.csv").write_text(JOBS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def simulate(*arguments: str) -> int:
    """The command, on those tables."""
    return main(["simulate", "jobs.csv", "--rates", "rates.csv", "--out", "out", *arguments])


def test_jobs_are_replayed_by_their_rates(folder: Path) -> None:
    """Each on the type that suits it, one after the other: steps over steps per second."""
    assert simulate(*GROUPS, "--policies", "allox") == 0
    jobs = pd.read_csv(folder / "out" / "jobs.csv").set_index("name")
    assert (jobs.completion - jobs.start).to_dict() == {"large": 3600, "small": 900, "late": 3600}
    assert (folder / "out" / "replay.png").stat().st_size > 5000
    row = pd.read_csv(folder / "out" / "summary.csv").iloc[0]
    assert (row.policy, row.jobs, row.average_jct_hours) == ("allox", 3, 0.8333)


def test_policies_that_are_done_are_not_done_again(folder: Path) -> None:
    """Their records stay as they are, byte by byte; other jobs go to another folder."""
    assert simulate(*GROUPS, "--policies", "gavel") == 0
    record = folder / "out" / "gavel" / "record.json"
    before = record.read_bytes(), record.stat().st_mtime_ns
    assert simulate(*GROUPS, "--policies", "gavel,allox") == 0
    assert (record.read_bytes(), record.stat().st_mtime_ns) == before
    assert pd.read_csv(folder / "out" / "summary.csv").policy.tolist() == ["gavel", "allox"]
    (folder / "jobs.csv").write_text(JOBS.replace("7200", "7300"), encoding="utf-8")
    assert simulate(*GROUPS, "--policies", "gavel") == 2


def test_policies_of_ones_own_are_replayed(folder: Path) -> None:
    """By their dotted path."""
    (folder / "mine.py").write_text(
        "from goodalloc.solvers.policies import FirstComeFirstServed as Mine\n", encoding="utf-8"
    )
    (folder / "jobs.csv").write_text(JOBS.replace("resnet", "bert"), encoding="utf-8")
    assert simulate("--group", "all:2:2:a100", "--policies", "mine:Mine,fifo") == 0
    jobs = pd.read_csv(folder / "out" / "jobs.csv")
    mine, fifo = (jobs[jobs.policy == name].completion.tolist() for name in ("mine:Mine", "fifo"))
    assert mine == fifo


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--policies", "pollux"), "Policy 'pollux' chooses numbers of GPUs by a goodput model"),
        (("--policies", "tiresias"), "Policy 'tiresias' knows one type of GPU"),
        (("--policies", "nobody"), "Policy is 'nobody'"),
        (("--load", "2"), "argument --load: jobs with measured rates have no use for it"),
        (("--outages", "0-60:1"), "argument --outages: jobs with measured rates"),
        (("--knowledge", "profiled"), "argument --knowledge: jobs with measured rates"),
        (("--parquet",), "argument --parquet: jobs with measured rates"),
        (("--power", "1"), "argument --power: jobs with measured rates"),
        (("--group", "other:1:2:v100"), "Node group 'other' has GPUs of type 'v100'"),
        (("--rates", "none.csv"), "File 'none.csv'"),
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


def test_nodes_without_a_type_of_gpu_are_refused_with_what_to_write(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rates are those of types."""
    assert simulate("--nodes", "2", "--gpus-per-node", "2", "--policies", "gavel") == 2
    complaint = capsys.readouterr().err
    assert "Cluster: its GPUs have no type; expected groups of nodes with one" in complaint
    assert "of a100, t4." in complaint


def test_a_policy_that_fails_names_itself_and_the_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the time, since it may have decided before."""
    (folder / "fails.py").write_text(
        "class Fails:\n"
        "    batch_sizes = 'requested'\n"
        "    def decide(self, round_):\n"
        "        return {}['nothing']\n",
        encoding="utf-8",
    )
    assert simulate(*GROUPS, "--policies", "fails:Fails") == 2
    sentence = "Policy 'Fails' failed at 0 s (KeyError: 'nothing', in fails.py, line 4)."
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("large,0", "large,-1"), "line 2: submit_s is '-1'"),
        (("28800", "nan"), "line 2: steps is 'nan'"),
        (("28800", "0"), "line 2: steps is '0'"),
        (("28800,2", "28800,0"), "line 2: gpus is '0'"),
        (("28800,2", "28800,3"), "line 2: gpus is '3'; expected a number on which a rate"),
        (("2,bert", "2,gpt"), "line 2: model is 'gpt'"),
        (("small", "large"), "line 3: job is 'large'; expected another name"),
        (("steps", "work"), "it has neither; expected one of the columns 'steps'"),
        (("steps", "duration_s,steps"), "line 2 has 5 cells"),
    ],
)
def test_a_bad_table_of_jobs_is_refused_by_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], sentence: str
) -> None:
    """The file, the line, what is there and what was expected."""
    (folder / "jobs.csv").write_text(JOBS.replace(*change, 1), encoding="utf-8")
    assert simulate(*GROUPS) == 2
    assert sentence in capsys.readouterr().err


def test_a_job_that_the_cluster_never_runs_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Too large for it, or without a rate on its types."""
    assert simulate("--group", "one:1:1:a100", "--policies", "fifo") == 2
    assert "Job 'late' trains 'resnet' on 1 GPUs; expected a rate" in capsys.readouterr().err
    (folder / "jobs.csv").write_text(JOBS.replace("resnet", "bert"), encoding="utf-8")
    assert simulate("--group", "one:1:1:a100", "--policies", "fifo") == 2
    assert "Job 'large' takes 2 GPUs; expected at most the 1" in capsys.readouterr().err
    assert main(["simulate", "--rates", "rates.csv"]) == 2
    assert "no workload is given" in capsys.readouterr().err
