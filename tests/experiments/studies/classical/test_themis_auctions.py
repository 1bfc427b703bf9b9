"""The experiment on Themis's auctions: what is drawn, rows that add up, a table and a picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.classical.auctions import draw_auction
from goodalloc.experiments.studies.classical.themis_auctions import (
    LIES,
    WAITS,
    auction_row,
    kept_percent,
    lie_gains,
    plot_auctions,
    summarise_auctions,
)

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.studies.classical.themis_auctions import (
        AuctionRow,
    )

ROWS = [auction_row(bidders, case, seed) for case in WAITS for bidders in (2, 4) for seed in (0, 1)]


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(0, 12))
def test_drawn_bids_never_fall_and_are_worth_something_with_a_gpu(
    seed: int, bidders: int, free: int
) -> None:
    """Nothing is worth nothing only to those who expect nothing ever after; a seed repeats."""
    never, later = (draw_auction(seed, bidders, free, wait=wait) for wait in (math.inf, 1200.0))
    assert (never.bids[:, 0] == 0.0).all()
    assert (later.bids > 0.0).all()
    for auction in (never, later):
        assert auction.bids.shape == (bidders, free + 1)
        assert (np.diff(auction.bids, axis=1) >= 0.0).all()
    assert (never.bids[:, 1:] > 0.0).all()
    assert (later.bids >= never.bids).all()
    assert (draw_auction(seed, bidders, free, wait=math.inf).bids == never.bids).all()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((-1, 2, 4, 0.0), "seed is -1"),
        ((0, 0, 4, 0.0), "bidders is 0"),
        ((0, 2, -1, 0.0), "free is -1"),
        ((0, 2, 4, math.nan), "wait is nan"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    arguments: tuple[int, int, int, float], complaint: str
) -> None:
    """With the value."""
    seed, bidders, free, wait = arguments
    with pytest.raises(ValueError, match=complaint):
        draw_auction(seed, bidders, free, wait=wait)


@pytest.mark.parametrize("row", ROWS)
def test_rows_add_up(row: AuctionRow) -> None:
    """Both roads agree, nobody keeps more than was won, no lie pays by the share of the value."""
    assert row.log_bound >= row.log_product - 1e-9
    assert 0 <= row.kept_gpus <= row.won_gpus <= row.free
    assert row.lies == row.bidders * len(LIES)
    assert row.lies_that_pay_divided == 0
    assert 0 <= row.lies_that_pay <= row.lies
    assert 0.0 <= kept_percent(row) <= 100.0


def test_the_truth_is_no_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who says the truth gets what the truth gives."""
    monkeypatch.setattr(
        "goodalloc.experiments.studies.classical.themis_auctions.LIES", {"truth": lambda bids: bids}
    )
    assert lie_gains(draw_auction(0, 3, 8, wait=1200.0)) == [(1.0, 1.0)] * 3
    assert lie_gains(draw_auction(1, 4, 1, wait=math.inf)) == [(1.0, 1.0)] * 4


def test_a_table_and_a_picture_come_of_them(tmp_path: Path) -> None:
    """A line for every case and number of bidders; two panels."""
    table = summarise_auctions(ROWS)
    assert [(line["expects"], line["bidders"]) for line in table] == [
        (case, bidders) for case in WAITS for bidders in (2, 4)
    ]
    assert all(line["divided_%"] == 0.0 and line["auctions"] == 2 for line in table)
    figure = plot_auctions(ROWS)
    assert len(figure.axes) == 2
    figure.savefig(tmp_path / "auctions.png")
    assert (tmp_path / "auctions.png").stat().st_size > 10_000
