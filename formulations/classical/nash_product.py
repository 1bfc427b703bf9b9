r"""The largest product of valuations as a mixed-integer program: Themis.

Bundles are whole GPUs, so the logarithm of the product (1) of `models/classical/auction.py` needs
no cone: with :math:`x_{jk}` one where bidder *j* gets the bundle *k*,

.. math::

    \max \sum_j \sum_{k: V_j(k) > 0} \log V_j(k) \, x_{jk}                                    (1)

    \sum_k x_{jk} = 1                                                   \quad \forall j       (2)

    \sum_j \sum_k k_r x_{jk} \le C_r                                    \quad \forall r       (3)

    \sum_j \sum_{k: V_j(k) = 0} x_{jk} \le Z                                                  (4)

where *Z* is the least number of bidders that have to be left with nothing of worth, found by the
same program with the left side of (4) as its objective. *Exact*, for one group of nodes and for
several: node groups need (3) each, which the dynamic program for one does not know.

References
----------
Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020.
    https://www.usenix.org/conference/nsdi20/presentation/mahajan
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.formulations.basics.program import Program
    from goodalloc.models.classical.auction import Auction
    from goodalloc.models.support.array_types import Floats, Indices


class Bundles(NamedTuple):
    """All bundles of all bidders; one entry of each array is a column of the program.

    Attributes
    ----------
    bidder
        Bidder of every bundle.
    gpus
        More GPUs of every group, shape (bundles, groups).
    value
        Valuation of the bundle.
    """

    bidder: Int[Indices, " bundles"]
    gpus: Int[Indices, "bundles groups"]
    value: Float[Floats, " bundles"]


def bundles_of(auction: Auction) -> Bundles:
    """Return all bundles of an auction, bidder by bidder."""
    index = np.indices(auction.bids.shape).reshape(auction.bids.ndim, -1)
    return Bundles(index[0], index[1:].T, auction.bids.ravel())


def nash_program(auction: Auction, zeros: int | None = None) -> Program:
    """Build the program (1) to (4) as a minimisation; without `zeros` the one that finds *Z*.

    Parameters
    ----------
    auction
        The bids.
    zeros
        *Z*.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.classical import nash_program
    >>> from goodalloc.models.classical import Auction
    >>> program = nash_program(Auction(np.array([[1.0, 2.0, 3.0], [1.0, 4.0, 4.0]])), zeros=0)
    >>> program.integer.any().item()
    True
    """
    bidder, gpus, value = bundles_of(auction)
    worthless = (value == 0).astype(float)
    cost = worthless if zeros is None else -np.log(np.where(value > 0, value, 1.0))
    builder = ProgramBuilder()
    columns = builder.add_columns("bundle", value.size, cost=cost, upper=1.0)
    one = builder.add_rows("bidder", auction.num_bidders, lower=1.0, upper=1.0)
    builder.add_entries(one[bidder], columns, 1.0)
    free = builder.add_rows("free", auction.free.size, upper=auction.free)
    builder.add_entries(free[:, None], columns, gpus.T)
    if zeros is not None:
        (most,) = builder.add_rows("zeros", 1, upper=float(zeros))
        builder.add_entries(most, columns, worthless)
    return builder.build()


def decode_bundles(
    auction: Auction, values: Float[Floats, " columns"]
) -> Int[Indices, "bidders groups"]:
    """Return the bundle of every bidder, shape (bidders, groups), of a solution of the program.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.classical import decode_bundles, nash_program
    >>> from goodalloc.models.classical import Auction
    >>> from goodalloc.solvers.interface import Stop, Watch
    >>> from goodalloc.solvers.milp import run_mixed_integer
    >>> auction = Auction(np.array([[1.0, 2.0, 3.0], [1.0, 4.0, 4.0]]))  # of 0, 1 and 2 GPUs
    >>> outcome = run_mixed_integer(nash_program(auction, zeros=0), Watch(Stop()), gap=1e-9)
    >>> decode_bundles(auction, outcome.values).ravel().tolist()  # 2 * 4 > 3 * 1
    [1, 1]
    """
    bidder, gpus, _ = bundles_of(auction)
    taken = np.asarray(values) > 0.5
    bundles = np.zeros((auction.num_bidders, auction.free.size), dtype=np.int64)
    bundles[bidder[taken]] = gpus[taken]
    return bundles
