"""Agents that take all types of GPU for one, as under a scheduler that does not know them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.solvers.policies.policy import Decision

if TYPE_CHECKING:
    from goodalloc.solvers.policies.policy import BatchSizes, Round

JOB = Submission("one", 0, "cifar10", 2, 512)
TYPES = ("t4", "a100")
CLUSTER = Cluster(tuple(NodeGroup(name, 1, 4, name) for name in TYPES))


@dataclass
class Hopping:
    """Runs the only job on the types in turn, five rounds on each, with two GPUs."""

    pooled: bool
    batch_sizes: BatchSizes = "goodput"

    def decide(self, round_: Round) -> Decision:
        """The node of the type whose turn it is."""
        return Decision({"one": ((round_.time // 300 % 2, 2),)})


def replay(policy: Hopping, rounds: int, setting: Setting | None = None) -> Simulator:
    """So many rounds of the job."""
    setting = setting or Setting(CLUSTER)
    simulator = Simulator((JOB,), profiled_applications(), policy, setting)
    for _ in range(rounds):
        simulator.step()
    return simulator


def test_a_pooled_job_has_one_model_for_all_types() -> None:
    """One that is not pooled has one for each; both ran on both types."""
    pooled, apart = (replay(Hopping(pooled), 12).jobs[0] for pooled in (True, False))
    assert set(pooled.measured) == {"t4"}
    assert set(apart.measured) == set(TYPES)
    assert pooled.models()["t4"].throughput == pooled.models()["a100"].throughput
    assert apart.models()["t4"].throughput != apart.models()["a100"].throughput
    assert [mode.model for mode in pooled.modes()] == [*pooled.models().values()]
    assert pooled.model() == pooled.models()[pooled.gpu_type]


def test_of_equal_configurations_the_first_measurement_counts() -> None:
    """As in Sia's simulator: what is measured on the second type adds new configurations only."""
    early, late = (replay(Hopping(pooled=True), rounds).jobs[0] for rounds in (3, 30))
    before, after = early.measured["t4"].times, late.measured["t4"].times
    assert before == {key: after[key] for key in before}
    slow = late.application_on("t4")
    nodes, replicas, atomic = next(iter(before))
    assert (nodes, replicas) == (1, 2)
    assert before[1, 2, atomic][1] == slow.step_times((2,), atomic).step


def test_policies_are_not_pooled_unless_they_say_so() -> None:
    """No condition of a replay is new, so that descriptions of replays are what they were."""

    @dataclass
    class Silent:
        batch_sizes: BatchSizes = "goodput"

        def decide(self, round_: Round) -> Decision:
            """As `Hopping`."""
            return Hopping(pooled=False).decide(round_)

    simulator = Simulator((JOB,), profiled_applications(), Silent(), Setting(CLUSTER))
    for _ in range(12):
        simulator.step()
    assert simulator.pack() == replay(Hopping(pooled=False), 12).pack()
    assert "pooled" not in asdict(Setting())


def test_a_pooled_replay_resumes_as_if_it_had_not_stopped() -> None:
    """From a checkpoint within the first type and within the second."""
    whole = replay(Hopping(pooled=True), 14)
    for rounds in (3, 8):
        stored = json.loads(json.dumps(replay(Hopping(pooled=True), rounds).pack()))
        resumed = replay(Hopping(pooled=True), 0)
        resumed.unpack(stored)
        for _ in range(14 - rounds):
            resumed.step()
        assert resumed.pack() == whole.pack()


def test_pooled_jobs_start_without_knowledge() -> None:
    """Profiles and earlier jobs tell types apart."""
    with pytest.raises(ValueError, match="knowledge is 'profiled' under a policy whose jobs pool"):
        replay(Hopping(pooled=True), 0, Setting(CLUSTER, knowledge="profiled"))
