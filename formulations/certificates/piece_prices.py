"""Charges of replicas at given prices, on one node and on several.

Jobs whose replicas are alike (type of GPU, demand) are of one *kind* and share a row of each table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.mode_rounds.mode_choices import most_replicas, node_capacity
from goodalloc.formulations.mode_rounds.node_items import ANY_TYPE
from goodalloc.formulations.mode_rounds.node_values import node_value
from goodalloc.formulations.mode_rounds.replica_splits import least_splits
from goodalloc.formulations.mode_rounds.resource_units import common_unit, price_units
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE, WHOLE_TOLERANCE

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.formulations.certificates.prices import Prices
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.mode_rounds.resource_units import ResourceGrid
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices


#: Most units of a GPU where replicas take parts of one.
MOST_PARTS = 1_000


@dataclass(frozen=True)
class PiecePrices:
    """The kinds of replica in some choices, and where they fit.

    Parameters
    ----------
    instance, choices
        The round and the choices.
    grid
        Units of the value functions of pieces.
    """

    instance: Instance
    choices: Choices
    grid: ResourceGrid

    @cached_property
    def share_unit(self) -> float:
        """Unit of a part of a GPU: the largest of which all parts are multiples, if not tiny."""
        unit = common_unit(self.instance.mode_share)
        return unit if unit * MOST_PARTS >= 1.0 else 1.0 / MOST_PARTS

    @property
    def gpu_units(self) -> int:
        """Units of a whole GPU."""
        return int(np.floor((1 + RESOURCE_TOLERANCE) / self.share_unit + WHOLE_TOLERANCE))

    @cached_property
    def share_units(self) -> Int[Indices, " modes"]:
        """Units of the part of a GPU that a replica in every mode takes, shape (modes,)."""
        units = np.floor(self.instance.mode_share / self.share_unit + WHOLE_TOLERANCE)
        return np.asarray(units, dtype=np.int64)

    @cached_property
    def linear(self) -> tuple[Float[Floats, "modes resources"], Float[Floats, "nodes resources"]]:
        """Demand of a replica in every mode and capacity of every node, for the linear part of
        prices.
        """
        _, taken, room = price_units(self.instance.mode_demand, node_capacity(self.instance))
        return taken, room

    @cached_property
    def _kinds(self) -> tuple[Int[Indices, " kinds"], Int[Indices, " modes"]]:
        """The first mode of every kind, and the kind of every mode: (kinds,), (modes,)."""
        alike = np.column_stack([self.instance.mode_type, self.instance.mode_demand])
        if len(alike) and (alike == alike[0]).all():
            return np.zeros(1, dtype=np.int64), np.zeros(len(alike), dtype=np.int64)
        _, first, kind = np.unique(alike, axis=0, return_index=True, return_inverse=True)
        return first, kind.reshape(-1)

    @property
    def kind(self) -> Int[Indices, " modes"]:
        """Kind of every mode, shape (modes,)."""
        return self._kinds[1]

    @property
    def fits(self) -> Int[Indices, "modes groups"]:
        """Number of replicas in every mode that a node of every group holds: (modes, groups)."""
        return self._fits[self.kind]

    @cached_property
    def _fits(self) -> Int[Indices, "kinds groups"]:
        """`fits` by kind: (kinds, groups)."""
        instance, (first, _) = self.instance, self._kinds
        node = np.searchsorted(instance.cluster.node_group, np.arange(self._num_groups))
        capacity = node_capacity(instance)[node]
        most = np.array([most_replicas(capacity, instance.mode_demand[row]) for row in first])
        if instance.shares_gpus:
            most = np.minimum(most, instance.most_in_group[first])
        code, node_code = instance.mode_type[first], instance.cluster.node_type[node]
        served = (code[:, None] == ANY_TYPE) | (code[:, None] == node_code)
        return np.where(served, most, 0)

    @cached_property
    def _num_nodes(self) -> Int[Indices, " kinds"]:
        """Number of nodes that hold a replica of every kind, shape (kinds,)."""
        sizes = np.array([group.nodes for group in self.instance.cluster.groups])
        return np.asarray((self._fits > 0).astype(np.int64) @ sizes, dtype=np.int64)

    @property
    def _num_groups(self) -> int:
        return len(self.instance.cluster.groups)

    def tables(
        self, prices: Prices
    ) -> tuple[Float[Floats, "kinds replicas"], Float[Floats, "kinds replicas"]]:
        """Return the charges of *K* replicas of every kind on one node and on several.

        Returns
        -------
        Two tables of shape (kinds, most replicas + 1), infinite where they do not fit.
        """
        replicas = self.choices.replicas
        one_node = self.choices.of(Kind.ONE_NODE)
        several = self.choices.of(Kind.SEVERAL_NODES)
        width = int(replicas[several].max(initial=0))
        largest = int(max(replicas[one_node].max(initial=0), min(width, self._fits.max())))
        one = self._least_pieces(prices, largest, distributed=False)
        if not several.size:
            return one, np.full((len(one), 1), np.inf)
        piece = self._least_pieces(prices, largest, distributed=True)
        span = np.minimum(self.instance.rules.max_nodes_per_job, self._num_nodes)
        return one, least_splits(piece[:, 1:], span, width)

    def _least_pieces(self, prices: Prices, largest: int, *, distributed: bool) -> Floats:
        """Return the charge of 0 to `largest` replicas of every kind on the cheapest node."""
        first, _ = self._kinds
        size = np.arange(largest + 1)
        least = np.full((first.size, largest + 1), np.inf)
        linear, _ = self.linear
        units = self.grid.at_most(self.instance.mode_demand[first][:, None] * size[:, None])
        cells = units.reshape(-1, units.shape[-1])
        part = self.part_prices(prices) if prices.parts else None
        for group in range(self._num_groups):
            charge = np.zeros(least.shape)
            if prices.resources is not None:
                charge += (linear[first] @ prices.resources[group])[:, None] * size
            if part is not None:
                charge += part[:, group, None] * size
            for values in prices.values:
                value = values.by_group[group]
                worth = value.shared(cells) if distributed else value.at(cells)
                charge += values.weight * np.maximum(worth, 0.0).reshape(least.shape)
            fits = size <= self._fits[:, group, None]
            least = np.minimum(least, np.where(fits, charge, np.inf))
        return least

    def part_prices(self, prices: Prices) -> Float[Floats, "kinds groups"]:
        """Return the charge of the GPU of which a replica of every kind takes a part: (kinds,
        groups).
        """
        first, _ = self._kinds
        units = self.share_units[first]
        return np.stack([table[units] for table in self.gpu_values(prices)], axis=1)

    def gpu_values(self, prices: Prices) -> list[Float[Floats, " units"]]:
        """Return the value function of one GPU of every group, by units of a share."""
        shape = (1 + self.gpu_units,)
        return [node_value(one.units[:, None], one.price, shape).alone for one in prices.parts]
