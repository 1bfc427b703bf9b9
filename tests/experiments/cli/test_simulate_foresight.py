"""`goodalloc simulate` under policies that know more than a scheduler can."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from goodalloc.data.workloads.workload import write_workload
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.cli.simulate import FORESIGHT
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.studies.hindsight.known_task import KnownTask
from goodalloc.models.round.cluster import Cluster
from tests.support.replay.replays import SHORT

if TYPE_CHECKING:
    from pathlib import Path


def test_policies_with_foresight_stand_beside_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are told the true remaining work, and replay as the study of hindsight does."""
    workload = SHORT[1::2]
    write_workload(workload, tmp_path / "jobs.csv")
    command = ["simulate", str(tmp_path / "jobs.csv"), "--nodes", "2", "--json", "--out"]
    policies = ",".join(["tiresias", *FORESIGHT])
    assert main([*command, str(tmp_path / "out"), "--policies", policies]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["policy"] for row in rows] == ["tiresias", *FORESIGHT]
    assert {row["knows"] for row in rows[1:]} == {"true remaining"}
    assert {row["batch"] for row in rows[1:]} == {"adaptive"}
    setting = Setting(Cluster.uniform(2, 4), knowledge="profiled")
    for name, foresight in FORESIGHT.items():
        task = KnownTask(tmp_path / name, "hindsight", workload, setting, foresight=foresight)
        task.run()
        jobs, same = (
            pd.read_csv(folder / "jobs.csv") for folder in (tmp_path / "out" / name, task.folder)
        )
        pd.testing.assert_frame_equal(jobs, same)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--group", "a:2:4:t4", "--group", "b:2:4:v100"], "knows one type of GPU"),
        (["--cores", "16"], "expected GPUs only"),
        (["--restart-delay", "0"], "expected whole seconds, at least 1"),
        (["--tree", "standard"], "Policy 'foresight-plans' knows no tree"),
    ],
)
def test_clusters_that_foresight_cannot_serve_are_refused(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence, before anything is written."""
    out = tmp_path / "out"
    command = ["simulate", "--policies", "foresight-plans", "--load", "0.05", "--out", str(out)]
    assert main([*command, *options]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert not out.exists()


def test_policies_with_a_placing_need_a_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which the message says, in place of names that are nearly the same."""
    out = tmp_path / "out"
    assert main(["simulate", "--policies", "pollux@best_fit", "--out", str(out)]) == 2
    message = "Policy 'pollux@best_fit' places jobs on a tree; expected --tree"
    assert message in capsys.readouterr().err
    assert not out.exists()
