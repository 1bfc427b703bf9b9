r"""Partial-allocation auction of Themis: the largest product, less hidden payments.

Let the bundles *k* have the largest product of valuations, and those of the others, :math:`k^{-i}`,
the largest without bidder *i*. Bidder *i* pays its cost to the others with a part of its bundle: it
keeps the share

.. math:: c_i = \prod_{j \ne i} V_j(k_j) \Big/ \prod_{j \ne i} V_j(k^{-i}_j) \; \in \; [0, 1]. (1)

(The paper is known to use this mechanism; the formula is the standard one of Cole, Gkatzelis and
Goel.) Since :math:`c_i V_i(k_i)` is the largest product over one that *i* has no say in, no bid
gives *i* more of it than the truth: for every auction where a bidder's use is the share of its
bundle's value, as with GPUs divided at will and valuations in proportion to them. Whole GPUs and
other valuations may reward a lie.

The published rounding of a share of a bundle to whole GPUs is not known. Rounded down, to the floor
of :math:`c_i k_i`, a bidder that wins one GPU and pays anything keeps none; rounded by chance, the
expectation is :math:`c_i k_i`.

References
----------
Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020.
    https://www.usenix.org/conference/nsdi20/presentation/mahajan

Cole, Gkatzelis and Goel, "Mechanism Design for Fair Division: Allocating Divisible Items without
    Payments", EC 2013.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.classical.auction import Auction, product_of
from goodalloc.models.support.tolerances import WHOLE_TOLERANCE
from goodalloc.solvers.classical.separable_shares import best_shares

if TYPE_CHECKING:
    from goodalloc.models.classical.auction import Product
    from goodalloc.models.support.array_types import Floats, Indices


class PartialAllocation(NamedTuple):
    """Outcome of an auction.

    Attributes
    ----------
    won
        GPUs of the largest product, shape (bidders,).
    share
        Share :math:`c` of them that every bidder keeps; 1 for those that won none.
    product
        The largest product.
    """

    won: Indices
    share: Floats
    product: Product

    def kept(self, random: np.random.Generator | None = None) -> Indices:
        """Return the whole GPUs that every bidder keeps, shape (bidders,).

        Parameters
        ----------
        random
            Generator for rounding by chance; without it shares are rounded down.
        """
        left = self.share * self.won
        whole = np.floor(left + WHOLE_TOLERANCE)
        if random is not None:
            whole += random.random(left.size) < left - whole
        return whole.astype(np.int64)


def winners(auction: Auction) -> Indices:
    """Return the GPUs of the largest product of valuations, shape (bidders,).

    Parameters
    ----------
    auction
        With one group of nodes.

    Raises
    ------
    ValueError
        If the auction has several groups of nodes.
    """
    if auction.free.size != 1:
        raise ValueError(
            f"Auction: there are {auction.free.size} groups of nodes; expected one (several: "
            "largest_product)."
        )
    with np.errstate(divide="ignore"):
        return best_shares(np.log(auction.bids))


def partial_allocation(auction: Auction) -> PartialAllocation:
    """Return the winners, and the shares that their hidden payments leave them.

    Parameters
    ----------
    auction
        With one group of nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import Auction
    >>> from goodalloc.solvers.classical import partial_allocation
    >>> bids = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])  # 0, 1 or 2 GPUs for two bidders
    >>> outcome = partial_allocation(Auction(bids))
    >>> outcome.won.tolist(), outcome.share.round(3).tolist()  # 2 instead of 3 for the other
    ([1, 1], [0.667, 0.667])
    """
    won = winners(auction)
    share = np.ones(auction.num_bidders)
    for bidder in np.flatnonzero(won).tolist() if auction.num_bidders > 1 else ():
        rest = np.arange(auction.num_bidders) != bidder
        others = Auction(auction.bids[rest])
        alone = winners(others)
        share[bidder] = ratio(
            product_of(others, won[rest, None]), product_of(others, alone[:, None])
        )
    return PartialAllocation(won, share, product_of(auction, won[:, None]))


def ratio(less: Product, more: Product) -> float:
    """Return a product over another that is no smaller: 0 if it has more zeros."""
    if less.zeros > more.zeros:
        return 0.0
    return float(np.exp(min(less.logarithm - more.logarithm, 0.0)))
