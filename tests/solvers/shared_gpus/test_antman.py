"""AntMan's policy: guarantees first, guests where there is room, on rounds worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.shared_gpus.shared_speed import Sharing
from goodalloc.solvers.policies.registry import make_policy
from goodalloc.solvers.shared_gpus.antman import AntMan, guest_problem, loads
from tests.support.policies.policy_rounds import active, round_of
from tests.support.policies.shared_jobs import used

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.policies.policy import Decision

WHOLE: Placement = ((0, 4),)

#: Names of jobs with a guarantee, and without: by their checksums, with half of all jobs.
SURE = [name for name in map("job-{}".format, range(40)) if AntMan().has_guarantee(name)]
FREE = [name for name in map("job-{}".format, range(40)) if not AntMan().has_guarantee(name)]


def gpus_of(decision: Decision) -> dict[str, int]:
    """GPUs that every job has."""
    return {name: sum(g for _, g in pairs) for name, pairs in decision.placements.items()}


def test_about_half_the_jobs_have_a_guarantee() -> None:
    """All or none, if asked for."""
    assert 12 <= len(SURE) <= 28
    assert all(AntMan(guaranteed=1.0).has_guarantee(name) for name in SURE + FREE)
    assert not any(AntMan(guaranteed=0.0).has_guarantee(name) for name in SURE + FREE)


def test_guarantees_are_served_in_order_and_others_fill_what_is_idle() -> None:
    """The second does not fit and nobody with a guarantee passes it; an opportunistic job does."""
    jobs = (active(SURE[0], 6), active(SURE[1], 4), active(SURE[2], 1), active(FREE[0], 2))
    assert gpus_of(AntMan().decide(round_of(*jobs))) == {SURE[0]: 6, FREE[0]: 2}


def test_opportunistic_jobs_give_way_the_last_one_first() -> None:
    """A job with a guarantee takes the GPUs of one of them; the others stay."""
    jobs = (
        used(FREE[0], 2, 0.5, placement=((0, 2),)),
        used(FREE[1], 2, 0.5, placement=((0, 2),)),
        used(FREE[2], 3, 0.5, placement=((1, 3),)),
        active(SURE[0], 2),
    )
    after = AntMan().decide(round_of(*jobs))
    assert gpus_of(after) == {FREE[0]: 2, FREE[1]: 2, SURE[0]: 2}
    assert after.placements[FREE[0]] == after.placements[FREE[1]] == ((0, 2),)


@pytest.mark.parametrize("exact", [False, True])
def test_guests_go_beside_hosts_with_time_and_memory_for_them(exact: bool) -> None:
    """The first host is too busy for the rule, so that a job waits; the last lacks memory."""
    jobs = (
        used(SURE[0], 4, 0.85, placement=((0, 4),)),
        used(SURE[1], 4, 0.6, placement=((1, 4),)),
        used(SURE[2], 4, 0.1, memory=0.8, placement=((2, 4),)),
        used(FREE[0], 3, 0.5),
        used(FREE[1], 3, 0.5),
    )
    after = AntMan(exact).decide(round_of(*jobs, nodes=3))
    if exact:
        assert sorted(after.beside.values()) == sorted([SURE[0], SURE[1]])
    else:
        assert dict(after.beside) == {FREE[0]: SURE[1]}
        assert after.placements[FREE[0]] == ((1, 3),)


def test_a_guest_whose_memory_does_not_fit_runs_where_tensors_are_moved() -> None:
    """Beside the only host, in a replay too; otherwise it waits."""
    jobs = (used(SURE[0], 4, 0.3, memory=0.8, placement=WHOLE), used(FREE[0], 2, 0.5))
    assert not AntMan().decide(round_of(*jobs, nodes=1)).beside
    moves = AntMan(True, sharing=Sharing("guaranteed", offload=4.0))
    assert dict(moves.decide(round_of(*jobs, nodes=1)).beside) == {FREE[0]: SURE[0]}
    submitted = [Submission(job.name, 0, "cifar10", 4, 4096) for job in jobs]
    simulator = Simulator(submitted, profiled_applications(), moves, Setting(Cluster.uniform(1, 4)))
    for _ in range(3):
        simulator.step()
    host, guest = simulator.jobs
    assert (guest.host, host.memory, guest.memory) == (host.submission.name, 1.0, 1.0)
    assert guest.share == pytest.approx(0.95 * (1.0 / host.measure_use().busy - 1.0) / 5.0)


def test_two_guests_of_a_host_have_gpus_of_their_own() -> None:
    """One on three GPUs, the other on the last one."""
    jobs = (
        used(SURE[0], 4, 0.5, placement=((0, 2), (1, 2))),
        used(SURE[1], 4, 1.0, memory=1.0, placement=((0, 2), (1, 2))),
        used(FREE[0], 3, 0.5),
        used(FREE[1], 1, 0.5),
    )
    after = AntMan().decide(round_of(*jobs))
    assert dict(after.beside) == {FREE[0]: SURE[0], FREE[1]: SURE[0]}
    assert (after.placements[FREE[0]], after.placements[FREE[1]]) == (((0, 2), (1, 1)), ((1, 1),))


def test_guests_stay_unless_they_are_slow_and_gpus_are_idle() -> None:
    """At half its speed a guest stays; below it moves; a guest whose host ended stays, alone."""
    for share, moves in ((0.5, False), (0.49, True)):
        jobs = (
            used(SURE[0], 4, 0.5, placement=WHOLE),
            used(FREE[0], 2, 0.5, placement=((0, 2),), host=SURE[0], share=share),
        )
        after = AntMan().decide(round_of(*jobs))
        assert after.placements[FREE[0]] == (((1, 2),) if moves else ((0, 2),))
        assert bool(after.beside) is not moves
    alone = used(FREE[0], 2, 0.5, placement=((0, 2),), share=0.1)
    after = AntMan().decide(round_of(alone))
    assert (after.placements, dict(after.beside)) == ({FREE[0]: ((0, 2),)}, {})


def test_hosts_that_never_ran_have_no_guests_and_guests_that_never_ran_count_as_busy() -> None:
    """Nothing is known of the host; the guest has the time that the host leaves."""
    new = active(SURE[0], 4, placement=WHOLE)
    assert not AntMan().decide(round_of(new, used(FREE[0], 1, 0.1), nodes=1)).beside
    host = used(SURE[0], 4, 0.7, placement=WHOLE)
    guests = [used(FREE[0], 1, 0.1), active(FREE[1])]
    problem = guest_problem(guests, [host], [0, 4], AntMan().sharing)
    assert problem.rate[0].tolist() == [1.0, 0.95]
    assert problem.rate[1].tolist() == [1.0, -np.inf], "its memory is not known either"
    assert loads([host]) == [0.0, 0.7]


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"exact": 1}, "exact is 1; expected true or false"),
        ({"guaranteed": 1.5}, "guaranteed is 1.5; expected a number from 0 to 1"),
        ({"threshold": float("nan")}, "threshold is nan"),
        ({"enough": -1.0}, "enough is -1"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(values: dict[str, Any], complaint: str) -> None:
    """In a sentence."""
    with pytest.raises(ValueError, match=complaint):
        AntMan(**values)


@pytest.mark.parametrize("name", ["antman", "antman-exact"])
def test_in_a_replay_guarantees_end_as_if_there_were_no_others(name: str) -> None:
    """Guests change nothing for their hosts, whoever they are."""
    jobs = [Submission(f"job-{index}", 30 * index, "cifar10", 2, 128) for index in range(8)]
    setting = Setting(Cluster.uniform(1, 4))
    kept = [job for job in jobs if AntMan().has_guarantee(job.name)]
    assert 2 <= len(kept) <= 6
    ends, guests = [], 0
    for workload in (jobs, kept):
        simulator = Simulator(workload, profiled_applications(), make_policy(name), setting)
        while not simulator.finished:
            record = simulator.step()
            guests += len(record.decision.beside) if record else 0
        ends.append(
            {
                job.submission.name: (job.completion, job.restarts)
                for job in simulator.jobs
                if AntMan().has_guarantee(job.submission.name)
            }
        )
    assert ends[0] == ends[1]
    assert guests > 0
