"""The benchmark of goodput: limits are limits, shares are by hand, and a small run ends whole."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.benchmarks.goodput import main, with_shares
from goodalloc.experiments.benchmarks.measurements import Measurement

if TYPE_CHECKING:
    from pathlib import Path


def row(measure: str, backend: str, per_second: float, **more: float) -> Measurement:
    """A speed."""
    return Measurement(measure, backend, 1, 1.0, 1.0, 1.0, per_second, 1.0)._replace(**more)  # type: ignore[arg-type]


def test_shares_are_those_of_the_limit_that_a_kernel_meets_first() -> None:
    """Functions of the faster library and of its own; bytes where these are fewer."""
    rows = with_shares(
        [
            row("bytes", "numpy", 1000.0),
            row("functions", "jax", 100.0),
            row("functions", "numpy", 400.0),
            row("points", "jax", 10.0, functions_each=4.0, bytes_each=1.0),
            row("points", "numpy", 10.0, functions_each=4.0, bytes_each=20.0),
        ]
    )
    assert rows[0].share_of_limit is None
    assert rows[3].share_of_limit == pytest.approx(10.0 / 100.0)
    assert rows[3].share_of_library == pytest.approx(10.0 / 25.0)
    assert rows[4].share_of_limit == rows[4].share_of_library == pytest.approx(10.0 / 50.0)


def test_a_gpu_has_limits_of_its_own() -> None:
    """Searches are limited by the way to it and back, points by its memory or functions."""
    on_gpu = [
        row("bytes", "jax", 5000.0),
        row("transfer", "jax", 100.0),
        row("functions", "jax", 8000.0),
        row("points", "jax", 1000.0, functions_each=4.0, bytes_each=1.0),
        row("integer", "jax", 10.0, functions_each=16.0, bytes_each=5.0),
    ]
    rows = with_shares(
        [row("bytes", "numpy", 1.0), *(one._replace(device="H100") for one in on_gpu)]
    )
    assert rows[4].share_of_limit == pytest.approx(1000.0 / 2000.0)
    assert rows[5].share_of_limit == pytest.approx(10.0 / 20.0)


def test_a_small_run_writes_every_measure_and_draws_them(tmp_path: Path) -> None:
    """On both libraries; no kernel is above its limit."""
    out, picture = tmp_path / "goodput.csv", tmp_path / "roofline.png"
    small = ["--allocations", "2000", "--points", "16", "--repeats", "1", "--fits", "8"]
    files = ["--out", str(out), "--picture", str(picture)]
    assert main([*small, "--sizes", "100", "1000", *files]) == 0
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    assert {line["measure"] for line in rows if line["backend"] == "jax"} == {
        "growth",
        "functions",
        "points",
        "integer",
        "table-integer",
        "grid",
        "table-grid",
        "fits",
    }
    shares = [float(line["share_of_limit"]) for line in rows if line["share_of_limit"]]
    assert len(shares) == 7
    assert max(shares) < 1.2
    assert picture.stat().st_size > 10_000
    assert all(float(line["per_second"]) > 0.0 for line in rows)
    by_search = {line["measure"]: line["mean_evaluations"] for line in rows}
    assert float(by_search["integer"]) < 10.0 < float(by_search["grid"])
    with pytest.raises(SystemExit):
        main(["--repeats", "0"])
