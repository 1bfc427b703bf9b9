"""Replays on trees: the truth of jobs, what agents know, the rules of the tree."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.topology.tree_rounds import standard_tree
from goodalloc.data.workloads.workload import Submission, write_workload
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.replay.agents import fit_models
from goodalloc.experiments.replay.replay_conditions import Outage, Setting
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.replay.simulated_job import SimulatedJob
from goodalloc.experiments.topology.tree_job import TreeJob
from goodalloc.experiments.topology.tree_judge import TreeJudge
from goodalloc.experiments.topology.tree_replay import TreeReplay
from goodalloc.experiments.topology.tree_simulator import TreeSimulator
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.topology.topology import Level, Topology
from goodalloc.models.topology.tree_wishes import TreeWishes
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.policy_table import POLICIES
from goodalloc.solvers.policies.queueing import FirstComeFirstServed
from goodalloc.solvers.policies.registry import make_policy
from goodalloc.solvers.topology.kueue_placement import ALGORITHMS
from goodalloc.solvers.topology.tree_policy import PolluxOnTree
from tests.support.few import few
from tests.support.replay.replays import SAME, SHORT

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.solvers.policies.policy import Round

#: Four nodes of two GPUs in racks of two.
CLUSTER = Cluster.uniform(4, 2)
RACKS = Topology.regular(4, [(Level("rack", 1.0), 2)], slowdown=3.0)
FLAT = Topology.regular(4, [(Level("rack", 1.0), 2)], slowdown=1.0)
SETTING = Setting(CLUSTER)
CIFAR10 = profiled_applications()["cifar10"]


def replayed(
    folder: Path, policy: str, topology: Topology = RACKS, **options: Any
) -> dict[str, dict[str, str]]:
    """Return the rows of jobs.csv of a replay on a tree."""
    given: dict[str, Any] = {"setting": SETTING, "gaps": False} | options
    task = TreeReplay(folder, policy, SHORT, wishes=TreeWishes(topology), **given)
    task.run()
    with (folder / "jobs.csv").open(newline="") as stream:
        return {row["job"]: row for row in csv.DictReader(stream)}


def placed_job(placement: tuple[tuple[int, int], ...], *, knows_tree: bool) -> TreeJob:
    """Return a job that runs on a placement."""
    submission = Submission("a", 0, "cifar10", 4, 1024)
    job = SimulatedJob(submission, CIFAR10, "requested")
    found = TreeJob(job, TreeWishes(RACKS), knows_tree=knows_tree)
    found.reallocate(placement, 0.0)
    found.set_requested_batch()
    return found


SHARING = {"gandiva", "gandiva-exact", "antman", "antman-exact", "gavel-packed"}
ALONE = sorted(
    name for name in POLICIES if name not in SHARING and not name.startswith("autoscaling")
)


@pytest.mark.parametrize("policy", few(ALONE, 8))
def test_where_nothing_is_slowed_the_tree_changes_no_byte(policy: str, tmp_path: Path) -> None:
    replayed(tmp_path / "tree", policy, FLAT)
    ReplayTask(tmp_path / "none", policy, SHORT, SETTING, gaps=False).run()
    for name in SAME[:3]:
        assert (tmp_path / "tree" / name).read_bytes() == (tmp_path / "none" / name).read_bytes()


def test_a_job_on_two_racks_waits_three_times_as_long_for_its_nodes() -> None:
    near, far = (
        placed_job(placement, knows_tree=False)
        for placement in (((0, 2), (1, 2)), ((0, 2), (2, 2)))
    )
    near.train(0.0, 60.0, 0.0)
    far.train(0.0, 60.0, 0.0)
    step, synchronisation = CIFAR10.step_times((2, 2), near.atomic_batch_size)
    seconds = step + near.accumulation_steps * (step - synchronisation)
    assert far.rate == pytest.approx(near.rate * seconds / (seconds + 2 * synchronisation))
    assert placed_job(((0, 2),), knows_tree=False).slowdown == 1.0


def test_an_agent_that_knows_the_tree_measures_what_it_would_without_it() -> None:
    """And one that does not know it measures what it waits."""
    plain, known, unknown = (
        placed_job(placement, knows_tree=knows)
        for placement, knows in (
            (((0, 2), (1, 2)), False),
            (((0, 2), (2, 2)), True),
            (((0, 2), (2, 2)), False),
        )
    )
    for job in (plain, known, unknown):
        job.train(0.0, 60.0, 0.0)
        job.train(60.0, 60.0, 0.0)
    (configuration,) = plain.measured[""].times
    passes, whole = plain.measured[""].times[configuration]
    assert known.measured[""].times == plain.measured[""].times
    assert unknown.measured[""].times == {
        configuration: pytest.approx((passes, passes + 3 * (whole - passes)))
    }


def test_the_batch_size_of_an_agent_that_knows_the_tree_follows_the_level() -> None:
    job = placed_job(((0, 2), (2, 2)), knows_tree=True)
    job.train(0.0, 60.0, 0.0)
    fit_models([job])
    plain, level = job.model(), job.batch_model()
    assert plain is not None
    assert level is not None
    assert level.throughput.alpha_node == 3 * plain.throughput.alpha_node
    job.reallocate(((0, 2), (1, 2)), 0.0)
    assert job.batch_model() == plain


@pytest.mark.parametrize("policy", ["pollux@exact", "pollux@best_fit", "tiresias@balanced"])
def test_required_racks_hold_their_jobs_in_every_round(policy: str, tmp_path: Path) -> None:
    names = [job.name for job in SHORT if job.application == "cifar10"]
    wishes = TreeWishes(RACKS, requires=tuple((name, "rack") for name in names))
    task = TreeReplay(tmp_path, policy, SHORT, SETTING, gaps=False, wishes=wishes)
    simulator = TreeSimulator(
        SHORT, task.applications, task.made_policy(), SETTING, wishes=wishes, knows_tree=True
    )
    spread = 0
    while not simulator.finished:
        simulator.step()
        for job in simulator.jobs:
            racks = {node // 2 for node, _ in job.placement}
            assert len(racks) <= 1 or job.submission.name not in names
            spread = max(spread, len(job.placement))
    assert spread == 2


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_numbers_of_gpus_are_those_of_the_policy_without_the_tree(
    algorithm: str, tmp_path: Path
) -> None:
    """Of rigid jobs, which have the GPUs that they ask for or none."""
    placed = replayed(tmp_path / "a", f"fifo@{algorithm}")
    plain = replayed(tmp_path / "b", "fifo")
    assert {job: row["start"] for job, row in placed.items()} == {
        job: row["start"] for job, row in plain.items()
    }


def test_placements_by_level_are_no_slower_than_on_nodes_of_several_racks(tmp_path: Path) -> None:
    """One job of 4 GPUs: the emptiest nodes are of both racks, and best fit finds one rack."""

    class Apart(FirstComeFirstServed):
        def decide(self, round_: Round) -> Decision:
            return Decision({job.name: ((0, 2), (2, 2)) for job in round_.jobs})

    job = (Submission("a", 0, "cifar10", 4, 1024),)
    apart = TreeSimulator(job, profiled_applications(), Apart(), SETTING, wishes=TreeWishes(RACKS))
    while not apart.finished:
        apart.step()
    task = TreeReplay(tmp_path, "fifo@best_fit", job, SETTING, gaps=False, wishes=TreeWishes(RACKS))
    task.run()
    with (tmp_path / "jobs.csv").open(newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert apart.jobs[0].completion is not None
    assert float(row["completion"]) < apart.jobs[0].completion


def test_decisions_of_a_policy_that_knows_the_tree_are_judged(tmp_path: Path) -> None:
    """Each has a gap, within what it was decided to; judging changes no job, nor others' rounds."""
    jobs = {
        gaps: replayed(tmp_path / str(gaps), "pollux@exact", gaps=gaps) for gaps in (True, False)
    }
    assert jobs[True] == jobs[False]
    rows = read_rounds(tmp_path / "True")
    assert max(float(row["gap"]) for row in rows) <= 1e-4
    assert all(0.0 < float(row["fitness"]) <= float(row["bound"]) for row in rows)
    assert all(not row["gap"] for row in read_rounds(tmp_path / "False"))
    replayed(tmp_path / "placed", "pollux@best_fit", gaps=True)
    assert all(not row["gap"] for row in read_rounds(tmp_path / "placed"))


