"""Replays into a folder: the records, their judgement, interruption and resumption."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.documents.traces_digest import traces_digest
from goodalloc.data.workloads.workload import Submission, write_workload
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.replay import replay as replay_module
from goodalloc.experiments.replay.judge import Judge
from goodalloc.experiments.replay.replay import Replay
from goodalloc.experiments.replay.replay_report import over_time, summarise
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.support.records import check_description
from goodalloc.models.round.rules import OSDI21
from goodalloc.models.round.starved_jobs import Starvation
from goodalloc.solvers.interface.result import Evidence
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.registry import make_policy
from tests.support.replay.replays import SAME, SHORT, SMALL

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.solvers.policies.policy import BatchSizes, Round


def replay(folder: Path, policy: str = "tiresias", *, judge: bool = True) -> Replay:
    """A replay of four short jobs with checkpoints every five rounds."""
    folder.mkdir(exist_ok=True)
    simulator = Simulator(SHORT, profiled_applications(), make_policy(policy), SMALL)
    judge_ = Judge(OSDI21) if judge else None
    return Replay(simulator, folder, {"policy": policy}, judge_, every=5)


@pytest.mark.parametrize("policy", ["tiresias", "pollux-greedy"])
def test_a_killed_replay_goes_on_to_the_same_bytes(tmp_path: Path, policy: str) -> None:
    """Stopped in the middle, between two checkpoints, and again: as if it had never been."""
    replay(tmp_path / "whole", policy).run()

    class Killed(Exception):
        pass

    for rounds in (13, 9):
        left = iter(range(rounds))

        def kill(_: Simulator, left: object = left) -> None:
            if next(left, None) is None:  # type: ignore[call-overload]
                raise Killed

        with pytest.raises(Killed):
            replay(tmp_path / "killed", policy).run(kill)
    replay(tmp_path / "killed", policy).run()
    for name in SAME:
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "killed" / "checkpoint.json").exists()


def test_a_finished_replay_is_not_repeated(tmp_path: Path) -> None:
    """Its files stay as they are."""
    replay(tmp_path).run()
    before = (tmp_path / "timing.csv").stat().st_mtime_ns
    again = replay(tmp_path)
    again.run()
    assert again.simulator.time == 0
    assert (tmp_path / "timing.csv").stat().st_mtime_ns == before


def test_a_folder_of_another_replay_is_refused(tmp_path: Path) -> None:
    """Rather than mixed with it."""
    replay(tmp_path).run()
    with pytest.raises(ValueError, match="holds another replay"):
        replay(tmp_path, "optimus").run()


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    """While one replay writes, another on the folder is refused; afterwards it is not."""

    def second(_: Simulator) -> None:
        with pytest.raises(ValueError, match="is being written by another run"):
            replay(tmp_path).run()

    replay(tmp_path).run(second)
    replay(tmp_path).run()


def test_a_checkpoint_of_other_code_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it holds may lack what is new: nothing of it is read."""

    def kill(simulator: Simulator) -> None:
        if simulator.time > 1200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(tmp_path).run(kill)
    monkeypatch.setattr(
        "goodalloc.experiments.checkpoints.checkpoint.code_digest", lambda: "changed"
    )
    sentence = (
        f"Folder '{tmp_path}' was begun by another version of goodalloc; remove it or take another "
        "folder."
    )
    with pytest.raises(ValueError, match=re.escape(sentence)):
        replay(tmp_path).run()
    check_description(tmp_path / "any.json", {"library": "0.1", "seed": 1})
    with pytest.raises(ValueError, match=re.escape(sentence)):
        check_description(tmp_path / "any.json", {"library": "0.2", "seed": 1})
    with pytest.raises(ValueError, match=r"any\.json differ; take another folder, or remove"):
        check_description(tmp_path / "any.json", {"library": "0.2", "seed": 2})


def test_a_broken_checkpoint_is_refused_by_name(tmp_path: Path) -> None:
    """Half a pickle is no state."""
    (tmp_path / "checkpoint.json").write_bytes(b"half")
    with pytest.raises(ValueError, match=r"checkpoint\.json' cannot be read"):
        replay(tmp_path).run()


