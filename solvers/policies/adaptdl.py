r"""Stand-in for AdaptDL's policy: its calling convention with the solvers of this package.

Where AdaptDL's scheduler says ``from adaptdl_sched.policy.pollux import PolluxPolicy``, say

    from goodalloc.solvers.policies.adaptdl import PolluxPolicy

and every cycle is decided exactly instead of by the genetic algorithm. AdaptDL need not be
installed: jobs and nodes are used by their attributes alone. AdaptDL's own tests of its policy pass
with this one (`make test-adaptdl`).

How many nodes are wanted follows AdaptDL's rule. The *utility* of an allocation is the mean of its
jobs' speedups over their replicas, weighted by the part that they have of the resource in most
demand,

.. math:: u = \max_r \sum_j \frac{s_j(N_j, K_j)}{K_j} \cdot \frac{K_j a_{jr}}{\sum_n c_{nr}},   (1)

with the needs *a* of a replica and the resources *c* of the nodes in use. If that of the nodes
there is between 0.35 and 0.65 they are what is wanted, else the number whose best allocation has a
utility next to the middle, up to twice as many nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

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

#: Utilities (1) within which the number of nodes stays, and relative gain that counts as one.
LEAST_UTILITY, MOST_UTILITY, GAIN = 0.35, 0.65, 1e-9

#: Age in seconds of jobs of unknown age, and least age: at 0 the restart penalty of Pollux leaves
#: no gain of a start.
UNKNOWN_AGE, LEAST_AGE = 3600.0, 1.0


class NodeInfo(Protocol):
    """Node with its resources, by type; one that is `preemptible` may be taken away."""

    resources: Resources
    preemptible: bool


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

        It starts on its fewest replicas, or on one; an empty list where no node has room. Nodes
        that may be taken away come last.
        """
        replicas = max(int(job_info.min_replicas), 1)
        for key, node in _lasting_first(nodes).items():
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
            A node as further ones would be; None if the number of nodes stays as it is.

        Returns
        -------
        tuple
            The node of every replica by key of its job (an empty list for jobs that get none), and
            the number of nodes wanted. If these are fewer than there are, the last ones are left
            empty, unless a job may not be moved from them.

        Raises
        ------
        ValueError
            If no node has room for a replica, or jobs need different amounts of the scarcest
            resource for a replica.
        """
        if not jobs:
            return {}, len(nodes)
        nodes, wanted = _lasting_first(nodes), len(nodes)
        if node_template is not None:
            wanted = self._wanted(jobs, nodes, base_allocations, node_template)
        pinned = {
            node
            for key, job in jobs.items()
            if not job.preemptible
            for node in base_allocations.get(key, ())
        }
        kept = [key for place, key in enumerate(nodes) if place < wanted or key in pinned]
        used = {key: nodes[key] for key in kept}
        found = self._allocate(jobs, used, base_allocations)
        if found is None:
            return {key: list(base_allocations.get(key, ())) for key in jobs}, wanted
        return found, wanted

    def _allocate(
        self,
        jobs: Mapping[Any, JobInfo],
        nodes: Mapping[Any, NodeInfo],
        base_allocations: Mapping[Any, Sequence[Any]],
    ) -> dict[Any, list[Any]] | None:
        """Return the node of every replica by key of its job; None if no allocation was found."""
        nodes = {key: node for key, node in nodes.items() if _has_room(node, jobs)}
        instance = build_instance(jobs, nodes, base_allocations, self.rules)
        usable = not violations(instance, instance.current)
        start = instance.current if usable else None
        result = solve(instance, self.solver, stop=self.stop, start=start)
        if result.allocation is None:
            return None
        keys = list(nodes)
        placements = result.allocation.placements()
        return {
            key: [keys[node] for node, replicas in placement for _ in range(replicas)]
            for key, placement in zip(jobs, placements, strict=True)
        }

    def _wanted(
        self,
        jobs: Mapping[Any, JobInfo],
        nodes: Mapping[Any, NodeInfo],
        base_allocations: Mapping[Any, Sequence[Any]],
        template: NodeInfo,
    ) -> int:
        """Return the number of nodes wanted."""
        every = dict(nodes) | {_Further(number): template for number in range(len(nodes))}
        utilities, reached = dict[int, float](), 0.0
        for count in range(1, len(every) + 1):
            there = dict(list(every.items())[:count])
            if not any(_has_room(node, jobs) for node in there.values()):
                continue
            held = {
                key: [node for node in base if node in there]
                for key, base in base_allocations.items()
            }
            found = self._allocate(jobs, there, held)
            if found is None:
                continue
            speedups = {key: _speedup(jobs[key], placed) for key, placed in found.items()}
            total = sum(speedups.values())
            if total > reached * (1.0 + GAIN):  # else fewer nodes do as well
                reached = total
                utilities[count] = _utility(jobs, there, found, speedups)
        now = utilities.get(len(nodes))
        if now is not None and LEAST_UTILITY <= now <= MOST_UTILITY:
            return len(nodes)
        middle = (LEAST_UTILITY + MOST_UTILITY) / 2.0
        fair = {count: u for count, u in utilities.items() if u >= LEAST_UTILITY}
        # of several that are equally near the most nodes
        return max(fair, key=lambda n: (-round(abs(fair[n] - middle), 6), n), default=len(nodes))


class _Further(NamedTuple):
    """Key of a node that could be had."""

    number: int


def _lasting_first(nodes: Mapping[Any, NodeInfo]) -> dict[Any, NodeInfo]:
    """Return the nodes with those last that may be taken away, in their order otherwise."""
    return dict(sorted(nodes.items(), key=lambda pair: bool(pair[1].preemptible)))


def _speedup(job: JobInfo, placed: Sequence[Any]) -> float:
    """Return the speedup of a job on the nodes of its replicas; 0 without any."""
    if not placed:
        return 0.0
    return float(job.speedup_fn(np.array([len(set(placed))]), np.array([len(placed)]))[0])


def _utility(
    jobs: Mapping[Any, JobInfo],
    nodes: Mapping[Any, NodeInfo],
    allocations: Mapping[Any, Sequence[Any]],
    speedups: Mapping[Any, float],
) -> float:
    """Return the utility (1) of an allocation."""
    used = {node for placed in allocations.values() for node in placed}
    found = 0.0
    for name in {name for job in jobs.values() for name in job.resources}:
        total = sum(int(nodes[node].resources.get(name, 0)) for node in used)
        needs = sum(speedups[key] * jobs[key].resources.get(name, 0) for key in allocations)
        found = max(found, needs / total if total else 0.0)
    return found


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
    several = np.zeros_like(one)  # one replica is on one node, and AdaptDL refuses the question
    several[1:] = speedup(np.maximum(needed, 2)[1:], replicas[1:]) / base
    return SpeedupTable(tuple(one.tolist()), tuple(several.tolist()))


def _age(job: JobInfo) -> float:
    """Return the seconds since the job was created, `UNKNOWN_AGE` if it does not say."""
    age = getattr(job, "age", None)
    if age is not None:
        return float(age)
    created = getattr(job, "creation_timestamp", None)
    if isinstance(created, datetime):
        return max((datetime.now(created.tzinfo) - created).total_seconds(), LEAST_AGE)
    return UNKNOWN_AGE
