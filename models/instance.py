"""The instance: a cluster, its jobs and the rules of one scheduling round."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goodalloc.models.allocation import Allocation
from goodalloc.models.cluster import Cluster
from goodalloc.models.job import Job
from goodalloc.models.rules import Rules
from goodalloc.models.validation import require_name


@dataclass(frozen=True)
class Instance:
    """One scheduling round: which jobs want which GPUs, under which rules.

    Every instance has an allocation that obeys its rules: whatever cannot hold is refused here.

    Parameters
    ----------
    cluster, jobs, rules
        What there is, who wants it, and what it is worth.
    name
        For people and tables.

    Raises
    ------
    ValueError
        If there are no jobs, two share a name, a placement names an unknown node, the current
        placements overfill a node, or a pinned job breaks the rules where it sits.
    """

    cluster: Cluster
    jobs: tuple[Job, ...]
    rules: Rules = Rules()
    name: str = "instance"

    def __post_init__(self) -> None:
        require_name("Instance", self.name)
        if not self.jobs:
            raise ValueError("Instance: expected at least one job, got none.")
        self._check_names()
        self._check_nodes()
        self._check_pinned()

    def _check_names(self) -> None:
        seen: set[str] = set()
        for job in self.jobs:
            if job.name in seen:
                raise ValueError(f"Job '{job.name}' is named twice; job names are unique.")
            seen.add(job.name)

    def _check_nodes(self) -> None:
        num_nodes = self.cluster.num_nodes
        for job in self.jobs:
            for node, _ in job.placement:
                if node >= num_nodes:
                    raise ValueError(
                        f"Job '{job.name}': placement names node {node}; "
                        f"the cluster has nodes 0 to {num_nodes - 1}."
                    )
        used, gpus = self.current.node_replicas, self.cluster.node_gpus
        if np.any(used > gpus):
            node = int(np.argmax(used > gpus))
            raise ValueError(
                f"Node '{self.cluster.node_names[node]}': current placements hold "
                f"{used[node]} GPUs; the node has {gpus[node]}."
            )

    def _check_pinned(self) -> None:
        distributed_on: dict[int, str] = {}
        for job in self.jobs:
            if not job.pinned:
                continue
            item = f"Job '{job.name}' is not preemptible and"
            if not job.min_replicas <= job.replicas <= job.max_replicas:
                raise ValueError(
                    f"{item} holds {job.replicas} GPUs; "
                    f"expected {job.min_replicas} to {job.max_replicas}."
                )
            nodes = len(job.placement)
            if nodes > self.rules.max_nodes_per_job:
                raise ValueError(
                    f"{item} spans {nodes} nodes; "
                    f"expected at most {self.rules.max_nodes_per_job} (max_nodes_per_job)."
                )
            if nodes > 1 and self.rules.interference_avoidance:
                for node, _ in job.placement:
                    other = distributed_on.setdefault(node, job.name)
                    if other != job.name:
                        raise ValueError(
                            f"{item} shares node '{self.cluster.node_names[node]}' with '{other}', "
                            "also distributed; interference avoidance allows one a node."
                        )

    def replace(self, **changes: Any) -> "Instance":
        """A copy with some parts changed."""
        return replace(self, **changes)

    @property
    def num_jobs(self) -> int:
        """Number of jobs."""
        return len(self.jobs)

    @cached_property
    def current(self) -> Allocation:
        """Where the jobs run now."""
        return Allocation.from_placements(
            [job.placement for job in self.jobs], self.cluster.num_nodes
        )

    @property
    def fair_share(self) -> int:
        """GPUs of a fair share, ``K_f = ceil(GPUs / jobs)`` (Pollux's artifact)."""
        return -(-self.cluster.num_gpus // self.num_jobs)

    @cached_property
    def min_replicas(self) -> NDArray[np.int64]:
        """Fewest GPUs of every job when it runs, shape (jobs,)."""
        return np.array([max(job.min_replicas, 1) for job in self.jobs], dtype=np.int64)

    @cached_property
    def max_replicas(self) -> NDArray[np.int64]:
        """Most GPUs of every job, no more than the cluster has, shape (jobs,)."""
        limits = np.array([job.max_replicas for job in self.jobs], dtype=np.int64)
        return np.minimum(limits, self.cluster.num_gpus)

    @cached_property
    def pinned(self) -> NDArray[np.bool_]:
        """Whether every job must keep what it has, shape (jobs,)."""
        return np.array([job.pinned for job in self.jobs], dtype=bool)

    @cached_property
    def age(self) -> NDArray[np.float64]:
        """Seconds since every job's submission, shape (jobs,)."""
        return np.array([job.age for job in self.jobs], dtype=float)

    @cached_property
    def restarts(self) -> NDArray[np.float64]:
        """Restarts of every job so far, shape (jobs,)."""
        return np.array([job.restarts for job in self.jobs], dtype=float)
