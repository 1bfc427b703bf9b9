"""Themis's auction by itself: cost of hidden payments, and profit of lies.

Auctions are drawn (`data/classical/auctions.py`) and decided by the dynamic program and by the
program of `formulations/classical/nash_product.py`, which must agree. Hidden payments leave winners
a part of what they win, here rounded down to whole GPUs. Then every bidder in turn bids an untruth,
and the study counts how often that leaves it a greater value: by the share of its bundle's value,
in which the mechanism is proved truthful, and by the whole GPUs that it keeps.

References
----------
Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020.
    https://www.usenix.org/conference/nsdi20/presentation/mahajan
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.classical.auctions import draw_auction
from goodalloc.experiments.reporting.range_plot import plot_ranges
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.models.classical.auction import Auction, auction_violations
from goodalloc.solvers.classical.nash_product import largest_product
from goodalloc.solvers.classical.themis_auction import partial_allocation
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.policies.auction_terms import LEASE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.models.support.array_types import Floats


#: Bidders of an auction, free GPUs, and number of drawn auctions.
BIDDERS = (2, 4, 8, 16)
FREE = 16
AUCTIONS = 20

#: Seconds that a losing bidder expects to wait for its share, by the label of the case.
WAITS = {"its share after a lease": LEASE, "nothing ever after": math.inf}

#: Time limit and gap of a program.
STOP = Stop(seconds=20.0)

#: Gains below this are rounding.
ROUNDING = 1e-9

#: Untruthful bids.
LIES: Mapping[str, Callable[[Floats], Floats]] = {
    "root": lambda bids: bids**0.5,
    "square": lambda bids: bids**2,
    "fourth power": lambda bids: bids**4,
    "worth nothing without": lambda bids: np.where(np.arange(bids.size) > 0, bids, 0.0),
    "all or nothing": lambda bids: np.where(bids < bids.max(), 0.5 * bids, bids),
}


class AuctionRow(NamedTuple):
    """Outcome of one auction; `mean_share` is None where no bidder wins a GPU."""

    case: str
    bidders: int
    free: int
    seed: int
    zeros: int
    log_product: float
    log_bound: float
    won_gpus: int
    kept_gpus: int
    mean_share: float | None
    lies: int
    lies_that_pay: int
    lies_that_pay_divided: int
    auction_seconds: float
    program_seconds: float


def auction_row(bidders: int, case: str, seed: int) -> AuctionRow:
    """Return the outcome of one auction.

    Parameters
    ----------
    bidders, seed
        Of `draw_auction`.
    case
        One of `WAITS`.

    Raises
    ------
    RuntimeError
        If what is decided cannot be given, or the two roads do not agree.
    """
    auction = draw_auction(seed, bidders, FREE, wait=WAITS[case])
    begin = time.perf_counter()
    found = partial_allocation(auction)
    seconds = time.perf_counter() - begin
    proved = largest_product(auction, stop=STOP)
    broken = auction_violations(auction, found.won[:, None])
    if broken:
        raise RuntimeError(f"Auction of {bidders}, seed {seed}: {broken[0]}")
    product = found.product
    if proved.limit is None and (
        proved.zeros != product.zeros or abs(proved.logarithm - product.logarithm) > 1e-6
    ):
        raise RuntimeError(
            f"Auction of {bidders}, seed {seed}: the program has {proved.zeros} zeros and the "
            f"logarithm {proved.logarithm}, the dynamic program {product.zeros} and "
            f"{product.logarithm}."
        )
    won = int(found.won.sum())
    gains = lie_gains(auction)
    return AuctionRow(
        case=case,
        bidders=bidders,
        free=FREE,
        seed=seed,
        zeros=product.zeros,
        log_product=rounded(product.logarithm, 10),
        log_bound=rounded(proved.bound, 10),
        won_gpus=won,
        kept_gpus=int(found.kept().sum()),
        mean_share=rounded(float(found.share[found.won > 0].mean()), 6) if won else None,
        lies=len(gains),
        lies_that_pay=int(sum(gain > 1 + ROUNDING for _, gain in gains)),
        lies_that_pay_divided=int(sum(gain > 1 + ROUNDING for gain, _ in gains)),
        auction_seconds=rounded(seconds, 3),
        program_seconds=rounded(proved.seconds, 3),
    )


def lie_gains(auction: Auction) -> list[tuple[float, float]]:
    """Return what every lie of every bidder leaves it, over what the truth does.

    The first number is by the share of its bundle's value, the second by whole GPUs that it keeps;
    infinite where the truth leaves it nothing of worth, and the lie something.
    """
    honest = partial_allocation(auction)
    gains = []
    for bidder, truth in enumerate(auction.bids):
        uses = _uses(truth, honest.won[bidder], honest.share[bidder], honest.kept()[bidder])
        for lie in LIES.values():
            bids = auction.bids.copy()
            bids[bidder] = lie(truth)
            found = partial_allocation(Auction(bids))
            other = _uses(truth, found.won[bidder], found.share[bidder], found.kept()[bidder])
            gains.append((_over(other[0], uses[0]), _over(other[1], uses[1])))
    return gains


def _uses(truth: Floats, won: int, share: float, kept: int) -> tuple[float, float]:
    return float(share * truth[won]), float(truth[kept])


def _over(value: float, other: float) -> float:
    """Return a ratio, 1 where both are 0 and infinite where only the denominator is."""
    if other > 0:
        return value / other
    return math.inf if value > 0 else 1.0


def _rows(plan: Plan) -> list[AuctionRow]:
    """Return a row for every auction; fewer, and no large ones, if quick."""
    return [
        auction_row(bidders, case, seed)
        for case in WAITS
        for bidders in (BIDDERS[:3] if plan.quick else BIDDERS)
        for seed in range(AUCTIONS // 4 if plan.quick else AUCTIONS)
    ]


def kept_percent(row: AuctionRow) -> float:
    """Return the GPUs that winners keep, in per cent of those that they win."""
    return float(100.0 * row.kept_gpus / max(row.won_gpus, 1))


def lying_percent(row: AuctionRow) -> float:
    """Return the lies that pay in whole GPUs, in per cent of all."""
    return float(100.0 * row.lies_that_pay / row.lies)


def summarise_auctions(rows: list[AuctionRow]) -> Rows:
    """Return a row for every case and number of bidders: means over the auctions."""
    shown = []
    for case in WAITS:
        for bidders in sorted({row.bidders for row in rows}):
            group = [r for r in rows if (r.case, r.bidders) == (case, bidders)]
            shares = [row.mean_share for row in group if row.mean_share is not None]
            shown.append(
                {
                    "expects": case,
                    "bidders": bidders,
                    "auctions": len(group),
                    "mean_share": rounded(float(np.mean(shares)), 3),
                    "kept_%": rounded(float(np.mean([kept_percent(row) for row in group])), 3),
                    "lies_that_pay_%": rounded(
                        float(np.mean([lying_percent(r) for r in group])), 3
                    ),
                    "divided_%": rounded(
                        float(
                            np.mean([100.0 * row.lies_that_pay_divided / row.lies for row in group])
                        ),
                        3,
                    ),
                    "auction_ms": rounded(
                        1e3 * float(np.median([row.auction_seconds for row in group])), 2
                    ),
                    "program_ms": rounded(
                        1e3 * float(np.median([row.program_seconds for row in group])), 2
                    ),
                }
            )
    return shown


def plot_auctions(rows: list[AuctionRow]) -> Figure:
    """Draw the GPUs that winners keep and the lies that pay, against the bidders."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    sizes = sorted({row.bidders for row in rows})
    for ax, column in ((left, kept_percent), (right, lying_percent)):
        plot_ranges(
            ax,
            {
                case: {
                    size: [column(r) for r in rows if (r.case, r.bidders) == (case, size)]
                    for size in sizes
                }
                for case in WAITS
            },
        )
        ax.set_xlabel("bidders")
        ax.set_ylim(bottom=-1.0)
    left.set_ylabel("GPUs kept of those won, rounded down (%)")
    right.set_ylabel("lies that pay in whole GPUs (%)")
    right.legend(title="a bidder that gets nothing expects", fontsize="small")
    return figure


THEMIS_AUCTIONS = Reproduction(
    "Themis's auction: payments and lies",
    lambda _: (),
    _rows,
    lambda _, rows: plot_auctions(rows),
    shown=summarise_auctions,
    ignores=("workloads", "pollux", "seeds", "gaps", "artifact"),
)
