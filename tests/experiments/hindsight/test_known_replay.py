"""Replays under policies that know what is to come."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.generator import draw_workload
from goodalloc.experiments.checkpoints.policy_memory import Memory
from goodalloc.experiments.hindsight.known_replay import Foresight, foreseeing
from goodalloc.experiments.hindsight.problem_of_replay import replayed_problem
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.foresight.rolling_plan import RollingWorths
from goodalloc.solvers.foresight.worth_policy import phase_of

if TYPE_CHECKING:
    from goodalloc.solvers.foresight.worth_policy import WorthPolicy

APPLICATIONS = profiled_applications()
SETTING = Setting(Cluster.uniform(2, 4))
JOBS = tuple(job for job in draw_workload(3, jobs=60) if job.application in {"ncf", "cifar10"})[:8]


@pytest.mark.parametrize("foresight", get_args(Foresight))
def test_every_policy_with_foresight_completes_the_jobs(foresight: Foresight) -> None:
    """The same replay twice gives the same times."""
    problem = replayed_problem(JOBS, APPLICATIONS, SETTING)
    first, second = (
        _completions(foreseeing(foresight, problem, APPLICATIONS, SETTING)) for _ in range(2)
    )
    assert None not in first
    assert first == second


def _completions(policy: WorthPolicy) -> list[float | None]:
    """Return the completion times of a replay whose jobs know their speed."""
    simulator = Simulator(JOBS, APPLICATIONS, policy, replace(SETTING, knowledge="profiled"))
    while not simulator.finished:
        simulator.step()
    return [job.completion for job in simulator.jobs]


def test_the_phase_of_a_job_follows_from_its_oracle() -> None:
    """In every round of a replay it is the epoch of the job."""
    problem = replayed_problem(JOBS, APPLICATIONS, SETTING)
    policy = foreseeing("remaining work", problem, APPLICATIONS, SETTING)
    simulator = Simulator(JOBS, APPLICATIONS, policy, replace(SETTING, knowledge="profiled"))
    epochs = 0
    while not simulator.finished:
        record = simulator.step()
        if record is None:
            continue
        true = {job.submission.name: job.epoch for job in simulator.jobs}
        for job in record.round_.jobs:
            assert phase_of(job, problem.training(job.application)) == true[job.name]
        epochs = max(epochs, *true.values())
    assert epochs > 3


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"ahead": -1.0}, "ahead is -1"),
        ({"every": 0.0}, "every is 0"),
        ({"steps": 0}, "steps is 0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_plans_that_make_no_sense_are_refused(changes: dict[str, float], complaint: str) -> None:
    """One sentence names the number."""
    problem = replayed_problem(JOBS[:1], APPLICATIONS, SETTING)
    with pytest.raises(ValueError, match=complaint):
        RollingWorths(problem, **changes)  # type: ignore[arg-type]


def test_plans_are_remembered_in_a_checkpoint() -> None:
    """A policy that is made anew goes on with the plan of the one before."""
    at_once = tuple(replace(job, time=0) for job in JOBS)
    problem = replayed_problem(at_once, APPLICATIONS, SETTING)
    first, second = (
        foreseeing("arrivals of an hour", problem, APPLICATIONS, SETTING) for _ in range(2)
    )
    memory = Memory(first)
    simulator = Simulator(at_once, APPLICATIONS, first, replace(SETTING, knowledge="profiled"))
    records = [simulator.step() for _ in range(12)]
    record = next(one for one in reversed(records) if one is not None)
    Memory(second).unpack(json.loads(json.dumps(memory.pack())))
    assert isinstance(first.appraiser, RollingWorths)
    assert isinstance(second.appraiser, RollingWorths)
    phases = [0] * len(record.round_.jobs)
    told = [policy.appraiser.worths(record.round_, phases) for policy in (first, second)]
    assert told[0] == told[1]
    assert vars(second.appraiser)["_planned_at"] == vars(first.appraiser)["_planned_at"] > 0
