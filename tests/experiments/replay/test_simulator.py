"""The simulator: published replays to the second, and the laws that every replay obeys."""

from __future__ import annotations

import csv
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.applications.traces import measured_applications
from goodalloc.data.workloads.generator import draw_workload
from goodalloc.data.workloads.workload import Submission, read_workload
from goodalloc.experiments.replay.replay import Replay
from goodalloc.experiments.replay.replay_conditions import Outage, Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.rules import OSDI21
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.policy_table import POLICIES, PolicyOptions
from goodalloc.solvers.policies.registry import make_policy
from goodalloc.solvers.policies.tiresias import Tiresias
from tests.support.replay.replays import SHORT, SMALL, finish

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.data.applications.application import Application
    from goodalloc.solvers.policies.policy import BatchSizes, Round


@pytest.fixture(scope="module")
def traces(reference: Path) -> dict[str, Application]:
    """The measurements of the artifact."""
    return measured_applications(reference / "pollux" / "traces")


def published(reference: Path, policy: str, workload: str) -> dict[str, float]:
    """The artifact's own results of one replay."""
    with (reference / "pollux" / "published_anchors.csv").open(newline="") as stream:
        for row in csv.DictReader(stream):
            if row["configuration"] == f"{policy}-1.0" and row["workload"] == workload:
                return {key: float(row[key]) for key in row if key.endswith("_s")}
    raise AssertionError(f"no anchor for {policy} on {workload}")


def least_seconds(application: Application, gpus: int) -> float:
    """No training takes less: all GPUs at the largest batch, no synchronisation, no noise."""
    largest = int(application.batch.atomic_maximum)
    step, synchronisation = application.step_times((1,), largest)
    examples = application.progress(application.epochs - 1) * float(application.batch.initial)
    return examples * (step - synchronisation) / (gpus * largest)


def completion_times(simulator: Simulator) -> np.ndarray:
    """Job completion times in the order of the jobs."""
    assert simulator.finished
    return np.array([(job.completion or 0.0) - job.submission.time for job in simulator.jobs])


@pytest.mark.parametrize("workload", ["workload-1", "workload-4", "workload-6"])
@pytest.mark.parametrize("policy", ["tiresias", "optimus"])
def test_published_replays_are_repeated_to_the_second(
    reference: Path, traces: dict[str, Application], policy: str, workload: str
) -> None:
    """Average, median, 99th percentile and greatest completion time, and the makespan."""
    expected = published(reference, policy, workload)
    jobs = read_workload(reference / "pollux" / "workloads" / f"{workload}.csv")
    simulator = finish(Simulator(jobs, traces, make_policy(policy)))
    times = completion_times(simulator)
    assert times.mean() == pytest.approx(expected["avg_jct_s"], abs=1e-3)
    assert np.median(times) == pytest.approx(expected["median_jct_s"], abs=1e-3)
    assert np.quantile(times, 0.99) == pytest.approx(expected["p99_jct_s"], abs=1e-2)
    assert times.max() == expected["max_jct_s"]
    makespan = max(job.completion or 0.0 for job in simulator.jobs)
    assert makespan == expected["makespan_s"]


@pytest.mark.slow
def test_exact_pollux_on_a_published_workload_is_near_the_published_average(
    reference: Path, traces: dict[str, Application]
) -> None:
    """The genetic algorithm took 2,446 s on average; deciding exactly is within 5 per cent."""
    jobs = read_workload(reference / "pollux" / "workloads" / "workload-6.csv")
    times = completion_times(finish(Simulator(jobs, traces, make_policy("pollux"))))
    expected = published(reference, "pollux", "workload-6")["avg_jct_s"]
    assert times.mean() == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "pollux-genetic"])
def test_every_replay_obeys_the_laws_of_conservation(policy: str) -> None:
    """GPUs are used once; service adds up; progress takes GPUs; nobody outruns the hardware."""
    simulator = Simulator(SHORT, profiled_applications(), make_policy(policy), SMALL)
    service: dict[str, float] = defaultdict(float)
    before: dict[str, float] = {}
    held: dict[str, tuple[int, ...]] = {}
    gpus = 0
    while not simulator.finished:
        start = {job.submission.name: job.attained_service for job in simulator.jobs}
        simulator.step()
        used = np.zeros(simulator.cluster.num_nodes, dtype=int)
        gpus = max(gpus, simulator.cluster.num_gpus)
        for job in simulator.jobs:
            name = job.submission.name
            gained = job.attained_service - start[name]
            service[name] += gained
            assert 0.0 <= gained <= SMALL.interval * sum(held.get(name, ()))
            if not held.get(name):
                assert job.progress == before.get(name, 0.0)
            before[name] = job.progress
            held[name] = job.spread if job.placement else ()
            for node, count in job.placement:
                used[node] += count
        assert (used <= 4).all()
    for job in simulator.jobs:
        assert service[job.submission.name] == pytest.approx(job.attained_service)
        assert job.epoch == job.application.epochs
        assert job.completion is not None
        assert job.first_start is not None
        assert job.first_start >= job.submission.time + SMALL.restart_delay
        assert job.completion - job.first_start >= least_seconds(job.application, gpus)


