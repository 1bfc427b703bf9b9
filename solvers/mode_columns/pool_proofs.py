r"""Prices of pools as prices of nodes, by which a bound can be checked node by node.

A price :math:`\lambda` of a whole pool is one of :math:`\lambda / R` for every unit of the *R* that
the nodes of a type have together. A further pool of the worth of nodes (`node_worth.py`) has the
pieces of its value function as seeds, at prices in proportion. Where interference is avoided,
:math:`\lambda / N` is the price of being the one distributed job of one of *N* nodes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.mode_rounds.mode_choices import node_capacity
from goodalloc.formulations.mode_rounds.node_prices import PoolProof
from goodalloc.formulations.mode_rounds.node_values import node_value
from goodalloc.formulations.mode_rounds.resource_units import price_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from goodalloc.formulations.mode_rounds.node_values import NodeValue
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.mode_columns.node_units import NodeUnits


def pool_proof(
    units: NodeUnits,
    prices: Float[Floats, " pools"],
    worths: Sequence[tuple[int, NodeValue]],
    reference: float,
) -> PoolProof:
    """Return the proof of the bound at some prices.

    Parameters
    ----------
    units
        Units of the round.
    prices
        Prices of whole pools, further ones last.
    worths
        Type of GPU and value function of a node of every further pool.
    reference
        Utility whose cost is 0.
    """
    columns, cluster = units.columns, units.columns.cluster
    group_type = np.array([cluster.gpu_types.index(group.gpu_type) for group in cluster.groups])
    types, amounts = len(cluster.gpu_types), 1 + len(cluster.resource_names)
    avoided = columns.rules.interference_avoidance
    pooled = prices[: prices.size - len(worths)].reshape(types, amounts + int(avoided))
    has = np.column_stack([cluster.node_gpus, cluster.node_resources])
    total = np.zeros((types, amounts))
    np.add.at(total, units.node_type, has)
    prototype = columns.prototype
    unit, _, _ = price_units(prototype.mode_demand, node_capacity(prototype))
    each = pooled[:, :amounts] * unit / np.where(total > 0.0, total, np.inf)
    no_pieces = np.zeros((0, amounts), dtype=np.int64)
    worthless = node_value(no_pieces, np.zeros(0), (1,) * amounts)
    values = []
    if avoided:
        price = pooled[:, amounts] / np.bincount(units.node_type, minlength=types)
        any_size = np.zeros((1, amounts), dtype=np.int64)
        alone = [
            replace(worthless, extra=any_size, extra_worth=price[[code]]) for code in group_type
        ]
        values.append((1.0, tuple(alone)))
    for (code, value), price in zip(worths, prices[pooled.size :].tolist(), strict=True):
        weight = price / (units.worth_of_nodes(code, value).total or 1.0)
        values.append((weight, tuple(value if one == code else worthless for one in group_type)))
    return PoolProof(reference, unit, units.grid.unit, each[group_type], tuple(values))
