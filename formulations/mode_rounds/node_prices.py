"""Prices of GPUs, resources and pieces of nodes that prove a bound on a round of many modes.

Every job pays for what it takes of nodes, and no node can hold pieces that pay more than the value
of what it has, by equation (2) of `node_values.py`; so that the total cost of the jobs is at least
the sum of the least cost and payment of each, less the value of all nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.support.array_types import Floats

#: Pieces of nodes with their prices: units of every resource, then the price.
Seeds = list[list[float]]


class NodePrices(NamedTuple):
    """Prices of the pieces of a value function of nodes.

    Attributes
    ----------
    pieces, distributed
        Pieces of every group of nodes; those of distributed jobs, one of which a node may hold.
    """

    pieces: list[Seeds]
    distributed: list[Seeds]


@dataclass(frozen=True)
class PoolProof:
    """Proof of a bound on a round of modes.

    Parameters
    ----------
    reference
        Utility whose cost is 0.
    units, grid
        Amount of a unit of every resource, GPUs first: of linear prices and of pieces.
    resources
        Price of a unit of every resource of every group of nodes, shape (groups, 1 + resources).
    values
        Value functions of nodes.
    """

    reference: float
    units: Float[Floats, " demands"]
    grid: Float[Floats, " demands"]
    resources: Float[Floats, "groups demands"]
    values: tuple[NodePrices, ...]
