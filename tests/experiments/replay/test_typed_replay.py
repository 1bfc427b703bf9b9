"""Replays on clusters of several types of GPU, with cores: truth, knowledge, decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.applications.application import (
    ProfiledApplication,
    examples_per_second,
    pass_time,
    profiled_applications,
)
from goodalloc.data.applications.profiles import load_profile
from goodalloc.data.applications.traces import measured_applications
from goodalloc.data.rounds.typed import sia_cluster
from goodalloc.data.workloads.workload import Submission, read_workload
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.replay.job_modes import (
    Equipment,
    Measured,
    draw_pipeline,
    equip,
    predict,
)
from goodalloc.experiments.replay.job_oracle import TrueOracle
from goodalloc.experiments.replay.judge import Judge
from goodalloc.experiments.replay.replay import Replay
from goodalloc.experiments.replay.replay_conditions import Outage, Setting
from goodalloc.experiments.replay.simulated_job import SimulatedJob
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.models.goodput.throughput_model import throughput
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable, resources
from goodalloc.models.round.objective import mode_utilities
from goodalloc.models.round.rules import OSDI21
from goodalloc.solvers.policies.decided_modes import decided_modes, with_shares
from goodalloc.solvers.policies.decision_checker import check_decision
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.pollux import PolluxGenetic
from goodalloc.solvers.policies.registry import make_policy, require_types_known
from tests.support.few import few

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goodalloc.data.applications.application import Application
    from goodalloc.solvers.policies.policy import BatchSizes, Round

CIFAR10 = profiled_applications()["cifar10"]
JOBS = tuple(
    Submission(f"{name}-{index}", 40 + 100 * index, name, replicas, batch)
    for index, (name, replicas, batch) in enumerate(
        [("ncf", 1, 32768), ("cifar10", 4, 1024), ("ncf", 1, 32768), ("cifar10", 2, 512)]
    )
)


def cluster(cores: float | None = None, groups: str = "t4 a100") -> Cluster:
    """A node of four GPUs of every type, with so many cores."""
    amounts = resources({} if cores is None else {"cpu": cores})
    return Cluster(tuple(NodeGroup(name, 1, 4, name, amounts) for name in groups.split()))


def simulate(policy: Any, setting: Setting) -> Simulator:
    """Replay the jobs to the end."""
    made = make_policy(policy) if isinstance(policy, str) else policy
    simulator = Simulator(JOBS, profiled_applications(), made, setting)
    while not simulator.finished:
        simulator.step()
    return simulator


class Fixed:
    """Decides the same over and over."""

    batch_sizes: BatchSizes = "goodput"

    def __init__(self, rule: Callable[[Round], Decision]) -> None:
        self.rule = rule

    def decide(self, round_: Round) -> Decision:
        """As the rule says."""
        return self.rule(round_)


@pytest.mark.parametrize(
    "policy", ["sia", "pollux", "sia-exact", "synergy-tune", "pollux-proportional"]
)
@pytest.mark.parametrize("cores", few([16.0, None], 1))
def test_no_job_is_on_two_types_and_no_core_is_given_twice(
    policy: str, cores: float | None
) -> None:
    """Counted from the jobs themselves, after every decision."""
    nodes = cluster(cores)
    simulator = Simulator(JOBS, profiled_applications(), make_policy(policy), Setting(nodes))
    ran = set()
    while not simulator.finished:
        simulator.step()
        used, gpus = np.zeros(2), np.zeros(2)
        for job in simulator.active:
            for node, count in job.placement:
                assert nodes.node_types[node] == job.gpu_type
                used[node] += count * job.cores
                gpus[node] += count
                ran.add(job.gpu_type)
        assert (gpus <= 4).all()
        assert (used <= (cores or 0.0)).all()
    assert ran


def test_the_genetic_algorithm_carries_modes_from_round_to_round() -> None:
    """With a small budget: jobs run on both types of GPU, with other cores than a GPU's share."""
    policy = PolluxGenetic(population=20, generations=10)
    simulator = Simulator(JOBS[:2], profiled_applications(), policy, Setting(cluster(8.0)))
    modes = set()
    while not simulator.finished:
        simulator.step()
        modes |= {job.mode for job in simulator.active if job.placement}
    assert {mode.split("-")[0] for mode in modes} == {"t4", "a100"}
    assert modes - {"t4-2", "a100-2"}


