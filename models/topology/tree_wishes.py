"""Tree of a cluster over many rounds, with what jobs ask of its levels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.topology.topology_feasibility import topology_violations
from goodalloc.models.topology.topology_round import TopologyRound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.feasibility import Violation
    from goodalloc.models.topology.topology import Topology

#: Rules that a tree adds to those of a cluster without one.
RULES_OF_TREES = ("requires", "uplink_jobs")


@dataclass(frozen=True)
class TreeWishes:
    """Tree of a cluster, with the levels that jobs require and prefer.

    Parameters
    ----------
    topology
        The tree of the whole cluster.
    requires, prefers
        Pairs of a job and the level that it requires or prefers; other jobs ask for none.
    discount
        As of `TopologyRound`.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job
    >>> from goodalloc.models.topology import Level, Topology, TreeWishes
    >>> topology = Topology.regular(4, [(Level("rack"), 2)], slowdown=2.0)
    >>> wishes = TreeWishes(topology, requires=(("a", "rack"),))
    >>> wishes.slowdown(((0, 1), (1, 1))), wishes.slowdown(((1, 1), (2, 1)))
    (1.0, 2.0)
    >>> wishes.round_of(Instance(Cluster.uniform(4, 1), (Job("b"), Job("a")))).requires
    ('', 'rack')
    """

    topology: Topology
    requires: tuple[tuple[str, str], ...] = ()
    prefers: tuple[tuple[str, str], ...] = ()
    discount: float = TopologyRound.discount

    @classmethod
    def of(cls, round_: TopologyRound) -> TreeWishes:
        """Return the tree and the wishes of a round."""
        names = [job.name for job in round_.instance.jobs]
        requires, prefers = (
            tuple((name, level) for name, level in zip(names, wishes, strict=False) if level)
            for wishes in (round_.requires, round_.prefers)
        )
        return cls(round_.topology, requires, prefers, round_.discount)

    @property
    def restricts(self) -> bool:
        """Whether there are placements that the tree forbids."""
        return bool(self.requires or self.topology.limited_levels)

    @cached_property
    def _domains(self) -> tuple[list[int], ...]:
        """Domain of every node at each level above the node, from the lowest to the highest."""
        return tuple(self.topology.domain[1:].tolist())

    def slowdown(self, placement: Placement) -> float:
        """Return the slowdown of the lowest level that holds a placement; 1 on one node.

        Parameters
        ----------
        placement
            Pairs of node and GPUs.
        """
        if len(placement) <= 1:
            return 1.0
        nodes = [node for node, _ in placement]
        for domain, slowdown in zip(self._domains, self.topology.slowdowns, strict=False):
            if len({domain[node] for node in nodes}) == 1:
                return slowdown
        return self.topology.slowdown

    def round_of(self, instance: Instance) -> TopologyRound:
        """Return a round on the tree.

        Parameters
        ----------
        instance
            The round without the tree; of fewer nodes, it is on the first ones of the tree.

        Raises
        ------
        ValueError
            If the cluster has more nodes than the tree, or as `TopologyRound`.
        """
        nodes, topology = instance.cluster.num_nodes, self.topology
        if topology.num_nodes is not None and nodes < topology.num_nodes:
            domains = tuple(names[:nodes] for names in topology.domains)
            topology = replace(topology, domains=domains)
        requires, prefers = (
            tuple(wishes.get(job.name, "") for job in instance.jobs) if wishes else ()
            for wishes in (dict(self.requires), dict(self.prefers))
        )
        return TopologyRound(instance, topology, requires, prefers, self.discount)

    def broken_rules(
        self, cluster: Cluster, placements: Mapping[str, Placement]
    ) -> tuple[Violation, ...]:
        """Return the rules of the tree that placements break; those of nodes are not checked.

        Parameters
        ----------
        cluster
            The present nodes.
        placements
            Pairs of node and GPUs of each job.
        """
        if not (self.restricts and placements):
            return ()
        round_ = self.round_of(Instance(cluster, tuple(map(Job, placements))))
        allocation = Allocation.from_placements([*placements.values()], cluster.num_nodes)
        found = topology_violations(round_, allocation)
        return tuple(one for one in found if one.rule in RULES_OF_TREES)
