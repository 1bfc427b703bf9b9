"""Prices of the constraints that couple the jobs of a round: resources, pieces, stays, parts of
GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.formulations.mode_rounds.node_values import NodeValue
    from goodalloc.models.support.array_types import Floats, Indices


class WeightedValues(NamedTuple):
    """Value functions of pieces, one for every group of nodes, and their weight."""

    weight: float
    by_group: tuple[NodeValue, ...]


class Parts(NamedTuple):
    """Parts of a GPU that have a price.

    Attributes
    ----------
    units
        Units of a share, shape (parts,).
    price
        Shape (parts,), at least 0.
    """

    units: Int[Indices, " parts"]
    price: Float[Floats, " parts"]


@dataclass(frozen=True)
class Prices:
    """Prices in units of cost; None or empty ones are zero. `price_bound.py` defines them.

    Parameters
    ----------
    resources
        Of a unit of every resource in every group of nodes, at least 0: (groups, resources).
    values
        Value functions of pieces; they add up.
    stays
        Of every entry of the current placements, of any sign: shape (entries,).
    parts
        Parts of a GPU in every group of nodes.
    """

    resources: Float[Floats, "groups resources"] | None = None
    values: tuple[WeightedValues, ...] = ()
    stays: Float[Floats, " entries"] | None = None
    parts: tuple[Parts, ...] = ()

    def times(self, factor: float) -> Prices:
        """Return the prices times a factor, for costs that are scaled by it."""
        return replace(
            self,
            resources=None if self.resources is None else self.resources * factor,
            values=tuple(one._replace(weight=one.weight * factor) for one in self.values),
            stays=None if self.stays is None else self.stays * factor,
            parts=tuple(one._replace(price=one.price * factor) for one in self.parts),
        )
