"""The measurements of the Pollux artifact (OSDI'21) as the truth of a replay.

Read from the artifact's folders ``traces/APPLICATION``; nothing of it is shipped. Interpolated as
the published simulator does it:

- measured placements (sequences of GPUs a node, up to rotation): linear in the atomic batch size;
- others: linear over (nodes, GPUs, atomic batch size) in a Delaunay triangulation of the measured
  placements, averaged by these three, and the scalability measurements; nodes beyond the most
  measured count as that many;
- gradient statistics and steps: linear in the total batch size, constant within an epoch;
- an epoch ends at the least cumulative progress over the measured batch sizes.

Outside the measured range there is no truth: the error names what was asked.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from goodalloc.data.application import Application, Spread, StepTimes
from goodalloc.data.fit_profiles import APPLICATIONS
from goodalloc.data.profiles import Restriction
from goodalloc.models.efficiency import GradientStatistics
from goodalloc.models.goodput import BatchLimits

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray
    from scipy.interpolate import LinearNDInterpolator

    Floats = NDArray[np.float64]

POINT = ["num_nodes", "num_replicas", "local_bsz"]
TIMES = ["step_time", "sync_time"]


class MeasuredApplication:
    """The truth that was measured of one application.

    Parameters
    ----------
    folder
        Its folder of the artifact's traces; its name is that of the application.

    Raises
    ------
    ValueError
        If the application is unknown, or a file is missing or cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        known = APPLICATIONS.get(folder.name)
        if known is None:
            expected = ", ".join(APPLICATIONS)
            raise ValueError(f"Application '{folder.name}' is unknown; expected one of {expected}.")
        self.name = folder.name
        self.batch = BatchLimits(
            known.initial, known.maximum, known.atomic_minimum, known.atomic_maximum, True
        )
        self.restriction = Restriction(*known.restriction) if known.restriction else None
        runs = {int(p.stem.split("-")[1]): _read(p) for p in folder.glob("validation-*.csv")}
        if not runs:
            raise ValueError(f"Folder '{folder}': expected files validation-*.csv.")
        self.batch_sizes = sorted(runs)
        ordered = [runs[size] for size in self.batch_sizes]
        self.epochs = min(len(run) for run in ordered)
        self._tables = {
            column: np.stack([run[column].to_numpy(float)[: self.epochs] for run in ordered])
            for column in ("progress", "iteration", "grad_sqr", "grad_var")
        }
        self._progress = self._tables["progress"].min(axis=0).tolist()
        placements = _read(folder / "placements.csv", placement=str)
        placements["num_nodes"] = placements.placement.map(len)
        placements["num_replicas"] = [sum(map(int, p)) for p in placements.placement]
        self._lines = {
            tuple(map(int, str(placement))): group[["local_bsz", *TIMES]].to_numpy(float)
            for placement, group in placements.groupby("placement")
        }
        averages = placements.groupby(POINT)[TIMES].mean().reset_index()
        self._points = pd.concat([averages, _read(folder / "scalability.csv")], ignore_index=True)
        self._interpolator: LinearNDInterpolator | None = None
        self._times: dict[tuple[Spread, int], StepTimes] = {}
        self._gradients: dict[tuple[int, int], GradientStatistics] = {}

    def step_times(self, spread: Spread, atomic_batch_size: int) -> StepTimes:
        """Measured or interpolated times; a `ValueError` outside the measured range."""
        key = (spread, atomic_batch_size)
        if key not in self._times:
            self._times[key] = self._interpolate(spread, atomic_batch_size)
        return self._times[key]

    def _interpolate(self, spread: Spread, atomic: int) -> StepTimes:
        line = self._lines.get(min(spread[i:] + spread[:i] for i in range(len(spread))))
        if line is not None:
            if line[0, 0] <= atomic <= line[-1, 0]:
                step, sync = (float(np.interp(atomic, line[:, 0], line[:, c])) for c in (1, 2))
                return StepTimes(step, sync)
            raise self._unmeasured(spread, f"{atomic} examples a GPU", line[:, 0])
        nodes = min(len(spread), int(self._points.num_nodes.max()))
        step, sync = self._triangulation()([nodes, sum(spread), atomic])[0]
        if not np.isfinite(step):
            raise self._unmeasured(spread, f"{atomic} examples a GPU", self._points.local_bsz)
        return StepTimes(float(step), float(sync))

    def _unmeasured(self, spread: Spread, what: str, values: object) -> ValueError:
        known = np.asarray(values, dtype=float)
        return ValueError(
            f"Application '{self.name}': {what} on nodes with {'+'.join(map(str, spread))} GPUs "
            f"is outside what was measured (batches of {known.min():g} to {known.max():g} a GPU)."
        )

    def _triangulation(self) -> LinearNDInterpolator:
        if self._interpolator is None:
            from scipy.interpolate import LinearNDInterpolator

            self._interpolator = LinearNDInterpolator(
                self._points[POINT].to_numpy(float), self._points[TIMES].to_numpy(float)
            )
        return self._interpolator

    def gradient_statistics(self, batch_size: int, epoch: int) -> GradientStatistics:
        """Measured statistics of the epoch, linear between the measured batch sizes."""
        key = (batch_size, epoch)
        if key not in self._gradients:
            self._gradients[key] = GradientStatistics(
                self._at(batch_size, epoch, "grad_sqr"), self._at(batch_size, epoch, "grad_var")
            )
        return self._gradients[key]

    def progress(self, epoch: int) -> float:
        """Least cumulative progress of the measured batch sizes at the end of an epoch."""
        return float(self._progress[epoch])

    def steps(self, batch_size: int, epoch: int) -> float:
        """Measured cumulative steps, linear between the measured batch sizes."""
        return self._at(batch_size, epoch, "iteration")

    def _at(self, batch_size: int, epoch: int, column: str) -> float:
        sizes = self.batch_sizes
        if not sizes[0] <= batch_size <= sizes[-1]:
            raise ValueError(
                f"Application '{self.name}': a total batch of {batch_size} examples is outside "
                f"what was measured ({sizes[0]} to {sizes[-1]})."
            )
        return float(np.interp(batch_size, sizes, self._tables[column][:, epoch]))


@lru_cache(maxsize=2)
def measured_applications(folder: str | os.PathLike[str]) -> dict[str, Application]:
    """All applications of the artifact, by name.

    Parameters
    ----------
    folder
        The artifact's folder ``traces``.

    Raises
    ------
    ValueError
        If a folder or file is missing or cannot be read.
    """
    return {name: MeasuredApplication(Path(folder) / name) for name in APPLICATIONS}


def _read(path: Path, **types: type) -> pd.DataFrame:
    try:
        return pd.read_csv(path, dtype=types or None)
    except (OSError, ValueError) as error:
        raise ValueError(f"File '{path}': cannot be read as a trace ({error}).") from error