def test_every_decision_is_judged_against_a_bound_that_holds(tmp_path: Path) -> None:
    """Gaps lie between 0 and 1; those of Tiresias are real, exact Pollux has none."""
    gaps = {}
    for policy in ("tiresias", "pollux"):
        replay(tmp_path / policy, policy).run()
        rounds = pd.read_csv(tmp_path / policy / "rounds.csv")
        assert ((rounds.gap >= 0) & (rounds.gap <= 1)).all()
        assert (rounds.fitness <= rounds.bound * (1 + 1e-9)).all()
        assert (rounds.allocated_gpus <= 8).all()
        gaps[policy] = rounds.gap
        parts = rounds[["starved", "served_fitness", "best_starved", "best_served_fitness"]]
        for _, row in rounds.dropna(subset=["served_fitness"]).iterrows():
            again = Starvation(row.active_jobs, row.starved, 0.001, row.served_fitness)
            assert again.fitness(-1.0) == pytest.approx(row.fitness, rel=1e-8)
            best = Starvation(row.active_jobs, row.best_starved, 0.001, row.best_served_fitness)
            assert row.gap == pytest.approx(1 - row.fitness / best.fitness(-1.0), abs=1e-8)
        assert (rounds.starved == rounds.active_jobs - rounds.running_jobs).all()
        assert parts.best_starved.notna().all()
        told = summarise(policy, tmp_path / policy)
        assert told["mean_starved"] == pytest.approx(rounds.starved.mean(), rel=1e-3)
        more = (rounds.starved - rounds.best_starved).mean()
        assert told["mean_more_starved"] == pytest.approx(more, rel=1e-3)
    assert (parts.starved == parts.best_starved).all()
    assert told["served_over_best"] == 1.0
    assert gaps["pollux"].max() <= 1e-9
    assert gaps["tiresias"].mean() > 0.01


def test_without_a_proof_of_ones_own_the_best_answer_may_be_unknown() -> None:
    """A policy's bound says nothing of who starves in the best answer."""
    simulator = Simulator(SHORT, profiled_applications(), make_policy("pollux-greedy"), SMALL)
    record = simulator.step()
    assert record is not None
    bound = record.decision.bound
    assert bound is not None
    loose = record.decision._replace(bound=2 * bound)
    verdict = Judge(OSDI21, trusting=True)(record.round_, loose)
    assert (verdict.best_starved, verdict.best_served_fitness) == (None, None)
    assert Judge(OSDI21)(record.round_, loose).best_starved == 0


def test_a_policy_is_judged_by_the_true_instance_and_a_bound_of_ours(tmp_path: Path) -> None:
    """Whatever instance and bound it claims for one GPU a job, the gap is that to the optimum."""

    class Lenient:
        batch_sizes: BatchSizes = "goodput"

        def decide(self, round_: Round) -> Decision:
            limits = {job.name: 1 for job in round_.jobs}
            placements = {job.name: ((0, 1),) for job in round_.jobs[:4]}
            return Decision(placements, None, round_.instance(OSDI21, limits), 1e-9)

    simulator = Simulator(SHORT, profiled_applications(), Lenient(), SMALL)
    rounds = []
    for trusting in (False, True):
        judge = Judge(OSDI21, trusting=trusting)
        for _ in range(10):
            record = simulator.step()
            assert record is not None
            rounds.append(judge(record.round_, record.decision))
    assert max(verdict.gap for verdict in rounds) > 0.1
    assert all(verdict.fitness <= verdict.bound * (1 + 1e-9) for verdict in rounds)
    honest = simulator.step()
    assert honest is not None
    instance = honest.round_.instance(OSDI21)
    claim = honest.decision._replace(instance=instance, bound=100.0, evidence=Evidence.SOLVER)
    assert Judge(OSDI21, trusting=True)(honest.round_, claim).bound == 100.0
    assert Judge(OSDI21)(honest.round_, claim).bound < 100.0
    for wrong in (1e-9, math.nan, -math.inf):
        verdict = Judge(OSDI21, trusting=True)(honest.round_, claim._replace(bound=wrong))
        assert verdict == Judge(OSDI21)(honest.round_, claim)
        assert verdict.evidence in (Evidence.PRICES, Evidence.SOLVER)


