"""On what terms Themis (NSDI'20) auctions free GPUs."""

from __future__ import annotations

from typing import Literal, NamedTuple

#: Share of the jobs, those that sharing costs least, that no free GPUs are offered to.
FAIRNESS_KNOB = 0.8


#: Seconds for which GPUs are held.
LEASE = 1200.0


#: Whether a share of a bundle is rounded down to whole GPUs, or by chance.
Rounding = Literal["down", "chance"]


class AuctionTerms(NamedTuple):
    """On what terms free GPUs are auctioned; by default as published, as far as that is known.

    Attributes
    ----------
    fairness_knob
        *f*, the share of the jobs, from 0 to 1, that free GPUs are not offered to. With 0 everybody
        bids.
    lease
        Seconds for which GPUs are held.
    wait
        Seconds after which a job that gets nothing expects its equal share; None for a lease,
        infinite for never, when a waiting job bids 0 for nothing.
    rounding
        How what payments leave becomes whole GPUs.
    """

    fairness_knob: float = FAIRNESS_KNOB
    lease: float = LEASE
    wait: float | None = None
    rounding: Rounding = "chance"


#: The knob is the published one, the lease what we recall of it, the rest a reading.
PUBLISHED_TERMS = AuctionTerms()
