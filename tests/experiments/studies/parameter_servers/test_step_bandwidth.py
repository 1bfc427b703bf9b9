"""Seconds of a step by bandwidth: the laws of its rows, and the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest

from goodalloc.data.parameter_servers.step_times import load_step_time, step_time_names
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.studies.parameter_servers.step_bandwidth import (
    MEGABYTES,
    PODS,
    bandwidth_rows,
    fitted_gbps,
    seconds_at,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_a_step_takes_what_was_measured_at_the_fitted_bandwidth() -> None:
    """And never less on a slower network; the transfer alone changes."""
    assert {*MEGABYTES} == {*step_time_names()}
    for row in bandwidth_rows():
        profile = load_step_time(row.model)
        gbps = fitted_gbps(profile)
        assert row.seconds_at_10_gbps <= row.seconds_at_1_gbps <= row.seconds_at_100_mbps
        if gbps is None:
            assert row.slowdown == 1.0
            assert row.transfer_percent == 0.0
            continue
        assert seconds_at(profile, row.pods, gbps) == pytest.approx(row.measured_seconds, rel=1e-4)
        transfer = row.measured_seconds * row.transfer_percent / 100.0
        more = row.measured_seconds + transfer * (gbps / 0.1 - 1.0)
        assert row.seconds_at_100_mbps == pytest.approx(more, rel=1e-3)


def test_the_fitted_bandwidth_is_two_transfers_of_the_parameters() -> None:
    """By hand: 2 x 102.2 MB in the seconds of the transfer."""
    profile = load_step_time("resnet-50")
    seconds = profile.parameters.coefficients.transfer
    assert fitted_gbps(profile) == pytest.approx(2 * 8 * 0.1022 / seconds)


def test_reproduce_step_bandwidth_writes_a_row_for_every_model_and_number_of_pods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table, a CSV, a picture."""
    assert main(["reproduce", "step-bandwidth", "--out", str(tmp_path)]) == 0
    assert "resnet-50" in capsys.readouterr().out
    table = pd.read_csv(tmp_path / "step-bandwidth.csv")
    assert len(table) == len(PODS) * len(step_time_names())
    assert (tmp_path / "step-bandwidth.png").read_bytes().startswith(b"\x89PNG")
