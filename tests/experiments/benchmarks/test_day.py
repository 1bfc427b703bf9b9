"""The benchmark of a replayed day: every policy serves all jobs, and the CSV has a row a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest

from goodalloc.experiments.benchmarks.day import main

if TYPE_CHECKING:
    from pathlib import Path


def test_a_day_is_replayed_exactly_and_by_price(tmp_path: Path) -> None:
    """Six jobs on two nodes, where little is lost by the price."""
    out = tmp_path / "day.csv"
    assert main(["--sizes", "6x2x4", "--seeds", "1", "--out", str(out)]) == 0
    (row,) = pd.read_csv(out).to_dict("records")
    assert row["size"] == "6x2x4"
    assert 0.0 < row["priced_median_ms"] <= row["priced_worst_ms"]
    assert row["exact_decisions"] > 10
    change = 100 * (row["priced_hours"] / row["exact_hours"] - 1)
    assert row["change_percent"] == pytest.approx(change, abs=0.1)
