"""Profiles measured on a GPU: rows by hand from the files that ship, and what they show."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

import pytest

from goodalloc.data.files.measured_profile import read_rows
from goodalloc.experiments.studies.training.gpu_profiles import (
    GPU_PROFILES,
    PROFILES,
    plot_gpu_profiles,
    rows_of,
)

if TYPE_CHECKING:
    from goodalloc.experiments.studies.training.gpu_profiles import (
        GpuProfileRow,
    )


@pytest.fixture(scope="module")
def rows() -> list[GpuProfileRow]:
    """All rows."""
    return [row for name in PROFILES for row in rows_of(name)]


def test_every_profile_of_a_gpu_that_ships_is_shown() -> None:
    """But for the restart, which has no batch sizes."""
    folder = resources.files("goodalloc.data").joinpath("profiles")
    there = {one.name for one in folder.iterdir() if one.name.startswith("h100-")}
    assert there == {*(f"{name}.csv" for name in PROFILES), "h100-restart.csv"}


@pytest.mark.parametrize("name", PROFILES)
def test_rows_are_those_of_the_file(name: str) -> None:
    """Milliseconds, examples a second, and the busy part of a step."""
    path = str(resources.files("goodalloc.data").joinpath(f"profiles/{name}.csv"))
    measured = read_rows(path)
    found = rows_of(name)
    assert [row.batch for row in found] == [int(one["atomic_batch_size"]) for one in measured]
    for row, one in zip(found, measured, strict=True):
        assert row.step_ms == pytest.approx(1e3 * float(one["step_s"]), rel=1e-3)
        assert row.examples_per_second == pytest.approx(row.batch / (row.step_ms / 1e3), rel=2e-3)
        computes = float(one["loading_s"]) + float(one["forward_s"]) + float(one["backward_s"])
        computes += float(one["optimiser_s"]) - float(one["idle_s"])
        busy = min(computes / float(one["step_s"]), 1.0)
        assert row.busy_percent == pytest.approx(100.0 * busy, rel=1e-2)


def test_more_examples_keep_the_gpu_busier(rows: list[GpuProfileRow]) -> None:
    """In every training: kernels take the place of their launches."""
    for name in PROFILES:
        busy = [row.busy_percent for row in rows if row.profile == name]
        assert busy == sorted(busy)
        assert 0.0 < busy[0] < 30.0


def test_the_picture_has_every_training_twice(rows: list[GpuProfileRow]) -> None:
    """Its speed, and how busy it keeps the GPU."""
    speed, busy = plot_gpu_profiles(rows).axes
    assert len(speed.get_lines()) == len(busy.get_lines()) == len(PROFILES)
    assert [row["profile"] for row in GPU_PROFILES.shown(rows)] == [row.profile for row in rows]
