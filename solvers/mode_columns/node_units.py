"""Nodes and modes of a round in whole units of GPUs and resources."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

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


#: Value functions of which it is known what nodes are worth and what choices take.
MOST_KNOWN = 64


@dataclass
class WorthOfNodes:
    """A value function of a node, and what all nodes of a type of GPU are worth by it.

    Parameters
    ----------
    value
        The function.
    shared
        The worth *g* of nodes that may hold a distributed job, as a table that knows no contents.
    total
        Worth of all nodes, no less than in exact arithmetic.
    shares
        Share of it that choices take, by code; None before it is known (`node_worth.py`).
    """

    value: NodeValue
    shared: NodeValue
    total: float
    shares: Float[Floats, " codes"] | None = None


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
        # by type and identity of the function, which nothing else has while the entry holds it
        self._known: dict[tuple[int, int], WorthOfNodes] = {}

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
        """Return what the nodes of a type of GPU are worth by a value function.

        That of the latest functions is remembered.
        """
        key = code, id(value)
        if key not in self._known:
            shape = value.alone.shape
            grid = np.indices(shape).reshape(len(shape), -1).T
            shared = _tabulated(value, value.shared(grid).reshape(shape))
            own = self.capacity[self.node_type == code]
            total = float(shared.at(own).sum()) * (1.0 + ROUNDING)
            self._known[key] = WorthOfNodes(value, shared, total)
            if len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
        return self._known[key]

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
