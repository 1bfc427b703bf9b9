"""Autoscaling: the rule on rounds worked out by hand, its search, and replays that it drives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.workload import Submission, write_workload
from goodalloc.experiments.checkpoints.policy_memory import Memory
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.pollux import cloud
from goodalloc.experiments.support.tasks import run_tasks
from goodalloc.models.goodput.model import BatchLimits, GoodputModel
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.policies.autoscaling import Autoscaling, most_nodes
from goodalloc.solvers.policies.policy import ActiveJob, Round
from goodalloc.solvers.policies.pollux import Pollux
from goodalloc.solvers.policies.registry import make_policy
from tests.support.memories import recalled
from tests.support.policies.policy_rounds import LIMITS, Told
from tests.support.replay.replays import SHORT

if TYPE_CHECKING:
    from pathlib import Path

#: Name of each policy to what it follows.
AUTOSCALING = {"autoscaling-goodput": "goodput", "autoscaling-throughput": "throughput"}

#: No synchronisation and no loss by large batches; nothing gained by them; and between the two.
WIDE = BatchLimits(128, 1_000_000, 32, 1024)
ALONE = ThroughputParameters(0.05, 0.001, 0.0, 0.0, 0.0, 0.0, 1.0)
LINEAR = GoodputModel(ALONE, GradientStatistics(0.0, 1.0), WIDE)
STUBBORN = GoodputModel(ALONE._replace(alpha_grad=1.0), GradientStatistics(1.0, 0.0), WIDE)
BETWEEN = GoodputModel(
    ThroughputParameters(0.05, 0.001, 0.01, 0.001, 0.05, 0.005, 2.0),
    GradientStatistics(1.0, 20.0),
    LIMITS,
)

#: Batch sizes by the true optimum: that of the grid is a little less than linear.
EXACT = Pollux(rules=Rules())


def active(name: str, model: GoodputModel | None, explored: int = 64) -> ActiveJob:
    """A job of that model."""
    return ActiveJob(
        name,
        "cifar10",
        0,
        3600,
        (),
        1,
        100.0,
        1,
        1024,
        WIDE,
        None,
        explored,
        lambda: model,
        Told(100.0),
    )


def round_of(*jobs: ActiveJob, nodes: int = 2) -> Round:
    """A round on nodes of four GPUs."""
    return Round(3600, Cluster.uniform(nodes, 4), jobs)


def linear_scan(
    utilities: list[float], low: float, high: float, least: int, most: int, present: int
) -> int:
    """The rule by trying every number of nodes."""
    present = min(max(present, least), most)
    now = utilities[present]
    if low <= now <= high:
        return present
    tried = range(present, most + 1) if now > high else range(least, present)
    return max((nodes for nodes in tried if utilities[nodes] >= low), default=least)


@pytest.mark.parametrize("present", [1, 2, 7, 16])
def test_a_job_that_scales_without_loss_gets_all_nodes(present: int) -> None:
    """Its utility is 1 however many there are."""
    policy = Autoscaling(EXACT)
    round_ = round_of(active("only", LINEAR), nodes=present)
    assert policy.settled_utility(round_, 16) == pytest.approx(1.0)
    assert policy.decide(round_).nodes == (None if present == 16 else 16)


@pytest.mark.parametrize("present", [1, 2, 16])
def test_a_job_that_gains_nothing_gets_the_fewest_nodes(present: int) -> None:
    """Without noise in its gradient a larger batch is worth no more."""
    nodes = Autoscaling().decide(round_of(active("only", STUBBORN), nodes=present)).nodes
    assert nodes == (None if present == 1 else 1)


def test_a_job_between_gets_as_many_nodes_as_keep_half_the_utility() -> None:
    """From one node up and from all nodes down to the same number; from there it stays."""
    policy = Autoscaling()
    job = active("only", BETWEEN)
    utilities = [policy.settled_utility(round_of(job), nodes) for nodes in range(1, 17)]
    assert utilities == sorted(utilities, reverse=True)
    expected = max(nodes for nodes in range(1, 17) if utilities[nodes - 1] >= 0.5)
    assert 1 < expected < 16
    assert utilities[0] > policy.high
    for present in (1, 16):
        assert policy.decide(round_of(job, nodes=present)).nodes == expected
    assert policy.decide(round_of(job, nodes=expected)).nodes is None


def test_the_limits_hold_whatever_the_utility() -> None:
    """Also for a cluster that starts beyond them."""
    policy = Autoscaling(min_nodes=3, max_nodes=5)
    for model, nodes in ((LINEAR, 5), (STUBBORN, 3)):
        for present in (1, 3, 4, 5, 9):
            wanted = policy.decide(round_of(active("only", model), nodes=present)).nodes
            assert (wanted or present) == nodes


def test_what_a_job_never_tried_is_not_rented_for_it() -> None:
    """One that ran on four GPUs may use eight: half of four nodes. One that never ran, one."""
    round_ = round_of(active("only", LINEAR, explored=4), nodes=1)
    assert Autoscaling(EXACT).decide(round_).nodes == 4
    assert Autoscaling(EXACT).decide(round_of(active("new", None, 0), nodes=1)).nodes is None


def test_jobs_add_up() -> None:
    """A job that does not scale takes one GPU and leaves the others to those that do."""
    policy = Autoscaling(EXACT)
    jobs = (active("a", LINEAR), active("b", LINEAR))
    assert policy.settled_utility(round_of(*jobs), 3) == pytest.approx(1.0)
    third = active("c", STUBBORN)
    assert policy.settled_utility(round_of(*jobs, third), 3) == pytest.approx(1.0)
    assert policy.settled_utility(round_of(third), 3) < 0.1


@given(
    st.lists(st.floats(0.0, 1.0), min_size=17, max_size=17),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.integers(1, 16),
    st.integers(1, 16),
    st.integers(1, 20),
)
def test_the_search_finds_what_a_linear_scan_finds(
    values: list[float], one: float, other: float, first: int, second: int, present: int
) -> None:
    """For utilities that fall with the nodes, any thresholds and limits; asked again, it stays."""
    utilities = sorted(values, reverse=True)
    low, high = sorted((one, other))
    least, most = sorted((first, second))
    policy = Autoscaling(low=low, high=high, min_nodes=least, max_nodes=most)
    found = policy.wanted_nodes(utilities.__getitem__, present)
    assert found == linear_scan(utilities, low, high, least, most, present)
    assert least <= found <= most
    assert policy.wanted_nodes(utilities.__getitem__, found) == found


def test_the_search_takes_few_questions() -> None:
    """Each may be a round to solve: of 16 nodes four at most."""
    asked: list[int] = []

    def utility(nodes: int) -> float:
        asked.append(nodes)
        return 1.0 / nodes

    assert most_nodes(utility, 0.2, 1, 16) == 5
    assert len(asked) <= 4


@pytest.mark.parametrize("name", AUTOSCALING)
def test_a_replay_stays_within_its_limits_and_survives_a_checkpoint(name: str) -> None:
    """The cluster grows and shrinks; kept on the way it goes on as if nothing had happened."""
    whole, copy = (
        Simulator(
            SHORT[:2], profiled_applications(), make_policy(name), Setting(Cluster.uniform(1, 4))
        )
        for _ in range(2)
    )
    sizes, memory = [], Memory(whole.policy)
    while not whole.finished:
        whole.step()
        sizes.append(whole.cluster.num_nodes)
        if whole.time == 300:
            copy.unpack(json.loads(json.dumps(whole.pack())))
            recalled(memory, copy.policy)
    while not copy.finished:
        copy.step()
    completions = [job.completion for job in whole.jobs]
    assert [job.completion for job in copy.jobs] == completions
    assert 1 == min(sizes) < max(sizes) <= 16


def test_throughput_rents_more_than_goodput() -> None:
    """In the first quarter of an hour of ImageNet, while large batches lose much."""
    nodes = {}
    for name, measure in AUTOSCALING.items():
        policy = make_policy(name)
        simulator = Simulator(
            cloud.JOB, profiled_applications(), policy, Setting(Cluster.uniform(1, 4))
        )
        while simulator.time < 900:
            simulator.step()
        nodes[measure] = simulator.cluster.num_nodes
    assert nodes["goodput"] < 4
    assert nodes["throughput"] == 16


def test_the_command_line_knows_the_policies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From one node, judged by Pollux's objective: exact in every round."""
    write_workload(SHORT[:2], tmp_path / "workload.csv")
    command = [
        "simulate",
        str(tmp_path / "workload.csv"),
        "--policies",
        "autoscaling-goodput",
        "--nodes",
        "1",
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    assert main(command) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["worst_gap"] <= 1e-9
    rounds = pd.read_csv(tmp_path / "out" / "autoscaling-goodput" / "rounds.csv")
    assert rounds.nodes.iloc[0] == 1 < rounds.nodes.max()


def test_figure_9_adds_up_what_nodes_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short job in place of ImageNet: node-hours by hand, published changes beside ours."""
    monkeypatch.setattr(cloud, "JOB", (Submission("short", 0, "cifar10", 1, 128),))
    plan = Plan(tmp_path)
    tasks = cloud.FIGURE_9.tasks(plan)
    conditions = {variant.conditions for variant in cloud.VARIANTS}
    assert len({task.folder for task in tasks}) == len(cloud.VARIANTS) + len(conditions)
    monkeypatch.setattr(cloud, "VARIANTS", cloud.VARIANTS[:1])
    run_tasks(tasks[:2])
    rows = cloud.FIGURE_9.rows(plan)
    cost, hours = rows[:2]
    assert (cost.published_change_percent, hours.published_change_percent) == (-25.0, 6.0)
    assert cost.our_change_percent == pytest.approx(
        100 * (cost.goodput / cost.throughput - 1), abs=0.1
    )
    rounds = pd.read_csv(tasks[0].folder / "rounds.csv")
    last = pd.read_csv(tasks[0].folder / "jobs.csv").completion.max()
    seconds = [*rounds.time.diff().iloc[1:], last - rounds.time.iloc[-1]]
    paid = sum(nodes * spent for nodes, spent in zip(rounds.nodes, seconds, strict=True))
    assert cost.goodput == pytest.approx(paid / 3600, rel=1e-3)
    assert len(cloud.FIGURE_9.plot(plan, rows).axes) == 3


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"low": 0.7}, "low is 0.7; expected at most high, 0.666667"),
        ({"low": -0.1}, "low is -0.1; expected a finite number of at least 0"),
        ({"high": float("nan")}, "high is nan"),
        ({"batch_sizes": "requested"}, "batch_sizes is 'requested'; expected one of goodput"),
        ({"min_nodes": 0}, "min_nodes is 0; expected an integer of at least 1"),
        ({"min_nodes": 4, "max_nodes": 3}, "max_nodes is 3; expected an integer of at least 4"),
    ],
)
def test_bad_limits_are_refused(parameters: dict[str, object], complaint: str) -> None:
    """In one sentence that names the parameter, its value and what was expected."""
    with pytest.raises(ValueError, match=complaint):
        Autoscaling(**parameters)  # type: ignore[arg-type]
