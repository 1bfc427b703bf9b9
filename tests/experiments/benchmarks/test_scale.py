"""The benchmark of rounds in columns: a small run is whole, and agrees with the exact solver."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.benchmarks.scale import main

if TYPE_CHECKING:
    from pathlib import Path


def test_a_small_run_writes_a_row_for_every_round_and_draws_them(tmp_path: Path) -> None:
    """Seconds of the parts add up; no value is beyond the exact one."""
    out, picture = tmp_path / "scale.csv", tmp_path / "scale.png"
    small = ["--sizes", "40", "200", "--exact", "40", "--states", "cold", "disturbed"]
    assert main([*small, "--gpus", "4", "--out", str(out), "--picture", str(picture)]) == 0
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 2 * 2 * 2 * 5
    for row in rows:
        parts = [float(row[f"{part}_seconds"]) for part in ("table", "price", "packing", "check")]
        assert sum(parts) == pytest.approx(float(row["seconds"]), rel=0.2, abs=0.02)
        assert 0.0 <= float(row["gap"]) < 0.05
        judged = row["jobs"] == "40" and float(row["own"]) == 0.0
        assert (row["exact_seconds"] != "") == judged
        if judged:
            assert float(row["below_exact"]) >= -1e-9
    assert picture.stat().st_size > 10_000
