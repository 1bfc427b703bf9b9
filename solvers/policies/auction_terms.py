"""Terms on which Themis auctions free GPUs.

References
----------
Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020.
    https://www.usenix.org/conference/nsdi20/presentation/mahajan
"""

from __future__ import annotations

from typing import Literal, NamedTuple

#: Share of the jobs that get no offer of free GPUs: those that sharing costs least.
FAIRNESS_KNOB = 0.8


#: Seconds for which GPUs are held.
LEASE = 1200.0


#: Ways to round a share of a bundle to whole GPUs: down, or by chance.
Rounding = Literal["down", "chance"]


class AuctionTerms(NamedTuple):
    """Terms of the auctions; by default as published, as far as that is known.

    Attributes
    ----------
    fairness_knob
        *f*, the share of the jobs, from 0 to 1, that free GPUs are not offered to. With 0 all jobs
        bid.
    lease
        Seconds for which GPUs are held.
    wait
        Seconds after which a job that gets nothing expects its equal share; None for a lease,
        infinite for never, when a waiting job bids 0 for nothing.
    rounding
        Way to round the share that payments leave to whole GPUs.

    Examples
    --------
    >>> from goodalloc.solvers.policies import AuctionTerms
    >>> AuctionTerms(fairness_knob=0.5).lease
    1200.0
    """

    fairness_knob: float = FAIRNESS_KNOB
    lease: float = LEASE
    wait: float | None = None
    rounding: Rounding = "chance"


#: Default terms: the knob is the published one, the lease is from memory, the rest a reading.
PUBLISHED_TERMS = AuctionTerms()
