"""Prices of GPUs, resources and pieces of nodes that prove a bound on a round of many modes.

Every job pays for what it takes of nodes, and no node can hold pieces that pay more than the value
of what it has, by equation (2) of `node_values.py`; so that the total cost of the jobs is at least
the sum of the least cost and payment of each, less the value of all nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.formulations.mode_rounds.node_values import NodeValue
    from goodalloc.models.support.array_types import Floats


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
        Weight and value function of every group of nodes, of each price of pieces.
    """

    reference: float
    units: Float[Floats, " demands"]
    grid: Float[Floats, " demands"]
    resources: Float[Floats, "groups demands"]
    values: tuple[tuple[float, tuple[NodeValue, ...]], ...]
