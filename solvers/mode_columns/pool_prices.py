"""Best prices of pools: the highest lower bound of the relaxation that pools what nodes have.

The bound, equation (1) of `priced_classes.py`, is concave in the prices, and every response of the
jobs gives a plane above it. The planes' highest point within a box around the best prices so far is
the next to try (the boxstep method); the box grows where the planes told the truth and shrinks
where they did not. Samples of the jobs come first: their prices are near those of all.

References
----------
Marsten, Hogan and Blankenship, "The Boxstep Method for Large-Scale Optimization", Operations
    Research, 1975. doi:10.1287/opre.23.3.389
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import highspy
import numpy as np

from goodalloc.solvers.milp.highs_program import new_solver

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.mode_columns.priced_classes import PricedClasses, Response

#: Steps at most; the bound is valid after any number.
MOST_STEPS = 400

#: Classes of the first sample, and the factor by which samples grow.
FIRST_SAMPLE, GROWTH = 1_000, 8

#: Share of the promised gain below which the box shrinks, and above which it grows.
SHRINK, GROW = 0.1, 0.6

#: Tolerance of samples, in units of that of all jobs.
SAMPLE_TOLERANCE = 100.0


class PoolPrices(NamedTuple):
    """Best prices found.

    Attributes
    ----------
    prices
        Prices of whole pools, in costs; shape (pools,).
    response
        What the jobs choose there; its bound is the best.
    steps
        Responses of all jobs that it took.
    """

    prices: Float[Floats, " pools"]
    response: Response
    steps: int


def search_pool_prices(
    classes: PricedClasses, tolerance: float, known: Floats | None = None, seed: int = 0
) -> PoolPrices:
    """Return the best prices of pools.

    Parameters
    ----------
    classes
        The classes of jobs.
    tolerance
        Cost by which the bound may fall short of the best one.
    known
        Prices of the first pools that are near the best ones; none if None.
    seed
        Seed of the samples.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.data.rounds import generate_mode_columns
    >>> from goodalloc.models.columns import mode_column_utilities
    >>> from goodalloc.solvers.mode_columns import PricedClasses, pooled_choices
    >>> from goodalloc.solvers.mode_columns import search_pool_prices
    >>> columns = generate_mode_columns(seed=0, jobs=40)
    >>> choices = pooled_choices(mode_column_utilities(columns))
    >>> classes = PricedClasses(choices, -1.0, 0.04, choices.count.astype(float))
    >>> found = search_pool_prices(classes, tolerance=1e-4)
    >>> found.response.bound > classes.respond(np.zeros(9)).bound
    True
    """
    prices, size = np.zeros(classes.choices.demand.shape[1]), FIRST_SAMPLE
    box = None
    if known is not None:
        prices[: known.size] = known
    while size < classes.choices.num_classes / 2:
        found = _boxstep(classes.sample(size, seed), prices, box, SAMPLE_TOLERANCE * tolerance)
        prices, size = found.prices, size * GROWTH
        box = 0.1 * np.maximum(prices, prices.max() * 1e-3)
    return _boxstep(classes, prices, box, tolerance)


def _boxstep(
    classes: PricedClasses, prices: Floats, box: Floats | None, tolerance: float
) -> PoolPrices:
    """Return the best prices, from some prices and the widths of a box around them on."""
    best = classes.respond(prices)
    jobs = float(classes.count.sum())
    if box is None:
        box = np.full(prices.size, 0.25 * jobs)
    planes = _Planes(prices.size)
    planes.add(best)
    steps = 1
    while steps < MOST_STEPS:
        highest = planes.highest(prices - box, prices + box)
        if highest is None:
            break
        tried, promised = highest
        gain = promised - best.bound
        inside = np.abs(tried - prices) < 0.999 * box
        if gain <= tolerance and (inside | (tried == 0.0)).all():
            break
        if gain <= 0.1 * tolerance:
            box = 4.0 * box
            continue
        response = classes.respond(tried)
        planes.add(response)
        steps += 1
        reached = response.bound - best.bound
        if reached > GROW * gain:
            box = np.where(inside, box, 2.0 * box)
        elif reached < SHRINK * gain:
            box = 0.5 * box
        if reached > 0.0:
            best, prices = response, tried
    return PoolPrices(prices, best, steps)


class _Planes:
    """Planes above the bound, and their highest point in a box."""

    def __init__(self, pools: int) -> None:
        self._solver = new_solver(presolve="off", solver="simplex")
        none, nothing = np.zeros(0, dtype=np.int32), np.zeros(0)
        for _ in range(pools):
            self._solver.addCol(0.0, 0.0, highspy.kHighsInf, 0, none, nothing)
        self._solver.addCol(-1.0, -highspy.kHighsInf, highspy.kHighsInf, 0, none, nothing)
        self._pools, self._scale = pools, 0.0

    def add(self, response: Response) -> None:
        """Add the plane of a response: the bound is at most its cost and what it pays."""
        if not self._scale:
            self._scale = max(abs(response.cost), 1.0)
        index = np.arange(self._pools + 1, dtype=np.int32)
        value = np.append(1.0 - response.usage, 1.0)
        self._solver.addRow(
            -highspy.kHighsInf, response.cost / self._scale, index.size, index, value
        )

    def highest(self, low: Floats, high: Floats) -> tuple[Floats, float] | None:
        """Return the highest point of the planes in a box, and its height; None if not found."""
        low, high = np.maximum(low, 0.0) / self._scale, high / self._scale
        for column in range(self._pools):
            self._solver.changeColBounds(column, float(low[column]), float(high[column]))
        self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            self._solver.clearSolver()  # the basis led astray
            self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        values = np.array(self._solver.getSolution().col_value)
        return np.maximum(values[:-1], 0.0) * self._scale, float(values[-1]) * self._scale
