"""Highest point of a concave function of some prices, by planes above it and a box (boxstep).

Every evaluation gives a plane above the function. The planes' highest point within a box around the
best prices so far is the next to try; the box grows where the planes told the truth and shrinks
where they did not.

References
----------
Marsten, Hogan and Blankenship, "The Boxstep Method for Large-Scale Optimization", Operations
    Research, 1975. doi:10.1287/opre.23.3.389
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import highspy
import numpy as np

from goodalloc.solvers.milp.highs_program import new_solver

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float

    from goodalloc.models.support.array_types import Floats

#: Steps at most.
MOST_STEPS = 400

#: Share of the promised gain below which the box shrinks, and above which it grows.
SHRINK, GROW = 0.1, 0.6


class Evaluated(Protocol):
    """Value of the function at some prices, ``bound``, and a plane above it.

    At any prices the function is at most ``intercept + slope @ prices``.
    """

    @property
    def bound(self) -> float: ...
    @property
    def intercept(self) -> float: ...
    @property
    def slope(self) -> Float[Floats, " prices"]: ...


R = TypeVar("R", bound=Evaluated)


class Highest(NamedTuple, Generic[R]):
    """Best prices found.

    Attributes
    ----------
    prices
        These prices.
    response
        What the function gave there.
    steps
        Evaluations that it took.
    lowest
        Of what they gave and what was known before, that with the lowest planes at these prices,
        the lowest first, and of parallel ones the lowest alone.
    mixture
        Responses and weights, of sum 1, whose weighted plane proves that the value is near the
        highest: it is flat, or falls along prices that are 0 where all planes together are highest.
        Empty if the search ended for another reason than its tolerance.
    """

    prices: Float[Floats, " prices"]
    response: R
    steps: int
    lowest: tuple[R, ...]
    mixture: tuple[tuple[R, float], ...] = ()


def boxstep(
    respond: Callable[[Floats], R],
    prices: Float[Floats, " prices"],
    box: Float[Floats, " prices"],
    tolerance: float,
    unit: float = 1.0,
    *,
    known: Sequence[R] = (),
    keep: int = 0,
) -> Highest[R]:
    """Return the prices, none below 0, at which a concave function is highest.

    Parameters
    ----------
    respond
        The function.
    prices, box
        Prices from which on it is searched, and the widths of the first box to either side.
    tolerance
        Amount by which the value may fall short of the highest.
    unit
        Factor by which prices are of the order of the values.
    known
        Responses whose planes are known to be above the function; their values do not count.
    keep
        Most responses of which `Highest.lowest` tells; with 0 none is held, and there is no
        mixture.

    Examples
    --------
    >>> import numpy as np
    >>> from typing import NamedTuple
    >>> from goodalloc.solvers.milp import boxstep
    >>> class Value(NamedTuple):
    ...     bound: float
    ...     intercept: float
    ...     slope: np.ndarray
    >>> def parabola(at):  # highest at 3
    ...     return Value(-((at[0] - 3.0) ** 2), at[0] ** 2 - 9.0, 6.0 - 2.0 * at)
    >>> found = boxstep(parabola, np.zeros(1), np.ones(1), tolerance=1e-6)
    >>> round(float(found.prices[0]), 2)
    3.0
    """
    best = respond(prices)
    planes = _Planes(prices.size, unit)
    planes.add(best)
    for response in known:
        planes.add(response)
    steps, kept, weights = 1, [best, *known], np.zeros(0)
    while steps < MOST_STEPS:
        highest = planes.highest(prices - box, prices + box)
        if highest is None:
            break
        tried, promised = highest
        gain = promised - best.bound
        inside = np.abs(tried - prices) < 0.999 * box
        if gain <= tolerance and (inside | (tried == 0.0)).all():
            weights = planes.weights
            break
        if gain <= 0.1 * tolerance:
            box = 4.0 * box
            continue
        response = respond(tried)
        planes.add(response)
        steps += 1
        if keep:
            kept.append(response)
        reached = response.bound - best.bound
        if reached > GROW * gain:
            box = np.where(inside, box, 2.0 * box)
        elif reached < SHRINK * gain:
            box = 0.5 * box
        if reached > 0.0:
            best, prices = response, tried
    mixed = [(kept[i], float(weights[i])) for i in np.flatnonzero(weights) if keep]
    return Highest(prices, best, steps, tuple(_lowest(kept, prices, keep)), tuple(mixed))


def _lowest(responses: Sequence[R], prices: Floats, number: int) -> list[R]:
    """Return the responses whose planes are lowest at some prices, of parallel ones the lowest."""
    ordered = sorted(responses, key=lambda one: one.intercept + float(one.slope @ prices))
    lowest: dict[bytes, R] = {}
    for one in ordered:
        lowest.setdefault(one.slope.tobytes(), one)
    return [*lowest.values()][:number]


class _Planes:
    """Planes above the function, and their highest point in a box."""

    def __init__(self, prices: int, unit: float) -> None:
        self._solver = new_solver(presolve="off", solver="simplex")
        none, nothing = np.zeros(0, dtype=np.int32), np.zeros(0)
        for _ in range(prices):
            self._solver.addCol(0.0, 0.0, highspy.kHighsInf, 0, none, nothing)
        self._solver.addCol(-1.0, -highspy.kHighsInf, highspy.kHighsInf, 0, none, nothing)
        self._prices, self._unit, self._scale = prices, unit, 0.0

    def add(self, response: Evaluated) -> None:
        """Add the plane of a response; heights are in units of the first one's intercept."""
        if not self._scale:
            self._scale = max(abs(response.intercept), 1.0)
        index = np.arange(self._prices + 1, dtype=np.int32)
        value = np.append(-response.slope / self._unit, 1.0)
        self._solver.addRow(
            -highspy.kHighsInf, response.intercept / self._scale, index.size, index, value
        )

    def highest(self, low: Floats, high: Floats) -> tuple[Floats, float] | None:
        """Return the highest point of the planes in a box, and its height; None if not found."""
        scale = self._scale / self._unit
        low, high = np.maximum(low, 0.0) / scale, high / scale
        for column in range(self._prices):
            self._solver.changeColBounds(column, float(low[column]), float(high[column]))
        self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            self._solver.clearSolver()  # the basis led astray
            self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        values = np.array(self._solver.getSolution().col_value)
        return np.maximum(values[:-1], 0.0) * scale, float(values[-1]) * self._scale

    @property
    def weights(self) -> Floats:
        """Weights, of sum 1, of the planes that meet at the highest point."""
        duals = np.maximum(-np.array(self._solver.getSolution().row_dual), 0.0)
        return np.asarray(duals / duals.sum())