def test_a_decision_without_a_bound_is_compared_with_the_optimum_on_the_tree() -> None:
    """And so is one whose bound its own fitness refutes."""
    wishes = TreeWishes(RACKS)
    policy = PolluxOnTree(wishes)
    simulator = TreeSimulator(
        SHORT, profiled_applications(), policy, SETTING, wishes=wishes, knows_tree=True
    )
    judge, judged = TreeJudge(policy), 0
    for _ in range(12):
        record = simulator.step()
        if record is None:
            continue
        judged += 1
        best = judge(record.round_, record.decision)
        assert best.bound == pytest.approx(record.decision.bound)
        refuted = record.decision._replace(bound=0.5 * best.fitness)
        for decision in (refuted, Decision({})):
            found = judge(record.round_, decision)
            assert found.bound == pytest.approx(best.bound, rel=2e-4)
            assert found.gap == pytest.approx(max(1.0 - found.fitness / found.bound, 0.0))
            assert found.best_starved == best.starved
        assert found.starved == len(record.round_.jobs)  # of the last, in which nobody runs
        assert found.gap > 0.4
    assert judged >= 10


def read_rounds(folder: Path) -> list[dict[str, str]]:
    """Return the rows of rounds.csv."""
    with (folder / "rounds.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_killed_replay_on_a_tree_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    whole = TreeReplay(tmp_path / "whole", "pollux@exact", SHORT, SETTING, wishes=TreeWishes(RACKS))
    whole.run()

    class Killed(Exception):
        pass

    def kill(share: float) -> None:
        if share > 0.4:
            raise Killed

    part = replace(whole, folder=tmp_path / "part")
    with pytest.raises(Killed):
        part.run(kill)
    part.run()
    for name in SAME:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "part" / name).read_bytes()


