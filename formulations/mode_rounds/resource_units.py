"""Amounts of resources as whole numbers of units, for tables over the contents of a node."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.mode_rounds.mode_choices import node_capacity
from goodalloc.models.support.tolerances import (
    RESOURCE_TOLERANCE,
    ROUNDING,
    SMALLEST_DIVISOR,
    WHOLE_TOLERANCE,
)

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats, Indices


#: Most units that any node may have of a resource in its exact unit; beyond, units are coarser.
MOST_UNITS = 128
#: Most units for which amounts count as whole where no table is made of them.
MOST_WHOLE = 1e6
#: Units of the largest node where they are coarse, and most cells of a table in all.
COARSE_UNITS = 48
MOST_CELLS = 40_000
#: Largest denominator of an amount, as a fraction, that may have a unit in common with others; what
#: such fractions are rounded by; and a unit of which every node has more than there are tables for.
LARGEST_DENOMINATOR, WHOLE_ROUNDING, NO_UNIT = 10**5, 1e-12, 1e-100
#: Units of the largest node in which resources without a common unit have prices.
FINE_UNITS = 2.0**20


@dataclass(frozen=True)
class ResourceGrid:
    """Units of every resource, GPUs first.

    Parameters
    ----------
    unit
        Size of a unit, shape (1 + resources,).
    exact
        Whether everything a replica may take is a whole number of units: rounding is then none.
    shape
        Units of the largest node and one, of every resource: the shape of a table.
    """

    unit: Float[Floats, " demands"]
    exact: bool
    shape: tuple[int, ...]

    def at_least(self, amounts: Float[Floats, "... demands"]) -> Int[Indices, "... demands"]:
        """Return amounts in units, rounded up."""
        return np.asarray(np.ceil(amounts / self.unit - WHOLE_TOLERANCE), dtype=np.int64)

    def at_most(self, amounts: Float[Floats, "... demands"]) -> Int[Indices, "... demands"]:
        """Return amounts in units, rounded down."""
        units = np.floor(amounts * (1 + RESOURCE_TOLERANCE) / self.unit + WHOLE_TOLERANCE)
        return np.asarray(units, dtype=np.int64)

    def room(self, amounts: Float[Floats, "... demands"]) -> Int[Indices, "... demands"]:
        """Return an upper bound, in units, on what nodes with these amounts hold, within the
        table.
        """
        units = self.at_most(amounts) if self.exact else self.at_least(amounts)
        return np.asarray(np.minimum(units, np.array(self.shape) - 1), dtype=np.int64)


def resource_grid(instance: Instance) -> ResourceGrid:
    """Return the grid of an instance: the largest common unit of all demands, if it is not tiny.

    Examples
    --------
    >>> from goodalloc.data.rounds import equip, generate
    >>> from goodalloc.formulations.mode_rounds import resource_grid
    >>> grid = resource_grid(equip(generate(0, jobs=4, nodes=2), 0, cores=16.0))
    >>> grid.unit.tolist()
    [1.0, 1.0]
    """
    demand, most = instance.mode_demand, node_capacity(instance).max(axis=0)
    unit, exact, first = np.ones(most.size), True, 0 if instance.shares_gpus else 1
    for index in range(first, most.size):
        common = common_unit(demand[:, index])
        if common == 0.0:  # nobody takes any
            unit[index] = max(most[index], 1.0) * 2
        elif most[index] / common <= MOST_UNITS:
            unit[index] = common
        else:
            unit[index], exact = most[index] / COARSE_UNITS, False
    while math.prod(_units(most, unit)) > MOST_CELLS and (_units(most, unit)[first:] > 4).any():
        index = first + int(np.argmax(_units(most, unit)[first:]))
        unit[index], exact = unit[index] * 2, False
    return ResourceGrid(unit, exact, tuple(_units(most, unit).tolist()))


def _units(
    most: Float[Floats, " demands"], unit: Float[Floats, " demands"]
) -> Int[Indices, " demands"]:
    """Return the length of every axis of the table: from nothing to all that the largest node
    has.
    """
    return np.asarray(np.ceil(most / unit - WHOLE_TOLERANCE) + 1, dtype=np.int64)


def whole_amounts(
    demand: Float[Floats, "modes resources"], capacity: Float[Floats, "nodes resources"]
) -> tuple[Float[Floats, "modes resources"], Float[Floats, "nodes resources"]]:
    """Return demands and capacities in units that make whole numbers of them.

    With whole numbers the tolerance of a solver, which is larger than the checker's, does not
    matter. Resources without a unit that is worth the name are in shares of the largest node.

    Parameters
    ----------
    demand, capacity
        Shapes (modes, resources) and (nodes, resources).

    Returns
    -------
    The demands, and what the checker lets every node hold.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.mode_rounds import whole_amounts
    >>> demand, capacity = whole_amounts(np.array([[1.5], [3.0]]), np.array([[10.0]]))
    >>> demand.ravel().tolist(), capacity.ravel().tolist()  # in units of 1.5
    ([1.0, 2.0], [6.0])
    """
    size, whole = whole_units(demand, capacity)
    demand, capacity = demand / size, capacity / size * (1.0 + RESOURCE_TOLERANCE)
    return (
        np.where(whole, np.rint(demand), demand),
        np.where(whole, np.floor(capacity + WHOLE_TOLERANCE), capacity),
    )


def whole_units(
    demand: Float[Floats, "modes resources"], capacity: Float[Floats, "nodes resources"]
) -> tuple[Float[Floats, " resources"], Bool[Flags, " resources"]]:
    """Return the units of `whole_amounts`, and which of them make whole numbers: shapes
    (resources,).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.mode_rounds import whole_units
    >>> unit, whole = whole_units(np.array([[1.5], [3.0]]), np.array([[10.0]]))
    >>> unit.tolist(), whole.tolist()
    ([1.5], [True])
    """
    most = capacity.max(axis=0)
    unit = np.array([common_unit(demand[:, resource]) for resource in range(most.size)])
    whole = (unit > 0) & (most <= MOST_WHOLE * unit)
    return np.where(whole, unit, np.maximum(most, SMALLEST_DIVISOR)), whole


def price_units(
    demand: Float[Floats, "modes resources"], capacity: Float[Floats, "nodes resources"]
) -> tuple[
    Float[Floats, " resources"], Float[Floats, "modes resources"], Float[Floats, "nodes resources"]
]:
    """Return units for prices, of which all demands and capacities are whole multiples.

    They are those of `whole_amounts` where these are whole, else a fine part of the largest node;
    what fits then fits in units, too.

    Parameters
    ----------
    demand, capacity
        Shapes (modes, resources) and (nodes, resources).

    Returns
    -------
    The units, shape (resources,), and the demands and capacities in them.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.mode_rounds import price_units
    >>> unit, demand, capacity = price_units(np.array([[1.5], [3.0]]), np.array([[9.0]]))
    >>> unit.tolist(), demand.ravel().tolist(), capacity.ravel().tolist()
    ([1.5], [1.0, 2.0], [6.0])
    """
    size, whole = whole_units(demand, capacity)
    unit = np.where(whole, size, size / FINE_UNITS)
    room = np.floor(capacity * (1.0 + RESOURCE_TOLERANCE) / unit + WHOLE_TOLERANCE)
    taken = np.where(whole, np.rint(demand / unit), np.floor(demand / unit * (1.0 - ROUNDING)))
    return unit, taken, room


def common_unit(amounts: Float[Floats, ...]) -> float:
    """Return the largest number of which all amounts are whole multiples.

    Every amount is taken for the fraction with a denominator of at most `LARGEST_DENOMINATOR` that
    it is, and the greatest common divisor of these is exact: Euclid on floating-point numbers
    drifts from step to step, until it stops at a number that divides none of them.

    Returns
    -------
    float
        0 where there is no amount above 0, `NO_UNIT` where some amount is no such fraction.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.mode_rounds import common_unit
    >>> common_unit(np.array([1.5, 6.0, 4.5]))
    1.5
    >>> common_unit(np.array([3.152, 11.908, 18.708]))
    0.004
    """
    found = Fraction(0)
    for amount in np.unique(amounts[amounts > 0]).tolist():
        exact = Fraction(amount).limit_denominator(LARGEST_DENOMINATOR)
        if abs(float(exact) - amount) > WHOLE_ROUNDING * amount:
            return NO_UNIT
        divisor = math.gcd(found.numerator * exact.denominator, exact.numerator * found.denominator)
        found = Fraction(divisor, found.denominator * exact.denominator)
    return max(float(found), NO_UNIT) if found else 0.0
