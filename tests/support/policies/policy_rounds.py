"""Rounds of few jobs for tests of policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.models.goodput.model import BatchLimits, GoodputModel
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.policies.policy import ActiveJob, Round

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.policies.policy import Oracle

LIMITS = BatchLimits(128, 4096, 32, 1024)


MODEL = GoodputModel(
    ThroughputParameters(0.05, 0.001, 0.01, 0.001, 0.05, 0.005, 2.0),
    GradientStatistics(1.0, 20.0),
    LIMITS,
)


class Told:
    """An oracle that knows what the test says: step times fall as one over the GPUs, to a floor."""

    def __init__(self, steps: float, floor: float = 0.0) -> None:
        self.steps, self.floor = steps, floor

    def remaining_steps(self) -> float:
        return self.steps

    def seconds_per_step(self, replicas: int, gpus_per_node: int, gpu_type: str = "") -> float:
        return max(1.0 / replicas, self.floor)

    def beside(
        self, other: Oracle, replicas: int, gpus_per_node: int, gpu_type: str = ""
    ) -> tuple[float, float] | None:
        return None


def active(
    name: str,
    replicas: int = 1,
    *,
    placement: Placement = (),
    steps: float = 100.0,
    floor: float = 0.0,
    explored: int = 64,
    submission: int = 0,
) -> ActiveJob:
    """A job in the middle of its training."""
    return ActiveJob(
        name,
        "cifar10",
        submission,
        3600 - submission,
        placement,
        1,
        100.0,
        replicas,
        1024,
        LIMITS,
        None,
        explored,
        lambda: MODEL,
        Told(steps, floor),
    )


def round_of(*jobs: ActiveJob, nodes: int = 2, time: int = 3600) -> Round:
    """A round on nodes of four GPUs."""
    return Round(time, Cluster.uniform(nodes, 4), jobs)
