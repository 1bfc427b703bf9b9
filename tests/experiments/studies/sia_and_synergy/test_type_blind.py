"""Pollux that cannot tell types of GPU apart: what it sees, and what its jobs get of a decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.rounds.typed import sia_cluster
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.studies.sia_and_synergy.type_blind import (
    TypeBlind,
    parts_of,
    pollux_blind,
    pollux_genetic_blind,
)
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.pollux import Pollux, PolluxGenetic
from tests.support.few import few
from tests.support.replay.replays import SHORT

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.policies.policy import BatchSizes, Policy, Round

CLUSTER = Cluster((NodeGroup("slow", 1, 4, "t4"), NodeGroup("fast", 1, 8, "a100")))
JOB = Submission("one", 0, "cifar10", 2, 512)


@dataclass
class Fixed:
    """Places the job on the same parts over and over, and keeps what it is shown."""

    placement: Placement
    batch_sizes: BatchSizes = "goodput"
    seen: list[Round] = field(default_factory=list)

    def decide(self, round_: Round) -> Decision:
        """The placement."""
        self.seen.append(round_)
        return Decision({"one": self.placement})


def replay(policy: Policy, rounds: int, *jobs: Submission) -> Simulator:
    """So many rounds under a policy that cannot tell types apart."""
    blind = TypeBlind(policy)
    simulator = Simulator(jobs or (JOB,), profiled_applications(), blind, Setting(CLUSTER))
    for _ in range(rounds):
        simulator.step()
    return simulator


def test_the_cluster_of_sia_counts_as_that_of_pollux() -> None:
    """Sixteen nodes of four GPUs: six of T4, and every node of eight GPUs twice."""
    parts = parts_of(sia_cluster())
    assert parts.gpus == 4
    assert parts.nodes == (*range(6), 6, 6, 7, 7, 8, 8, 9, 9, 10, 10)
    with pytest.raises(ValueError, match="'b-0' has 6 GPUs; expected a multiple of those of the"):
        parts_of(Cluster((NodeGroup("a", 1, 4, "t4"), NodeGroup("b", 1, 6, "a100"))))


@pytest.mark.parametrize(
    ("placement", "kept"),
    [
        (((0, 2), (1, 2)), ((1, 2),)),  # as many of both: those of the faster type
        (((0, 3), (1, 2)), ((0, 3),)),  # most
        (((0, 1), (1, 2), (2, 2)), ((1, 4),)),  # two parts of one node
        ((), ()),
    ],
)
def test_a_job_keeps_the_gpus_of_one_type(placement: Placement, kept: Placement) -> None:
    """The type that it has most of, else the preferred one; parts of a node are one node."""
    policy = Fixed(placement)
    (job,) = replay(policy, 1).jobs
    assert job.placement == kept
    assert job.gpu_type == ("a100" if kept and kept[0][0] == 1 else "t4")


def test_the_policy_sees_nothing_of_types() -> None:
    """One type of node, no modes, the first type's limits, and what the job kept of its parts."""
    policy = Fixed(((0, 1), (1, 2), (2, 2)))
    replay(policy, 4)
    last = policy.seen[-1]
    assert last.cluster == Cluster.uniform(3, 4)
    (job,) = last.jobs
    assert (job.modes(), job.mode) == ((), "")
    assert job.placement == ((1, 2), (2, 2))
    model = job.model()
    assert model is not None
    assert model.batch == profiled_applications()["cifar10"].on("t4").batch == job.batch
    assert job.max_replicas == 4  # as many as there are of the rarest type


@pytest.mark.parametrize("policy", few([Pollux(), PolluxGenetic(population=10, generations=5)], 1))
def test_jobs_of_pollux_end_and_run_on_one_type_each(policy: Policy) -> None:
    """Replayed whole, with decisions that the simulator checks."""
    simulator = replay(policy, 0, *SHORT)
    kinds = set()
    while not simulator.finished:
        simulator.step()
        for job in simulator.active:
            here = {CLUSTER.node_types[node] for node, _ in job.placement}
            assert len(here) <= 1
            kinds |= here
    assert kinds == {"t4", "a100"}
    assert all(set(job.measured) == {"t4"} for job in simulator.jobs)


def test_the_versions_of_the_study_differ_in_how_they_search() -> None:
    """Exactly, within ten seconds a round, or by the genetic algorithm."""
    exact, genetic = pollux_blind().policy, pollux_genetic_blind().policy
    assert isinstance(exact, Pollux)
    assert exact.stop.seconds == 10.0
    assert isinstance(genetic, PolluxGenetic)
