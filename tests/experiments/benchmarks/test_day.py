"""Benchmark of a day's decisions: a row for each, and a picture."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from goodalloc.experiments.benchmarks.day import decisions, main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_every_decision_of_a_day_has_a_row() -> None:
    """Minutes follow each other; jobs that run are active, and hold no more than there is."""
    rows = list(decisions(seed=1, jobs=3, nodes=2, gpus=2))
    assert [row["time"] % 60 for row in rows] == [0] * len(rows)
    assert all(0 < row["running_jobs"] <= row["active_jobs"] <= 3 for row in rows)
    assert all(0 < row["gpus_used"] <= 4 for row in rows)
    assert all(row["seconds"] > 0 and row["processor_seconds"] > 0 for row in rows)
    assert {row["by_price"] for row in rows} <= {0, 1}


def test_the_benchmark_writes_rows_and_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed counts the rows of the file."""
    out = tmp_path / "day.csv"
    assert main(["--jobs", "2", "--nodes", "1", "--gpus", "2", "--out", str(out)]) == 0
    with out.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    printed = capsys.readouterr().out
    assert f"all {len(rows):>12} " in printed
    assert out.with_suffix(".png").stat().st_size > 0
