"""The benchmark of rounds in columns: a small run is whole, and agrees with the exact solver."""

from __future__ import annotations

import csv
import importlib.util
import math
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.rounds import generate_columns
from goodalloc.experiments.benchmarks import scale
from goodalloc.experiments.benchmarks.scale import main
from goodalloc.models.columns.utilities_by_kind import column_utilities
from goodalloc.solvers.columns import decouple

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.models.support.array_types import Floats

#: Ways whose gap is small.
EXACT = ("price", "highs", "programs")


def test_a_small_run_writes_a_row_for_every_round_and_draws_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seconds of the parts add up; no value is beyond the exact one."""
    monkeypatch.setattr(scale, "POWERS", (1.0, -1.0, -math.inf))
    out, picture = tmp_path / "scale.csv", tmp_path / "scale.png"
    small = ["--sizes", "64", "200", "--exact", "64", "--states", "disturbed"]
    small += ["--mode-sizes", "16", "--gpus", "4"]
    assert main([*small, "--out", str(out), "--picture", str(picture)]) == 0
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    ways = {"price", "pop-4", "pop-16", "price-greedy", "dede", "highs", "programs", "greedy"}
    modes = [row for row in rows if row["way"] == "pools"]
    assert [(row["state"], row["load"], row["power"]) for row in modes] == [
        ("disturbed", load, power) for load in ("0.5", "1") for power in ("0", "-1")
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


def test_growth_is_the_power_of_ten_by_which_ten_times_the_jobs_take_longer() -> None:
    """Of the same way and kind of round alone."""
    rows = scale.measure(generate_columns(0, 40, 10, 4), "cold", 0.0, [])
    tenth = rows[0]._replace(processor_seconds=0.5)
    more, other = tenth._replace(jobs=400, processor_seconds=5.0), tenth._replace(jobs=400, own=0.1)
    assert [row.growth for row in scale.with_growth([tenth, more, other])] == [None, 1.0, None]


def test_shares_of_another_implementation_are_rounded_and_placed() -> None:
    """As those of our own iterations are, which they stand for."""
    utilities = column_utilities(generate_columns(0, 40, 10, 4))
    asked: list[tuple[int, float]] = []

    def alternate(slope: Floats, gpus: Floats) -> Floats:
        asked.append((len(slope), float(gpus.sum())))
        return np.ones(len(slope))

    assert decouple(utilities, alternate=alternate).replicas.sum() == 40
    assert asked == [(40, 40.0)]


@pytest.mark.parametrize(
    ("interpreter", "why"), [("/no/python", "No such file or directory"), (sys.executable, "dede")]
)
def test_a_python_without_the_package_of_dede_is_refused(
    interpreter: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence that says what is expected."""
    if interpreter == sys.executable and importlib.util.find_spec("dede") is not None:
        pytest.skip("this Python has dede")
    given = ["--sizes", "64", "--powers=-1", "--states", "cold", "--gpus", "4", "--own", "0"]
    with pytest.raises(SystemExit) as end:
        main([*given, "--exact", "0", "--mode-sizes", "--dede", interpreter])
    assert end.value.code == 2
    complaint = capsys.readouterr().err
    assert why in complaint
    assert "expected a Python with dede==0.1.6 and scipy==1.11.4." in complaint