def test_a_job_is_faster_on_the_faster_type() -> None:
    """The same job on one T4 and on one A100: the truth of the profiles."""
    seconds = {}
    for kind in ("t4", "a100"):

        def alone(round_: Round) -> Decision:
            return Decision({round_.jobs[0].name: ((0, 1),)})

        simulator = Simulator(
            JOBS[1:2], profiled_applications(), Fixed(alone), Setting(cluster(groups=kind))
        )
        while not simulator.finished:
            simulator.step()
        assert simulator.jobs[0].completion is not None
        seconds[kind] = simulator.jobs[0].completion
    assert seconds["a100"] < 0.7 * seconds["t4"]


def test_what_a_job_never_ran_on_is_scaled_by_its_throughput_on_one_gpu() -> None:
    """Measured on T4 only, its A100 is faster by the ratio of the true throughputs."""
    throughput = load_profile("cifar10").throughput
    gradient = CIFAR10.gradient_statistics(128, 0)
    found = predict(CIFAR10, {"t4": Measured({}, throughput)}, gradient, ("t4", "a100"))
    ratio = examples_per_second(CIFAR10.on("a100")) / examples_per_second(CIFAR10)
    assert found["t4"].throughput == throughput
    assert found["a100"].throughput.beta_grad == pytest.approx(throughput.beta_grad / ratio)
    assert found["a100"].batch == CIFAR10.on("a100").batch
    assert predict(CIFAR10, {}, gradient, ("t4", "a100")) == {}


def test_too_few_cores_slow_a_job_down_and_enough_do_not() -> None:
    """The true rate with a core a GPU, with half of what it needs, and with all of it."""
    equipment = Equipment.of(cluster(48.0, "t4"))
    pipeline = draw_pipeline(CIFAR10, ("t4",), np.random.default_rng(0))
    needed = pipeline.core_seconds / pass_time(CIFAR10).per_example
    assert needed == pytest.approx(round(needed))
    assert 1 <= round(needed) <= 12
    rates = []
    for cores in (1.0, needed / 2, needed + 0.01, 12.0):
        job = SimulatedJob(JOBS[1], CIFAR10, "requested", equipment, pipeline)
        job.cores, job.gpu_type = cores, "t4"
        job.placement, job.spread, job.replicas = ((0, 1),), (1,), 1
        job.set_batch(1024, 0)
        job.train(0.0, 1.0, 0.0)
        rates.append(job.rate)
    assert rates[0] < rates[1] < rates[2] == rates[3]
    assert rates[1] == pytest.approx(rates[3] / 2, rel=0.1)


@pytest.mark.parametrize("cores", [1, 3, 6, 12])
def test_what_a_job_predicts_of_its_cores_is_true(cores: int) -> None:
    """With the profile's parameters fitted, predicted and true throughput agree however slow."""
    equipment = Equipment.of(cluster(48.0, "t4"))
    pipeline = draw_pipeline(CIFAR10, ("t4",), np.random.default_rng(1))
    job = SimulatedJob(JOBS[1], CIFAR10, "requested", equipment, pipeline)
    job.cores, job.gpu_type = float(cores), "t4"
    job.placement, job.spread, job.replicas = ((0, 2),), (2,), 2
    job.set_batch(512, 0)
    job.measured["t4"] = Measured({}, load_profile("cifar10").throughput)
    job.train(0.0, 1.0, 0.0)
    model = job.model()
    assert model is not None
    predicted = float(throughput(model.throughput, 1, 2, 512, 0))
    true = job.rate * CIFAR10.batch.initial / job.efficiency
    assert predicted == pytest.approx(true, rel=0.12)


def test_a_job_that_never_ran_has_the_cores_of_a_gpus_share_only() -> None:
    """And every number up to what a node has once it did."""
    equipment = Equipment.of(cluster(24.0))
    pipeline = draw_pipeline(CIFAR10, ("t4", "a100"), np.random.default_rng(0))
    assert [mode.name for mode in equip(equipment, {}, pipeline)] == ["t4-6", "a100-6"]
    gradient = CIFAR10.gradient_statistics(128, 0)
    measured = {"t4": Measured({}, load_profile("cifar10").throughput)}
    models = predict(CIFAR10, measured, gradient, ("t4", "a100"))
    modes = equip(equipment, models, pipeline)
    assert [mode.name for mode in modes] == [
        f"{kind}-{cores}" for kind in ("t4", "a100") for cores in range(1, 13)
    ]
    assert equip(Equipment.of(Cluster.uniform(2, 4)), {"": models["t4"]}, None) == ()


