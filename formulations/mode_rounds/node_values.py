r"""Worth of a node at given prices of pieces: the value function of a knapsack.

Let a piece of demand :math:`d_t` (a vector: GPUs, cores, memory, …) be worth :math:`\pi_t \ge 0`.
The most that a node of capacity *y* can hold is worth

.. math::

    f(y) = \max_{q \in \mathbb Z_+} \Bigl\{ \sum_t \pi_t q_t : \sum_t d_t q_t \le y \Bigr\}.  (1)

One dynamic program over the units of the resources gives *f* for every *y* at once: for nodes of
every size, whatever is left of them. It serves two ends. Its solution prices the *patterns* of the
packing program (Gilmore and Gomory, 1961). And *f* is superadditive, :math:`f(y) + f(z) \le f(y +
z)`, that is a *dual feasible function*: pieces of any demands :math:`y_i` that share a node of
capacity *y* satisfy :math:`\sum_i f(y_i) \le f(y)`, so that over all nodes *v*

.. math::

    \sum_i f(y_i) x_i \le \sum_v f(R_v)                                                       (2)

holds for whatever choices *i* can be placed, those that were not thought of when :math:`\pi` was
found included. Violated by choices that do not pack, (2) is the cut that says so.

Under interference avoidance a node holds at most one piece of a distributed job. With
:math:`\rho_{s}` the worth of a distributed piece of demand :math:`d_s`,

.. math::

    g(y) = \max \bigl\{ f(y), \; \max_s \{ \rho_s + f(y - d_s) \} \bigr\}                     (3)

is what a node is worth then; a distributed piece of demand *y* counts *g(y)* in (2), a node
:math:`g(R_v)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.models.support.array_types import Flags, Floats, Indices


#: Values below this are none.
NOTHING = 1e-12


@dataclass(frozen=True)
class NodeValue:
    """The functions (1) and (3) at all capacities.

    Parameters
    ----------
    alone
        *f*, of the shape of the grid.
    stages
        *f* after every bundle of pieces, for reading off what it holds.
    bundle
        Piece and number of every stage, shape (stages, 2).
    size, worth
        Demand in units and worth of every piece: shapes (pieces, resources), (pieces,).
    extra, extra_worth
        Demand and worth of the distributed pieces of (3), shapes (pieces, resources), (pieces,).
    """

    alone: Float[Floats, ...]
    stages: tuple[Float[Floats, ...], ...]
    bundle: Int[Indices, "stages 2"]
    size: Int[Indices, "pieces resources"]
    worth: Float[Floats, " pieces"]
    extra: Int[Indices, "extras resources"]
    extra_worth: Float[Floats, " extras"]

    def at(self, capacity: Int[Indices, "capacities resources"]) -> Float[Floats, " capacities"]:
        """Return *f* at some capacities, shape (capacities, resources); minus infinity off the
        grid.
        """
        inside = self._inside(capacity)
        found = np.full(len(capacity), -np.inf)
        found[inside] = self.alone[tuple(capacity[inside].T)]
        return found

    def _inside(self, capacity: Int[Indices, "capacities resources"]) -> Bool[Flags, " capacities"]:
        inside = (capacity >= 0) & (capacity < np.array(self.alone.shape))
        return np.asarray(inside.all(axis=1))

    def shared(
        self, capacity: Int[Indices, "capacities resources"]
    ) -> Float[Floats, " capacities"]:
        """Return *g* at some capacities, shape (capacities, resources); minus infinity off the
        grid.
        """
        inside, found = self._inside(capacity), self.at(capacity)
        for index in np.flatnonzero(self.extra_worth > NOTHING).tolist():
            left = capacity - self.extra[index]
            fits = inside & (left >= 0).all(axis=1)
            worth = self.extra_worth[index] + self.alone[tuple(left[fits].T)]
            found[fits] = np.maximum(found[fits], worth)
        return found

    def best_extra(self, capacity: Int[Indices, " resources"]) -> tuple[float, int]:
        """Return *g* at one capacity, and the distributed piece that the node holds then, or -1."""
        best = float(self.alone[tuple(capacity)])
        fits = np.flatnonzero((self.extra_worth > NOTHING) & (self.extra <= capacity).all(axis=1))
        if not fits.size:
            return best, -1
        worth = self.extra_worth[fits] + self.alone[tuple((capacity - self.extra[fits]).T)]
        first = int(np.argmax(worth))
        if worth[first] <= best + NOTHING:
            return best, -1
        return float(worth[first]), int(fits[first])

    def pattern(self, capacity: Int[Indices, " resources"]) -> Int[Indices, " pieces"]:
        """Return the best contents of a node of this capacity by (1): numbers of pieces."""
        left = capacity.copy()
        count = np.zeros(len(self.size), dtype=np.int64)
        for stage in range(len(self.bundle) - 1, -1, -1):
            cell = tuple(left)
            if self.stages[stage + 1][cell] > self.stages[stage][cell]:
                piece, number = self.bundle[stage]
                count[piece] += number
                left = left - number * self.size[piece]
        return count


def node_value(
    size: Int[Indices, "pieces resources"],
    worth: Float[Floats, " pieces"],
    shape: tuple[int, ...],
    *,
    most: Int[Indices, " pieces"] | None = None,
    extra: Int[Indices, "extras resources"] | None = None,
    extra_worth: Float[Floats, " extras"] | None = None,
) -> NodeValue:
    """Tabulate (1) and (3).

    Parameters
    ----------
    size, worth
        Demand in units and worth of every piece, shapes (pieces, resources) and (pieces,).
    shape
        Shape of the table.
    most
        How many of each piece there are, shape (pieces,); any number if None, as (2) requires.
    extra, extra_worth
        Distributed pieces, at most one of which a node may hold.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.mode_rounds import node_value
    >>> size, worth = np.array([[1], [2]]), np.array([2.0, 5.0])
    >>> node_value(size, worth, shape=(4,)).alone.tolist()  # of 0 to 3 free units
    [0.0, 2.0, 5.0, 7.0]
    """
    table = np.zeros(shape)
    nothing = np.zeros((0, len(shape)), dtype=np.int64)
    empty = NodeValue(
        alone=table,
        stages=(table,),
        bundle=np.zeros((0, 2), dtype=np.int64),
        size=nothing,
        worth=np.zeros(0),
        extra=nothing,
        extra_worth=np.zeros(0),
    )
    if most is None:
        most = np.full(len(size), max(shape))
    return beside(empty, size, worth, most, extra, extra_worth)


def beside(
    value: NodeValue,
    size: Int[Indices, "pieces resources"],
    worth: Float[Floats, " pieces"],
    most: Int[Indices, " pieces"],
    extra: Int[Indices, "extras resources"] | None = None,
    extra_worth: Float[Floats, " extras"] | None = None,
) -> NodeValue:
    """Return the value of a node that may hold further pieces and extras.

    Parameters
    ----------
    value
        The value without them. Their counts in `NodeValue.pattern` follow those that are there.
    size, worth, most, extra, extra_worth
        The further pieces and extras, as of `node_value`.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.mode_rounds import beside, node_value
    >>> small = node_value(np.array([[1]]), np.array([2.0]), shape=(4,), most=np.array([1]))
    >>> both = beside(small, np.array([[2]]), np.array([5.0]), most=np.array([1]))
    >>> both.alone.tolist()  # of 0 to 3 free units, one piece of each kind at most
    [0.0, 2.0, 5.0, 7.0]
    """
    best, shape = value.alone, value.alone.shape
    stages, bundles = list(value.stages), value.bundle.tolist()
    for piece in np.flatnonzero(worth > NOTHING).tolist():
        units = size[piece].tolist()
        left = min((top - 1) // u for top, u in zip(shape, units, strict=True) if u)
        left, number = min(left, int(most[piece])), 1
        while left > 0:
            taken = min(number, left)
            best = _with(best, [u * taken for u in units], float(worth[piece]) * taken)
            stages.append(best)
            bundles.append((len(value.size) + piece, taken))
            left -= taken
            number *= 2
    extras, worths = value.extra, value.extra_worth
    if extra is not None and extra_worth is not None:
        extras = np.concatenate([extras, extra])
        worths = np.concatenate([worths, extra_worth])
    return NodeValue(
        alone=best,
        stages=tuple(stages),
        bundle=np.array(bundles, dtype=np.int64).reshape(-1, 2),
        size=np.concatenate([value.size, size]),
        worth=np.concatenate([value.worth, worth]),
        extra=extras,
        extra_worth=worths,
    )


def _with(best: Float[Floats, ...], units: list[int], value: float) -> Float[Floats, ...]:
    """Return the better of a table and of holding something beside it."""
    to = tuple(slice(u, None) for u in units)
    of = tuple(slice(0, n - u) for u, n in zip(units, best.shape, strict=True))
    found = best.copy()
    np.maximum(found[to], best[of] + value, out=found[to])
    return found
