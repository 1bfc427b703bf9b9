"""Largest product of valuations by its program, for one group of nodes or several."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goodalloc.formulations.classical.nash_product import decode_bundles, nash_program
from goodalloc.models.classical.auction import product_of
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer

if TYPE_CHECKING:
    from goodalloc.models.classical.auction import Auction
    from goodalloc.models.support.array_types import Indices
    from goodalloc.solvers.interface.result import Limit


#: Absolute gap of a program that minimises a count: below 1, so that its optimum is exact.
WHOLE_GAP = 0.5


@dataclass(frozen=True)
class LargestProduct:
    """Bundles of the largest product found, and a proven upper bound.

    Parameters
    ----------
    bundles
        Further GPUs of every bidder, shape (bidders, groups); None where none were found in time.
    zeros
        Number of bidders whose factor has to be 0; -1 where it is not known.
    logarithm, bound
        Logarithm of the product of the other factors, and a proven upper bound on it.
    limit
        Limit that ended the search before a proof, or None.
    seconds
        Time of the search.
    """

    bundles: Indices | None
    zeros: int
    logarithm: float
    bound: float
    limit: Limit | None
    seconds: float

    @property
    def gap(self) -> float:
        """Largest possible relative excess over the product; NaN without one."""
        return math.expm1(self.bound - self.logarithm) if self.bundles is not None else math.nan


def largest_product(auction: Auction, *, stop: Stop | None = None) -> LargestProduct:
    """Maximise the product of valuations: as few zero factors as possible, then the product.

    Parameters
    ----------
    auction
        The bids; the programs are those of `formulations/classical/nash_product.py`.
    stop
        Limits; when time runs out the best so far is returned, with its bound.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import Auction
    >>> from goodalloc.solvers.classical import largest_product
    >>> bids = np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 5.0]])  # 0, 1 or 2 GPUs for two bidders
    >>> largest_product(Auction(bids)).bundles.tolist()  # 1 * 5 is more than 2 * 1 and 3 * 1
    [[0], [2]]
    """
    stop = stop or Stop()
    watch = Watch(stop)
    zeros = int((auction.bids.reshape(auction.num_bidders, -1).max(axis=1) == 0).sum())
    if (auction.bids == 0).any():
        first = run_mixed_integer(nash_program(auction), watch, gap=WHOLE_GAP)
        if not first.finished or first.values is None:
            return LargestProduct(None, -1, -math.inf, math.inf, watch.limit, watch.seconds)
        zeros = product_of(auction, decode_bundles(auction, first.values)).zeros
    found = run_mixed_integer(nash_program(auction, zeros), watch, gap=stop.gap)
    if found.values is None:
        return LargestProduct(None, zeros, -math.inf, -found.bound, watch.limit, watch.seconds)
    bundles = decode_bundles(auction, found.values)
    logarithm = product_of(auction, bundles).logarithm
    bound = max(-found.bound, logarithm)
    return LargestProduct(bundles, zeros, logarithm, bound, watch.limit, watch.seconds)
