"""SLAQ as a policy, and the losses that jobs of a replay tell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.loss_runs import losses_of
from goodalloc.experiments.checkpoints.policy_memory import Memory
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.models.losses.reduction import LossHistory
from goodalloc.solvers.classical.slaq import Slaq
from goodalloc.solvers.policies.policy import Round
from goodalloc.solvers.policies.policy_table import POLICIES
from goodalloc.solvers.policies.registry import make_policy
from tests.support.memories import recalled
from tests.support.policies.policy_rounds import MODEL, active, round_of
from tests.support.replay.replays import SHORT, SMALL, finish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.solvers.policies.policy import ActiveJob

#: Steps at M0 between two losses.
EVERY = 100.0


def told(job: ActiveJob, losses: Sequence[float]) -> ActiveJob:
    """The job, having told these losses."""
    history = LossHistory(EVERY, EVERY, np.array(losses, dtype=float), EVERY * len(losses))
    return replace(job, losses=lambda: history)


def harmonic(count: int) -> list[float]:
    """Losses that fall ever more slowly."""
    return [1.0 / (1.0 + 0.2 * step) for step in range(count)]


def gpus(policy: Slaq, *jobs: ActiveJob, nodes: int = 2) -> dict[str, int]:
    """GPUs that every job gets."""
    placements = policy.decide(round_of(*jobs, nodes=nodes)).placements
    return {job.name: sum(g for _, g in placements.get(job.name, ())) for job in jobs}


@pytest.mark.parametrize("exact", [False, True])
def test_the_job_that_has_just_begun_to_fall_gets_the_gpus(exact: bool) -> None:
    """The other one has converged; it keeps the one GPU that everybody has."""
    late, early = told(active("late"), harmonic(400)), told(active("early"), harmonic(6))
    assert gpus(Slaq(exact), late, early) == {"late": 1, "early": 7}


@pytest.mark.parametrize("exact", [False, True])
def test_without_falling_losses_everybody_has_one_gpu_in_order(exact: bool) -> None:
    """Losses that stay, losses that are not told, and a model that is not there."""
    jobs = [
        told(active("stays"), [1.0] * 8),
        active("tells nothing"),
        replace(told(active("unknown"), harmonic(6)), model=lambda: None),
    ]
    names = [job.name for job in jobs]
    assert gpus(Slaq(exact), *jobs) == dict.fromkeys(names, 1)
    many = [told(active(f"job-{index}"), harmonic(6)) for index in range(6)]
    given = gpus(Slaq(exact), *many, nodes=1)
    assert given == {f"job-{index}": int(index < 4) for index in range(6)}


@pytest.mark.parametrize("exact", [False, True])
def test_no_job_has_more_than_its_batch_or_its_experience_allows(exact: bool) -> None:
    """Twice what it ever ran on; and a batch of 1,024 examples on 32 GPUs of at least 32."""
    new = told(active("new", explored=1), harmonic(6))
    assert gpus(Slaq(exact), new) == {"new": 2}
    small = replace(told(active("small"), harmonic(6)), batch_size=128)
    assert gpus(Slaq(exact), small) == {"small": 4}


def test_a_spike_is_not_taken_for_the_largest_fall() -> None:
    """The losses with one of them ten times as high lead to the same shares."""
    losses = harmonic(20)
    spiked = [10.0 * loss if step == 9 else loss for step, loss in enumerate(losses)]
    other = told(active("other"), harmonic(30))
    plain, same = (gpus(Slaq(), told(active("job"), v), other) for v in (losses, spiked))
    assert plain == same


def test_what_runs_stays_where_nothing_changes() -> None:
    """The second round gives the same GPUs in the same places, kept in between or not."""
    for exact in (False, True):
        policy = Slaq(exact)
        memory = Memory(policy)
        jobs = [told(active(f"job-{n}", submission=n), harmonic(4 + 5 * n)) for n in range(3)]
        first = policy.decide(round_of(*jobs)).placements
        held = [replace(job, placement=first.get(job.name, ())) for job in jobs]
        copy = recalled(memory, Slaq(exact))
        assert copy.decide(round_of(*held)).placements == first


def test_the_exact_shares_are_worth_no_less() -> None:
    """On rounds where a second node costs so much that gains dip."""
    slow = MODEL._replace(throughput=MODEL.throughput._replace(alpha_node=0.3))
    for count in (1, 2, 3):
        jobs = [
            replace(told(active(f"job-{n}"), harmonic(5 + n)), model=lambda: slow)
            for n in range(count)
        ]
        round_ = Round(3600, round_of(*jobs, nodes=3).cluster, tuple(jobs))
        worth = []
        for exact in (False, True):
            policy = Slaq(exact)
            found = policy.decide(round_).placements
            table = policy.gains(round_)
            held = [sum(g for _, g in found.get(job.name, ())) for job in jobs]
            worth.append(sum(table[row, k] for row, k in enumerate(held)))
        assert worth[1] >= worth[0] - 1e-12


def test_losses_are_drawn_for_the_name_and_reach_the_target_at_the_end() -> None:
    """The same wherever the job is; another name has others; after the end all are known."""
    run = losses_of("a", "ncf", 5000.0)
    assert run == losses_of("a", "ncf", 5000.0)
    assert run != losses_of("b", "ncf", 5000.0)
    assert run.history(0.0).losses.size == 0
    whole = run.history(5000.0)
    assert whole.losses.tolist() == list(run.losses)
    assert whole.every * whole.losses.size <= 5000.0 < whole.every * (whole.losses.size + 1)
    assert run.target < run.losses[0]


def test_a_replay_tells_losses_as_they_are_measured() -> None:
    """None before the first step of a job; later never more than its progress allows."""
    simulator = Simulator(SHORT[:2], profiled_applications(), Slaq(), SMALL)
    most = 0
    while not simulator.finished:
        simulator.step()
        for job in simulator.observe(simulator.active).jobs:
            history = job.losses()
            assert history is not None
            assert history.first + history.every * (history.losses.size - 1) <= history.done + 1e-6
            most = max(most, history.losses.size)
    assert most > 10


def test_both_ways_finish_a_workload() -> None:
    """All jobs end; the names stand for the two ways."""
    for name, exact in (("slaq", False), ("slaq-exact", True)):
        assert name in POLICIES
        policy = make_policy(name)
        assert isinstance(policy, Slaq)
        assert policy.exact is exact
        finish(Simulator(SHORT, profiled_applications(), policy, SMALL))
