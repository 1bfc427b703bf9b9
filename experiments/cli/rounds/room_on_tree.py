"""Options `--tree` and `--level` of the command `room`: a gang that one domain of a level holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.topology.topology_file import read_wishes
from goodalloc.models.making_room.room_plan import usable_nodes
from goodalloc.models.topology.regions import job_regions
from goodalloc.models.topology.topology import CLUSTER, NODE

if TYPE_CHECKING:
    import argparse

    from jaxtyping import Int

    from goodalloc.models.making_room.room_plan import Gang, RoomPlan
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Indices
    from goodalloc.models.topology.topology_round import TopologyRound
    from goodalloc.models.topology.tree_wishes import TreeWishes


@dataclass(frozen=True)
class AskedLevel:
    """Level of a tree of which one domain is to hold a gang.

    Parameters
    ----------
    tree, round_
        The tree with what running jobs ask of it, and the round on it.
    level
        Name of the level.
    regions
        Number of the region of every node, one of which is to hold the gang; shape (nodes,).
    """

    tree: TreeWishes
    round_: TopologyRound
    level: str
    regions: Int[Indices, " nodes"]

    @property
    def domains(self) -> Int[Indices, " nodes"]:
        """Number of the domain of every node."""
        names = self.round_.topology.level_names
        return np.asarray(self.round_.domain[names.index(self.level)])

    def largest(self, gang: Gang) -> int:
        """Return the most nodes of a domain that a gang may use."""
        usable = usable_nodes(self.round_.instance, gang)
        return int(np.bincount(self.domains[usable], minlength=1).max())

    def domain(self, plan: RoomPlan) -> str | None:
        """Return the name of the domain that holds the gang of a plan; None without one."""
        if not plan.found:
            return None
        if self.level in (NODE, CLUSTER):
            name = self.round_.instance.cluster.node_names[plan.gang_nodes[0]]
            return name if self.level == NODE else CLUSTER
        place = self.round_.topology.level_names.index(self.level)
        return self.round_.topology.domains[place - 1][plan.gang_nodes[0]]

    def check(self, gang: Gang, plan: RoomPlan) -> None:
        """Refuse a plan whose gang breaks a rule of the tree, from the names of domains alone.

        Raises
        ------
        AssertionError
            If the gang lies in several domains, or uses an uplink that too many jobs share.
        """
        jobs, cluster = self.round_.instance.jobs, self.round_.instance.cluster
        held = self.round_.instance.current.placements()
        after: dict[str, Placement] = {
            job.name: placement
            for index, (job, placement) in enumerate(zip(jobs, held, strict=True))
            if placement and index not in plan.victims
        }
        for move in plan.moves:
            after[jobs[move.job].name] = ((move.target, held[move.job][0][1]),)
        name = "gang"
        while name in after:
            name += "'"
        tree = replace(self.tree, requires=(*self.tree.requires, (name, self.level)))
        before = set(tree.broken_rules(cluster, after))
        after[name] = tuple((node, gang.gpus_per_node) for node in plan.gang_nodes)
        for broken in tree.broken_rules(cluster, after):
            if broken not in before:
                raise AssertionError(f"The plan breaks a rule: {broken}")


def require_tree_options(arguments: argparse.Namespace) -> None:
    """Refuse a tree without a level, a level without a tree, and what no tree goes with.

    Parameters
    ----------
    arguments
        The arguments of the command.

    Raises
    ------
    ValueError
        One sentence that names the option.
    """
    if (arguments.tree is None) != (arguments.level is None):
        given, other = ("tree", "level") if arguments.level is None else ("level", "tree")
        raise ValueError(f"argument --{given}: expected --{other} with it.")
    for option, used in (("greedy", arguments.greedy), ("front", arguments.front is not None)):
        if used and arguments.tree is not None:
            raise ValueError(f"argument --{option}: expected none with --tree.")


def read_asked_level(instance: Instance, arguments: argparse.Namespace) -> AskedLevel:
    """Return the level of a tree that is asked.

    Parameters
    ----------
    instance, arguments
        The round, and the arguments of the command, with the gang.

    Raises
    ------
    ValueError
        If the file of the tree is wrong, it has no such level, or jobs are to be stopped and
        uplinks are full, which stops might change.
    """
    tree = read_wishes(arguments.tree, instance.cluster, [job.name for job in instance.jobs])
    tree.topology.place_of("argument --level", arguments.level)
    round_ = tree.round_of(instance)
    asked = AskedLevel(tree, round_, arguments.level, job_regions(round_, arguments.level))
    limited = arguments.by == "stops" and arguments.gang.nodes > 1
    if limited and int(asked.regions.max()) > int(asked.domains.max()):
        raise ValueError(
            "argument --by: got stops, and as many jobs as may share an uplink within a domain of "
            f"level '{arguments.level}'; expected moves, since stops could free the uplink."
        )
    return asked
