r"""Cuts from the value of nodes: what no allocation can exceed, whatever the jobs choose.

With the functions *f* (and *g* for a piece of a distributed job) of `node_value` at any prices, an
allocation satisfies

.. math::

    \sum_i \phi_i x_i \le \sum_v g_v(R_v),                                                    (1)

where :math:`\phi_i` is, for a choice on one node, :math:`f(d_i)`, least over the types of GPU that
serve it; for a choice on several nodes the least total of :math:`g(k d)` over all ways to split its
replicas into pieces *k*; for a kept placement the total over its nodes.

Where the set :math:`S_v` of jobs keeps its place on node *v*, what is left of the node may be worth
less than (1) says. So there is a second cut, at :math:`S = (S_v)`,

.. math::

    \sum_{i \text{ anew}} \phi_i x_i + \sum_v \sum_{j \in S_v} \Delta_{jv} x_{j,keep}
    \le \sum_v \Bigl( g_v(R_v - h(S_v)) + \sum_{j \in S_v} \Delta_{jv} \Bigr),                (2)

in which :math:`\Delta_{jv}` is the most that the worth of the node can rise when *j* leaves it,
whoever of :math:`S_v` left before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from goodalloc.formulations.choices import Choices, Kind
from goodalloc.formulations.mode_choices import (
    choice_demand,
    most_replicas,
    node_capacity,
    replica_demand,
)
from goodalloc.formulations.node_items import ANY_TYPE
from goodalloc.formulations.node_value import NodeValue
from goodalloc.formulations.resource_grid import ResourceGrid
from goodalloc.models.instance import Instance

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Relative error of a sum of values.
ROUNDING = 1e-12
#: Jobs that keep their place on one node up to which all subsets of them are looked at.
MOST_SUBSETS_OF = 6


@dataclass(frozen=True)
class Cut:
    """``coefficient @ x <= upper`` over all choices."""

    coefficient: Floats
    upper: float


def type_codes(instance: Instance) -> tuple[Indices, Indices]:
    """Numbers for the types of GPU: of every mode (`ANY_TYPE` where any serves), of every node."""
    known = {name: code for code, name in enumerate(sorted(set(instance.cluster.node_types)))}
    node = np.array([known[name] for name in instance.cluster.node_types], dtype=np.int64)
    of_mode = [known[mode.gpu_type] if mode.gpu_type else ANY_TYPE for mode in instance.modes]
    return np.array(of_mode, dtype=np.int64), node


@dataclass(frozen=True)
class CutMaker:
    """Turns value functions into cuts over the choices of an instance.

    Parameters
    ----------
    instance, choices, grid
        The round, all its choices, and the units of the tables.
    """

    instance: Instance
    choices: Choices
    grid: ResourceGrid

    def cut(self, values: Mapping[int, NodeValue]) -> Cut:
        """The cut (1) of some value functions, one for every type of GPU."""
        coefficient = self._placed(values)
        current, keep = self.instance.current, self.choices.of(Kind.KEEP)
        worth = np.zeros(self.instance.num_jobs)
        for entry, value in enumerate(self._held_values(values)):
            worth[current.job[entry]] += value
        coefficient[keep] = worth[self.choices.job[keep]]
        upper = sum(self._node_values(values, np.zeros(0, dtype=np.int64)))
        return _normal(coefficient, upper)

    def cut_at(self, values: Mapping[int, NodeValue], keepers: Indices) -> Cut:
        """The cut (2) where these jobs keep what they have."""
        coefficient = self._placed(values)
        upper = sum(self._node_values(values, keepers))
        keep_of = np.full(self.instance.num_jobs, -1)
        keep = self.choices.of(Kind.KEEP)
        keep_of[self.choices.job[keep]] = keep
        current = self.instance.current
        stays = np.flatnonzero(np.isin(current.job, keepers))
        for node in np.unique(current.node[stays]).tolist():
            here = stays[current.node[stays] == node]
            for entry, rise in zip(here, self._rises(values, node, here), strict=True):
                coefficient[keep_of[current.job[entry]]] += rise
                upper += rise
        return _normal(coefficient, upper)

    def _placed(self, values: Mapping[int, NodeValue]) -> Floats:
        """What choices anew are worth at least, wherever they go; 0 for the others."""
        instance, choices, grid = self.instance, self.choices, self.grid
        coefficient = np.zeros(len(choices))
        code = type_codes(instance)[0][choices.mode]
        one = choices.of(Kind.ONE_NODE)
        units = grid.at_most(choice_demand(instance, choices.where(one)))
        for kind in np.unique(code[one]).tolist():
            rows = np.flatnonzero(code[one] == kind)
            tables = [v.alone for c, v in values.items() if kind in (ANY_TYPE, c)]
            coefficient[one[rows]] = _least(tables, units[rows])
        several = choices.of(Kind.SEVERAL_NODES)
        for mode in np.unique(choices.mode[several]).tolist():
            rows = several[choices.mode[several] == mode]
            least = self._least_splits(values, mode, int(choices.replicas[rows].max()))
            coefficient[rows] = least[choices.replicas[rows]]
        return coefficient

    def _least_splits(self, values: Mapping[int, NodeValue], mode: int, most: int) -> Floats:
        """The least worth of *K* replicas on two nodes or more, for every K up to the most."""
        instance = self.instance
        demand = replica_demand(instance)[mode]
        nodes = instance.mode_nodes[mode]
        largest = int(most_replicas(node_capacity(instance)[nodes], demand).max())
        code = int(type_codes(instance)[0][mode])
        tables = [v.shared for c, v in values.items() if code in (ANY_TYPE, c)]
        sizes = np.arange(1, min(largest, most) + 1)
        piece = _least(tables, self.grid.at_most(demand[None] * sizes[:, None]))
        total = np.full(most + 1, np.inf)
        total[0], least = 0.0, np.full(most + 1, np.inf)
        for number in range(1, min(instance.rules.max_nodes_per_job, int(nodes.sum()), most) + 1):
            following = np.full(most + 1, np.inf)
            for size, worth in zip(sizes.tolist(), piece.tolist(), strict=True):
                np.minimum(following[size:], total[: most + 1 - size] + worth, out=following[size:])
            total = following
            if number > 1:
                least = np.minimum(least, total)
        return np.where(np.isfinite(least), least, 0.0)

    def _held(self) -> Floats:
        """What every entry of the current allocation takes of its node."""
        instance, current = self.instance, self.instance.current
        running = replica_demand(instance)[instance.first_mode + current.mode]
        return np.asarray(running[current.job] * current.replicas[:, None])

    def _held_values(self, values: Mapping[int, NodeValue]) -> list[float]:
        """What every entry of the current allocation is worth."""
        current, code = self.instance.current, type_codes(self.instance)[1]
        units = self.grid.at_most(self._held())
        spread = current.job_nodes[current.job] > 1
        found = []
        for entry in range(current.job.size):
            value = values[int(code[current.node[entry]])]
            table = value.shared if spread[entry] else value.alone
            found.append(float(table[tuple(units[entry])]))
        return found

    def _node_values(self, values: Mapping[int, NodeValue], keepers: Indices) -> list[float]:
        """What is left of every node is worth, if these jobs keep what they have."""
        instance, current = self.instance, self.instance.current
        left = node_capacity(instance)
        stays = np.isin(current.job, keepers)
        np.subtract.at(left, current.node[stays], self._held()[stays])
        closed = np.zeros(len(left), dtype=bool)
        if instance.rules.interference_avoidance:
            closed[current.node[stays & (current.job_nodes[current.job] > 1)]] = True
        units, code = self.grid.room(np.maximum(left, 0.0)), type_codes(instance)[1]
        return [
            float((values[c].alone if shut else values[c].shared)[tuple(u)])
            for c, shut, u in zip(code.tolist(), closed.tolist(), units, strict=True)
        ]

    def _rises(self, values: Mapping[int, NodeValue], node: int, here: Indices) -> list[float]:
        """How much the worth of a node can rise when an entry of it leaves, at most."""
        instance, current = self.instance, self.instance.current
        value = values[int(type_codes(instance)[1][node])]
        capacity, held = node_capacity(instance)[node], self._held()
        avoid = instance.rules.interference_avoidance
        spread = (current.job_nodes[current.job] > 1) & avoid

        def worth(stays: tuple[int, ...]) -> float:
            left = capacity - held[list(stays)].sum(axis=0)
            table = value.alone if spread[list(stays)].any() else value.shared
            return float(table[tuple(self.grid.room(np.maximum(left, 0.0)))])

        entries = here.tolist()
        if len(entries) > MOST_SUBSETS_OF:
            return [worth(()) - worth(tuple(entries))] * len(entries)
        rises = []
        for entry in entries:
            others = [other for other in entries if other != entry]
            subsets = [s for n in range(len(others) + 1) for s in combinations(others, n)]
            rises.append(max(worth(s) - worth((*s, entry)) for s in subsets))
        return rises


def _least(tables: list[Floats], units: Indices) -> Floats:
    """The least of some tables at these cells, those too small to hold them left out."""
    found = np.full(len(units), np.inf)
    for table in tables:
        fits = (units < np.array(table.shape)).all(axis=1)
        found[fits] = np.minimum(found[fits], table[tuple(units[fits].T)])
    return np.where(np.isfinite(found), found, 0.0)


def _normal(coefficient: Floats, upper: float) -> Cut:
    """The cut with a largest coefficient of 1 and what rounding may have hidden granted."""
    size = max(float(np.abs(coefficient).max()), 1e-300)
    return Cut(coefficient / size, upper / size * (1 + ROUNDING) + ROUNDING)
