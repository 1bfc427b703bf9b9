"""What Sia's restrictions cost: each road lifted is no worse than the bound, and the pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.studies.sia_and_synergy.sia_restrictions import (
    ROADS,
    drawn_row,
    loss,
    plot_restrictions,
    summarise_rounds,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_every_road_lies_below_the_bound_and_the_placed_one_meets_it(tmp_path: Path) -> None:
    """A small round in both states: losses are not negative, the exact road's is within its gap."""
    rows = [drawn_row(20, 1, state, 1) for state in ("cold", "running")]
    for row in rows:
        assert row.status == "optimal"
        assert 0.0 <= loss(row, "placed") <= 0.01
        for road in ROADS:
            assert loss(row, road) >= -1e-6
    (summary,) = summarise_rounds(rows)
    assert summary["proved"] == "2/2"
    assert summary["published_below_%"] >= summary["placed_below_%"]
    target = tmp_path / "restrictions.png"
    plot_restrictions(rows).savefig(target)
    assert target.stat().st_size > 1_000
