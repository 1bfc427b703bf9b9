"""Measured times of many passes at once are those of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import LinearNDInterpolator

from goodalloc.data.applications.step_tables import _strictly_within, step_table
from goodalloc.data.applications.trace_files import POINT
from goodalloc.data.applications.traces import MeasuredApplication, measured_applications

if TYPE_CHECKING:
    from pathlib import Path

#: On one node and several, measured and not, rotated, and beyond what was measured.
SPREADS = ((1,), (3,), (4, 4), (2, 1), (1, 2), (1, 2, 3), (4,) * 7, (3,) * 16, (1,) * 60)


@pytest.mark.parametrize(("artifact", "gpu_type"), [("pollux", ""), ("sia", "a100")])
def test_the_table_has_the_times_of_every_pass(
    artifact: str, gpu_type: str, reference: Path
) -> None:
    """Not a number where nothing was measured."""
    application = measured_applications(reference / artifact / "traces")["bert"].on(gpu_type)
    sizes = np.arange(1, 60, 3)
    found = step_table(application, SPREADS, sizes)
    known = 0
    for row, spread in enumerate(SPREADS):
        for column, size in enumerate(sizes.tolist()):
            cell = found[:, row, column]
            try:
                times = application.step_times(spread, size)
            except ValueError:
                assert np.isnan(cell).all()
                continue
            known += 1
            assert cell == pytest.approx(times, rel=1e-12)
    assert known > 20


@pytest.mark.parametrize(
    ("name", "artifact", "gpu_type"), [("deepspeech2", "sia", "t4"), ("yolov3", "sia", "rtx2080ti")]
)
def test_what_was_not_measured_is_interpolated_as_if_it_was_asked_for_alone(
    name: str, artifact: str, gpu_type: str, reference: Path
) -> None:
    """Flat simplices tell other times by the point that was asked for before; to the last digit."""
    application = measured_applications(reference / artifact / "traces")[name].on(gpu_type)
    sizes, spreads = np.arange(4, 24), [(3,) * nodes for nodes in (2, 3, 5, 6)]
    spreads += [(4, 3, 3, 3, 2), (4, 4, 4, 4, 2), (4, 4, 3, 3, 2, 2)]
    found = step_table(application, spreads, sizes)
    alone = application.step_times
    for row, spread in enumerate(spreads):
        for column, size in enumerate(sizes.tolist()):
            cell = found[:, row, column]
            if np.isfinite(cell[0]):
                assert tuple(cell.tolist()) == alone(spread, size)
            else:
                with pytest.raises(ValueError, match="is outside what was measured"):
                    alone(spread, size)


@pytest.mark.parametrize("seed", range(8))
def test_points_on_a_grid_are_interpolated_as_if_each_was_asked_for_alone(seed: int) -> None:
    """Within simplices, on their faces and outside; of a grid that lacks points and has flat ones.

    To the last bit: as a replay asks for them.
    """
    random = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid([1, 2, 3], [1, 2, 4, 6], [8, 12, 16, 32]), -1).reshape(-1, 3)
    known = grid[random.random(len(grid)) < 0.7].astype(float)
    interpolator = LinearNDInterpolator(known, random.random((len(known), 2)))
    application = object.__new__(MeasuredApplication)
    points = pd.DataFrame(known, columns=POINT)
    vars(application).update(
        name="grid", _points=points, _lines={}, _times={}, _interpolator=interpolator
    )
    spreads = [(gpus,) + (1,) * further for further in range(3) for gpus in range(1, 6)]
    sizes = np.arange(7, 34)
    asked = np.array([(len(one), sum(one), size) for one in spreads for size in sizes], float)
    assert 0 < _strictly_within(interpolator.tri, asked).sum() < len(asked)
    found = step_table(application, spreads, sizes)
    for row, spread in enumerate(spreads):
        for column, size in enumerate(sizes.tolist()):
            alone = interpolator(asked[row * sizes.size + column])[0]
            assert found[:, row, column].tobytes() == alone.tobytes()
            if random.random() < 0.1:  # a table of one point, which is within a simplex or is not
                one = step_table(application, [spread], np.array([size]))
                assert one[:, 0, 0].tobytes() == alone.tobytes()
