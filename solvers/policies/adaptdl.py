"""Stand-in for AdaptDL's policy: its calling convention with the solvers of this package.

Where AdaptDL's scheduler says ``from adaptdl_sched.policy.pollux import PolluxPolicy``, say

    from goodalloc.solvers.policies.adaptdl import PolluxPolicy

and every cycle is decided exactly instead of by the genetic algorithm. AdaptDL need not be
installed: jobs and nodes are used by their attributes alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.interface.base import Solver

Resources = Mapping[str, int]

#: Age in seconds of jobs of unknown age.
UNKNOWN_AGE = 3600.0


class NodeInfo(Protocol):
    """Node with its resources, by type."""

    resources: Resources


class JobInfo(Protocol):
    """Job with the needs of each replica, its speedup and its limits.

    The attributes `age` (seconds), `num_restarts` and `attained_service` (GPU-seconds) are used
    where they exist; otherwise a `creation_timestamp` that is a datetime gives the age.
    """

    resources: Resources
    speedup_fn: Callable[..., Any]
    min_replicas: int
    max_replicas: int
    preemptible: bool


@dataclass
class PolluxPolicy:
    """Policy that decides AdaptDL's cycles.

    Parameters
    ----------
    solver
        As in `goodalloc.solvers.certificates.solve.solve`; exact by default.
    rules
        Objective and constraints; Pollux's power mean over speedups against the fair share.
    stop
        Limits of every cycle, such as ``Stop(seconds=10)``.
    """

    solver: str | Solver = "highs"
    rules: Rules = field(default_factory=Rules)
    stop: Stop = field(default_factory=Stop)

    def allocate_job(self, job_info: JobInfo, nodes: Mapping[Any, NodeInfo]) -> list[Any]:
        """Return the node of every replica of a new job: the first node with room.

        It starts on its fewest replicas, or on one; an empty list where no node has room.
        """
        replicas = max(int(job_info.min_replicas), 1)
        for key, node in nodes.items():
            if _fit(node.resources, job_info.resources) >= replicas:
                return [key] * replicas
        return []

    def optimize(
        self,
        jobs: Mapping[Any, JobInfo],
        nodes: Mapping[Any, NodeInfo],
        base_allocations: Mapping[Any, Sequence[Any]],
        node_template: NodeInfo | None = None,
    ) -> tuple[dict[Any, list[Any]], int]:
        """Decide one cycle.

        Parameters
        ----------
        jobs
            The jobs that are not complete, by key.
        nodes
            The nodes there are, by key.
        base_allocations
            The node of every replica that runs now, by key of its job.
        node_template
            Accepted for compatibility; the number of nodes stays as it is.

        Returns
        -------
        tuple
            The node of every replica by key of its job (an empty list for jobs that get none), and
            the number of nodes wanted, which is that of the nodes there are.

        Raises
        ------
        ValueError
            If no node has room for a replica, or jobs need different amounts of the scarcest
            resource for a replica.
        """
        if not jobs:
            return {}, len(nodes)
        wanted = len(nodes)
        nodes = {key: node for key, node in nodes.items() if _has_room(node, jobs)}
        instance = build_instance(jobs, nodes, base_allocations, self.rules)
        usable = not violations(instance, instance.current)
        start = instance.current if usable else None
        result = solve(instance, self.solver, stop=self.stop, start=start)
        if result.allocation is None:
            return {key: list(base_allocations.get(key, ())) for key in jobs}, wanted
        keys = list(nodes)
        placements = result.allocation.placements()
        return {
            key: [keys[node] for node, replicas in placement for _ in range(replicas)]
            for key, placement in zip(jobs, placements, strict=True)
        }, wanted


def build_instance(
    jobs: Mapping[Any, JobInfo],
    nodes: Mapping[Any, NodeInfo],
    base_allocations: Mapping[Any, Sequence[Any]],
    rules: Rules,
) -> Instance:
    """Return one cycle as an instance; a GPU in it is room for one replica.

    Raises
    ------
    ValueError
        As `PolluxPolicy.optimize`.
    """
    slots = replicas_per_node(list(jobs.values()), nodes)
    groups = tuple(
        NodeGroup(f"node-{index}", 1, count) for index, count in enumerate(slots.tolist())
    )
    cluster = Cluster(groups)
    index = {key: number for number, key in enumerate(nodes)}
    fair = -(-cluster.num_gpus // len(jobs))
    built = []
    for number, (key, job) in enumerate(jobs.items()):
        held = [index[node] for node in base_allocations.get(key, ()) if node in index]
        placement: Placement = tuple((node, held.count(node)) for node in sorted(set(held)))
        built.append(
            Job(
                f"job-{number}",
                _speedups(job, slots, fair),
                _age(job),
                int(getattr(job, "num_restarts", 0) or 0),
                placement,
                min_replicas=int(job.min_replicas),
                max_replicas=int(job.max_replicas),
                preemptible=bool(job.preemptible),
                attained_service=float(getattr(job, "attained_service", 0.0) or 0.0),
            )
        )
    return Instance(cluster, tuple(built), rules, "adaptdl-cycle")


def replicas_per_node(jobs: Sequence[JobInfo], nodes: Mapping[Any, NodeInfo]) -> NDArray[np.int64]:
    """Return the replicas that fit on every node, shape (nodes,).

    Raises
    ------
    ValueError
        If there are no nodes, or the number depends on the job.
    """
    if not nodes:
        raise ValueError("AdaptDL cycle: no node has room for a replica; expected at least one.")
    fits = np.array(
        [[_fit(node.resources, job.resources) for node in nodes.values()] for job in jobs]
    )
    least, most = fits.min(axis=0), fits.max(axis=0)
    for key, low, high in zip(nodes, least.tolist(), most.tolist(), strict=True):
        if low != high:
            raise ValueError(
                f"Node {key!r} holds {low} to {high} replicas, depending on the job; "
                "expected jobs whose replicas need the same of the scarcest resource."
            )
    return np.asarray(least, dtype=np.int64)


def _has_room(node: NodeInfo, jobs: Mapping[Any, JobInfo]) -> bool:
    """Return whether a node holds a replica of any job."""
    return any(_fit(node.resources, job.resources) >= 1 for job in jobs.values())


def _fit(has: Resources, needs: Resources) -> int:
    """Return the replicas of one job that fit on one node."""
    rooms = [int(has.get(name, 0)) // int(amount) for name, amount in needs.items() if amount > 0]
    if not rooms:
        raise ValueError("A job's replicas need no resource at all; expected a GPU or another one.")
    return min(rooms)


def _speedups(job: JobInfo, slots: NDArray[np.int64], fair: int) -> SpeedupTable:
    """Return speedups on one node and on several, against the fair share on one node."""
    most = int(min(job.max_replicas, slots.sum()))
    replicas = np.arange(1, most + 1)
    needed = -(-replicas // int(slots.max()))

    def speedup(nodes: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(job.speedup_fn(nodes, counts), dtype=np.float64).clip(min=0.0)

    base = float(speedup(np.ones(1, dtype=int), np.array([fair]))[0])
    base = base if base > 0 else 1.0
    one = speedup(np.ones_like(replicas), replicas) / base
    several = speedup(np.maximum(needed, 2), replicas) / base
    several[0] = 0.0  # one replica is on one node
    return SpeedupTable(tuple(one.tolist()), tuple(several.tolist()))


def _age(job: JobInfo) -> float:
    """Return the seconds since the job was created, `UNKNOWN_AGE` if it does not say."""
    age = getattr(job, "age", None)
    if age is not None:
        return float(age)
    created = getattr(job, "creation_timestamp", None)
    if isinstance(created, datetime):
        return max((datetime.now(created.tzinfo) - created).total_seconds(), 0.0)
    return UNKNOWN_AGE
