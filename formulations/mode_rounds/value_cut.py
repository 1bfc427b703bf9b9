r"""Cuts from the value of nodes, which hold for every allocation.

With the functions *f* (and *g* for a piece of a distributed job) of `node_value` at any prices, and
any worth :math:`\delta_{jv} \ge 0` of job *j* keeping what it holds on node *v*, an allocation
satisfies

.. math::

    \sum_{i \text{ anew}} \phi_i x_i + \sum_j \Bigl( \sum_v \delta_{jv} \Bigr) x_{j,keep}
    \le \sum_v \max_{S} \Bigl\{ \sum_{j \in S} \delta_{jv} + g_v(R_v - h(S)) \Bigr\},        (1)

the maximum over the sets *S* of jobs that may keep their place on *v*, a few more stages of the
same dynamic program. :math:`\phi_i` is, for a choice on one node, :math:`f(d_i)`, least over the
types of GPU that serve it; for a choice on several nodes the least total of :math:`g(k d)` over all
ways to split its replicas into pieces *k*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind, keep_choices
from goodalloc.formulations.mode_rounds.mode_choices import (
    choice_demand,
    held_amounts,
    most_replicas,
    node_capacity,
)
from goodalloc.formulations.mode_rounds.node_items import ANY_TYPE
from goodalloc.formulations.mode_rounds.node_values import beside
from goodalloc.formulations.mode_rounds.replica_splits import least_splits
from goodalloc.models.support.tolerances import ROUNDING, SMALLEST_DIVISOR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Float

    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.mode_rounds.node_values import NodeValue
    from goodalloc.formulations.mode_rounds.resource_units import ResourceGrid
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices


@dataclass(frozen=True)
class Cut:
    """``coefficient @ x <= upper`` over all choices.

    Parameters
    ----------
    coefficient, upper
        The row.
    values, stay, size
        What it was made of: the value functions by type of GPU, the worth of the entries of the
        current placements, and what both were divided by. None of a cut that is no value cut.
    """

    coefficient: Float[Floats, " choices"]
    upper: float
    values: Mapping[int, NodeValue] | None = None
    stay: Float[Floats, " entries"] | None = None
    size: float = 1.0


@dataclass(frozen=True)
class CutMaker:
    """Maker of cuts over the choices of an instance from value functions.

    Parameters
    ----------
    instance, choices, grid
        The round, all its choices, and the units of the tables.
    """

    instance: Instance
    choices: Choices
    grid: ResourceGrid

    def cut(self, values: Mapping[int, NodeValue], stay: Float[Floats, " entries"]) -> Cut:
        """Return the cut (1), scaled to a largest coefficient of 1.

        Parameters
        ----------
        values
            The value functions, one for every type of GPU.
        stay
            The worth of every entry of the current allocation, shape (entries,).
        """
        coefficient = self._placed(values)
        current, keep_of = self.instance.current, keep_choices(self.instance, self.choices)
        may = np.flatnonzero(keep_of[current.job] >= 0)
        np.add.at(coefficient, keep_of[current.job[may]], stay[may])
        upper = self._worth_of_nodes(values, stay, may)
        size = max(float(np.abs(coefficient).max()), SMALLEST_DIVISOR)
        granted = upper / size * (1 + ROUNDING) + ROUNDING  # what rounding may have hidden
        kept = np.where(np.isin(np.arange(stay.size), may), stay, 0.0)
        return Cut(coefficient / size, granted, values, kept, size)

    def _worth_of_nodes(
        self, values: Mapping[int, NodeValue], stay: Float[Floats, " entries"], may: Indices
    ) -> float:
        """Return the right-hand side of (1)."""
        instance, current = self.instance, self.instance.current
        code, capacity = instance.cluster.node_type, node_capacity(instance)
        units, held = self.grid.room(capacity), self.grid.at_most(held_amounts(instance))
        shared = (current.job_nodes[current.job] > 1) & instance.rules.interference_avoidance
        here: dict[int, list[int]] = {}
        for entry in may[stay[may] > 0].tolist():
            here.setdefault(int(current.node[entry]), []).append(entry)
        total = 0.0
        for node in range(code.size):
            value = values[int(code[node])]
            if node in here:
                entries = np.array(here[node])
                alone, spread = entries[~shared[entries]], entries[shared[entries]]
                value = beside(
                    value,
                    held[alone],
                    stay[alone],
                    np.ones(alone.size, dtype=np.int64),
                    held[spread],
                    stay[spread],
                )
            total += value.best_extra(units[node])[0]
        return total

    def _placed(self, values: Mapping[int, NodeValue]) -> Float[Floats, " choices"]:
        """Return the least worth of choices placed anew, wherever they go; 0 for the others."""
        instance, choices, grid = self.instance, self.choices, self.grid
        coefficient = np.zeros(len(choices))
        code = instance.mode_type[choices.mode]
        one = choices.of(Kind.ONE_NODE)
        units = grid.at_most(choice_demand(instance, choices.where(one)))
        for kind in np.unique(code[one]).tolist():
            rows = np.flatnonzero(code[one] == kind)
            served = [value.at(units[rows]) for c, value in values.items() if kind in (ANY_TYPE, c)]
            coefficient[one[rows]] = _least(np.stack(served))
        several = choices.of(Kind.SEVERAL_NODES)
        code, kind, replicas = instance.mode_type, choices.mode[several], choices.replicas[several]
        alike = np.column_stack([code, instance.mode_demand])[kind]
        _, first, kind = np.unique(alike, axis=0, return_index=True, return_inverse=True)
        kind = kind.reshape(-1)
        most = np.zeros(first.size, dtype=np.int64)
        np.maximum.at(most, kind, replicas)
        least = self._least_splits(values, choices.mode[several[first]], most)
        coefficient[several] = least[kind, replicas]
        return coefficient

    def _least_splits(
        self, values: Mapping[int, NodeValue], modes: Indices, most: Indices
    ) -> Floats:
        """Return the least worth of *K* replicas on two nodes or more in some modes.

        Parameters
        ----------
        values
            The value functions.
        modes, most
            The modes, and the largest *K* of each.

        Returns
        -------
        Shape (modes, 1 + the largest *K*).
        """
        nodes = self.instance.mode_nodes[modes].sum(axis=1)
        span = np.minimum(self.instance.rules.max_nodes_per_job, nodes)
        width = int(most.max(initial=0))
        least = least_splits(self._pieces(values, modes, most), span, width)
        return np.where(np.isfinite(least), least, 0.0)

    def _pieces(self, values: Mapping[int, NodeValue], modes: Indices, most: Indices) -> Floats:
        """Return the worth of 1, 2, … replicas on one node of several, infinite where no node holds
        them: shape (modes, largest piece).
        """
        instance, capacity = self.instance, node_capacity(self.instance)
        code, fits = instance.mode_type[modes], instance.mode_nodes[modes]
        each = instance.mode_demand[modes]
        room = np.array([most_replicas(capacity, demand) for demand in each]).reshape(fits.shape)
        largest = np.minimum(np.max(room, axis=1, where=fits, initial=0), most)
        size = np.arange(1, int(largest.max(initial=0)) + 1)
        units = self.grid.at_most(each[:, None] * size[:, None])
        served = np.full((len(values), modes.size, size.size), -np.inf)
        for found, (kind, value) in zip(served, values.items(), strict=True):
            rows = units[(code == ANY_TYPE) | (code == kind)]
            worth = value.shared(rows.reshape(-1, each.shape[1]))
            found[(code == ANY_TYPE) | (code == kind)] = worth.reshape(rows.shape[:2])
        return np.where(size <= largest[:, None], _least(served), np.inf)


def _least(served: Floats) -> Floats:
    """Return the least over the types of GPU that can hold it, the first axis; 0 where none can."""
    found = np.where(np.isfinite(served), served, np.inf).min(axis=0)
    return np.where(np.isfinite(found), found, 0.0)
