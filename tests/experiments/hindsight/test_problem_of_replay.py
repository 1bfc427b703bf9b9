"""The offline problem of a replay bounds the replay, whatever the policy."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.applications.application import (
    ProfiledApplication,
    StepTimes,
    packed,
    profiled_applications,
)
from goodalloc.data.applications.profiles import load_profile
from goodalloc.data.applications.traces import measured_applications
from goodalloc.data.workloads.generator import draw_workload
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.hindsight.bound_file import bound_document
from goodalloc.experiments.hindsight.problem_of_replay import (
    ROUNDING,
    replayed_problem,
    supply_of,
    true_training,
)
from goodalloc.experiments.replay.job_oracle import BestSpeeds
from goodalloc.experiments.replay.replay_conditions import Outage, Setting
from goodalloc.experiments.replay.simulated_job import requested_split
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.models.goodput.statistical_efficiency import adascale_gain
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.mode import resources
from goodalloc.solvers.hindsight.best_prices import Stage, hindsight_bound
from goodalloc.solvers.policies.registry import make_policy
from tests.support.few import few

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from goodalloc.data.applications.application import Application
    from goodalloc.models.goodput.model import BatchLimits
    from goodalloc.models.support.array_types import Floats

APPLICATIONS = profiled_applications()
QUICK = (Stage(600.0, (60.0, 10.0), 12),)
SMALL = Setting(Cluster.uniform(2, 4))


def short_jobs(seed: int, number: int) -> tuple[Submission, ...]:
    """Draw jobs that take minutes, submitted within an hour."""
    drawn = draw_workload(seed, jobs=60)
    own = [job for job in drawn if job.application in {"ncf", "cifar10"} and job.replicas <= 8]
    return tuple(own[:number])


@pytest.mark.parametrize("policy", ["fifo", "srtf", "equal", "tiresias", "pollux"])
def test_no_policy_is_below_the_bound(policy: str) -> None:
    """On a crowded little cluster."""
    jobs = short_jobs(3, 8)
    simulator = Simulator(jobs, APPLICATIONS, make_policy(policy), SMALL)
    while not simulator.finished:
        simulator.step()
    ends = [job.completion for job in simulator.jobs]
    average = float(np.mean([end - job.time for end, job in zip(ends, jobs, strict=True) if end]))
    problem = replayed_problem(jobs, APPLICATIONS, SMALL)
    bound = bound_document(problem, hindsight_bound(problem, QUICK))["bound"]
    assert 0.3 * average < bound <= average


def test_jobs_begin_after_a_decision_and_a_restart() -> None:
    """Of submissions at 0 and 61 s the first is decided at 60 s, the second at 120 s."""
    first, second = short_jobs(1, 2)
    jobs = (replace(first, time=0), replace(second, time=61))
    problem = replayed_problem(jobs, APPLICATIONS, SMALL)
    assert [(job.release, job.begin) for job in problem.jobs] == [(0.0, 90.0), (61.0, 150.0)]
    assert [job.weight for job in problem.jobs] == [0.5, 0.5]


@pytest.mark.parametrize("name", ["cifar10", "bert"])
def test_no_placement_at_the_best_batch_size_is_faster(name: str) -> None:
    """The rates are at least those that an oracle knows, and not much more."""
    application, speeds = APPLICATIONS[name], BestSpeeds()
    training = true_training(application, SMALL.cluster)
    for gpus in (1, 3, 8):
        for epoch in (0, application.epochs - 1):
            true = 1.0 / speeds.seconds(application, "", packed(gpus, 4), epoch)
            rate = training.rates[0, epoch, gpus - 1]
            assert true <= rate
            seconds = training.work[epoch] / true
            assert rate <= true * max(1.01, seconds / max(seconds - 0.6, 0.1))


def test_an_outage_takes_gpus_away_for_a_while() -> None:
    """Those of the last nodes."""
    setting = Setting(Cluster.uniform(4, 4), outages=(Outage(600, 1200, 3),))
    supply = supply_of(setting, ("",))
    assert (supply.times.tolist(), supply.gpus.ravel().tolist()) == (
        [0.0, 600.0, 1200.0],
        [16.0, 4.0, 16.0],
    )


def test_cores_and_free_restarts_are_refused() -> None:
    """Each with a sentence."""
    jobs = short_jobs(1, 1)
    cores = Cluster((NodeGroup("node", 1, 4, "", resources({"cpu": 8.0})),))
    with pytest.raises(
        ValueError, match="Group 'node': it has 8 of cpu a node; expected GPUs only"
    ):
        replayed_problem(jobs, APPLICATIONS, Setting(cores))
    with pytest.raises(ValueError, match="a restart takes 0 s; expected whole seconds, at least 1"):
        replayed_problem(jobs, APPLICATIONS, Setting(restart_delay=0.0))


def test_a_job_with_too_few_examples_a_gpu_is_refused() -> None:
    """No policy lets an adaptive job train so few, and the rates do not count them."""
    job = Submission("few", 0, "cifar10", replicas=8, batch_size=128)
    words = "Job 'few': it requests 128 examples on 8 GPUs; expected at least 32 on each"
    with pytest.raises(ValueError, match=words):
        replayed_problem((job,), APPLICATIONS, SMALL)


@pytest.mark.parametrize("name", ["cifar10", "deepspeech2", "imagenet"])
def test_no_whole_batch_size_is_faster(name: str) -> None:
    """All whole numbers of examples on 2 and 8 GPUs, in some epochs."""
    application = APPLICATIONS[name]
    training, limits = true_training(application, SMALL.cluster), application.batch
    for gpus in (2, 8):
        least = max(int(limits.initial), int(limits.atomic_minimum) * gpus)
        totals = range(least, int(limits.maximum) + 1)
        for atomic, further in {requested_split(total, gpus, limits) for total in totals}:
            size = min(atomic, int(limits.maximum) // (gpus * (further + 1)))
            batch = gpus * size * (further + 1)
            step, synchronisation = application.step_times(packed(gpus, 4), size)
            seconds = step + (step - synchronisation) * further
            for epoch in (0, application.epochs - 1):
                gradient = application.gradient_statistics(batch, epoch)
                gain = float(adascale_gain(gradient, float(limits.initial), batch))
                assert gain / seconds <= training.rates[0, epoch, gpus - 1]


@cache
def all_splits(gpus: int, initial: int, limits: BatchLimits) -> set[tuple[int, int]]:
    """Return what every whole number of examples from the initial one on is split into."""
    least, maximum = max(initial, int(limits.atomic_minimum) * gpus), int(limits.maximum)
    splits = {requested_split(one, gpus, limits) for one in range(least, maximum + 1)}
    return {(min(own, maximum // (gpus * (more + 1))), more) for own, more in splits}


def plain_rates(
    application: Application, gpu_type: str, nodes: int, counts: Collection[int]
) -> np.ndarray:
    """Return the greatest rates on up to four nodes of four GPUs, one step at a time.

    Shape (epochs, counts); `counts` are the numbers of GPUs.
    """
    limits, most, on_type = application.batch, 4 * nodes, application.on(gpu_type)
    rates = np.zeros((application.epochs, most))

    @cache
    def gains(batch: int) -> Floats:
        """Return the gain of every epoch."""
        found = []
        for epoch in range(application.epochs):
            gradient = application.gradient_statistics(batch, epoch)
            found.append(float(adascale_gain(gradient, float(limits.initial), batch)))
        return np.array(found)

    for spread in (one for n in range(1, nodes + 1) for one in product(range(1, 5), repeat=n)):
        gpus = sum(spread)
        if gpus not in counts:
            continue
        for size, more in all_splits(gpus, int(limits.initial), on_type.batch):
            try:
                step, synchronisation = on_type.step_times(spread, size)
            except ValueError:
                continue
            seconds = (step + (step - synchronisation) * more) * on_type.slowdown
            found = gains(gpus * size * (more + 1)) / seconds
            rates[:, gpus - 1] = np.maximum(rates[:, gpus - 1], found)
    work = np.diff([application.progress(e) for e in range(application.epochs)], prepend=0.0)
    for cell in np.argwhere(rates > 0).tolist():
        rate, done = ROUNDING * rates[*cell], work[cell[0]]
        rates[*cell] = max(rate, done / round(done / rate))
    return rates[:, [count - 1 for count in counts]]


@pytest.mark.parametrize("name", few(["bert", "ncf", "cifar10"], 2))
def test_rates_are_those_of_one_step_at_a_time(name: str) -> None:
    """By the shipped profiles, on a node and on two."""
    for nodes in (1, 2):
        found = true_training(APPLICATIONS[name], Cluster.uniform(nodes, 4)).rates[0]
        counts = (3, 4 * nodes)
        plain = plain_rates(APPLICATIONS[name], "", nodes, counts)
        assert found[:, [count - 1 for count in counts]] == pytest.approx(plain, rel=1e-12)


@pytest.mark.slow  # a look-up of a measured step takes milliseconds
@pytest.mark.parametrize(("artifact", "types"), [("pollux", ("",)), ("sia", ("t4", "a100"))])
def test_measured_rates_are_those_of_one_step_at_a_time(
    artifact: str, types: tuple[str, ...], reference: Path
) -> None:
    """On two nodes of each type; on 1, 3 and 8 GPUs."""
    bert = measured_applications(reference / artifact / "traces")["bert"]
    groups = tuple(NodeGroup(f"node-{name}", 2, 4, name) for name in types)
    cluster = Cluster(groups)
    found = true_training(bert, cluster)
    for row, name in enumerate(cluster.gpu_types):
        plain = plain_rates(bert, name, 2, (1, 3, 8))
        assert found.rates[row][:, [0, 2, 7]] == pytest.approx(plain, rel=1e-12)


class Uneven(ProfiledApplication):
    """Application that is fast where one GPU of three is on a node of its own."""

    def step_times(self, spread: tuple[int, ...], atomic_batch_size: int) -> StepTimes:
        """Return times a tenth as long there."""
        step, synchronisation = super().step_times(spread, atomic_batch_size)
        factor = 0.1 if spread in {(1, 2), (2, 1)} else 1.0
        return StepTimes(factor * step, factor * synchronisation)


def test_uneven_placements_count() -> None:
    """Somebody may take them."""
    rates = [
        true_training(kind(load_profile("bert")), SMALL.cluster).rates[0, :, 2]
        for kind in (Uneven, ProfiledApplication)
    ]
    assert (rates[0] > 5.0 * rates[1]).all()


def test_epochs_that_a_replay_rounds_to_nothing_are_refused() -> None:
    """A bound on them would be none."""
    profile = load_profile("ncf")
    short = replace(profile, total_progress=profile.total_progress / 1000.0)
    with pytest.raises(ValueError, match=r"Application .ncf.: an epoch takes .* rounds to nothing"):
        true_training(ProfiledApplication(short), SMALL.cluster)
