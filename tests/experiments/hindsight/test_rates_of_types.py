"""The rates of an offline problem cover those of any job on Sia's three types of GPU."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.applications.application import packed, profiled_applications
from goodalloc.data.applications.traces import measured_applications
from goodalloc.data.rounds.typed import sia_cluster
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.hindsight.problem_of_replay import true_training
from goodalloc.experiments.replay.simulated_job import SimulatedJob, requested_split
from goodalloc.models.goodput.statistical_efficiency import adascale_gain
from goodalloc.models.round.cluster import Cluster, NodeGroup
from tests.support.few import few

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from goodalloc.data.applications.application import Application, Spread
    from goodalloc.models.hindsight.offline_problem import Training

CLUSTER = sia_cluster()

#: Three nodes of 8, on which ImageNet's best batch fills the passes of a step.
NODES = Cluster((NodeGroup("rtx", 3, 8, "rtx2080ti"),))


@cache
def training_of(traces: str, name: str) -> Training:
    """Return the training of an application on Sia's cluster; `traces` is empty for profiles."""
    return true_training(truth_of(traces)[name], CLUSTER)


def truth_of(traces: str) -> Mapping[str, Application]:
    """Return the applications."""
    return measured_applications(traces) if traces else profiled_applications()


def simulated_rate(application: Application, spread: Spread, total: int, epoch: int) -> float:
    """Return the rate of a job by the simulator's formula; 0 where it could not run."""
    limits, gpus = application.batch, sum(spread)
    atomic, more = requested_split(total, gpus, limits)
    atomic = min(atomic, int(limits.maximum) // (gpus * (more + 1)))
    try:
        step, synchronisation = application.step_times(spread, atomic)
    except ValueError:
        return 0.0
    batch = gpus * atomic * (more + 1)
    gradient = application.gradient_statistics(batch, epoch)
    gain = float(adascale_gain(gradient, float(limits.initial), batch))
    seconds = step + more * (step - synchronisation)
    return gain / (seconds * application.slowdown)


@st.composite
def jobs_on_types(draw: st.DrawFn, application: Application) -> tuple[int, Spread, int, int]:
    """Draw a type by its index, GPUs on every node, a total batch size and an epoch."""
    index = draw(st.integers(0, len(CLUSTER.gpu_types) - 1))
    name = CLUSTER.gpu_types[index]
    nodes, each = CLUSTER.node_types.count(name), CLUSTER.most_per_node[name]
    spread = tuple(draw(st.lists(st.integers(1, each), min_size=1, max_size=nodes)))
    limits, gpus = application.on(name).batch, sum(spread)
    least = max(int(limits.initial), int(limits.atomic_minimum) * gpus)
    total = draw(st.integers(least, int(limits.maximum)))
    return index, spread, total, draw(st.integers(0, application.epochs - 1))


def require_covered(traces: str, name: str) -> None:
    """Draw jobs of an application; none is faster than the problem's rate."""
    application, training = truth_of(traces)[name], training_of(traces, name)

    @given(jobs_on_types(application))
    @settings(deadline=None, max_examples=300)
    def covered(drawn: tuple[int, Spread, int, int]) -> None:
        index, spread, total, epoch = drawn
        own = application.on(CLUSTER.gpu_types[index])
        rate = simulated_rate(own, spread, total, epoch)
        assert rate <= training.rates[index, epoch, sum(spread) - 1]

    covered()


@pytest.mark.parametrize("name", few(["deepspeech2", "bert", "cifar10", "imagenet", "yolov3"], 2))
def test_no_job_is_faster_than_the_rates_by_the_profiles(name: str) -> None:
    """On any placement, at any batch size, in any epoch."""
    require_covered("", name)


@pytest.mark.slow  # looks every whole batch size up
@pytest.mark.parametrize("name", ["bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"])
def test_no_job_is_faster_than_the_rates_by_the_measurements(name: str, reference: Path) -> None:
    """Of Sia's artifact."""
    require_covered(str(reference / "sia" / "traces"), name)


def test_batch_sizes_that_fill_the_passes_of_a_step_count(reference: Path) -> None:
    """ImageNet on 11 RTX 2080 Ti: 8,800 examples fill four passes."""
    application = measured_applications(reference / "sia" / "traces")["imagenet"].on("rtx2080ti")
    training = true_training(application, NODES)
    spreads = [(3, 8), (4, 7), (5, 6), (1, 2, 8), (3, 4, 4)]
    for epoch in (0, application.epochs // 2, application.epochs - 1):
        for total in (2200, 4400, 6600, 8800, 11000, 8799, 8801):
            rates = [simulated_rate(application, spread, total, epoch) for spread in spreads]
            assert max(rates) <= training.rates[0, epoch, 10]


def test_the_formula_of_the_test_is_that_of_the_simulator() -> None:
    """On two nodes, with passes before the one that synchronises."""
    application = profiled_applications()["imagenet"].on("a100")
    job = SimulatedJob(Submission("a", 0, "imagenet", 8, 12800), application, "requested")
    job.reallocate(((0, 4), (1, 4)), 0.0)
    job.set_requested_batch()
    job.train(0.0, 1.0, 0.0)
    assert job.accumulation_steps > 0
    assert job.rate == simulated_rate(application, packed(8), 12800, 0)
