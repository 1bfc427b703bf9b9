"""The benchmark of rounds: those that follow each other, and those that are decided at once."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.benchmarks import round as bench_round

if TYPE_CHECKING:
    from pathlib import Path


def measured(path: Path, *options: str) -> list[dict[str, str]]:
    """Rows of a measurement of small rounds."""
    sizes = ["--sizes", "40x10x4", "--powers=-1", "--states", "disturbed"]
    assert bench_round.main([*sizes, *options, "--out", str(path)]) == 0
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_rounds_that_follow_each_other_are_decided_as_well_as_exactly(tmp_path: Path) -> None:
    """With few jobs that end and with many, with shared models and own ones."""
    rows = measured(tmp_path / "following.csv", "--following", "3")
    assert [(row["ends"], row["own"]) for row in rows] == [
        ("0.01", "0.0"),
        ("0.01", "0.1"),
        ("0.1", "0.0"),
        ("0.1", "0.1"),
    ]
    for row in rows:
        assert float(row["worst_difference"]) == pytest.approx(0.0, abs=2e-2)
        assert float(row["worst_gap"]) >= float(row["worst_difference"]) - 1e-9
        assert 0.0 < float(row["median_ms"]) <= float(row["worst_ms"])


def test_rounds_at_once_have_the_answers_of_each_alone(tmp_path: Path) -> None:
    """Which the row says."""
    (row,) = measured(tmp_path / "together.csv", "--together", "3")
    assert row["same"] == "True"
    assert row["rounds"] == "3"
