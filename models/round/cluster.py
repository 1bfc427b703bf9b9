"""Cluster: groups of equal nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.mode import require_resources, require_type
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE
from goodalloc.models.support.validation import require_count, require_name

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.round.mode import Mode, Resources
    from goodalloc.models.support.array_types import Floats, Indices

#: Most GPUs on one node; programs grow with the square of it.
MOST_GPUS = 256


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Group of equal nodes.

    Parameters
    ----------
    name
        Name of the group; its nodes are called ``name-0``, ``name-1``, …
    nodes
        Number of nodes in the group, at least 1.
    gpus
        GPUs on each node of the group, 0 to `MOST_GPUS`.
    gpu_type
        Type of these GPUs; empty where there is only one.
    resources
        Resources of each node beside GPUs, by name (see `goodalloc.models.round.mode.resources`).

    Raises
    ------
    ValueError
        If the name is empty or a count is not a whole number in its range.

    Examples
    --------
    >>> from goodalloc.models import NodeGroup
    >>> NodeGroup("a100", nodes=2, gpus=8, gpu_type="A100").gpus
    8
    """

    name: str
    nodes: int
    gpus: int
    gpu_type: str = ""
    resources: Resources = ()

    def __post_init__(self) -> None:
        require_name("Node group", self.name)
        item = f"Node group '{self.name}'"
        require_count(f"{item}: nodes", self.nodes, minimum=1, maximum=1_000_000)
        require_count(f"{item}: gpus", self.gpus, minimum=0, maximum=MOST_GPUS)
        require_type(item, self.gpu_type)
        require_resources(item, self.resources)

    def most_replicas(self, mode: Mode) -> int:
        """Return the most replicas of a mode on a node of the group.

        Modes of whole GPUs are counted by GPUs alone.
        """
        if mode.gpu_type not in ("", self.gpu_type):
            return 0
        if mode.gpu_share == 1:
            return self.gpus
        had = dict(self.resources)
        tolerant = 1 + RESOURCE_TOLERANCE
        most = [int(had.get(name, 0.0) * tolerant / taken) for name, taken in mode.resources]
        if mode.gpu_share > 0:
            most.append(self.gpus * int(tolerant / mode.gpu_share))
        return min(most)


@dataclass(frozen=True)
class Cluster:
    """Cluster of groups of equal nodes, numbered through group after group.

    Parameters
    ----------
    groups
        The node groups, at least one, with distinct names and some GPU among them.

    Raises
    ------
    ValueError
        If there is no group, no GPU, or two groups share a name.

    Examples
    --------
    >>> from goodalloc.models import Cluster, NodeGroup
    >>> cluster = Cluster((NodeGroup("big", 1, 8), NodeGroup("small", 2, 4)))
    >>> cluster.num_gpus, cluster.node_names
    (16, ('big-0', 'small-0', 'small-1'))
    """

    groups: tuple[NodeGroup, ...]

    def __post_init__(self) -> None:
        if not self.groups:
            raise ValueError("Cluster: expected at least one node group, got none.")
        names = [group.name for group in self.groups]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"Cluster: node group '{name}' is named twice; names are unique.")
        if not self.num_gpus:
            raise ValueError("Cluster: no node has a GPU; expected at least one GPU.")
        if len(self.node_index) < self.num_nodes:
            raise ValueError("Cluster: two nodes have the same name; rename one of the groups.")

    @classmethod
    def uniform(cls, nodes: int, gpus: int) -> Cluster:
        """Return a cluster of equal nodes, called ``node-0``, ``node-1``, …"""
        return cls((NodeGroup("node", nodes, gpus),))

    def resized(self, nodes: int) -> Cluster:
        """Return a cluster of `nodes` nodes: truncated, or extended by nodes of the last group."""
        groups, left = [], nodes
        for group in self.groups:
            if left > 0:
                groups.append(replace(group, nodes=min(group.nodes, left)))
                left -= group.nodes
        if left > 0:
            groups[-1] = replace(groups[-1], nodes=groups[-1].nodes + left)
        return Cluster(tuple(groups))

    @cached_property
    def node_gpus(self) -> Int[Indices, " nodes"]:
        """GPUs of every node, shape (nodes,)."""
        gpus = np.repeat(
            np.array([group.gpus for group in self.groups], dtype=np.int64),
            [group.nodes for group in self.groups],
        )
        gpus.flags.writeable = False
        return gpus

    @cached_property
    def resource_names(self) -> tuple[str, ...]:
        """Resources beside GPUs that any node has, in order of their names."""
        return tuple(sorted({name for group in self.groups for name, _ in group.resources}))

    @cached_property
    def node_resources(self) -> Float[Floats, "nodes resources"]:
        """Amount of every resource on every node, shape (nodes, resources)."""
        amounts = [dict(group.resources) for group in self.groups]
        table = np.array([[had.get(name, 0.0) for name in self.resource_names] for had in amounts])
        table = np.repeat(
            table.reshape(len(amounts), -1), [group.nodes for group in self.groups], axis=0
        )
        table.flags.writeable = False
        return table

    @cached_property
    def node_shares(self) -> Float[Floats, "nodes resources"]:
        """Resources per GPU of every node, infinite without GPUs; shape (nodes, resources)."""
        gpus = self.node_gpus[:, None]
        shares = np.where(gpus > 0, self.node_resources / np.maximum(gpus, 1), np.inf)
        shares.flags.writeable = False
        return shares

    @cached_property
    def node_types(self) -> tuple[str, ...]:
        """Type of GPU of every node."""
        return tuple(group.gpu_type for group in self.groups for _ in range(group.nodes))

    @cached_property
    def gpu_types(self) -> tuple[str, ...]:
        """Distinct types of GPU, in order of their names."""
        return tuple(sorted(set(self.node_types)))

    @cached_property
    def node_type(self) -> Int[Indices, " nodes"]:
        """Index in `gpu_types` of every node's GPUs, shape (nodes,)."""
        index = {name: code for code, name in enumerate(self.gpu_types)}
        return np.array([index[name] for name in self.node_types], dtype=np.int64)

    @cached_property
    def type_gpus(self) -> dict[str, int]:
        """GPUs of every type, in the order of `gpu_types`."""
        return {
            kind: sum(group.nodes * group.gpus for group in self.groups if group.gpu_type == kind)
            for kind in self.gpu_types
        }

    @cached_property
    def most_per_node(self) -> dict[str, int]:
        """GPUs of the largest node of every type, in the order of `gpu_types`."""
        return {
            kind: max(group.gpus for group in self.groups if group.gpu_type == kind)
            for kind in self.gpu_types
        }

    @cached_property
    def node_group(self) -> Int[Indices, " nodes"]:
        """Index of every node's group, shape (nodes,)."""
        sizes = [group.nodes for group in self.groups]
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def node_names(self) -> tuple[str, ...]:
        """Name of every node, in node order."""
        return tuple(f"{group.name}-{i}" for group in self.groups for i in range(group.nodes))

    @cached_property
    def node_index(self) -> dict[str, int]:
        """Index of every node by its name."""
        return {name: index for index, name in enumerate(self.node_names)}

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return sum(group.nodes for group in self.groups)

    @property
    def num_gpus(self) -> int:
        """Number of GPUs in the whole cluster."""
        return sum(group.nodes * group.gpus for group in self.groups)
