"""Measured times of many passes at once are those of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.applications.step_tables import step_table
from goodalloc.data.applications.traces import measured_applications

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