def test_while_nodes_are_missing_rounds_are_on_the_rest_of_the_tree(tmp_path: Path) -> None:
    setting = replace(SETTING, outages=(Outage(120, 600, 2),))
    found = replayed(tmp_path, "pollux@exact", setting=setting)
    assert len(found) == len(SHORT)


def test_wishes_of_a_round_are_kept_for_the_jobs_that_are_there() -> None:
    jobs = tuple(map(Job, "abc"))
    wishes = TreeWishes(RACKS, (("a", "rack"), ("c", "node")), (("b", "rack"),), 0.5)
    round_ = wishes.round_of(Instance(CLUSTER, jobs))
    assert (round_.requires, round_.prefers) == (("rack", "", "node"), ("", "rack", ""))
    assert TreeWishes.of(round_) == wishes
    fewer = wishes.round_of(Instance(CLUSTER.resized(3), jobs[2:]))
    assert (fewer.requires, fewer.topology.num_nodes) == (("node",), 3)


@pytest.mark.parametrize(
    ("policy", "options", "expected"),
    [
        ("tiresias@exact", {}, "its placing is 'exact'; expected one of best_fit"),
        ("pollux@tight", {}, "its placing is 'tight'; expected one of exact, best_fit"),
        ("autoscaling-goodput", {}, "changes the number of nodes; expected one that does not"),
        ("pollux@exact", {"interference_avoidance": False}, "with interference avoidance only"),
        (
            "fifo",
            {"setting": Setting(Cluster((NodeGroup("a", 4, 2, "", (("cpu", 8.0),)),)))},
            "its nodes have cpu; expected equal GPUs only, on a tree",
        ),
        (
            "fifo",
            {"wishes": TreeWishes(RACKS, (("ncf-0", "rack"),))},
            "does not know the tree, which forbids placements; expected pollux@exact, or a "
            "placing, as fifo@best_fit",
        ),
    ],
)
def test_a_replay_that_cannot_be_decided_on_the_tree_is_refused(
    policy: str, options: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"setting": SETTING, "wishes": TreeWishes(RACKS)} | options
    with pytest.raises(ValueError, match=expected):
        TreeReplay(tmp_path, policy, SHORT, **given)


@pytest.mark.parametrize("policy", ["gandiva", "gandiva@best_fit"])
def test_policies_whose_jobs_share_gpus_are_refused(policy: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="its jobs share GPUs; expected one"):
        replayed(tmp_path, policy)


def test_a_decision_that_breaks_a_rule_of_the_tree_is_refused() -> None:
    class Apart(FirstComeFirstServed):
        def decide(self, round_: Round) -> Decision:
            return Decision({round_.jobs[0].name: ((0, 1), (2, 1))})

    wishes = TreeWishes(RACKS, (("ncf-0", "rack"),))
    simulator = TreeSimulator(SHORT, profiled_applications(), Apart(), SETTING, wishes=wishes)
    expected = "Decision at 60 s: Job 'ncf-0' is in rack-0, rack-1; it requires one rack"
    with pytest.raises(ValueError, match=expected):
        simulator.step()


def test_the_command_replays_on_a_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_workload(SHORT, tmp_path / "jobs.csv")
    tree = {
        "format": "goodalloc-topology",
        "version": 1,
        "slowdown": 3.0,
        "levels": [{"name": "rack", "nodes": 2}],
        "requires": {"cifar10-1": "rack"},
    }
    (tmp_path / "tree.json").write_text(json.dumps(tree))
    command = ["simulate", str(tmp_path / "jobs.csv"), "--nodes", "4", "--gpus-per-node", "2"]
    command += ["--tree", str(tmp_path / "tree.json"), "--out", str(tmp_path / "out"), "--json"]
    assert main([*command, "--policies", "pollux@exact,tiresias@best_fit"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["policy"] for row in found] == ["pollux@exact", "tiresias@best_fit"]
    assert [row["jobs"] for row in found] == [4, 4]
    assert main([*command, "--policies", "tiresias"]) == 2
    assert "placing, as tiresias@best_fit" in capsys.readouterr().err
    assert main([*command, "--policies", "tiresia@best_fit"]) == 2
    assert "did you mean tiresias?" in capsys.readouterr().err


def test_the_standard_tree_suits_any_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_workload(SHORT[:2], tmp_path / "jobs.csv")
    command = ["simulate", str(tmp_path / "jobs.csv"), "--nodes", "4", "--tree", "standard"]
    command += ["--policies", "pollux@best_fit", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    text = json.loads((tmp_path / "out" / "pollux@best_fit" / "replay.json").read_text())
    islands = text["tree"]["levels"][0]
    level = standard_tree(4).levels[0]
    assert islands[:2] == [level.name, level.slowdown]
    assert "pollux@best_fit" in capsys.readouterr().out


def test_every_policy_that_ships_is_made_with_a_placing(tmp_path: Path) -> None:
    for name in ALONE:
        task = TreeReplay(tmp_path, f"{name}@best_fit", SHORT, SETTING, wishes=TreeWishes(RACKS))
        assert task.made_policy().batch_sizes == make_policy(name).batch_sizes
