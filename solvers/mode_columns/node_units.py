"""Nodes and modes of a round in whole units of GPUs and resources."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from goodalloc.formulations.mode_rounds.mode_choices import node_capacity
from goodalloc.formulations.mode_rounds.resource_units import resource_grid
from goodalloc.models.support.tolerances import ROUNDING
from goodalloc.solvers.mode_columns.choice_pools import most_per_node

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.formulations.mode_rounds.node_values import NodeValue
    from goodalloc.formulations.mode_rounds.resource_units import ResourceGrid
    from goodalloc.models.columns.mode_columns import ModeColumns
    from goodalloc.models.support.array_types import Floats, Indices


V = TypeVar("V")

#: Value functions of which it is known what nodes are worth, and of which what choices take.
MOST_KNOWN = 64


class WorthOfNodes(NamedTuple):
    """A value function of a node, and what all nodes of a type of GPU are worth by it.

    Attributes
    ----------
    value
        The function.
    shared
        The worth *g* of nodes that may hold a distributed job, as a table that knows no contents.
    total
        Worth of all nodes, no less than in exact arithmetic.
    """

    value: NodeValue
    shared: NodeValue
    total: float


class NodeUnits:
    """What nodes have, and what replicas take.

    Parameters
    ----------
    columns
        The round.

    Attributes
    ----------
    columns
        The round.
    node_type, mode_type
        Type of GPU of every node and mode.
    known_shares
        The latest value functions of nodes by type of GPU and identity, with what choices take of
        them (`node_worth.py`).

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_mode_columns
    >>> from goodalloc.solvers.mode_columns import NodeUnits
    >>> units = NodeUnits(generate_mode_columns(seed=0, jobs=40))
    >>> units.capacity[0].tolist(), units.grid.exact  # GPUs and pairs of cores
    ([4, 8], True)
    """

    def __init__(self, columns: ModeColumns) -> None:
        self.columns = columns
        self.node_type = columns.cluster.node_type
        self.mode_type = np.maximum(columns.prototype.mode_type, 0)
        self._known_worths: dict[tuple[int, int], WorthOfNodes] = {}
        self.known_shares: dict[tuple[int, int], tuple[NodeValue, Floats]] = {}

    @cached_property
    def grid(self) -> ResourceGrid:
        """Units of GPUs and resources."""
        return resource_grid(self.columns.prototype)

    @cached_property
    def capacity(self) -> Int[Indices, "nodes demands"]:
        """Units of every node, shape (nodes, 1 + resources)."""
        return np.maximum(self.grid.at_most(node_capacity(self.columns.prototype)), 0)

    @cached_property
    def node_now(self) -> Int[Indices, " jobs"]:
        """Present node of every job, of several the last; 0 for jobs that do not run."""
        found = np.zeros(self.columns.num_jobs, dtype=np.int64)
        found[self.columns.current.job] = self.columns.current.node
        return found

    @cached_property
    def size(self) -> Float[Floats, " demands"]:
        """Units of the largest node, at least 1."""
        return np.maximum(np.array(self.grid.shape) - 1.0, 1.0)

    @cached_property
    def most_per_node(self) -> Int[Indices, " modes"]:
        """Most replicas of every mode that some node holds."""
        return most_per_node(self.columns)

    def worth_of_nodes(self, code: int, value: NodeValue) -> WorthOfNodes:
        """Return what the nodes of a type of GPU are worth by a value function."""
        key = code, id(value)
        if key not in self._known_worths:
            shape = value.alone.shape
            grid = np.indices(shape).reshape(len(shape), -1).T
            shared = _tabulated(value, value.shared(grid).reshape(shape))
            own = self.capacity[self.node_type == code]
            total = float(shared.at(own).sum()) * (1.0 + ROUNDING)
            self.remember(self._known_worths, key, WorthOfNodes(value, shared, total))
        return self._known_worths[key]

    @staticmethod
    def remember(known: dict[tuple[int, int], V], key: tuple[int, int], entry: V) -> None:
        """Keep what is known of a value function, and of the latest ones alone.

        Parameters
        ----------
        known
            What is known by type of GPU and identity of the function.
        key, entry
            A further one; the entry has the function, as nothing else has its identity then.
        """
        known[key] = entry
        if len(known) > MOST_KNOWN:
            del known[next(iter(known))]

    def taken(
        self, mode: Int[Indices, ...], replicas: Int[Indices, ...]
    ) -> Int[Indices, "... demands"]:
        """Return the units that some replicas in a mode take."""
        return self.grid.at_least(self.columns.prototype.mode_demand[mode] * replicas[..., None])


def _tabulated(value: NodeValue, table: Floats) -> NodeValue:
    """Return a value function on the same grid of which only the values are known."""
    return replace(
        value,
        alone=table,
        stages=(table,),
        bundle=value.bundle[:0],
        size=value.size[:0],
        worth=value.worth[:0],
        extra=value.extra[:0],
        extra_worth=value.extra_worth[:0],
    )
