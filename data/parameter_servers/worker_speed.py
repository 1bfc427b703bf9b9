"""Measured speed of training with parameter servers, published by DL2.

The file ``speed.csv`` is the table ``config_speed.txt`` of that repository (commit 2e54920) with a
row for every model and configuration: ``model``, ``sync_mode``, ``total_batch``, ``num_ps``,
``num_worker`` and ``sum_speed``, the examples per second of all workers together. The source does
not say what the speeds are. But in all 541 rows in which the workers cannot have equal parts of the
total batch size, as many of them as must have one example more are faster by just that much (to
0.4 % in the median and 8 % at most): so workers split the total batch, all take equally long, and a
step takes ``total_batch / sum_speed``. Rows with speed 0 are runs that failed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.documents.csv_table import read_table
from goodalloc.models.parameter_servers.configuration import PsConfiguration

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from goodalloc.data.documents.csv_table import Table
    from goodalloc.models.support.array_types import Floats


TABLE = "speed.csv"

#: Columns of counts.
COUNTS = ("total_batch", "num_ps", "num_worker")


class MeasuredSteps(NamedTuple):
    """Measurements of a model.

    Attributes
    ----------
    configuration
        Arrays of shape (measurements,); each worker is taken to have one GPU, which the source does
        not say, and cores are not known.
    batch_size
        Examples of a step, of all workers together.
    seconds
        Seconds of a step, shape (measurements,).
    failed
        Rows that are left out because their speed is 0.
    """

    configuration: PsConfiguration
    batch_size: int
    seconds: Floats
    failed: int


def read_ps_worker_speed(folder: str | os.PathLike[str]) -> dict[str, MeasuredSteps]:
    """Read the measurements of every model, in the order of their names.

    Parameters
    ----------
    folder
        Folder that holds `speed.csv`.

    Raises
    ------
    ValueError
        If the file is unreadable or malformed, or a value is out of range.
    """
    table = read_table(Path(folder) / TABLE, ("model", "sync_mode", *COUNTS, "sum_speed"))
    for row, mode in enumerate(table.columns["sync_mode"]):
        if mode != "dist_sync":
            raise table.refusal(row, "sync_mode", "'dist_sync'")
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(table.columns["model"]):
        rows.setdefault(name, []).append(row)
    return {name: _measured(name, table.only(rows[name])) for name in sorted(rows)}


def _measured(name: str, table: Table) -> MeasuredSteps:
    """Return the measurements of one model."""
    batch, servers, workers = (table.numbers(column, 1.0, whole=True) for column in COUNTS)
    speed = table.numbers("sum_speed", 0.0)
    for row in np.flatnonzero(batch != batch[0])[:1].tolist():
        raise table.refusal(row, "total_batch", f"{batch[0]:g} as in the other rows of '{name}'")
    ran = speed > 0
    if not ran.any():
        raise ValueError(
            f"File '{table.path}': model '{name}': every sum_speed is 0; expected one above 0."
        )
    configuration = PsConfiguration(servers[ran], workers[ran], worker_gpus=np.ones(ran.sum()))
    return MeasuredSteps(
        configuration, int(batch[0]), batch[0] / speed[ran], int(np.count_nonzero(~ran))
    )


def some_of(measured: MeasuredSteps, indices: NDArray[np.int64]) -> MeasuredSteps:
    """Return the measurements of these indices."""
    return measured._replace(
        configuration=measured.configuration.take(indices), seconds=measured.seconds[indices]
    )
