"""The speed of training with parameter servers, as measured for DL2 (github.com/pengyanghua/DL2).

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
import pandas as pd

from goodalloc.data.json_file import in_file
from goodalloc.models.ps_configuration import PsConfiguration
from goodalloc.models.validation import LARGEST_COUNT

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

TABLE = "speed.csv"

#: Columns of counts.
COUNTS = ("total_batch", "num_ps", "num_worker")


class MeasuredSteps(NamedTuple):
    """What was measured of a model.

    Attributes
    ----------
    configuration
        Arrays of shape (measurements,); each worker is taken to have one GPU, which the source does
        not say, and cores are not known.
    batch_size
        Examples of a step, of all workers together.
    seconds
        Of a step, of shape (measurements,).
    failed
        Rows that are left out because their speed is 0.
    """

    configuration: PsConfiguration
    batch_size: int
    seconds: Floats
    failed: int


def read_ps_worker_speed(folder: str | os.PathLike[str]) -> dict[str, MeasuredSteps]:
    """The measurements of every model, in the order of their names.

    Parameters
    ----------
    folder
        Holds `speed.csv`.

    Raises
    ------
    ValueError
        If the file cannot be read or anything in it makes no sense.
    """
    path = Path(folder) / TABLE
    columns = ("model", "sync_mode", *COUNTS, "sum_speed")
    try:
        table = pd.read_csv(path, usecols=list(columns), keep_default_na=False)
    except (OSError, ValueError) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise ValueError(f"File '{path}': cannot be read as a table ({reason}).") from error
    try:
        return {name: _measured(name, rows) for name, rows in _by_model(table).items()}
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error


def _by_model(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    if table.empty:
        raise ValueError("it has no rows; expected at least one.")
    for mode in table.sync_mode:
        if mode != "dist_sync":
            raise ValueError(f"sync_mode is '{mode}'; expected 'dist_sync'.")
    return {str(name): rows for name, rows in table.groupby("model")}


def _measured(name: str, rows: pd.DataFrame) -> MeasuredSteps:
    batch, servers, workers = (_numbers(name, rows, column, 1.0) for column in COUNTS)
    speed = _numbers(name, rows, "sum_speed", 0.0)
    for column, values in zip(COUNTS, (batch, servers, workers), strict=True):
        for value in values[(values != np.floor(values)) | (values > LARGEST_COUNT)]:
            raise ValueError(f"model '{name}': {column} is {value:g}; expected a whole number.")
    for size in batch[batch != batch[0]]:
        raise ValueError(
            f"model '{name}': total_batch is {size:g}; expected {batch[0]:g} as in the other rows."
        )
    ran = speed > 0
    if not ran.any():
        raise ValueError(f"model '{name}': every sum_speed is 0; expected one above 0.")
    configuration = PsConfiguration(servers[ran], workers[ran], worker_gpus=np.ones(ran.sum()))
    return MeasuredSteps(
        configuration, int(batch[0]), batch[0] / speed[ran], int(np.count_nonzero(~ran))
    )


def _numbers(name: str, rows: pd.DataFrame, column: str, least: float) -> Floats:
    """Finite numbers of at least so much."""
    values = pd.to_numeric(rows[column], errors="coerce").to_numpy(dtype=float)
    bad = ~(np.isfinite(values) & (values >= least))
    for shown in rows[column].to_numpy()[bad]:
        raise ValueError(
            f"model '{name}': {column} is '{shown}'; expected a finite number of at least "
            f"{least:g}."
        )
    return values


def some_of(measured: MeasuredSteps, indices: NDArray[np.int64]) -> MeasuredSteps:
    """Some of the measurements, by their indices."""
    return measured._replace(
        configuration=measured.configuration.take(indices), seconds=measured.seconds[indices]
    )
