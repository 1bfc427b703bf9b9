"""Seeded auctions of free GPUs among jobs that hold none, for studies of Themis (NSDI'20).

Drawn are the GPUs that a job can use, a power of two; its speed on *K* GPUs, :math:`K^p`; the hours
that it takes on one, log-normally; how much of that is left; and how long it has been there, in
multiples of the time that it would have taken alone so far. The numbers are ours: none are known of
the paper's.
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

#: How long a job has been there over the time alone, at most.
LATEST = 4.0


def draw_auction(seed: int, bidders: int, free: int, *, wait: float) -> Auction:
    """Draw an auction.

    Parameters
    ----------
    seed
        Of all that is drawn.
    bidders, free
        How many jobs bid for how many GPUs.
    wait
        Seconds that a job that gets nothing waits for its share
        (`models/classical/finish_time.py`).

    Raises
    ------
    ValueError
        If a number makes no sense.
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
