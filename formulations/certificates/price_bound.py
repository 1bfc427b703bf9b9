r"""A bound on every allocation of a round by prices: weak duality over the nodes.

Let a choice *i* of job *j* cost :math:`c_i` (`basics/power_mean_cost.py`). Take prices of what
couples the jobs: of a unit of every resource, of a piece of a job on a node, of a job's stay where
it is, of a part of a GPU. They charge a choice :math:`P_i`, at most what its pieces are priced at
wherever they are, and what a node *v* holds is priced at :math:`W_v` at most. Then for every
allocation

.. math::

    \sum_j c_{i(j)} \;=\; \sum_j (c_{i(j)} + P_{i(j)}) - \sum_j P_{i(j)}
    \;\ge\; \sum_j \min_{i \in A_j} (c_i + P_i) \; - \; \sum_v W_v,                         (1)

whatever the prices are: a solver's, rounded, or wrong. A piece that takes *y* units of a node of
group *g* is priced at

.. math::

    \lambda_g \cdot y + f_g(y) + \kappa_g(y),                                               (2)

a linear part, the value function *f* of the pieces that have a price (for a piece of a distributed
job that *g*, see `mode_rounds/node_values.py`), and the value function :math:`\kappa` of a GPU of
which replicas take parts. These functions are superadditive, so that what a node with :math:`G_v`
GPUs and :math:`R_v` of everything holds is priced at most at

.. math::

    W_v = \lambda_g \cdot R_v + G_v \kappa_g(1)
          + \max_S \Bigl\{ \sum_{j \in S} \delta_{jv} + g_g(R_v - h(S)) \Bigr\},            (3)

with the prices :math:`\delta` of stays, over the sets *S* of jobs that may stay on the node. Of a
choice on several nodes the cheapest split into pieces is charged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.certificates.node_worth import NodeStates
from goodalloc.formulations.certificates.piece_prices import PiecePrices
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.mode_rounds.mode_choices import held_amounts, node_capacity
from goodalloc.formulations.mode_rounds.resource_units import price_units

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.formulations.certificates.prices import Prices
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.mode_rounds.resource_units import ResourceGrid
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices


#: Relative error of a sum of costs, charges and worths: some thousand roundings of float64.
ROUNDING = 4e-13


@dataclass(frozen=True)
class PriceBound:
    """The bound (1) of one round.

    Parameters
    ----------
    instance, choices
        The round, and all choices of its jobs but dominated ones.
    grid
        Units of the value functions of pieces.
    """

    instance: Instance
    choices: Choices
    grid: ResourceGrid

    @property
    def linear_units(self) -> Float[Floats, " resources"]:
        """Units of every resource in the linear part, GPUs first: shape (resources,)."""
        units, _, _ = price_units(self.instance.mode_demand, node_capacity(self.instance))
        return units

    @property
    def least(self) -> float:
        """Least of the greatest utilities of the jobs."""
        return float(self.best.min())

    @property
    def greatest(self) -> float:
        """Greatest of the greatest utilities of the jobs."""
        return float(self.best.max())

    @cached_property
    def best(self) -> Float[Floats, " jobs"]:
        """Greatest utility of every job among its choices, shape (jobs,)."""
        return np.asarray(np.maximum.reduceat(self.choices.utility, self._first))

    @cached_property
    def _first(self) -> Int[Indices, " jobs"]:
        """First choice of every job, shape (jobs,)."""
        return np.searchsorted(self.choices.job, np.arange(self.instance.num_jobs))

    def least_cost(self, cost: Float[Floats, " choices"], prices: Prices) -> float:
        """Return the right-hand side of (1), less a bound on its rounding.

        Parameters
        ----------
        cost
            Of every choice, infinite where there is no such choice: shape (choices,).
        prices
            Prices; any prices give a valid bound.

        Returns
        -------
        float
            Infinity if some job has no choice.
        """
        charge, worth = self.charges(prices), self.worth(prices)
        total = cost + charge
        first = self._first
        least = np.minimum.reduceat(total, first)
        if (least == np.inf).any():
            return math.inf
        size = np.where(total <= least[self.choices.job], np.abs(cost) + np.abs(charge), 0.0)
        rounding = np.maximum.reduceat(size, first).sum() + np.abs(worth).sum()
        return float(least.sum() - worth.sum()) - ROUNDING * float(rounding)

    def charges(self, prices: Prices) -> Float[Floats, " choices"]:
        """Return the charge of every choice, shape (choices,)."""
        choices, charge = self.choices, np.zeros(len(self.choices))
        kind, tables = self.pieces.kind, self.pieces.tables(prices)
        for where, table in zip((Kind.ONE_NODE, Kind.SEVERAL_NODES), tables, strict=True):
            chosen = choices.of(where)
            charge[chosen] = table[kind[choices.mode[chosen]], choices.replicas[chosen]]
        keep = choices.of(Kind.KEEP)
        keep = keep[~self.instance.pinned[choices.job[keep]]]
        charge[keep] = self._held_charges(prices)[choices.job[keep]]
        return charge

    def worth(self, prices: Prices) -> Float[Floats, " nodes"]:
        """Return an upper bound on the worth of the contents of every node, shape (nodes,)."""
        cluster = self.instance.cluster
        worth = np.zeros(cluster.num_nodes)
        if prices.resources is not None:
            worth += (self._left * prices.resources[cluster.node_group]).sum(axis=1)
        if prices.parts:
            gpu = np.array([table[-1] for table in self.pieces.gpu_values(prices)])
            worth += cluster.node_gpus * gpu[cluster.node_group]
        if prices.values or prices.stays is not None:
            at = self._stay_entries
            stay = np.zeros(at.size) if prices.stays is None else prices.stays[at]
            worth += self._states.worth(prices.values, stay)
        return worth

    @cached_property
    def pieces(self) -> PiecePrices:
        """Kinds of replica, their units, and where they fit."""
        return PiecePrices(self.instance, self.choices, self.grid)

    @cached_property
    def _row(self) -> Int[Indices, " entries"]:
        """Mode in which every entry of the current placements runs, shape (entries,)."""
        current = self.instance.current
        return np.asarray((self.instance.first_mode + current.mode)[current.job])

    def _held_charges(self, prices: Prices) -> Float[Floats, " jobs"]:
        """Return the charge of every job for keeping its placement, shape (jobs,)."""
        current = self.instance.current
        charge = np.zeros(current.job.size)
        if prices.stays is not None:
            charge += prices.stays
        group = self.instance.cluster.node_group[current.node]
        if prices.resources is not None:
            charge += (self._held * prices.resources[group]).sum(axis=1)
        if prices.parts:
            part = self.pieces.part_prices(prices)
            charge += current.replicas * part[self.pieces.kind[self._row], group]
        return np.asarray(np.bincount(current.job, charge, self.instance.num_jobs), dtype=float)

    @cached_property
    def _held(self) -> Float[Floats, "entries resources"]:
        """Demand of every entry of the current placements, for the linear part."""
        each, _ = self.pieces.linear
        return np.asarray(each[self._row] * self.instance.current.replicas[:, None])

    @cached_property
    def _left(self) -> Float[Floats, "nodes resources"]:
        """Capacity of every node that pinned jobs leave, for the linear part: shape (nodes,
        resources).
        """
        current, (_, capacity) = self.instance.current, self.pieces.linear
        left, pinned = capacity.copy(), self.instance.pinned[current.job]
        np.subtract.at(left, current.node[pinned], self._held[pinned])
        return left

    @cached_property
    def _stay_entries(self) -> Int[Indices, " stays"]:
        """Entries of the current placements that may be kept, by node."""
        current, keep = self.instance.current, self.choices.job[self.choices.of(Kind.KEEP)]
        keeps = np.zeros(self.instance.num_jobs, dtype=bool)
        keeps[keep] = True
        entries = np.flatnonzero((keeps & ~self.instance.pinned)[current.job])
        return np.asarray(entries[np.argsort(current.node[entries], kind="stable")])

    @cached_property
    def _states(self) -> NodeStates:
        instance, current = self.instance, self.instance.current
        held = self.grid.at_most(held_amounts(instance))
        pinned = instance.pinned[current.job]
        spread = (current.job_nodes[current.job] > 1) & instance.rules.interference_avoidance
        room = self.grid.room(node_capacity(instance))
        np.subtract.at(room, current.node[pinned], held[pinned])
        blocked = np.zeros(instance.cluster.num_nodes, dtype=bool)
        blocked[current.node[pinned & spread]] = True
        at = self._stay_entries
        return NodeStates(
            instance.cluster.node_group,
            np.maximum(room, 0),
            blocked,
            current.node[at],
            held[at],
            np.asarray(spread[at]),
        )
