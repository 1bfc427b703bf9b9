r"""The partial-allocation auction: the largest product, less hidden payments (Themis, NSDI'20).

Let the bundles *k* have the largest product of valuations, and those of the others, :math:`k^{-i}`,
the largest without bidder *i*. What *i* costs the others it pays with a part of its bundle: it
keeps the share

.. math:: c_i = \prod_{j \ne i} V_j(k_j) \Big/ \prod_{j \ne i} V_j(k^{-i}_j) \; \in \; [0, 1]. (1)

(That the paper takes this mechanism is known, the formula is the standard one of Cole, Gkatzelis
and Goel, EC'13.) Since :math:`c_i V_i(k_i)` is the largest product over one that *i* has no say in,
no bid gives *i* more of it than the truth: for every auction where a bidder's use is the share of
its bundle's value, as with GPUs divided at will and valuations in proportion to them. Whole GPUs
and other valuations may reward a lie.

How a share of a bundle becomes whole GPUs is not known. Rounded down, to the floor of
:math:`c_i k_i`, who wins one GPU and pays anything is left with none; rounded by chance, the
expectation is :math:`c_i k_i`.
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
    """What an auction comes to.

    Attributes
    ----------
    won
        GPUs of the largest product, shape (bidders,).
    share
        What every bidder keeps of that, :math:`c`; 1 for those who won nothing.
    product
        The largest product.
    """

    won: Indices
    share: Floats
    product: Product

    def kept(self, random: np.random.Generator | None = None) -> Indices:
        """Whole GPUs that are left to every bidder, shape (bidders,).

        Parameters
        ----------
        random
            Rounds by chance; without it what is left is rounded down.
        """
        left = self.share * self.won
        whole = np.floor(left + WHOLE_TOLERANCE)
        if random is not None:
            whole += random.random(left.size) < left - whole
        return whole.astype(np.int64)


def winners(auction: Auction) -> Indices:
    """The GPUs of the largest product of valuations, shape (bidders,).

    Parameters
    ----------
    auction
        With one group of nodes.

    Raises
    ------
    ValueError
        If there are several groups.
    """
    if auction.free.size != 1:
        raise ValueError(
            f"Auction: there are {auction.free.size} groups of nodes; expected one (several: "
            "largest_product)."
        )
    with np.errstate(divide="ignore"):
        return best_shares(np.log(auction.bids))


def partial_allocation(auction: Auction) -> PartialAllocation:
    """Decide the winners, and what their hidden payments leave them.

    Parameters
    ----------
    auction
        With one group of nodes.
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
    """A product over another that is no smaller: 0 if it has more zeros."""
    if less.zeros > more.zeros:
        return 0.0
    return float(np.exp(min(less.logarithm - more.logarithm, 0.0)))
