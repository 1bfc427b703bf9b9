"""Courses of real losses: the validation runs of Pollux's artifact at the initial batch sizes.

The runs publish the value of a metric after every epoch: an accuracy, a hit rate or an F1 score,
which rise, of which the loss is what they lack of their greatest value; or a word error rate or a
loss, which fall. (github.com/petuum/adaptdl, branch `osdi21-artifact`; OSDI 2021, section 5.1.)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.applications.trace_files import batch_size_of
from goodalloc.data.documents.csv_table import read_table

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

#: Greatest value of the metric of every application; none for a metric that falls.
GREATEST: Mapping[str, float | None] = {
    "bert": 100.0,
    "cifar10": 1.0,
    "deepspeech2": None,
    "imagenet": 1.0,
    "ncf": 1.0,
    "yolov3": None,
}


def read_real_courses(folder: str | os.PathLike[str]) -> dict[str, tuple[float, ...]]:
    """Read a course of losses of every application, one loss an epoch.

    Parameters
    ----------
    folder
        The folder ``traces`` of the artifact.

    Raises
    ------
    ValueError
        If an application has no run, or a value is out of range.
    """
    return {name: _course(Path(folder) / name, most) for name, most in GREATEST.items()}


def _course(folder: Path, most: float | None) -> tuple[float, ...]:
    """Return the losses of the run of the smallest batch size."""
    runs = {batch_size_of(path): path for path in folder.glob("validation-*.csv")}
    if not runs:
        raise ValueError(f"Folder '{folder}': expected files validation-*.csv.")
    table = read_table(runs[min(runs)], ("metric",))
    if most is None:
        return tuple(table.numbers("metric", 0.0, strict=True).tolist())
    return tuple((most - value) for value in table.numbers("metric", 0.0, most).tolist())
