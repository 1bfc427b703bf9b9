"""Round with a topology: what jobs require and prefer of its levels, utilities by level.

A job that a domain of some level holds runs as in a *mode* of this level. So the round is also one
of jobs with modes, the `leveled` instance: each job has a mode for every level above the node, with
the speedups of that level, and an allocation, once `graded`, says in which mode every job runs.
Utilities, restart penalty and fitness are then those of `goodalloc.models.round`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.models.round.mode import Mode, SpeedupTable
from goodalloc.models.round.objective import fitness, utilities
from goodalloc.models.support.validation import require_number
from goodalloc.models.topology.level_speeds import level_speedups

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.models.topology.topology import Topology


@dataclass(frozen=True)
class TopologyRound:
    """Round of scheduling on a cluster that is a tree.

    Parameters
    ----------
    instance
        The round without the tree; its jobs have no modes.
    topology
        The tree, of as many nodes.
    requires
        Level that each job requires: one of its domains holds the job whenever it runs. Empty
        strings for jobs that require none, and an empty tuple if none does.
    prefers
        Likewise the level that each job prefers.
    discount
        Factor of the speedup of a job that no domain of its preferred level holds; above 0, up to
        1.

    Raises
    ------
    ValueError
        If jobs have modes, the nodes differ in number, a level is unknown, or a job that may not be
        moved is not held by the level that it requires or shares an uplink with too many such jobs.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job
    >>> from goodalloc.models.topology import Level, Topology, TopologyRound
    >>> instance = Instance(Cluster.uniform(nodes=4, gpus=2), (Job("a"), Job("b")))
    >>> topology = Topology.regular(4, [(Level("rack"), 2)], slowdown=2.0)
    >>> round_ = TopologyRound(instance, topology, requires=("rack", ""))
    >>> round_.required.tolist()
    [1, 2]
    """

    instance: Instance
    topology: Topology
    requires: tuple[str, ...] = ()
    prefers: tuple[str, ...] = ()
    discount: float = 0.8

    def __post_init__(self) -> None:
        for job in self.instance.jobs:
            if job.modes:
                raise ValueError(
                    f"Job '{job.name}' has modes, as '{job.modes[0].name}'; expected none in a "
                    "round with a topology."
                )
        nodes, have = self.topology.num_nodes, self.instance.cluster.num_nodes
        if nodes not in (None, have):
            raise ValueError(f"Topology: has {nodes} nodes; expected {have}, as the cluster has.")
        require_number("Topology: discount", self.discount, minimum=0.0, strict=True)
        if self.discount > 1.0:
            raise ValueError(f"Topology: discount is {self.discount:g}; expected at most 1.")
        for name in ("requires", "prefers"):
            self._check_wishes(name)
        self._check_pinned()

    def _check_wishes(self, name: str) -> None:
        wishes = tuple(getattr(self, name))
        if wishes and len(wishes) != self.instance.num_jobs:
            raise ValueError(
                f"Topology: {name} lists {len(wishes)} jobs; expected {self.instance.num_jobs}, "
                "one level or empty string each."
            )
        for job, level in zip(self.instance.jobs, wishes, strict=False):
            if level:
                self.topology.place_of(f"Job '{job.name}': {name}", level)
        object.__setattr__(self, name, wishes)

    def _check_pinned(self) -> None:
        current, pinned = self.instance.current, self.instance.pinned
        held = self.level_of(current)
        for job in np.flatnonzero(pinned & (held > self.required)).tolist():
            raise ValueError(
                f"Job '{self.instance.jobs[job].name}' is not preemptible and is held by "
                f"'{self.topology.level_names[held[job]]}'; expected '{self.requires[job]}', which "
                "it requires."
            )
        for place, most in self.topology.limited_levels.items():
            crossed = Counter(self.crossings(current.rows(np.flatnonzero(pinned)), place)[1])
            for domain, jobs in sorted(crossed.items()):
                if jobs > most:
                    raise ValueError(
                        f"Level '{self.topology.level_names[place]}': {jobs} jobs that are not "
                        f"preemptible share the uplink of "
                        f"'{list(self.topology.named_domains(place))[domain]}'; expected at most "
                        f"{most}."
                    )

    def replace(self, **changes: Any) -> TopologyRound:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    @cached_property
    def domain(self) -> Int[Indices, "levels nodes"]:
        """Domain of every node at each level, as `Topology.domain`, also without levels."""
        if self.topology.num_nodes is not None:
            return self.topology.domain
        nodes = self.instance.cluster.num_nodes
        return np.stack([np.arange(nodes), np.zeros(nodes, dtype=np.int64)])

    @cached_property
    def required(self) -> Int[Indices, " jobs"]:
        """Highest level that may hold each job, by its position in `Topology.level_names`."""
        return self._places(self.requires)

    @cached_property
    def preferred(self) -> Int[Indices, " jobs"]:
        """Highest level at which each job is content, likewise."""
        return self._places(self.prefers)

    def _places(self, wishes: tuple[str, ...]) -> Int[Indices, " jobs"]:
        names = self.topology.level_names
        if not wishes:
            return np.full(self.instance.num_jobs, len(names) - 1)
        return np.array([names.index(wish) if wish else len(names) - 1 for wish in wishes])

    def level_of(self, allocation: Allocation) -> Int[Indices, " jobs"]:
        """Return the lowest level that holds each job, 0 (one node) if it holds nothing."""
        level = np.full(allocation.num_jobs, self.domain.shape[0] - 1)
        for place in range(self.domain.shape[0] - 1, -1, -1):
            domain = self.domain[place][allocation.node]
            least = np.full(allocation.num_jobs, np.iinfo(np.int64).max)
            greatest = np.full(allocation.num_jobs, -1)
            np.minimum.at(least, allocation.job, domain)
            np.maximum.at(greatest, allocation.job, domain)
            level[least >= greatest] = place
        return level

    def crossings(
        self, allocation: Allocation, place: int
    ) -> tuple[Int[Indices, " crossings"], Int[Indices, " crossings"]]:
        """Return the jobs that use uplinks of a level, and the domain of each such uplink.

        Parameters
        ----------
        allocation, place
            An allocation, and the position of a level.
        """
        domains = int(self.domain[place].max()) + 1
        pair = np.unique(allocation.job * domains + self.domain[place][allocation.node])
        job, domain = pair // domains, pair % domains
        crosses = np.bincount(job, minlength=allocation.num_jobs)[job] > 1
        return job[crosses], domain[crosses]

    def graded(self, allocation: Allocation) -> Allocation:
        """Return an allocation with the mode of the `leveled` instance of each job."""
        modes = np.maximum(self.level_of(allocation) - 1, 0)
        return replace(allocation, modes=modes)

    @cached_property
    def leveled(self) -> Instance:
        """The round as one of jobs with a mode for every level above the node."""
        names = self.topology.level_names[1:]
        slowdowns = self.topology.slowdowns
        held = np.maximum(self.level_of(self.instance.current) - 1, 0)
        speedups = level_speedups(self.instance, slowdowns)
        known: dict[object, tuple[Mode, ...]] = {}
        jobs = []
        for index, job in enumerate(self.instance.jobs):
            content = int(self.preferred[index])
            key = (content, speedups[:, index].tobytes())
            if key not in known:
                known[key] = tuple(
                    Mode(name, self._table(speedups[place, index], place + 1 > content))
                    for place, name in enumerate(names)
                )
            mode = names[held[index]] if job.placement else ""
            jobs.append(replace(job, model=None, modes=known[key], mode=mode))
        return self.instance.replace(jobs=tuple(jobs))

    def _table(self, speedups: Floats, discounted: bool) -> SpeedupTable:
        """Return speedups of one level as a table; several nodes discounted where not content."""
        several = speedups[1, 1:] * (self.discount if discounted else 1.0)
        return SpeedupTable(tuple(speedups[0, 1:].tolist()), tuple(several.tolist()))

    @cached_property
    def may_stay(self) -> Bool[Flags, " jobs"]:
        """Whether the level that a job requires holds its present placement."""
        return self.level_of(self.instance.current) <= self.required


def topology_utilities(round_: TopologyRound, allocation: Allocation) -> Float[Floats, " jobs"]:
    """Return the utility of every job under an allocation, shape (jobs,).

    As `goodalloc.models.utilities`, with the speedups of the lowest level that holds each job.

    Raises
    ------
    ValueError
        If the allocation has another shape than the round.

    Examples
    --------
    >>> from goodalloc.models import Allocation, Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.models.topology import Level, Topology, TopologyRound, topology_utilities
    >>> job = Job("a", SpeedupTable((1.0, 1.9), (0.0, 1.0)))
    >>> rules = Rules(speedup_scale="job", restart_delay=0.0)
    >>> instance = Instance(Cluster.uniform(nodes=4, gpus=1), (job,), rules)
    >>> topology = Topology.regular(4, [(Level("rack"), 2)], slowdown=2.0)
    >>> round_ = TopologyRound(instance, topology)
    >>> for row in ([[1, 1, 0, 0]], [[1, 0, 1, 0]]):  # in one rack, in two
    ...     print(topology_utilities(round_, Allocation.from_matrix(row)).round(3).item())
    1.001
    0.668
    """
    _require_shape(round_, allocation)
    return utilities(round_.leveled, round_.graded(allocation))


def topology_fitness(round_: TopologyRound, allocation: Allocation) -> float:
    """Return the objective, the power mean of `topology_utilities`; larger is better."""
    _require_shape(round_, allocation)
    return fitness(round_.leveled, round_.graded(allocation))


def _require_shape(round_: TopologyRound, allocation: Allocation) -> None:
    shape = (round_.instance.num_jobs, round_.instance.cluster.num_nodes)
    if (allocation.num_jobs, allocation.num_nodes) != shape:
        raise ValueError(
            f"Allocation has {allocation.num_jobs} jobs and {allocation.num_nodes} nodes; "
            f"the round has {shape[0]} and {shape[1]}."
        )