@pytest.mark.parametrize("policy", ["pollux", "tiresias", "optimus", "equal"])
def test_the_order_of_the_workload_file_does_not_matter(policy: str) -> None:
    """Jobs are taken in order of submission, however they are listed."""
    runs = [
        finish(Simulator(jobs, profiled_applications(), make_policy(policy), SMALL))
        for jobs in (SHORT, SHORT[::-1])
    ]
    first, second = ([(j.submission.name, j.completion) for j in run.jobs] for run in runs)
    assert first == second


def test_a_restart_costs_its_delay_and_an_interval_without_gpus_costs_everything() -> None:
    """A job moved every round trains for half of each: 30 of 60 seconds."""

    class Mover:
        batch_sizes: BatchSizes = "requested"

        def decide(self, round_: Round) -> Decision:
            node = round_.time // 60 % 2
            return Decision({job.name: ((node, 1),) for job in round_.jobs})

    job = Submission("only", 0, "ncf", 1, 32768)
    moved = finish(Simulator([job], profiled_applications(), Mover(), SMALL)).jobs[0]
    still = finish(Simulator([job], profiled_applications(), Tiresias(), SMALL)).jobs[0]
    assert moved.completion is not None
    assert still.completion is not None
    assert moved.restarts == (moved.completion - 60) // 60
    assert (moved.completion - 60) / 2 == pytest.approx(still.completion - 90, abs=45)


def test_interference_slows_distributed_jobs_that_share_a_node() -> None:
    """Two jobs spread over the same two nodes take longer when interference is on."""

    class Spreader:
        batch_sizes: BatchSizes = "requested"

        def decide(self, round_: Round) -> Decision:
            return Decision({job.name: ((0, 1), (1, 1)) for job in round_.jobs})

    jobs = [Submission(f"job-{index}", 0, "cifar10", 2, 512) for index in range(2)]
    applications = profiled_applications()
    times = [
        completion_times(finish(Simulator(jobs, applications, Spreader(), setting)))
        for setting in (SMALL, Setting(Cluster.uniform(2, 4), interference=0.5))
    ]
    assert (times[1] > 1.8 * times[0]).all()


@pytest.mark.parametrize("policy", ["tiresias", "fifo", "srtf"])
def test_a_job_that_can_never_run_ends_the_replay_in_one_sentence(policy: str) -> None:
    """It would wait for ever, and the replay with it."""
    jobs = [*SHORT, Submission("huge", 0, "cifar10", 9, 1024)]
    simulator = Simulator(jobs, profiled_applications(), make_policy(policy), SMALL)
    with pytest.raises(ValueError, match="Job 'huge' asks for 9 GPUs and the cluster has 8; no"):
        finish(simulator)


@pytest.mark.parametrize("start", [60, 1_000_000_000])
def test_outages_do_not_keep_a_replay_going_that_serves_nobody(start: int) -> None:
    """Neither one that lasts for ever nor one that is still to come."""
    jobs = [Submission("huge", 0, "cifar10", 8, 1024)]
    outages = (Outage(start, 2_000_000_000, 1),)
    setting = Setting(Cluster.uniform(2, 4 if start == 60 else 2), outages=outages)
    simulator = Simulator(jobs, profiled_applications(), make_policy("fifo"), setting)
    with pytest.raises(ValueError, match="Job 'huge' asks for 8 GPUs and the cluster has"):
        finish(simulator)


def test_what_an_interval_achieved_adds_up_to_the_progress(tmp_path: Path) -> None:
    """Goodput of all rounds is all progress: of jobs that ended, that wait, and that interfere."""
    setting = Setting(Cluster.uniform(2, 4), restart_delay=100.0, interference=0.5)
    policy = make_policy("pollux", PolicyOptions(OSDI21.replace(interference_avoidance=False)))
    simulator = Simulator(SHORT, profiled_applications(), policy, setting)
    Replay(simulator, tmp_path, {}).run()
    rounds = pd.read_csv(tmp_path / "rounds.csv")
    worth = sum(job.progress * job.application.batch.initial for job in simulator.jobs)
    last = sum(job.interval.useful_examples for job in simulator.jobs)
    assert rounds.goodput.sum() * 60 + last == pytest.approx(worth, rel=1e-6)
    assert (rounds.goodput <= rounds.throughput * (1 + 1e-9)).all()
    assert (rounds.training_gpus <= 8).all()
    assert rounds.efficiency.isna().equals(rounds.training_gpus == 0)


