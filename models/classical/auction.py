r"""Auction of free GPUs: valuations of bundles by the bidders, and their product.

Of every group of nodes *r* there are :math:`C_r` free GPUs. Bidder *j* states what a bundle
:math:`k = (k_1, k_2, \dots)` of more GPUs is worth to it, :math:`V_j(k)`, for every
possible bundle. Themis (NSDI'20) gives those bundles whose valuations have the largest product,

.. math:: \max \prod_j V_j(k_j) \quad \text{s.t.} \quad \sum_j k_{jr} \le C_r \;\; \forall r. (1)

Where factors have to be 0 all such products are equal; the one is then meant that has as few zeros
as possible, and of those the largest product of the others (a documented reading).

References
----------
Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020.
    https://www.usenix.org/conference/nsdi20/presentation/mahajan
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.validation import as_numbers, require_all

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.support.array_types import Floats, Indices


@dataclass(frozen=True, eq=False)
class Auction:
    """Bids: the valuation of every bundle by every bidder.

    Parameters
    ----------
    bids
        Valuation of every bidder and bundle, of the shape (bidders, free GPUs of the first group
        + 1, of the second + 1, …): with one group ``bids[j, k]`` is what *k* more GPUs are worth
        to bidder *j*.

    Raises
    ------
    ValueError
        If there is no bidder or no group, or a valuation is negative, NaN or infinite.
    """

    bids: Float[Floats, "bidders ..."]

    def __post_init__(self) -> None:
        bids = as_numbers("Auction", "bids", self.bids)
        if bids.ndim < 2 or not bids.size:
            raise ValueError(
                f"Auction: bids have the shape {bids.shape}; expected at least one bidder and a "
                "bid for every bundle, nothing included."
            )
        require_all(
            np.isfinite(bids) & (bids >= 0), "Auction", "bid", bids, "a finite number from 0"
        )
        object.__setattr__(self, "bids", np.array(bids, dtype=float))
        self.bids.setflags(write=False)

    @property
    def num_bidders(self) -> int:
        """Number of bidders."""
        return int(self.bids.shape[0])

    @property
    def free(self) -> Int[Indices, " groups"]:
        """Free GPUs of every group, shape (groups,)."""
        return np.array(self.bids.shape[1:], dtype=np.int64) - 1


class Product(NamedTuple):
    """Product of valuations, with the zero factors counted apart.

    Attributes
    ----------
    zeros
        Number of factors that are 0.
    logarithm
        Natural logarithm of the product of the others.
    """

    zeros: int
    logarithm: float


def product_of(auction: Auction, bundles: Int[Indices, "bidders groups"]) -> Product:
    """Return the product of the bundles' valuations, recomputed from the bids.

    Parameters
    ----------
    auction
        The bids.
    bundles
        More GPUs for every bidder, shape (bidders, groups).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import Auction, product_of
    >>> auction = Auction(np.array([[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]))  # two free GPUs
    >>> product_of(auction, np.array([[1], [1]])).zeros
    0
    """
    worth = [float(auction.bids[(j, *bundle)]) for j, bundle in enumerate(np.asarray(bundles))]
    return Product(worth.count(0.0), float(sum(np.log(value) for value in worth if value > 0)))


def auction_violations(
    auction: Auction, bundles: Int[Indices, "bidders groups"]
) -> tuple[str, ...]:
    """Return a sentence for each rule that the bundles break; none if they are feasible.

    Parameters
    ----------
    auction, bundles
        As of `product_of`.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import Auction, auction_violations
    >>> auction = Auction(np.array([[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]))  # two free GPUs
    >>> auction_violations(auction, np.array([[1], [2]]))
    ('Of group 0 3 GPUs are given; 2 are free.',)
    """
    given = np.asarray(bundles)
    if given.shape != (auction.num_bidders, auction.free.size) or given.dtype.kind not in "iu":
        return (
            f"Bundles have the shape {given.shape} and the type {given.dtype}; expected whole "
            f"numbers of the shape {(auction.num_bidders, auction.free.size)}.",
        )
    found = [
        f"Bidder {j} gets {gpus} GPUs of group {r}; expected at least 0."
        for (j, r), gpus in np.ndenumerate(given)
        if gpus < 0
    ]
    for r, (taken, free) in enumerate(zip(given.sum(axis=0), auction.free, strict=True)):
        if taken > free:
            found.append(f"Of group {r} {taken} GPUs are given; {free} are free.")
    return tuple(found)
