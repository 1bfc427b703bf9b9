"""Search for prices by the gradient of a smoothed bound that is concave in them.

L-BFGS-B (SciPy) over the square roots of the prices, in which prices far apart move equally well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float

    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.interface.watch import Watch

#: Least and greatest price in the search, in units of the scale.
LEAST_PRICE, GREATEST_PRICE = 1e-10, 7.5

#: Relative improvement of the smoothed bound in a step at which the search ends.
LEAST_STEP = 1e-6


class PriceScale(NamedTuple):
    """Units of a search.

    Attributes
    ----------
    price
        Of the prices.
    bound
        Of the bound.
    """

    price: float
    bound: float


def climb_prices(
    evaluate: Callable[[Floats], tuple[float, Floats]],
    prices: Float[Floats, "intervals types"],
    scale: PriceScale,
    steps: int,
    watch: Watch,
) -> Float[Floats, "intervals types"]:
    """Return better prices, or those given if a limit is reached on the way.

    Parameters
    ----------
    evaluate
        Function that returns the smoothed bound of prices, and its gradient.
    prices
        Prices from which it starts.
    scale
        Units of prices and bound.
    steps
        Most steps.
    watch
        Limits.
    """

    def lost(roots: Floats) -> tuple[float, Floats]:
        value, slope = evaluate(scale.price * np.square(roots).reshape(prices.shape))
        if watch.limit is not None:
            raise StopIteration
        return -value / scale.bound, -2.0 * scale.price * slope.ravel() * roots / scale.bound

    bounds = np.sqrt([LEAST_PRICE, GREATEST_PRICE])
    begin = np.sqrt(prices / scale.price).clip(*bounds)
    try:
        found = minimize(
            lost,
            begin.ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=[tuple(bounds)] * begin.size,
            options={"maxiter": steps, "maxfun": 2 * steps, "ftol": LEAST_STEP},
        )
    except StopIteration:
        return prices
    return np.asarray(scale.price * np.square(found.x)).reshape(prices.shape)