def test_nodes_that_fail_stop_their_jobs_which_keep_their_progress() -> None:
    """While a node is missing the cluster is smaller; what ran there starts again elsewhere."""
    setting = Setting(Cluster.uniform(2, 4), outages=(Outage(300, 900, 1),))
    simulator = Simulator(SHORT, profiled_applications(), make_policy("pollux"), setting)
    sizes = {}
    while not simulator.finished:
        before = {job.submission.name: job.progress for job in simulator.jobs}
        record = simulator.step()
        assert all(job.progress >= before[job.submission.name] for job in simulator.jobs)
        if record is not None:
            nodes = sizes[record.round_.time] = record.round_.cluster.num_nodes
            assert all(n < nodes for job in record.round_.jobs for n, _ in job.placement)
    assert {time: nodes for time, nodes in sizes.items() if nodes == 1}.keys() == {
        time for time in sizes if 300 <= time < 900
    }


def test_a_policy_may_change_the_number_of_nodes() -> None:
    """From the next round on; what ran on nodes that are gone stops."""

    class Shrinking:
        batch_sizes: BatchSizes = "requested"

        def decide(self, round_: Round) -> Decision:
            last = round_.cluster.num_nodes - 1
            return Decision({job.name: ((last, 1),) for job in round_.jobs}, nodes=max(last, 1))

    job = Submission("only", 0, "cifar10", 1, 512)
    simulator = Simulator(
        [job], profiled_applications(), Shrinking(), Setting(Cluster.uniform(3, 4))
    )
    sizes = []
    for _ in range(4):
        record = simulator.step()
        assert record is not None
        sizes.append(record.round_.cluster.num_nodes)
    assert sizes == [3, 2, 1, 1]
    assert simulator.jobs[0].placement == ((0, 1),)
    assert simulator.jobs[0].restarts == 2


@pytest.mark.parametrize(
    ("placements", "complaint"),
    [
        ({"ghost": ((0, 1),)}, "job 'ghost' is not active"),
        ({"only": ((7, 1),)}, "node of job 'only' is 7; expected"),
        ({"only": ((0, 5),)}, "node 0 is to hold 5 GPUs; it has 4"),
        ({"only": ((0, 0),)}, "GPUs of job 'only' on node 0 is 0"),
        ({"only": ((0, 1), (0, 1))}, "expected each node once"),
    ],
)
def test_impossible_decisions_are_refused(
    placements: dict[str, tuple[tuple[int, int], ...]], complaint: str
) -> None:
    """The sentence names the time, the item and what is wrong."""

    class Wrong:
        batch_sizes: BatchSizes = "requested"

        def decide(self, round_: Round) -> Decision:
            assert round_.cluster == Cluster.uniform(2, 4)
            return Decision(placements)

    job = Submission("only", 0, "ncf", 1, 32768)
    simulator = Simulator([job], profiled_applications(), Wrong(), SMALL)
    with pytest.raises(ValueError, match=complaint):
        simulator.step()


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({"only": ((0, 1),)}, "Decision at 60 s is of type dict; expected a Decision"),
        (Decision({"only": (0, 1)}), r"placement of job 'only' is \(0, 1\); expected \(node, GPUs"),  # type: ignore[dict-item]
        (Decision({}, nodes=0), "nodes is 0; expected"),
        (Decision([("only", ((0, 1),))]), "placements are a list; expected a mapping"),  # type: ignore[arg-type]
        (Decision({"only": None}), "placement of job 'only' is None; expected"),  # type: ignore[dict-item]
    ],
)
def test_what_is_no_decision_is_refused(answer: Any, complaint: str) -> None:
    """A mistake in a policy of one's own gets a sentence."""

    class Mistaken:
        batch_sizes: BatchSizes = "requested"

        def decide(self, round_: Round) -> Decision:
            assert round_.jobs
            return answer  # type: ignore[no-any-return]

    job = Submission("only", 0, "ncf", 1, 32768)
    simulator = Simulator([job], profiled_applications(), Mistaken(), SMALL)
    with pytest.raises(ValueError, match=complaint):
        simulator.step()