def test_moving_to_like_nodes_is_free_only_where_it_is_said_to_be() -> None:
    """A job that hops between two nodes of one type trains as if it stayed, or never gets far."""

    def hop(round_: Round) -> Decision:
        return Decision({round_.jobs[0].name: ((round_.time // 60 % 2, 2),)})

    seconds, restarts = {}, {}
    nodes = Cluster((NodeGroup("t4", 2, 4, "t4"),))
    for free in (True, False):
        setting = Setting(nodes, free_moves=free)
        simulator = Simulator(JOBS[1:2], profiled_applications(), Fixed(hop), setting)
        while not simulator.finished:
            simulator.step()
        job = simulator.jobs[0]
        assert job.completion is not None
        seconds[free], restarts[free] = job.completion, job.restarts
    assert restarts[True] == 0
    assert (restarts[False] or 0) > 5
    assert seconds[False] > 1.5 * seconds[True]


def test_a_job_may_have_a_restart_delay_of_its_own() -> None:
    """Its utility is as under rules with that delay, and those of other jobs do not change."""
    table = SpeedupTable((1.0, 2.0), ())
    jobs = [Job(name, table, age=600.0, placement=((0, 1),)) for name in "ab"]
    nodes = Cluster.uniform(1, 4)
    own = (jobs[0].replace(restart_delay=120.0), jobs[1])
    usual = mode_utilities(Instance(nodes, tuple(jobs), OSDI21)).moved
    slow = OSDI21.replace(restart_delay=120.0)
    slower = mode_utilities(Instance(nodes, tuple(jobs), slow)).moved
    found = mode_utilities(Instance(nodes, own, OSDI21)).moved
    assert np.array_equal(found[0], slower[0])
    assert np.array_equal(found[1], usual[1])
    assert not np.array_equal(found[0], usual[0])


def rounds(cores: float | None = 24.0) -> Round:
    """A round in which all jobs are there and some have run."""
    simulator = Simulator(
        JOBS, profiled_applications(), make_policy("sia"), Setting(cluster(cores))
    )
    while simulator.time < 360:
        simulator.step()
    assert len(simulator.active) > 1
    return simulator.observe(simulator.active)


def test_a_mode_that_is_not_named_is_a_gpus_share() -> None:
    """Six cores of 24 on a node of four GPUs."""
    round_ = rounds()
    name = round_.jobs[0].name
    decision = Decision({name: ((1, 2),)})
    assert decided_modes(round_, decision)[name].name == "a100-6"
    shares = with_shares(round_)
    for job in shares.jobs:
        assert {mode.name for mode in job.modes()} - {job.mode} <= {"t4-6", "a100-6"}


@pytest.mark.parametrize(
    ("placement", "mode", "complaint"),
    [
        (((0, 1),), "a100-6", "in mode 'a100-6' on node 't4-0', whose GPUs are 't4'; expected"),
        (((0, 1),), "v100", "mode of job '.*' is 'v100'; expected one of t4-"),
        (((0, 1), (1, 1)), None, "is none on all of its nodes; expected one of"),
        (((0, 4),), "t4-12", "node 0 is to give 48 of cpu; it has 24"),
    ],
)
def test_decisions_that_cannot_be_are_refused(
    placement: Any, mode: str | None, complaint: str
) -> None:
    """With the time, the job or the node, and what was expected."""
    round_ = rounds()
    name = next(job.name for job in round_.jobs if len(job.modes()) > 2)
    decision = Decision({name: placement}, modes={} if mode is None else {name: mode})
    with pytest.raises(ValueError, match=complaint):
        check_decision(round_, decision)


def test_resources_that_no_replay_knows_and_types_without_a_profile_are_refused() -> None:
    """At the beginning, in one sentence."""
    memory = Cluster((NodeGroup("a", 1, 4, "t4", resources({"memory": 64.0})),))
    with pytest.raises(ValueError, match="nodes have 'memory'; expected no resource but 'cpu'"):
        Setting(memory)
    with pytest.raises(ValueError, match="gpu_type is 'h100'; expected one of t4"):
        simulate("sia", Setting(cluster(groups="t4 h100")))


def test_the_judge_values_modes_and_no_decision_beats_the_bound() -> None:
    """Every decision of a policy that knows nothing of Pollux's objective."""
    policy, judge = make_policy("synergy-tune"), Judge(OSDI21)
    simulator = Simulator(JOBS, profiled_applications(), policy, Setting(cluster(24.0)))
    seen = 0
    while not simulator.finished:
        record = simulator.step()
        if record is not None and len(record.decision.placements) > 1:
            verdict = judge(record.round_, record.decision)
            assert 0 < verdict.fitness <= verdict.bound * (1 + 1e-9)
            seen += 1
    assert seen > 3


def test_a_killed_replay_with_types_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    """What a job measured on every type survives a checkpoint."""

    def replay(folder: Path, rounds_: int) -> None:
        folder.mkdir(exist_ok=True)
        simulator = Simulator(
            JOBS, profiled_applications(), make_policy("sia"), Setting(cluster(24.0))
        )

        def kill(_: Simulator) -> None:
            nonlocal rounds_
            rounds_ -= 1
            if rounds_ == 0:
                raise KeyboardInterrupt

        Replay(simulator, folder, {"seed": 0}, every=2).run(kill)

    replay(tmp_path / "whole", -1)
    with pytest.raises(KeyboardInterrupt):
        replay(tmp_path / "killed", 7)
    replay(tmp_path / "killed", -1)
    for name in ("rounds.csv", "samples.csv", "jobs.csv"):
        whole = (tmp_path / "whole" / name).read_bytes()
        assert (tmp_path / "killed" / name).read_bytes() == whole
    assert b"a100-" in (tmp_path / "whole" / "samples.csv").read_bytes()


@pytest.mark.parametrize("nodes", [1, 2, 3, 5, 9])
def test_a_cluster_is_cut_from_the_end_and_grows_by_its_last_kind(nodes: int) -> None:
    """Two nodes of four GPUs and three of eight."""
    found = Cluster((NodeGroup("a", 2, 4), NodeGroup("b", 3, 8))).resized(nodes)
    assert found.node_gpus.tolist() == [4, 4, 8, 8, 8, 8, 8, 8, 8][:nodes]


@pytest.fixture(scope="module")
def sia_traces(reference: Path) -> dict[str, Application]:
    """The measurements of Sia's artifact."""
    return measured_applications(reference / "sia" / "traces")


def test_the_measurements_of_a_type_are_those_of_its_files(
    sia_traces: dict[str, Application],
) -> None:
    """Rows of placements-dgx-ext.csv, -rtx.csv and -aws.csv; the constants of the simulator."""
    bert = sia_traces["bert"]
    assert bert.on("a100").step_times((1,), 4).step == 0.14855386316776276
    assert bert.on("rtx2080ti").step_times((1,), 4).step == 0.2522909343242645
    assert bert.on("t4").step_times((1,), 4) == bert.step_times((1,), 4)
    assert bert.step_times((1,), 4).step == 0.45532354712486267
    assert (bert.slowdown, bert.restart_delay) == (1.2, 120.0)
    assert bert.on("a100").batch.atomic_maximum == 48
    assert sia_traces["deepspeech2"].on("rtx2080ti").batch.atomic_maximum == 57
    with pytest.raises(ValueError, match="gpu_type is 'h100'; expected t4, a100, rtx2080ti"):
        bert.on("h100")


def test_pollux_artifact_knows_one_type(reference: Path) -> None:
    """Its files name no type."""
    bert = measured_applications(reference / "pollux" / "traces")["bert"]
    assert (bert.slowdown, bert.restart_delay) == (1.0, None)
    with pytest.raises(ValueError, match="gpu_type is 'a100'; expected t4"):
        bert.on("a100")


@pytest.mark.slow
def test_sias_first_workload_ends_as_in_its_own_simulator(
    reference: Path, sia_traces: dict[str, Application]
) -> None:
    """Published: 0.54 to 0.55 h on average and 14.9 to 15.7 h in all, by solver."""
    jobs = read_workload(reference / "sia" / "workloads" / "philly" / "workload-1.csv")
    setting = Setting(sia_cluster(), free_moves=True)
    simulator = Simulator(jobs, sia_traces, make_policy("sia"), setting)
    while not simulator.finished:
        simulator.step()
    ends = [job.completion or np.inf for job in simulator.jobs]
    times = [end - job.submission.time for end, job in zip(ends, simulator.jobs, strict=True)]
    assert np.mean(times) / 3600 == pytest.approx(0.545, rel=0.05)
    assert 14.9 * 0.95 <= max(ends) / 3600 <= 15.7 * 1.05


def test_a_profile_is_another_on_another_type() -> None:
    """Cached, so that a checkpoint may name it."""
    profile = ProfiledApplication(load_profile("bert"))
    assert profile.on("") is profile.on("t4") is profile
    assert profile.on("a100") is profile.on("a100")
    assert examples_per_second(profile.on("a100")) > 2 * examples_per_second(profile)


def test_a_type_that_is_lost_for_a_while_stops_no_replay() -> None:
    """Its jobs go on elsewhere, and it is used again."""
    setting = Setting(cluster(24.0), outages=(Outage(180, 420, 1),))
    for policy in ("pollux", "synergy-tune", "sia"):
        simulator = Simulator(JOBS, profiled_applications(), make_policy(policy), setting)
        while not simulator.finished:
            simulator.step()
            if 180 <= simulator.time < 420:
                assert all(job.gpu_type == "t4" for job in simulator.active if job.placement)


def test_a_user_who_asks_for_more_gpus_than_any_type_has_gets_them_all() -> None:
    """Under Synergy, which knows one type, nobody waits for ever."""
    jobs = (Submission("wide", 0, "cifar10", 64, 1024), *JOBS)
    simulator = Simulator(
        jobs, profiled_applications(), make_policy("synergy-tune"), Setting(cluster(16.0))
    )
    while not simulator.finished:
        simulator.step()
    most = max(
        replicas for found in simulator.jobs[0].measured.values() for _, replicas, _ in found.times
    )
    assert most == 4


def test_the_oracle_knows_on_which_type_a_job_runs() -> None:
    """Whatever it was asked before."""
    job = SimulatedJob(JOBS[1], CIFAR10, "requested", Equipment.of(cluster()))
    oracle = TrueOracle(job)
    slow = oracle.seconds_per_step(2, 4)
    job.gpu_type = "a100"
    assert oracle.seconds_per_step(2, 4) == TrueOracle(job).seconds_per_step(2, 4) < slow


@pytest.mark.parametrize(
    ("modes", "complaint"),
    [
        (None, "modes are a NoneType; expected a mapping"),
        ({"nobody": "t4-6"}, "job 'nobody' has a mode and is not active"),
        ({"": 1}, "job '' has a mode"),
    ],
)
def test_modes_that_are_none_are_refused(modes: Any, complaint: str) -> None:
    """In one sentence."""
    round_ = rounds()
    with pytest.raises(ValueError, match=complaint):
        check_decision(round_, Decision({}, modes=modes))
    bad = {round_.jobs[0].name: ["t4-6"]}
    with pytest.raises(ValueError, match="expected its name"):
        check_decision(round_, Decision({}, modes=bad))  # type: ignore[arg-type]


def test_policies_that_know_one_type_and_nodes_short_of_cores_are_refused_at_once() -> None:
    """Before anything is replayed."""
    with pytest.raises(ValueError, match="'tiresias' knows one type of GPU and the cluster has a1"):
        require_types_known("tiresias", cluster())
    require_types_known("tiresias", cluster(groups="t4"))
    require_types_known("sia", cluster())
    with pytest.raises(ValueError, match="'autoscaling-goodput' knows GPUs only"):
        require_types_known("autoscaling-goodput", cluster(groups="t4"))
    with pytest.raises(ValueError, match="'t4' has 3 cores for 4 GPUs; expected at least one"):
        Setting(cluster(3.0))


def test_nodes_beside_groups_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """They would make no difference."""
    groups = ["--group", "t4:2:4:t4"]
    for command in (
        ["generate", *groups, "--nodes", "4"],
        ["simulate", *groups, "--nodes", "4"],
        ["simulate", *groups, "--gpus-per-node", "4"],
    ):
        assert main(command) == 2
        assert "the nodes are those of --group; expected one" in capsys.readouterr().err


@pytest.mark.parametrize("cores", [None, 16.0])
def test_allox_sends_jobs_to_types_and_moves_none_of_them(cores: float | None) -> None:
    """Nobody restarts; nobody is on two types; the faster type is used, by the oracle's seconds."""
    simulator = simulate("allox", Setting(cluster(cores)))
    assert all(job.restarts == 0 for job in simulator.jobs)
    kinds = [set(job.measured) for job in simulator.jobs]
    assert all(len(kind) == 1 for kind in kinds)
    assert {"a100"} in kinds


def test_a_gang_larger_than_any_type_is_served_by_allox() -> None:
    """With as many GPUs as there are of the largest."""
    jobs = (Submission("wide", 0, "cifar10", 64, 1024), *JOBS)
    simulator = Simulator(jobs, profiled_applications(), make_policy("allox"), Setting(cluster()))
    while not simulator.finished:
        simulator.step()
    assert simulator.jobs[0].completion is not None


def test_the_oracle_may_be_asked_of_another_type() -> None:
    """The same as if the job ran there."""
    job = SimulatedJob(JOBS[1], CIFAR10, "requested", Equipment.of(cluster()))
    oracle = TrueOracle(job)
    asked = oracle.seconds_per_step(2, 4, "a100")
    assert oracle.seconds_per_step(2, 4, "t4") == oracle.seconds_per_step(2, 4) > asked
    job.gpu_type = "a100"
    assert oracle.seconds_per_step(2, 4) == asked
