"""Instance: a cluster, its jobs and the rules of one scheduling round."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.gpu_sharing import pack_shares
from goodalloc.models.round.rules import Rules
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE
from goodalloc.models.support.validation import require_name

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from numpy.typing import NDArray

    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.job import Job
    from goodalloc.models.round.mode import JobModel, Mode
    from goodalloc.models.support.array_types import Flags, Floats, Indices


@dataclass(frozen=True)
class Instance:
    """Instance of one scheduling round: cluster, jobs and rules.

    Every instance has an allocation that obeys its rules; the constructor rejects all others.

    Parameters
    ----------
    cluster, jobs, rules
        Nodes, jobs, and rules of the round.
    name
        Name for reports and tables.

    Raises
    ------
    ValueError
        If there are no jobs, two share a name, a placement names an unknown node, a mode a resource
        or a type of GPU that no node has, the current placements overfill a node, or a pinned job
        breaks the rules where it sits.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job
    >>> instance = Instance(Cluster.uniform(nodes=2, gpus=4), (Job("job"),))
    >>> instance.num_jobs, instance.fair_share
    (1, 8)
    """

    cluster: Cluster
    jobs: tuple[Job, ...]
    rules: Rules = Rules()
    name: str = "instance"

    def __post_init__(self) -> None:
        require_name("Instance", self.name)
        object.__setattr__(self, "jobs", tuple(self.jobs))
        if not self.jobs:
            raise ValueError("Instance: expected at least one job, got none.")
        self._check_names()
        self._check_modes()
        self._check_nodes()
        self._check_pinned()

    def _check_names(self) -> None:
        seen: set[str] = set()
        for job in self.jobs:
            if job.name in seen:
                raise ValueError(f"Job '{job.name}' is named twice; job names are unique.")
            seen.add(job.name)

    def _check_modes(self) -> None:
        if self.plain:
            return
        types = set(self.cluster.node_types)
        for job in self.jobs:
            for mode in job.modes:
                item = f"Job '{job.name}': mode '{mode.name}'"
                for name, _ in mode.resources:
                    if name not in self.cluster.resource_names:
                        known = ", ".join(self.cluster.resource_names) or "none"
                        raise ValueError(
                            f"{item} takes '{name}', which no node has; expected {known}."
                        )
                if mode.gpu_type and mode.gpu_type not in types:
                    known = ", ".join(sorted(types))
                    raise ValueError(
                        f"{item} runs on '{mode.gpu_type}', which no node has; expected {known}."
                    )

    def _check_nodes(self) -> None:
        num_nodes = self.cluster.num_nodes
        for job in self.jobs:
            for node, _ in job.placement:
                if node >= num_nodes:
                    raise ValueError(
                        f"Job '{job.name}': placement names node {node}; "
                        f"the cluster has nodes 0 to {num_nodes - 1}."
                    )
        if self.shares_gpus:
            self._check_current_shares()
        else:
            self._check_current_gpus()
        if not self.plain:
            self._check_current_modes()

    def _check_current_gpus(self) -> None:
        used, gpus = self.current.node_replicas, self.cluster.node_gpus
        if np.any(used > gpus):
            node = int(np.argmax(used > gpus))
            raise ValueError(
                f"Node '{self.cluster.node_names[node]}': current placements hold "
                f"{used[node]} GPUs; the node has {gpus[node]}."
            )

    def _check_current_shares(self) -> None:
        held: dict[int, list[float]] = {}
        for job in self.jobs:
            share = job.all_modes[job.mode_index].gpu_share
            for node, replicas in job.placement:
                held.setdefault(node, []).extend([share] * replicas)
        gpus = self.cluster.node_gpus
        for node, shares in sorted(held.items()):
            if pack_shares(shares, int(gpus[node])) is None:
                raise ValueError(
                    f"Node '{self.cluster.node_names[node]}': current placements hold "
                    f"{sum(shares):g} GPUs in {len(shares)} shares; the node has {gpus[node]}, "
                    "and no share spans two."
                )

    def _check_current_modes(self) -> None:
        types, current = self.cluster.node_types, self.current
        for job in self.jobs:
            wanted = job.all_modes[job.mode_index].gpu_type
            for node, _ in job.placement:
                if wanted not in ("", types[node]):
                    raise ValueError(
                        f"Job '{job.name}': runs on node '{self.cluster.node_names[node]}', whose "
                        f"GPUs are '{types[node]}'; its mode '{job.mode}' expects '{wanted}'."
                    )
        used = node_demand(self, current)
        over = used > self.cluster.node_resources * (1 + RESOURCE_TOLERANCE)
        if over.any():
            node, index = (int(i) for i in np.argwhere(over)[0])
            raise ValueError(
                f"Node '{self.cluster.node_names[node]}': current placements take "
                f"{used[node, index]:g} of {self.cluster.resource_names[index]}; "
                f"the node has {self.cluster.node_resources[node, index]:g}."
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

    def replace(self, **changes: Any) -> Instance:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def __getstate__(self) -> dict[str, object]:
        """Return the fields alone, so that a copy in another process works out the rest itself."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def memo(self) -> dict[str, object]:
        """Results that functions of an instance keep with it, by name; not part of its value."""
        return {}

    @property
    def num_jobs(self) -> int:
        """Number of jobs."""
        return len(self.jobs)

    @cached_property
    def current(self) -> Allocation:
        """Present allocation of the jobs."""
        modes = np.array([job.mode_index for job in self.jobs], dtype=np.int64)
        return Allocation.from_placements(
            [job.placement for job in self.jobs], self.cluster.num_nodes, modes
        )

    @cached_property
    def plain(self) -> bool:
        """Whether GPUs are the only resource: no job has modes."""
        return not any(job.modes for job in self.jobs)

    @cached_property
    def shares_gpus(self) -> bool:
        """Whether some replicas take less than a GPU, or none."""
        return any(mode.gpu_share != 1 for job in self.jobs for mode in job.modes)

    @cached_property
    def modes(self) -> tuple[Mode, ...]:
        """Modes of all jobs, job by job: the rows of all arrays over modes."""
        return tuple(mode for job in self.jobs for mode in job.all_modes)

    @property
    def mode_models(self) -> tuple[JobModel, ...]:
        """Model of every mode, in the order of `modes`."""
        return tuple(
            model
            for job in self.jobs
            for model in ([mode.model for mode in job.modes] or [job.model])
        )

    @cached_property
    def mode_job(self) -> Int[Indices, " modes"]:
        """Index of every mode's job, shape (modes,)."""
        counts = [max(len(job.modes), 1) for job in self.jobs]
        return np.repeat(np.arange(self.num_jobs), counts)

    @cached_property
    def first_mode(self) -> Int[Indices, " jobs"]:
        """Row of the first mode of every job, shape (jobs,)."""
        return np.searchsorted(self.mode_job, np.arange(self.num_jobs))

    @cached_property
    def mode_resources(self) -> Float[Floats, "modes resources"]:
        """Resources that a replica takes beside its GPU in every mode, shape (modes, resources)."""
        names = self.cluster.resource_names
        if self.plain:
            return np.zeros((self.num_jobs, len(names)))
        amounts = [dict(mode.resources) for mode in self.modes]
        table = np.array([[taken.get(name, 0.0) for name in names] for taken in amounts])
        return table.reshape(len(amounts), len(names))

    @cached_property
    def mode_demand(self) -> Float[Floats, "modes demands"]:
        """Demand of a replica in every mode, GPUs first; shape (modes, 1 + resources)."""
        demand = np.hstack([self.mode_share[:, None], self.mode_resources])
        demand.flags.writeable = False
        return demand

    @cached_property
    def mode_type(self) -> NDArray[np.int64]:
        """Index in `Cluster.gpu_types` of every mode's type of GPU; -1 for any."""
        if self.plain:
            return np.full(self.num_jobs, -1)
        index = {name: code for code, name in enumerate(self.cluster.gpu_types)} | {"": -1}
        return np.array([index[mode.gpu_type] for mode in self.modes], dtype=np.int64)

    @cached_property
    def mode_nodes(self) -> Bool[Flags, "modes nodes"]:
        """Flags of the nodes with the type of GPU of every mode, shape (modes, nodes)."""
        if self.plain:
            return np.ones((self.num_jobs, self.cluster.num_nodes), dtype=bool)
        types = np.array(self.cluster.node_types)
        fits = {name: (types == name) | (name == "") for name in {m.gpu_type for m in self.modes}}
        return np.array([fits[mode.gpu_type] for mode in self.modes])

    @cached_property
    def mode_share(self) -> Float[Floats, " modes"]:
        """Part of a GPU that a replica takes in every mode, shape (modes,)."""
        if self.plain:
            return np.ones(self.num_jobs)
        return np.array([mode.gpu_share for mode in self.modes])

    @cached_property
    def most_on_node(self) -> Int[Indices, "modes nodes"]:
        """Most replicas in every mode on every node, shape (modes, nodes).

        As `NodeGroup.most_replicas` counts them: by GPUs alone where they take whole ones.
        """
        return np.repeat(self.most_in_group, [g.nodes for g in self.cluster.groups], axis=1)

    @cached_property
    def most_in_group(self) -> Int[Indices, "modes groups"]:
        """Most replicas in every mode on a node of every group, shape (modes, groups)."""
        rows: dict[tuple[object, ...], list[int]] = {}
        for mode in self.modes:
            key = (mode.gpu_type, mode.gpu_share, mode.resources)
            if key not in rows:
                rows[key] = [group.most_replicas(mode) for group in self.cluster.groups]
        keys = [(mode.gpu_type, mode.gpu_share, mode.resources) for mode in self.modes]
        return np.array([rows[key] for key in keys], dtype=np.int64)

    @property
    def fair_share(self) -> int:
        """GPUs of a fair share, ``K_f = ceil(GPUs / jobs)`` (Pollux's artifact)."""
        return -(-self.cluster.num_gpus // self.num_jobs)

    @cached_property
    def min_replicas(self) -> Int[Indices, " jobs"]:
        """Fewest GPUs of every job when it runs, shape (jobs,)."""
        return np.array([max(job.min_replicas, 1) for job in self.jobs], dtype=np.int64)

    @cached_property
    def max_replicas(self) -> Int[Indices, " jobs"]:
        """Most replicas of every job, no more than the cluster holds, shape (jobs,)."""
        limits = np.array([job.max_replicas for job in self.jobs], dtype=np.int64)
        if not self.shares_gpus:
            return np.minimum(limits, self.cluster.num_gpus)
        nodes = np.array([group.nodes for group in self.cluster.groups])
        holds = np.where(self.mode_share == 1, self.cluster.num_gpus, self.most_in_group @ nodes)
        return np.minimum(limits, np.maximum.reduceat(holds, self.first_mode))

    @cached_property
    def pinned(self) -> Bool[Flags, " jobs"]:
        """Whether every job must keep what it has, shape (jobs,)."""
        return np.array([job.pinned for job in self.jobs], dtype=bool)

    @cached_property
    def age(self) -> Float[Floats, " jobs"]:
        """Seconds since every job's submission, shape (jobs,)."""
        return np.array([job.age for job in self.jobs], dtype=float)

    @cached_property
    def restarts(self) -> Float[Floats, " jobs"]:
        """Restarts of every job so far, shape (jobs,)."""
        return np.array([job.restarts for job in self.jobs], dtype=float)

    @cached_property
    def restart_delay(self) -> Float[Floats, " jobs"]:
        """Seconds that a restart costs every job, shape (jobs,)."""
        usual = self.rules.restart_delay
        own = [job.restart_delay for job in self.jobs]
        return np.array([usual if delay is None else delay for delay in own], dtype=float)


def node_demand(instance: Instance, allocation: Allocation) -> Float[Floats, "nodes resources"]:
    """Return the demand on every node's resources beside GPUs, shape (nodes, resources).

    Examples
    --------
    >>> from goodalloc.models import Allocation, Cluster, Instance, Job, Mode, NodeGroup
    >>> from goodalloc.models.round import node_demand
    >>> cluster = Cluster((NodeGroup("node", 2, 4, resources=(("cpu", 16.0),)),))
    >>> job = Job("job", modes=(Mode("three", resources=(("cpu", 3.0),)),))
    >>> node_demand(Instance(cluster, (job,)), Allocation.from_matrix([[2, 0]]))
    array([[6.],
           [0.]])
    """
    row = instance.first_mode + allocation.mode
    taken = instance.mode_resources[row][allocation.job] * allocation.replicas[:, None]
    total = np.zeros(instance.cluster.node_resources.shape)
    np.add.at(total, allocation.node, taken)
    return total
