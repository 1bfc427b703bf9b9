"""What jobs know when they start: nothing, what others measured, or the whole range."""

from __future__ import annotations

import json
from functools import partial
from typing import get_args

import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.replay.agents import fit_models
from goodalloc.experiments.replay.job_modes import Measured
from goodalloc.experiments.replay.prior_knowledge import ExperiencePool, measure
from goodalloc.experiments.replay.replay_conditions import Knowledge, Setting
from goodalloc.experiments.replay.simulated_job import SimulatedJob
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.policies.registry import make_policy
from tests.support.replay.replays import SHORT, finish

#: The second job of each application is submitted when the first is done.
TWICE = [Submission("first", 0, "cifar10", 1, 128), Submission("second", 7200, "cifar10", 1, 128)]


def measured_job(name: str) -> SimulatedJob:
    """A finished job that has measured the whole range."""
    application = profiled_applications()[name]
    job = SimulatedJob(TWICE[0], application, "goodput")
    job.measured = {"": Measured(dict(measure(application)))}
    job.first_gradient = application.gradient_statistics(128, 0)
    return job


def replay(knowledge: Knowledge) -> tuple[list[SimulatedJob], list[int]]:
    """Both jobs at the end, and the GPUs that the second held from its first round on."""
    setting = Setting(Cluster.uniform(2, 4), knowledge=knowledge)
    simulator = Simulator(TWICE, profiled_applications(), make_policy("pollux"), setting)
    held = []
    while not simulator.finished:
        simulator.step()
        if simulator.jobs[1].placement:
            held.append(simulator.jobs[1].replicas)
    return simulator.jobs, held


def test_experience_spares_a_job_its_exploration() -> None:
    """It starts on more than one GPU, restarts less and is done sooner than one that explores."""
    seconds = {}
    for knowledge in get_args(Knowledge):
        jobs, held = replay(knowledge)
        assert jobs[0].completion is not None
        assert jobs[1].completion is not None
        assert jobs[0].completion < 7200
        seconds[knowledge] = jobs[1].completion - 7200
        assert (held[0] == 1) == (knowledge in ("explored", "others"))
    assert seconds["history"] < seconds["explored"]
    assert seconds["profiled"] < seconds["explored"]


def test_without_a_finished_job_history_is_exploration() -> None:
    """The first job of its kind knows nothing either way."""
    modes: tuple[Knowledge, ...] = ("explored", "history")
    first = {mode: replay(mode)[0][0] for mode in modes}
    assert first["history"].completion == first["explored"].completion


def test_the_pool_keeps_the_extreme_batch_sizes_of_every_allocation() -> None:
    """Three sizes on one GPU come down to the least and the greatest."""
    cifar10 = profiled_applications()["cifar10"]
    job = SimulatedJob(TWICE[0], cifar10, "goodput")
    times = {(1, 1, size): (0.1, 0.2) for size in (64, 32, 128)} | {(1, 2, 64): (0.1, 0.3)}
    job.measured = {"": Measured(times)}
    job.first_gradient = cifar10.gradient_statistics(128, 0)
    pool = ExperiencePool("history", profiled_applications())
    pool.learn(job)
    new = SimulatedJob(TWICE[1], cifar10, "goodput")
    pool.teach(new)
    assert set(new.measured[""].times) == {(1, 1, 32), (1, 1, 128), (1, 2, 64)}
    assert new.gradient == job.first_gradient
    assert new.model() is None  # nothing is fitted yet


def test_jobs_learn_from_similar_ones_of_other_applications() -> None:
    """Synchronisation that was never measured is not taken for free."""
    applications = profiled_applications()
    pool = ExperiencePool("others", applications)
    for name in ("cifar10", "imagenet"):
        pool.learn(measured_job(name))
    assert len(pool.experiences("yolov3")) == 2
    assert len(pool.experiences("cifar10")) == 1  # not its own
    experiences = partial(pool.experiences, "cifar10")
    new, alone = (
        SimulatedJob(TWICE[1], applications["cifar10"], "goodput", experiences=known)
        for known in (experiences, tuple)
    )
    pool.teach(new)
    assert not new.measured  # nothing beforehand
    for job in (new, alone):
        job.measured = {"": Measured({(1, 1, 128): (0.1, 0.1)})}
        fit_models([job])
    told, guessed = new.measured[""].parameters, alone.measured[""].parameters
    assert told is not None
    assert guessed is not None
    assert told.beta_grad == guessed.beta_grad
    assert told.alpha_node > 100.0 * guessed.alpha_node
    assert alone.most_explored == 1
    kinds: tuple[Knowledge, ...] = ("explored", "history", "profiled")
    assert all(not ExperiencePool(kind, applications).experiences("ncf") for kind in kinds)


def test_a_job_that_similar_ones_tell_enough_need_not_explore() -> None:
    """One of the same application is as similar as can be; one that is unlike tells too little."""
    applications = profiled_applications()
    pool = ExperiencePool("similar", applications)
    pool.learn(measured_job("cifar10"))
    for name, reach in (("cifar10", 16), ("ncf", 0)):
        known = partial(pool.experiences, name)
        job = SimulatedJob(TWICE[1], applications[name], "goodput", experiences=known)
        job.measured = {"": Measured({(1, 1, 1024): (0.7, 0.7)})}
        fit_models([job])
        assert job.measured[""].reach == reach
        assert job.most_explored == max(reach, 1)


def test_a_replay_that_learns_from_similar_jobs_is_restored_whole() -> None:
    """Fits of the pool are made anew, and are the same."""
    setting = Setting(Cluster.uniform(2, 4), knowledge="similar")
    whole, copy = (
        Simulator(SHORT, profiled_applications(), make_policy("pollux"), setting) for _ in range(2)
    )
    while not any(job.completion for job in whole.jobs):
        whole.step()
    copy.unpack(json.loads(json.dumps(whole.pack())))
    assert finish(copy).pack() == finish(whole).pack()


def test_a_pool_that_only_explores_teaches_nothing() -> None:
    """As published."""
    cifar10 = profiled_applications()["cifar10"]
    job = SimulatedJob(TWICE[0], cifar10, "goodput")
    ExperiencePool("explored", profiled_applications()).teach(job)
    assert not job.measured


@pytest.mark.parametrize("name", ["bert", "cifar10", "imagenet", "ncf"])
def test_a_profile_taken_beforehand_is_true_and_within_the_limits(name: str) -> None:
    """Every entry is what the application would do, at a batch size that it may take."""
    application = profiled_applications()[name]
    limits = application.batch
    found = measure(application)
    assert (1, 1) in {key[:2] for key in found}
    for (nodes, replicas, atomic), (gradient, step) in found.items():
        assert limits.atomic_minimum <= atomic <= limits.atomic_maximum
        assert replicas * atomic <= limits.maximum
        spread = (replicas // nodes,) * nodes
        assert application.step_times(spread, atomic).step == step >= gradient > 0
