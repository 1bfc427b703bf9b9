"""Seeded auctions of free GPUs among jobs that hold none, for studies of Themis (NSDI'20).

The generator draws the GPUs that a job can use, a power of two; its speed on *K* GPUs, :math:`K^p`;
its hours on one GPU, log-normally; its remaining fraction; and its time so far, in multiples of
the time that it would have taken alone. The numbers are ours: the paper does not publish its own.
"""

from __future__ import annotations

import numpy as np

from goodalloc.models.classical.auction import Auction
from goodalloc.models.classical.finish_time import Progress, finish_time_fairness, valuations
from goodalloc.models.support.validation import require_count, require_number

#: GPUs that a job can use.
ASKED = (1, 2, 4, 8, 16)

#: Powers of the speed, from and to.
POWERS = (0.5, 1.0)

#: Hours on one GPU: median, and the standard deviation of the logarithm.
HOURS, SPREAD = 8.0, 1.5

#: GPUs of an equal share, those of 64 for 40 jobs.
SHARE = 1.6

#: Greatest ratio of a job's time so far to its time alone.
LATEST = 4.0


def draw_auction(seed: int, bidders: int, free: int, *, wait: float) -> Auction:
    """Draw an auction.

    Parameters
    ----------
    seed
        Seed of all random numbers.
    bidders, free
        Number of bidding jobs, and of free GPUs.
    wait
        Seconds that a losing job expects to wait for its share
        (`models/classical/finish_time.py`).

    Raises
    ------
    ValueError
        If `seed` < 0, `bidders` < 1, `free` < 0 or `wait` < 0.

    Examples
    --------
    >>> from goodalloc.data.classical import draw_auction
    >>> auction = draw_auction(0, bidders=3, free=4, wait=1200.0)
    >>> auction.bids.shape  # of 0 to 4 GPUs
    (3, 5)
    """
    require_count("Auction: seed", seed, 0)
    require_count("Auction: bidders", bidders, 1)
    require_count("Auction: free", free, 0)
    require_number("Auction: wait", wait, 0.0, finite=False)
    random = np.random.default_rng(seed)
    bids = []
    for _ in range(bidders):
        gpus = np.arange(int(random.choice(ASKED)) + 1)
        speeds = np.where(gpus > 0, gpus ** random.uniform(*POWERS), 0.0)
        whole = 3600.0 * HOURS * float(np.exp(SPREAD * random.standard_normal()))
        left = random.uniform(0.05, 1.0)
        alone = (1.0 - left) * whole / min(SHARE, gpus[-1])
        progress = Progress(random.uniform(1.0, LATEST) * alone, left * whole, whole, speeds)
        worth = valuations(finish_time_fairness(progress, SHARE, wait))
        bids.append(worth[np.minimum(np.arange(free + 1), gpus[-1])])
    return Auction(np.array(bids))
