"""The largest product of valuations by its program, for one group of nodes and for several."""

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


#: The gap of a count: less than one is none.
WHOLE_GAP = 0.5


@dataclass(frozen=True)
class LargestProduct:
    """What was found, and what is proved.

    Parameters
    ----------
    bundles
        More GPUs for every bidder, shape (bidders, groups); None where nothing was found in time.
    zeros
        Bidders whose factor has to be 0; -1 where that is not known.
    logarithm, bound
        Of the product of the other factors, and a proven upper bound on it.
    limit
        What ended the search before a proof, if anything.
    seconds
        How long it took.
    """

    bundles: Indices | None
    zeros: int
    logarithm: float
    bound: float
    limit: Limit | None
    seconds: float

    @property
    def gap(self) -> float:
        """How much larger the product may be at most, relative to it; NaN without one."""
        return math.expm1(self.bound - self.logarithm) if self.bundles is not None else math.nan


def largest_product(auction: Auction, *, stop: Stop | None = None) -> LargestProduct:
    """Solve `formulations/classical/nash_product.py`: as few zeros as possible, then the product.

    Parameters
    ----------
    auction
        The bids.
    stop
        Limits; when time runs out the best so far is returned, with its bound.
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
