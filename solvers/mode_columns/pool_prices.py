"""Best prices of pools: the highest lower bound of the relaxation that pools what nodes have.

The bound, equation (1) of `priced_classes.py`, is concave in the prices, and every response of the
jobs gives a plane above it (`solvers/milp/box_search.py`). Samples of the jobs come first: their
prices are near those of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.solvers.milp.box_search import boxstep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int

    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.mode_columns.priced_classes import PricedClasses, Response

#: Classes of the first sample, and the factor by which samples grow.
FIRST_SAMPLE, GROWTH = 1_000, 8

#: Planes that are kept from one search to the next, for each of the prices.
PLANES = 2

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
    planes
        Choices of all classes whose planes are lowest at these prices, each of shape (classes,).
    mixture
        Choices of all classes, each of shape (classes,), and shares, of sum 1, in which all classes
        take them to fit into the pools together. Where the search ended early these are those of
        the response alone, which need not fit.
    """

    prices: Float[Floats, " pools"]
    response: Response
    steps: int
    planes: Sequence[Int[Indices, " classes"]]
    mixture: Sequence[tuple[Int[Indices, " classes"], float]]


def search_pool_prices(
    classes: PricedClasses,
    tolerance: float,
    known: Floats | None = None,
    seed: int = 0,
    *,
    planes: Sequence[Int[Indices, " classes"]] = (),
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
    planes
        Choices of all classes, each of shape (classes,), at prices near the best ones. With some,
        no sample comes first.

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
        box = _box_about(prices)
    while not planes and size < classes.choices.num_classes / 2:
        sample = classes.sample(size, seed)
        found = boxstep(sample.respond, prices, _box(sample, box), SAMPLE_TOLERANCE * tolerance)
        prices, size = found.prices, size * GROWTH
        box = _box_about(prices)
    best = boxstep(
        classes.respond,
        prices,
        _box(classes, box),
        tolerance,
        known=list(map(classes.response_of, planes)),
        keep=PLANES * prices.size,
    )
    lowest = [response.choice for response in best.lowest]
    mixture = [(response.choice, share) for response, share in best.mixture]
    mixture = mixture or [(best.response.choice, 1.0)]
    return PoolPrices(best.prices, best.response, best.steps, lowest, mixture)


def _box_about(prices: Floats) -> Floats | None:
    """Return the widths of a box about prices near the best ones, None where none is known."""
    return 0.1 * np.maximum(prices, prices.max() * 1e-3) if prices.any() else None


def _box(classes: PricedClasses, box: Floats | None) -> Floats:
    """Return the widths of the first box, which are wide where none is known."""
    pools = classes.choices.demand.shape[1]
    return np.full(pools, 0.25 * float(classes.count.sum())) if box is None else box