def test_bad_settings_and_workloads_are_refused() -> None:
    """Each with the item, its value and what was expected."""
    applications = profiled_applications()
    stranger = Submission("stranger", 0, "alexnet", 1, 32)
    with pytest.raises(ValueError, match="application 'alexnet' is unknown"):
        Simulator([stranger], applications, Tiresias())
    huge = Submission("huge", 0, "cifar10", 1, 10_000_000)
    with pytest.raises(ValueError, match="'huge': batch_size is 10000000; expected 128 to 4096"):
        Simulator([huge], applications, Tiresias())
    with pytest.raises(ValueError, match="listed twice"):
        Simulator([SHORT[0], SHORT[0]], applications, Tiresias())
    tiresias = Tiresias()
    tiresias.batch_sizes = "mine"  # type: ignore[assignment]
    with pytest.raises(ValueError, match="batch_sizes is 'mine'; expected"):
        Simulator(SHORT, applications, tiresias)
    with pytest.raises(ValueError, match="no jobs"):
        Simulator([], applications, Tiresias())
    bad: tuple[tuple[dict[str, Any], str], ...] = (
        ({"interval": 0}, "interval is 0"),
        ({"interference": 1.0}, "interference is 1.0"),
        ({"restart_delay": -1.0}, "restart_delay"),
    )
    for setting, complaint in bad:
        with pytest.raises(ValueError, match=complaint):
            Setting(**setting)


def test_what_was_not_measured_is_refused_by_name(traces: dict[str, Application]) -> None:
    """Batches and placements off the measured range have no truth."""
    with pytest.raises(ValueError, match="'bert': 500 examples a GPU on nodes with 1 GPUs"):
        traces["bert"].step_times((1,), 500)
    with pytest.raises(ValueError, match="'bert': 500 examples a GPU on nodes with 4"):
        traces["bert"].step_times((4,) * 8, 500)
    with pytest.raises(ValueError, match="total batch of 5 examples is outside"):
        traces["bert"].gradient_statistics(5, 0)


def test_measured_times_are_interpolated_and_rotations_are_equal(
    traces: dict[str, Application],
) -> None:
    """At a measured point the measurement itself; the order of the nodes up to rotation is free."""
    bert = traces["bert"]
    step, synchronisation = bert.step_times((1,), 4)
    assert step == pytest.approx(0.45532354712486267, rel=1e-12)
    assert synchronisation == pytest.approx(0.013738612174987792, rel=1e-12)
    assert bert.step_times((1, 2, 3), 8) == bert.step_times((3, 1, 2), 8)
    low, middle, high = (bert.step_times((1,), m).step for m in (4, 5, 6))
    assert middle == pytest.approx((low + high) / 2)


@pytest.mark.parametrize("name", ["cifar10", "ncf", "bert", "deepspeech2", "yolov3", "imagenet"])
def test_the_shipped_profiles_tell_nearly_what_was_measured(
    traces: dict[str, Application], name: str
) -> None:
    """Both sources agree on limits, epochs and progress, and on the time of common steps."""
    measured, shipped = traces[name], profiled_applications()[name]
    assert (shipped.epochs, shipped.restriction) == (measured.epochs, measured.restriction)
    assert shipped.batch == measured.batch
    last = measured.epochs - 1
    assert shipped.progress(last) == pytest.approx(measured.progress(last), rel=1e-6)
    for spread in ((1,), (2,), (4,), (4, 4)):
        most = int(min(measured.batch.atomic_maximum, measured.batch.maximum // (2 * sum(spread))))
        ours, theirs = (a.step_times(spread, most).step for a in (shipped, measured))
        assert ours == pytest.approx(theirs, rel=0.35)


def test_policies_are_told_estimates_and_not_the_truth() -> None:
    """Before the first step a job has no model; then its own, whose replicas grow by doubling."""
    seen: list[tuple[bool, int]] = []

    class Watcher:
        batch_sizes: BatchSizes = "goodput"

        def decide(self, round_: Round) -> Decision:
            (job,) = round_.jobs
            seen.append((job.model() is None, job.max_replicas))
            return Decision({job.name: ((0, min(job.max_replicas, 4)),)})

    job = Submission("only", 0, "cifar10", 4, 1024)
    finish(Simulator([job], profiled_applications(), Watcher(), SMALL))
    assert [limit for _, limit in seen[:4]] == [1, 2, 4, 8]
    assert [new for new, _ in seen[:3]] == [True, False, False]


def test_nothing_is_fitted_for_a_policy_that_asks_for_no_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A queue on nodes where GPUs are all that counts, so that there are no modes to predict."""

    def refuse(_: object) -> None:
        raise AssertionError("a model was fitted")

    monkeypatch.setattr("goodalloc.experiments.replay.agents.fit_models", refuse)
    assert finish(Simulator(SHORT, profiled_applications(), make_policy("fifo"), SMALL)).finished


def test_drawn_workloads_can_be_replayed() -> None:
    """What the generator draws runs on the shipped profiles under the policies that obey it."""
    jobs = draw_workload(3, jobs=12)
    for policy in ("tiresias", "fifo"):
        simulator = finish(Simulator(jobs, profiled_applications(), make_policy(policy)))
        assert (completion_times(simulator) > 0).all()