def test_decisions_by_throughput_are_judged_by_goodput(tmp_path: Path) -> None:
    """A scheduler that knows no efficiency is not exact by Pollux's objective."""
    replay(tmp_path, "autoscaling-throughput").run()
    assert pd.read_csv(tmp_path / "rounds.csv").gap.max() > 1e-4


def test_a_changed_policy_or_changed_measurements_are_another_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their contents are part of what a replay is."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "changing.py").write_text("def make(): ...")
    traces = tmp_path / "traces" / "cifar10"
    traces.mkdir(parents=True)
    (traces / "placements.csv").write_text("a,b")
    task = ReplayTask(tmp_path / "out", "changing:make", SHORT, traces=str(traces.parent))
    first = task.description()
    assert task.description() == first
    (tmp_path / "changing.py").write_text("def make(): 1")
    second = task.description()
    assert {name for name in first if first[name] != second[name]} == {"policy_source"}
    (traces / "placements.csv").write_text("a,c")
    traces_digest.cache_clear()
    third = task.description()
    assert {name for name in second if second[name] != third[name]} == {"traces"}


PROGRAMS = {
    "raises": "raise KeyError('oops')",
    "remembers": "self.last = round_; return Decision({})",
}


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        ("raises", "Policy 'Own' failed at 60 s (KeyError: 'oops', in raises.py, line 4)."),
        ("remembers", "one is left out. Policy of type Own cannot be kept in a checkpoint ("),
    ],
)
def test_mistakes_of_a_policy_of_ones_own_are_told_in_a_sentence(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    complaint: str,
) -> None:
    """At once, and the others go on."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{program}.py").write_text(
        "from goodalloc.solvers.policies.policy import Decision\n"
        "class Own:\n"
        "    batch_sizes = 'requested'\n"
        f"    def decide(self, round_): {PROGRAMS[program]}\n"
    )
    write_workload(SHORT, tmp_path / "workload.csv")
    command = [
        "simulate",
        str(tmp_path / "workload.csv"),
        "--policies",
        f"{program}:Own,fifo",
        "--no-gaps",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(command) == 2
    text = capsys.readouterr().out
    assert f"{program}:Own is left out. {complaint.removeprefix('one is left out. ')}" in text
    assert "fifo" in text


def test_what_no_checkpoint_could_keep_is_refused_in_the_first_round(tmp_path: Path) -> None:
    """However long no job is there."""

    class Remembering:
        batch_sizes: BatchSizes = "requested"

        def decide(self, round_: Round) -> Decision:
            self.last = round_
            return Decision({})

    later = [Submission("later", 500, "cifar10", 1, 128)]
    simulator = Simulator(later, profiled_applications(), Remembering(), SMALL)
    with pytest.raises(ValueError, match="Remembering cannot be kept in a checkpoint"):
        Replay(simulator, tmp_path, {}).run()
    assert simulator.time == 540


@pytest.mark.parametrize("name", ["rounds.csv", "checkpoint.json"])
def test_a_damaged_folder_is_refused_by_name(tmp_path: Path, name: str) -> None:
    """What was written before a kill is gone, or garbage."""

    class Killed(Exception):
        pass

    def kill(simulator: Simulator) -> None:
        if simulator.time > 600:
            raise Killed

    with pytest.raises(Killed):
        replay(tmp_path, judge=False).run(kill)
    (tmp_path / name).write_bytes(b"garbage")
    with pytest.raises(ValueError, match=f"{name}' (is shorter|cannot be read)"):
        replay(tmp_path, judge=False).run()
    finished = tmp_path / "finished"
    replay(finished, judge=False).run()
    (finished / "rounds.csv").unlink()
    with pytest.raises(ValueError, match=r"rounds\.csv' cannot be read"):
        summarise("tiresias", finished)


def test_without_a_judge_the_gaps_are_empty(tmp_path: Path) -> None:
    """The columns are there, and blank."""
    replay(tmp_path, judge=False).run()
    assert pd.read_csv(tmp_path / "rounds.csv").gap.isna().all()


def test_simulate_writes_table_and_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two policies on a workload of one's own, for machines."""
    write_workload(SHORT, tmp_path / "workload.csv")
    command = [
        "simulate",
        str(tmp_path / "workload.csv"),
        "--policies",
        "tiresias,fifo",
        "--nodes",
        "2",
        "--no-gaps",
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    assert main(command) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["policy"] for row in rows] == ["tiresias", "fifo"]
    assert all(row["jobs"] == len(SHORT) and row["average_jct_hours"] > 0 for row in rows)
    assert (tmp_path / "out" / "replay.png").read_bytes().startswith(b"\x89PNG")
    assert pd.read_csv(tmp_path / "out" / "summary.csv").policy.tolist() == ["tiresias", "fifo"]


