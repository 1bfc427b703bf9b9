"""The benchmark of rounds in columns: a small run is whole, and agrees with the exact solver."""

from __future__ import annotations

import csv
import math
from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.benchmarks import scale
from goodalloc.experiments.benchmarks.scale import main

if TYPE_CHECKING:
    from pathlib import Path

#: Ways whose gap is small.
EXACT = ("price", "highs", "programs")


def test_a_small_run_writes_a_row_for_every_round_and_draws_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seconds of the parts add up; no value is beyond the exact one."""
    monkeypatch.setattr(scale, "POWERS", (1.0, -1.0, -math.inf))
    out, picture = tmp_path / "scale.csv", tmp_path / "scale.png"
    small = ["--sizes", "64", "200", "--exact", "64", "--states", "cold", "disturbed"]
    small += ["--mode-sizes", "16", "--gpus", "4"]
    assert main([*small, "--out", str(out), "--picture", str(picture)]) == 0
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    ways = {"price", "pop-4", "pop-16", "price-greedy", "dede", "highs", "programs", "greedy"}
    modes = [row for row in rows if row["way"] == "pools"]
    assert [(row["state"], row["load"], row["power"]) for row in modes] == [
        (state, load, power)
        for load in ("0.5", "1")
        for state in ("cold", "disturbed")
        for power in ("0", "-1")
    ]
    assert all(row["modes"] == "10" and float(row["gap"]) < 0.1 for row in modes)
    rows = [row for row in rows if row["way"] != "pools"]
    assert {row["way"] for row in rows} == ways
    for row in rows:
        assert 0.0 <= float(row["gap"]) < (0.05 if row["way"] in EXACT else 1.0)
        if row["way"] == "price":
            parts = [
                float(row[f"{part}_seconds"]) for part in ("table", "price", "packing", "check")
            ]
            assert sum(parts) == pytest.approx(float(row["seconds"]), rel=0.2, abs=0.02)
        else:
            assert float(row["own"]) == 0.0
            assert row["jobs"] == "64" or row["way"] not in ("programs", "greedy")
    assert picture.stat().st_size > 10_000
