"""`goodalloc simulate --pairs`: replays of shared GPUs by measured losses."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from goodalloc.data.workloads.workload import Submission, write_workload
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.cli.simulate import SimulateTask, measured_loss
from goodalloc.experiments.measure.beside import read_losses
from goodalloc.solvers.policies.registry import make_policy
from tests.support.replay.replays import SMALL

if TYPE_CHECKING:
    from pathlib import Path

#: More short jobs at once than there are GPUs on a node.
JOBS = tuple(
    Submission(f"job-{index}", time=60, application="cifar10", replicas=2, batch_size=256)
    for index in range(4)
)


def pairs_file(path: Path, *losses: object) -> str:
    """Write measured pairs with these losses."""
    rows = [f"gpt,8,{loss}" for loss in losses]
    path.write_text("\n".join(["model,batch,loss", *rows, ""]), encoding="utf-8")
    return str(path)


def simulate(folder: Path, *options: str) -> int:
    """Replay the jobs on one node of four GPUs."""
    write_workload(JOBS, folder / "jobs.csv")
    command = ["simulate", str(folder / "jobs.csv"), "--nodes", "1", "--no-gaps", *options]
    return main(command)


def test_a_measured_loss_slows_jobs_that_share_gpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no others."""
    found = {}
    for loss in (0.0, 0.6):
        pairs = pairs_file(tmp_path / "pairs.csv", loss, loss)
        out = tmp_path / f"loss-{loss}"
        options = ("--policies", "gandiva,fifo", "--pairs", pairs, "--out", str(out))
        assert simulate(tmp_path, *options) == 0
        assert f"measured loss of shared GPUs: {loss:.3f}" in capsys.readouterr().out
        found[loss] = {
            name: pd.read_csv(out / name / "jobs.csv")["jct"].mean() for name in ("gandiva", "fifo")
        }
        description = json.loads((out / "gandiva" / "replay.json").read_text(encoding="utf-8"))
        assert description["sharing_loss"] == loss
    assert found[0.6]["gandiva"] > 1.05 * found[0.0]["gandiva"]
    assert found[0.6]["fifo"] == found[0.0]["fifo"]


@pytest.mark.parametrize("name", ["gandiva", "gandiva-exact", "antman", "antman-exact"])
def test_every_policy_of_shared_gpus_takes_the_loss(name: str, tmp_path: Path) -> None:
    """And keeps its way of sharing."""
    policy: Any = SimulateTask(tmp_path, name, JOBS, SMALL, sharing_loss=0.25).made_policy()
    usual: Any = make_policy(name)
    assert usual.sharing.loss != 0.25
    assert policy.sharing == replace(usual.sharing, loss=0.25)


def test_the_loss_is_the_mean_of_all_measured_ones(tmp_path: Path) -> None:
    """Of several files; below 0 it counts as none."""
    one = pairs_file(tmp_path / "one.csv", 0.1, 0.2)
    two = pairs_file(tmp_path / "two.csv", 0.6)
    assert measured_loss([one, two], ["gandiva"]) == pytest.approx(0.3)
    assert measured_loss([pairs_file(tmp_path / "three.csv", -0.1)], ["antman"]) == 0.0


def test_replays_with_other_losses_have_folders_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of one is refused to the other."""
    options = ("--policies", "gandiva", "--out", str(tmp_path / "out"))
    assert simulate(tmp_path, *options, "--pairs", pairs_file(tmp_path / "a.csv", 0.1)) == 0
    assert simulate(tmp_path, *options, "--pairs", pairs_file(tmp_path / "b.csv", 0.3)) == 2
    assert "holds another replay: sharing_loss" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty; expected a CSV file"),
        ("model,batch\ngpt,8\n", "column 'loss' is missing"),
        ("model,loss\n", "it has no rows"),
        ("model,loss\ngpt,nan\n", "line 2: loss is 'nan'; expected a finite number"),
        ("model,loss\ngpt,0.1\ngpt,1\n", "line 3: loss is '1'; expected a number below 1"),
        ("model,loss\ngpt,much\n", "line 2: loss is 'much'; expected"),
        ("model,loss\ngpt\n", "line 2 has 1 cells; expected 2"),
        ("model,loss\ngpt,-inf\n", "line 2: loss is '-inf'; expected"),
    ],
)
def test_pairs_that_were_not_measured_are_refused(text: str, sentence: str, tmp_path: Path) -> None:
    """The sentence names file, row and value."""
    path = tmp_path / "pairs.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=sentence):
        read_losses(path)
    with pytest.raises(ValueError, match="does not exist"):
        read_losses(tmp_path / "none.csv")


@pytest.mark.parametrize("policies", ["fifo,pollux", "foresight-work"])
def test_pairs_are_for_policies_whose_jobs_share_gpus(
    policies: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else they would change nothing."""
    options = ("--pairs", pairs_file(tmp_path / "a.csv", 0.1), "--out", str(tmp_path / "out"))
    assert simulate(tmp_path, "--policies", policies, *options) == 2
    assert "argument --pairs: jobs share GPUs under none of" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_sharing_that_cannot_be_changed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a policy of one's own may be."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "fixed.py").write_text(
        "from goodalloc.models.shared_gpus.shared_speed import FAIR\n"
        "class Own:\n"
        "    batch_sizes = 'requested'\n"
        "    @property\n"
        "    def sharing(self): return FAIR\n"
        "    def decide(self, round_): return None\n"
    )
    task = SimulateTask(tmp_path / "out", "fixed:Own", JOBS, SMALL, sharing_loss=0.1)
    with pytest.raises(ValueError, match="Policy 'fixed:Own': its sharing cannot be changed"):
        task.made_policy()
