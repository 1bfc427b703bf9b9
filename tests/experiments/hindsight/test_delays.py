"""Who is delayed by whom: what is lost is shared out, and adds up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.experiments.hindsight.delays import delays_of
from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)
from goodalloc.models.hindsight.offline_schedule import OfflineSchedule, Segment, completion_times
from goodalloc.solvers.hindsight.priced_schedule import WorthScheduler
from goodalloc.solvers.hindsight.schedule_search import rule_of_thumb
from tests.support.hindsight.tiny_traces import tiny_trace

SEEDS = st.integers(0, 10**6)


def scheduled(seed: int, types: int) -> tuple[OfflineProblem, OfflineSchedule]:
    """A tiny trace with a schedule."""
    problem = tiny_trace(seed, types=types)
    segments: OfflineSchedule = {}
    WorthScheduler(problem).run(rule_of_thumb(problem, 1.0, 0.5), segments)
    return problem, segments


@given(SEEDS, st.integers(1, 2))
def test_delays_add_up_to_what_each_job_takes_longer_than_alone(seed: int, types: int) -> None:
    """Equation (1), whose two sides are computed apart; nobody is blamed for more than that."""
    problem, segments = scheduled(seed, types)
    found = delays_of(problem, segments)
    alone = [job.begin + problem.training(job.training).least_seconds for job in problem.jobs]
    longer = completion_times(problem, segments) - np.array(alone)
    assert found.total == pytest.approx(longer, rel=1e-9, abs=1e-6)
    blamed = found.by.toarray()
    assert (blamed >= 0).all()
    assert (blamed.diagonal() == 0).all()
    assert (blamed.sum(axis=1) <= found.total + 1e-6).all()
    assert found.caused == pytest.approx(blamed.sum(axis=0))


@given(SEEDS)
def test_delays_are_those_of_a_sum_over_small_steps(seed: int) -> None:
    """Equation (2) at 20,000 moments, on one phase for each job."""
    random = np.random.default_rng(seed)
    gpus = np.array([1.0, 2.0, 3.0])
    training = Training("one", np.array([100.0]), gpus, np.array([[[1.0, 1.7, 2.1]]]))
    jobs = tuple(OfflineJob(str(row), "one", 0.0, float(10 * row)) for row in range(3))
    problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 9.0}))
    segments: OfflineSchedule = {}
    for job in jobs:
        start = job.begin + float(random.integers(0, 3)) * 5.0
        middle = start + float(random.integers(5, 20))
        first, last = random.choice(gpus, 2).tolist()
        segments[job.name] = (
            Segment(start, middle, 0, first),
            Segment(middle + 5.0, middle + 200.0, 0, last),
        )
    ends = completion_times(problem, segments)
    segments = {
        name: (own[0], own[1]._replace(end=float(end)))
        for (name, own), end in zip(segments.items(), ends.tolist(), strict=True)
    }
    step = float(ends.max()) / 20_000
    times = (np.arange(20_000) + 0.5) * step
    held = np.array(
        [
            sum(((times >= one.start) & (times < one.end)) * one.gpus for one in own)
            for own in segments.values()
        ]
    )
    rate = np.interp(held, [0.0, *gpus], [0.0, 1.0, 1.7, 2.1])
    begins = np.array([job.begin for job in jobs])[:, None]
    there = (times >= begins) & (times < ends[:, None])
    lost = np.where(there, 1.0 - rate / 2.1, 0.0)
    others = held.sum(axis=0) - held
    share = np.divide(lost, others, out=np.zeros_like(lost), where=others > 0)
    plain = share @ held.T * step
    np.fill_diagonal(plain, 0.0)
    assert delays_of(problem, segments).by.toarray() == pytest.approx(plain, abs=10 * step)


def test_time_in_which_nobody_else_holds_gpus_is_nobodys_fault() -> None:
    """A job that waits for nothing is delayed, and by no one."""
    training = Training("one", np.array([60.0]), np.array([1.0]), np.array([[[1.0]]]))
    job = OfflineJob("a", "one", 0.0, 0.0)
    problem = OfflineProblem((training,), (job,), Supply.constant({"t4": 1.0}))
    found = delays_of(problem, {"a": (Segment(30.0, 90.0, 0, 1.0),)})
    assert found.total.tolist() == [30.0]
    assert found.by.toarray().tolist() == [[0.0]]
