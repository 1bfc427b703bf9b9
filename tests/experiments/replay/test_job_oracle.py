"""What policies are told of jobs, truth or estimates, and the batch sizes that a setting sets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.applications.application import (
    examples_per_second,
    packed,
    profiled_applications,
)
from goodalloc.data.workloads.generator import draw_workload
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.replay.agents import fit_models
from goodalloc.experiments.replay.job_oracle import BestSpeeds, EstimatedOracle, TrueOracle
from goodalloc.experiments.replay.replay_conditions import MeasurementNoise, Setting
from goodalloc.experiments.replay.simulated_job import SimulatedJob
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.models.goodput.statistical_efficiency import adascale_gain
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.policies.registry import make_policy
from tests.support.replay.replays import finish

if TYPE_CHECKING:
    from goodalloc.solvers.policies.policy import BatchSizes

APPLICATIONS = profiled_applications()
CIFAR = APPLICATIONS["cifar10"]
SMALL = Cluster.uniform(4, 4)

#: Jobs that wait for each other on eight GPUs.
CROWD = tuple(
    Submission(f"job-{index}", 100 * index, "cifar10", replicas, 128 << index % 4)
    for index, replicas in enumerate((4, 8, 2, 6))
)


def one_job(rule: BatchSizes, batch: int = 512) -> SimulatedJob:
    """A job of CIFAR-10 that was just submitted."""
    return SimulatedJob(Submission("mine", 0, "cifar10", 2, batch), CIFAR, rule)


def replayed(policy: str, **conditions: Any) -> Simulator:
    """A small finished replay."""
    setting = Setting(Cluster.uniform(2, 4), **conditions)
    return finish(Simulator(CROWD, APPLICATIONS, make_policy(policy), setting))


def times(simulator: Simulator) -> list[float | None]:
    """When the jobs ended."""
    return [job.completion for job in simulator.jobs]


@given(
    st.sampled_from(sorted(APPLICATIONS)),
    st.integers(1, 16),
    st.integers(0, 5),
    st.floats(0.0, 1.0),
    st.integers(1, 3),
)
def test_no_batch_size_is_faster_than_the_best(
    name: str, replicas: int, epoch: int, part: float, passes: int
) -> None:
    """Up to the grid of total batch sizes, whatever the examples of a pass and the passes."""
    application, spread = APPLICATIONS[name], packed(replicas)
    epoch = min(epoch, application.epochs - 1)
    limits = application.batch
    if application.restriction is not None or (passes > 1 and not limits.accumulation):
        return
    least, most = int(limits.atomic_minimum), int(limits.atomic_maximum)
    atomic = round(least + part * (most - least))
    batch = atomic * replicas * passes
    if not limits.initial <= batch <= limits.maximum:
        return
    step, synchronisation = application.step_times(spread, atomic)
    gain = float(
        adascale_gain(application.gradient_statistics(batch, epoch), limits.initial, batch)
    )
    seconds = (step + (passes - 1) * (step - synchronisation)) / gain
    best = BestSpeeds().seconds(application, "", spread, epoch)
    assert best <= seconds * 1.06


def test_the_true_oracle_tells_at_requested_and_at_adaptive_batch_sizes() -> None:
    """Steps at the requested batch size, or the progress of steps at the initial one."""
    last = CIFAR.epochs - 1
    requested, adaptive = TrueOracle(one_job("requested")), TrueOracle(one_job("goodput"))
    assert requested.remaining_steps() == CIFAR.steps(512, last) - CIFAR.steps(512, 0)
    assert adaptive.remaining_steps() == CIFAR.progress(last) - CIFAR.progress(0)
    work = np.diff([CIFAR.progress(epoch) for epoch in range(CIFAR.epochs)])
    for gpus in (1, 2, 4, 8):
        fixed = requested.remaining_steps() * requested.seconds_per_step(gpus, 4)
        speeds = BestSpeeds()
        best = [speeds.seconds(CIFAR, "", packed(gpus), epoch) for epoch in range(1, CIFAR.epochs)]
        assert adaptive.seconds_per_step(gpus, 4) == speeds.seconds(CIFAR, "", packed(gpus), 0)
        assert np.dot(work, best) < fixed * 1.01


def test_an_estimate_before_any_measurement_rests_on_one_gpu() -> None:
    """And on 20 further epochs; nothing is told of jobs that share GPUs."""
    job = one_job("requested")
    oracle = EstimatedOracle(job)
    rate = examples_per_second(CIFAR)
    assert oracle.seconds_per_step(4, 4) == pytest.approx(512 / (4 * rate))
    gain = 512 / CIFAR.batch.initial
    assert oracle.remaining_steps() == pytest.approx(20 * job.loss_run().steps_per_epoch / gain)
    assert oracle.beside(oracle, 1, 4) is None


def test_estimates_come_close_to_the_truth_as_a_job_trains() -> None:
    """Step times at once on the GPUs that it ran on, the end as the losses become known."""
    jobs = [Submission("mine", 0, "cifar10", 4, 512)]
    setting = Setting(SMALL, oracle="estimated")
    simulator = Simulator(jobs, APPLICATIONS, make_policy("fifo"), setting)
    (job,) = simulator.jobs
    estimated, true = EstimatedOracle(job), TrueOracle(job)
    errors = []
    while not simulator.finished:
        simulator.step()
        fit_models([job])
        if job.measured and not simulator.finished:
            seconds = estimated.seconds_per_step(4, 4)
            assert seconds == pytest.approx(true.seconds_per_step(4, 4), rel=0.05)
            left = true.remaining_steps()
            if left > 1.0:
                errors.append(abs(estimated.remaining_steps() - left) / CIFAR.steps(512, 0))
    half = len(errors) // 2
    assert np.mean(errors[half:]) < 0.5 * np.mean(errors[:half])


def test_pollux_with_requested_batch_sizes_predicts_and_runs_them() -> None:
    """Every job trains at the requested size, up to rounding, and is no faster for it."""
    jobs = draw_workload(3, jobs=8)
    setting = Setting(SMALL, batch_sizes="requested")
    simulator = Simulator(jobs, APPLICATIONS, make_policy("pollux"), setting)
    seen = 0
    while not simulator.finished:
        simulator.step()
        for job in simulator.jobs:
            asked, passes = job.submission.batch_size, job.accumulation_steps + 1
            model = job.model()
            if model is not None:
                assert (model.batch.initial, model.batch.maximum) == (asked, asked)
            if job.placement:
                assert abs(job.batch_size - asked) < job.replicas * passes
                seen += 1
    assert seen > 20


def test_adaptive_batch_sizes_leave_the_gpus_of_a_queue_as_requested() -> None:
    """Tiresias gives as many GPUs; the batch sizes follow the goodput."""
    jobs = draw_workload(3, jobs=8)
    setting = Setting(SMALL, batch_sizes="adaptive")
    simulator = Simulator(jobs, APPLICATIONS, make_policy("tiresias"), setting)
    changed = False
    while not simulator.finished:
        simulator.step()
        for job in simulator.jobs:
            if job.placement:
                assert job.replicas == job.submission.replicas
                changed |= abs(job.batch_size - job.submission.batch_size) > 2 * job.replicas
    assert changed


#: Policies that ask an oracle, each with one rule of batch sizes, and with the other.
ASKING = (
    ("optimus", "requested", "adaptive"),
    ("srtf", "adaptive", "requested"),
    ("themis", "requested", "adaptive"),
    ("hesrpt", "adaptive", "requested"),
    ("pollux-remaining", "requested", "adaptive"),
)


@pytest.mark.parametrize(
    ("policy", "batch_sizes"),
    [
        *((policy, tried) for policy, tried, _ in ASKING),
        *(pytest.param(policy, other, marks=pytest.mark.slow) for policy, _, other in ASKING),
    ],
)
def test_policies_that_ask_an_oracle_replay_by_estimates(policy: str, batch_sizes: str) -> None:
    """All jobs end, at other times than with the truth."""
    estimated = replayed(policy, oracle="estimated", batch_sizes=batch_sizes)
    assert estimated.finished
    assert times(estimated) != times(replayed(policy, batch_sizes=batch_sizes))


def test_noise_does_not_touch_the_truth() -> None:
    """A policy that measures nothing replays to the same second; one that does does not."""
    noise = MeasurementNoise(0.3, 0.3, 0.3)
    assert times(replayed("tiresias", noise=noise)) == times(replayed("tiresias"))
    assert times(replayed("pollux", noise=noise)) != times(replayed("pollux"))


def test_noise_depends_on_its_seed_only() -> None:
    """The same seed gives the same replay, another one another."""
    first, again, other = (
        times(replayed("equal", noise=MeasurementNoise(0.3, 0.3, 0.3, seed))) for seed in (1, 1, 2)
    )
    assert first == again != other


@given(st.floats(0.01, 1.0), st.integers(0, 2**31 - 1))
def test_an_error_is_a_positive_factor(deviation: float, seed: int) -> None:
    """Within six deviations of 1, and another for another job or configuration."""
    noise = MeasurementNoise(seed=seed)
    found = [noise.factor(deviation, name, *key) for name in "ab" for key in ((1,), (2, 1))]
    assert len(set(found)) == 4
    assert all(abs(math.log(one)) < 6 * deviation for one in found)


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ({"batch_sizes": "largest"}, "batch_sizes is 'largest'"),
        ({"oracle": "guessed"}, "oracle is 'guessed'"),
        ({"noise": None}, "noise is None"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(conditions: dict[str, Any], words: str) -> None:
    """By name and value."""
    with pytest.raises(ValueError, match=words):
        Setting(SMALL, **conditions)


@pytest.mark.parametrize("name", ["step_time", "noise_scale", "age"])
@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, "much"])
def test_a_deviation_that_makes_no_sense_is_refused(name: str, value: Any) -> None:
    """By name and value."""
    with pytest.raises(ValueError, match=f"Measurement noise: {name} is"):
        MeasurementNoise(**{name: value})