def test_a_policy_that_cannot_go_on_leaves_the_others_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is left out of table and picture, in words, and the exit code tells."""
    command = [
        "simulate",
        "--load",
        "0.1",
        "--nodes",
        "1",
        "--gpus-per-node",
        "1",
        "--policies",
        "fifo,equal",
        "--no-gaps",
        "--pictures",
        "pdf",
        "--out",
        str(tmp_path),
    ]
    assert main(command) == 2
    text = capsys.readouterr().out
    assert "fifo is left out. Job '" in text
    assert "the cluster has 1" in text
    assert pd.read_csv(tmp_path / "summary.csv").policy.tolist() == ["equal"]
    assert (tmp_path / "replay.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--pictures", "bmp"], "expected png, pdf, svg"),
        (["--policies", "magic"], "Policy is 'magic'"),
        (["gone.csv"], "'gone.csv' does not exist"),
        (["--requests", "lavish"], "requests is 'lavish'"),
        (["--traces", "nowhere"], "nowhere"),
        (["--nodes", "0"], "argument --nodes"),
        (["--nodes", "1", "--gpus-per-node", "1", "--policies", "fifo"], "the cluster has 1"),
        (["gone.csv", "--load", "2"], "--requests and --philly are for drawn workloads"),
        (["--outages", "1-2"], "expected FROM-TO:NODES"),
        (["--outages", "30-90:1,60-60:1"], "Outage: end is 60"),
        (["--outages", "61-119:1"], "Outage: 61 to 119 s lies between two decisions"),
        (["--outages", "60-90:16"], "Outage: nodes is 16"),
        (["--knowledge", "none"], "knowledge is 'none'"),
        (["--interference", "1"], "interference is 1.0; expected below 1"),
        (["--philly", "gone.csv"], "'gone.csv' does not exist"),
        (["--load", "0"], "argument --load"),
        (["--power", "x"], "argument --power"),
    ],
)
def test_bad_replays_are_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    """Exit code 2, and no traceback."""
    assert main(["simulate", *arguments, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


def test_idle_time_counts_as_idle_in_the_pictures() -> None:
    """Half an hour without rounds between two: no GPU then, and nothing known of efficiency."""
    rounds = pd.DataFrame(
        {
            "time": [60, 120, 1920, 1980],
            "allocated_gpus": [4, 4, 4, 4],
            "efficiency": [1.0, 1.0, 0.5, 0.5],
        }
    )
    gpus = over_time(rounds, "allocated_gpus", window=120.0)
    assert gpus.index.tolist() == list(range(60, 2040, 60))
    assert gpus[120] == 4.0
    assert gpus[180] == 2.0
    assert (gpus[240:1860] == 0.0).all()
    efficiency = over_time(rounds, "efficiency", window=120.0)
    assert efficiency.notna().sum() == 4
    assert efficiency[1980] == 0.5


def test_a_folder_of_another_replay_says_what_differs(tmp_path: Path) -> None:
    """By the names of the values."""
    first = {"policy": "fifo", "seed": 0, "nodes": 2}
    check_description(tmp_path / "replay.json", first)
    check_description(tmp_path / "replay.json", first)
    with pytest.raises(ValueError, match=r"holds another replay: nodes, seed in its replay\.json"):
        check_description(tmp_path / "replay.json", {**first, "seed": 1, "nodes": 3})


def test_long_rounds_are_kept_after_seconds_and_not_only_after_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no time between checkpoints there is one after the first round."""
    monkeypatch.setattr(replay_module, "LONGEST_UNSAVED", 0.0)
    one = replay(tmp_path, judge=False)
    one.every = 10_000

    class Killed(Exception):
        pass

    def kill(simulator: Simulator) -> None:
        assert 0.0 <= simulator.share_done < 1.0
        raise Killed

    with pytest.raises(Killed):
        one.run(kill)
    assert (tmp_path / "checkpoint.json").exists()
