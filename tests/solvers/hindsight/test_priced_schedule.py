"""Ideal schedules: those of a plain scheduler, feasible, and without GPUs idle that are wanted."""

from __future__ import annotations

from bisect import bisect
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.generator import draw_workload
from goodalloc.experiments.hindsight.problem_of_replay import replayed_problem
from goodalloc.experiments.replay.replay_conditions import Outage, Setting
from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)
from goodalloc.models.hindsight.offline_schedule import completion_times, schedule_violations
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.hindsight.priced_schedule import Change, WorthScheduler
from goodalloc.solvers.hindsight.schedule_search import rule_of_thumb
from tests.support.hindsight.plain_schedule import plain_schedule
from tests.support.hindsight.tiny_traces import UNIT, tiny_trace

if TYPE_CHECKING:
    from goodalloc.models.hindsight.offline_schedule import OfflineSchedule

SEEDS = st.integers(0, 10**6)


def drawn_worths(problem: OfflineProblem, seed: int) -> list[np.ndarray]:
    """Worths at random."""
    random = np.random.default_rng(seed)
    phases = [problem.training(job.training).num_phases for job in problem.jobs]
    return [random.lognormal(0.0, 1.0, number) for number in phases]


def assert_plain(problem: OfflineProblem, worth: list[np.ndarray], clock: float) -> None:
    """Assert that the schedule is that of the plain scheduler."""
    segments: OfflineSchedule = {}
    ends = WorthScheduler(problem, clock, fill=False).run(worth, segments)
    plain, held = plain_schedule(problem, worth, clock)
    assert ends == pytest.approx(plain, rel=1e-9)
    for name, own in held.items():
        told = {one.start: one.gpus for one in segments[name]}
        starts = sorted(told)
        for one in own:
            middle = (one.start + one.end) / 2
            assert told[starts[bisect(starts, middle) - 1]] == one.gpus


@given(SEEDS)
def test_without_filling_it_is_that_of_a_plain_scheduler(seed: int) -> None:
    """On tiny traces with random worths."""
    problem = tiny_trace(seed)
    assert_plain(problem, drawn_worths(problem, seed), UNIT)


def test_a_replay_is_scheduled_as_by_a_plain_scheduler() -> None:
    """Jobs of many epochs on 16 GPUs, half of which are away for an hour."""
    jobs = draw_workload(0, jobs=5)
    setting = Setting(Cluster.uniform(4, 4), outages=(Outage(3600, 7200, 2),))
    problem = replayed_problem(jobs, profiled_applications(), setting)
    assert_plain(problem, rule_of_thumb(problem, 3.0, 0.5), 600.0)


@given(SEEDS, st.integers(1, 3))
def test_schedules_are_feasible_and_leave_no_job_that_could_run(seed: int, types: int) -> None:
    """On several types of GPU; every job runs at any time that GPUs for it are left."""
    problem = tiny_trace(seed, types=types)
    segments: OfflineSchedule = {}
    prices = np.random.default_rng(seed).lognormal(0.0, 1.0, types).tolist()
    ends = WorthScheduler(problem, UNIT).run(drawn_worths(problem, seed), segments, prices=prices)
    assert schedule_violations(problem, segments) == []
    assert ends == pytest.approx(completion_times(problem, segments), rel=1e-12)
    moments = np.unique([moment for own in segments.values() for one in own for moment in one[:2]])
    for now in ((moments[:-1] + moments[1:]) / 2)[np.diff(moments) > 1e-3].tolist():
        held = np.zeros(types)
        waiting = []
        for job, end in zip(problem.jobs, ends.tolist(), strict=True):
            own = [one for one in segments[job.name] if one.start <= now < one.end]
            for one in own:
                held[one.row] += one.gpus
            if not own and job.begin < now < end:
                waiting.append(job)
        free = problem.supply.gpus[0] - held
        assert not waiting or free.max() < 1.0


def test_gpus_that_are_no_corner_of_the_hull_are_given_out_last() -> None:
    """Two jobs of 4 GPUs at best on 6: the second has the 2 that are left."""
    rates = np.array([[[1.0, 1.1, 1.2, 8.0]]])
    training = Training("one", np.array([80.0]), np.arange(1.0, 5.0), rates)
    jobs = (OfflineJob("a", "one", 0.0, 0.0), OfflineJob("b", "one", 0.0, 0.0))
    problem = OfflineProblem((training,), jobs, Supply.constant({"gpu": 6.0}))
    worth = [np.array([2.0]), np.array([1.0])]
    segments: OfflineSchedule = {}
    filled = WorthScheduler(problem, 10.0).run(worth, segments)
    assert [one.gpus for one in segments["b"]] == [2.0, 4.0]
    assert filled[1] < WorthScheduler(problem, 10.0, fill=False).run(worth)[1]


def test_a_job_leaves_its_type_for_gpus_that_are_left() -> None:
    """By its first GPU it is on the fast one; the four slow ones together are faster."""
    rates = np.array([[[2.0, 2.0, 2.0, 2.0]], [[1.0, 2.0, 3.0, 4.0]]])
    training = Training("one", np.array([80.0]), np.arange(1.0, 5.0), rates)
    supply = Supply.constant({"fast": 1.0, "slow": 4.0})
    problem = OfflineProblem((training,), (OfflineJob("a", "one", 0.0, 0.0),), supply)
    assert WorthScheduler(problem, 10.0).run([np.array([1.0])]).tolist() == [20.0]
    assert WorthScheduler(problem, 10.0, fill=False).run([np.array([1.0])]).tolist() == [40.0]


@given(SEEDS, st.integers(1, 2))
def test_a_schedule_that_follows_another_one_is_the_same_as_from_the_start(
    seed: int, types: int
) -> None:
    """After a change of the worths of some jobs, and of others after that."""
    problem = tiny_trace(seed, types=types)
    scheduler, random = WorthScheduler(problem, UNIT / 3), np.random.default_rng(seed)
    worth = [own.tolist() for own in drawn_worths(problem, seed)]
    factors = np.ones(len(worth))
    trail = scheduler.trail(worth, factors.tolist())
    for _ in range(3):
        jobs = random.choice(len(worth), random.integers(1, len(worth) + 1), replace=False)
        factors[jobs] *= random.lognormal(0.0, 1.0, jobs.size)
        trail = scheduler.trail(worth, factors.tolist(), after=Change(trail, jobs.tolist()))
        assert trail == scheduler.trail(worth, factors.tolist())
