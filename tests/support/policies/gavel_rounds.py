"""Drawn jobs under Gavel, round by round."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.models.goodput.model import BatchLimits
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.solvers.policies.decision_checker import check_decision
from goodalloc.solvers.policies.policy import ActiveJob, Round

if TYPE_CHECKING:
    from goodalloc.solvers.gavel.share_policy import SharePolicy
    from goodalloc.solvers.policies.policy import Decision, Oracle

CLUSTER = Cluster(
    (
        NodeGroup("fast", 2, 4, "v100"),
        NodeGroup("slow", 3, 4, "k80"),
        NodeGroup("one", 1, 1, "p100"),
    )
)


class Known:
    """An oracle of a job with a rate of its own on every type, and of what it leaves to others."""

    def __init__(self, steps: float, rates: dict[str, float], keeps: float = 0.0) -> None:
        self.steps, self.rates, self.keeps = steps, rates, keeps

    def remaining_steps(self) -> float:
        """As it was told."""
        return self.steps

    def seconds_per_step(self, replicas: int, gpus_per_node: int, gpu_type: str = "") -> float:
        """As it was told, and as much faster as there are GPUs."""
        rate = self.rates.get(gpu_type, 0.0) * replicas
        return 1.0 / rate if rate else math.inf

    def beside(
        self, other: Oracle, replicas: int, gpus_per_node: int, gpu_type: str = ""
    ) -> tuple[float, float] | None:
        """Both keep as much as the one that keeps less."""
        assert isinstance(other, Known)
        keeps = replicas * min(self.keeps, other.keeps)
        if keeps == 0.0 or gpu_type not in self.rates:
            return None
        return keeps * self.rates[gpu_type], keeps * other.rates[gpu_type]


def job(
    name: str, replicas: int, steps: float, rates: dict[str, float], keeps: float = 0.0, **more: Any
) -> ActiveJob:
    """One that waits."""
    usual: dict[str, Any] = {
        "application": "",
        "submission": 0,
        "age": 10,
        "placement": (),
        "restarts": 0,
        "attained_service": 0.0,
        "batch_size": 1,
        "batch": BatchLimits(1, 1, 1, 1),
        "fixed_replicas": None,
        "most_explored": 0,
        "model": lambda: None,
    }
    return ActiveJob(
        name=name, replicas=replicas, oracle=Known(steps, rates, keeps), **usual | more
    )


def drawn_jobs(
    seed: int, count: int, *, gangs: bool = True, keeps: tuple[float, float] = (0.0, 0.0)
) -> tuple[ActiveJob, ...]:
    """Gangs of 1 to 8 or all of 1, faster on the fast type by factors of their own.

    Beside others they keep parts of their speed between `keeps`.
    """
    random = np.random.default_rng(seed)
    return tuple(
        job(
            f"job{index}",
            int(random.choice([1, 1, 1, 2, 4, 8])) if gangs else 1,
            float(random.uniform(1e3, 1e6)),
            {"v100": 1.0, "p100": random.uniform(0.3, 1.0), "k80": random.uniform(0.1, 0.9)},
            float(random.uniform(*keeps)) if any(keeps) else 0.0,
        )
        for index in range(count)
    )


def play(policy: SharePolicy, jobs: tuple[ActiveJob, ...], rounds: int) -> list[dict[str, str]]:
    """Types of the jobs that ran, round after round, with nobody coming or going."""
    types, history = CLUSTER.node_types, []
    for index in range(rounds):
        round_ = Round(index * 360, CLUSTER, jobs)
        decision = policy.decide(round_)
        check_decision(round_, decision)
        found = {}
        for name, pairs in decision.placements.items():
            (kind,) = {types[node] for node, _ in pairs}
            found[name] = kind
        history.append(found)
        jobs = decided(jobs, decision)
    return history


def decided(jobs: tuple[ActiveJob, ...], decision: Decision) -> tuple[ActiveJob, ...]:
    """The jobs as they run then."""
    return tuple(
        replace(
            one,
            placement=decision.placements.get(one.name, ()),
            host=decision.beside.get(one.name, ""),
        )
        for one in jobs
    )
