"""Types of GPU of real jobs: speeds learnt from other jobs, models, decisions, and the agent."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.files.job_state import JobState, read_placements
from goodalloc.data.files.job_submission import JobSubmission
from goodalloc.experiments.agent.cluster_folder import (
    CLUSTER_VARIABLE,
    JOB_VARIABLE,
    LAUNCHER_VARIABLE,
    TYPE_VARIABLE,
    allocation_file,
)
from goodalloc.experiments.agent.options import AgentOptions
from goodalloc.experiments.agent.pass_times import Configuration
from goodalloc.experiments.agent.report import AgentReport
from goodalloc.experiments.live.gpu_types import models_by_type, relative_speeds
from goodalloc.experiments.live.jobs import FittedSpeed, LiveJob
from goodalloc.experiments.support.process_identity import ProcessIdentity
from goodalloc.models.goodput.batch_size import best_batch_size
from goodalloc.models.goodput.bootstrapped_goodput import faster
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import throughput
from goodalloc.models.round.cluster import Cluster, NodeGroup
from tests.experiments.live.test_scheduler import LIMITS, THROUGHPUT, folder

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.models.goodput.throughput_model import ThroughputParameters
    from tests.experiments.live.test_scheduler import Folder

__all__ = ["folder"]

#: Four slow GPUs and four fast ones.
TYPED = Cluster((NodeGroup("slow", 1, 4, "T4"), NodeGroup("fast", 1, 4, "A100")))


def live_job(name: str, application: str, fits: dict[str, ThroughputParameters]) -> LiveJob:
    """A job that ran on these types, on the first of them now."""
    kind, *_ = fits
    others = {other: fit for other, fit in fits.items() if other != kind}
    state = JobState(
        name,
        LIMITS,
        0.0,
        1.0,
        gradient=GradientStatistics(1.0, 50.0),
        throughput=fits[kind],
        gpu_type=kind,
        elsewhere=others,
    )
    return LiveJob(JobSubmission(name, ("train",), 0.0, 1, application), state)


@given(
    st.lists(st.floats(0.1, 10.0), min_size=3, max_size=3),
    st.lists(st.floats(0.01, 100.0), min_size=2, max_size=4),
)
def test_speeds_of_types_are_found_again_through_jobs_that_connect_them(
    speeds: list[float], levels: list[float]
) -> None:
    """A and B by jobs that ran on both, B and C by two jobs of one application."""
    a, b, c = (faster(THROUGHPUT, speed) for speed in speeds)
    jobs = [
        live_job(f"job-{index}", "", {"A": faster(a, level), "B": faster(b, level)})
        for index, level in enumerate(levels)
    ]
    jobs += [live_job("one", "vision", {"B": b}), live_job("two", "vision", {"C": c})]
    found = relative_speeds(jobs)
    assert found["A"] / found["B"] == pytest.approx(speeds[0] / speeds[1])
    assert found["C"] / found["B"] == pytest.approx(speeds[2] / speeds[1])


def test_types_that_no_job_connects_count_as_equally_fast() -> None:
    """Two jobs that trained different things say nothing about the GPUs."""
    jobs = [
        live_job("one", "vision", {"A": THROUGHPUT}),
        live_job("two", "speech", {"B": faster(THROUGHPUT, 9.0)}),
        LiveJob(JobSubmission("new", ("train",), 0.0, 1, "vision"), None),
    ]
    assert relative_speeds(jobs) == {"A": 1.0, "B": 1.0}
    assert relative_speeds([]) == {}


def test_a_type_that_was_not_measured_is_as_much_faster_as_others_say() -> None:
    """What was measured stays as it is; before a fit there is no model."""
    job = live_job("a", "", {"T4": THROUGHPUT, "V100": faster(THROUGHPUT, 2.0)})
    models = models_by_type(job.state, ("T4", "A100", "V100"), {"T4": 1.0, "A100": 4.0})
    assert models["T4"].throughput == THROUGHPUT
    assert models["V100"].throughput == faster(THROUGHPUT, 2.0)
    for where in ((1, 1, 32, 0), (1, 4, 8, 1), (2, 4, 16, 0)):
        ratio = throughput(models["A100"].throughput, *where) / throughput(THROUGHPUT, *where)
        assert ratio == pytest.approx(4.0, rel=1e-6)
    assert job.state is not None
    assert models_by_type(replace(job.state, gradient=None), ("T4",), {}) == {}
    unfitted = replace(job.state, throughput=None, elsewhere={})
    assert models_by_type(unfitted, ("T4",), {}) == {}
    assert models_by_type(None, ("T4",), {}) == {}


@pytest.mark.parametrize("policy", ["pollux", "pollux-greedy", "sia", "sia-exact", "gavel"])
def test_a_policy_gives_the_fast_type_to_the_job_that_gains_most(
    folder: Folder, policy: str
) -> None:
    """Job a is ten times as fast there, job b not at all; at first each has one GPU."""
    cluster = Cluster((NodeGroup("slow", 1, 1, "T4"), NodeGroup("fast", 1, 1, "A100")))
    folder.submit("a", 1e6)
    folder.submit("b", 1e6)
    assert folder.decide(policy, cluster) == {"a": 1, "b": 1}
    old = {"submitted": 1.0, "attained_service": 9e5, "gpu_type": "T4"}
    folder.tell("a", elsewhere={"A100": faster(THROUGHPUT, 10.0)}, **old)
    folder.tell("b", elsewhere={"A100": THROUGHPUT}, **old)
    assert folder.decide(policy, cluster) == {"a": 1, "b": 1}
    placements = read_placements(allocation_file(folder.path))
    assert placements == {"a": {"fast-0": 1}, "b": {"slow-0": 1}}
    assert not any("Everybody keeps" in line for line in folder.lines)
    for name in "ab":
        folder.tell(name, **old)
    assert folder.decide(policy, cluster) == {"a": 1, "b": 1}
    assert read_placements(allocation_file(folder.path)) == placements


def test_a_job_learns_from_another_that_there_are_faster_gpus(folder: Folder) -> None:
    """It never ran there; one that is finished did. All of its GPUs are of one type."""
    folder.submit("old")
    folder.decide("pollux", TYPED)
    folder.tell("old", gpu_type="T4", elsewhere={"A100": faster(THROUGHPUT, 8.0)}, finished=True)
    folder.leave("old")
    folder.submit("new", 1e6)
    folder.decide("pollux", TYPED)
    folder.tell("new", submitted=1.0, gpu_type="T4", most_replicas=4)
    folder.decide("pollux", TYPED)
    (nodes,) = read_placements(allocation_file(folder.path)).values()
    assert nodes == {"fast-0": 4}


def test_policies_that_take_all_gpus_for_equal_keep_to_the_cluster(folder: Folder) -> None:
    """A decision without an instance is checked on plain nodes, also beside a malformed job."""
    folder.submit("a")
    folder.submit("b")
    folder.decide("gavel", TYPED)
    folder.tell("a", gpu_type="T4")
    (folder.path / "jobs" / "b" / "state.json").write_text("{")
    assert folder.decide("gavel", TYPED) == {"a": 1, "b": 1}
    assert not any("Everybody keeps" in line for line in folder.lines)


def test_the_seconds_of_a_step_that_an_oracle_predicts_are_by_the_best_goodput() -> None:
    """At M0; infinite where a batch cannot be shared, a second before the first fit."""
    job = live_job("a", "", {"T4": THROUGHPUT})
    models = models_by_type(job.state, ("T4", "A100"), {"T4": 1.0, "A100": 2.0})
    speed = FittedSpeed("a", models, models["T4"])
    one, two = speed.seconds_per_step(1, 4), speed.seconds_per_step(1, 4, "A100")
    assert one == pytest.approx(2 * two)
    expected = LIMITS.initial / float(best_batch_size(models["T4"], 1, 1).goodput)
    assert one == pytest.approx(expected)
    assert speed.seconds_per_step(1000, 4) == math.inf
    assert FittedSpeed("a").seconds_per_step(4, 4, "T4") == 0.25


def options(path: Path, gpu_type: str) -> AgentOptions:
    """Of a job on a type of GPU."""
    return AgentOptions("mine", path, LIMITS, gpu_type=gpu_type)


def test_an_agent_keeps_what_it_measured_on_each_type_of_gpu(tmp_path: Path) -> None:
    """Through its checkpoint; until there is a fit on a new type, the old one chooses batches."""
    one = Configuration(1, 1, 8)
    first = AgentReport(options(tmp_path, "T4"), 1)
    for _ in range(3):
        first.times.record(one, 1.0, 1.5)
    first.throughput = THROUGHPUT
    second = AgentReport(options(tmp_path, "A100"), 1)
    second.load(json.loads(json.dumps(first.state())))
    assert (second.times.table(), second.throughput) == ([], None)
    assert second.believed == THROUGHPUT
    for _ in range(3):
        second.times.record(one, 0.1, 0.15)
    second.throughput = faster(THROUGHPUT, 10.0)
    assert second.believed == second.throughput
    third = AgentReport(options(tmp_path, "T4"), 1)
    third.load(json.loads(json.dumps(second.state())))
    assert third.times.table() == first.times.table()
    assert third.throughput == THROUGHPUT
    assert third.elsewhere["A100"][1] == second.throughput
    assert third.elsewhere["A100"][0].table() == second.times.table()
    for report in (first, second, third):
        report.close()


def test_a_launched_agent_is_told_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its environment; without one, types are not told apart."""
    monkeypatch.setenv(JOB_VARIABLE, "mine")
    monkeypatch.setenv(CLUSTER_VARIABLE, "cluster")
    monkeypatch.setenv(LAUNCHER_VARIABLE, str(ProcessIdentity.of(os.getpid())))
    monkeypatch.delenv(TYPE_VARIABLE, raising=False)
    assert AgentOptions.of_launcher().gpu_type == ""
    monkeypatch.setenv(TYPE_VARIABLE, "A100")
    assert AgentOptions.of_launcher().gpu_type == "A100"
