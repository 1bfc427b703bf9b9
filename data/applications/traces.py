"""True behaviour by the measurements of the artifacts of Pollux and Sia.

Read from the artifact's folders ``traces/APPLICATION``; nothing of it is shipped. Sia's has files
for several types of GPU, of which the T4 are those of Pollux. Interpolated as the published
simulators do it:

- measured placements (sequences of GPUs a node, up to rotation): linear in the atomic batch size,
  as far as it was measured there;
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

from goodalloc.data.applications.application import StepTimes
from goodalloc.data.applications.gpu_types import CAPPED, FIRST_TYPE, SUFFIXES
from goodalloc.data.applications.measurements import APPLICATIONS
from goodalloc.data.applications.profiles import Restriction
from goodalloc.data.applications.trace_files import (
    POINT,
    RUN,
    TIMES,
    batch_size_of,
    read_placements,
    read_run,
    read_scalability,
)
from goodalloc.models.goodput.model import BatchLimits
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics

if TYPE_CHECKING:
    import os

    from scipy.interpolate import LinearNDInterpolator

    from goodalloc.data.applications.application import Application, Spread


#: What the names of the files of Sia's artifact on the first type of GPU end in.
FIRST_SUFFIX = "-aws"

#: Of Sia's simulator: by how much its jobs train slower than was measured, and how long a restart
#: takes (seconds).
SIA_SLOWDOWN = {"cifar10": 1.8, "ncf": 1.5}
SIA_USUAL_SLOWDOWN = 1.2
SIA_RESTART_DELAY = {
    "bert": 120.0,
    "cifar10": 50.0,
    "deepspeech2": 25.0,
    "imagenet": 250.0,
    "ncf": 15.0,
    "yolov3": 80.0,
}


class MeasuredApplication:
    """True behaviour of an application by its measurements.

    Parameters
    ----------
    folder
        Its folder of the artifact's traces; its name is that of the application.
    gpu_type
        On which type of GPU it was measured; empty for the first.

    Raises
    ------
    ValueError
        If the application is unknown, or a file is missing or cannot be read.
    """

    def __init__(self, folder: Path, gpu_type: str = "") -> None:
        known = APPLICATIONS.get(folder.name)
        if known is None:
            expected = ", ".join(APPLICATIONS)
            raise ValueError(f"Application '{folder.name}' is unknown; expected one of {expected}.")
        self.name, self._folder = folder.name, folder
        several = (folder / f"placements{FIRST_SUFFIX}.csv").exists()
        suffix = SUFFIXES.get(gpu_type, FIRST_SUFFIX if several else "")
        first = gpu_type in ("", FIRST_TYPE)
        if not first and (gpu_type not in SUFFIXES or not several):
            types = ", ".join((FIRST_TYPE, *SUFFIXES)) if several else FIRST_TYPE
            raise ValueError(
                f"Application '{self.name}': gpu_type is '{gpu_type}'; expected {types}, on which "
                "it was measured."
            )
        self.slowdown = SIA_SLOWDOWN.get(self.name, SIA_USUAL_SLOWDOWN) if several else 1.0
        self.restart_delay = SIA_RESTART_DELAY[self.name] if several else None
        self._types: dict[str, Application] = {"": self, FIRST_TYPE: self} if first else {}
        self.restriction = Restriction(*known.restriction) if known.restriction else None
        runs = {batch_size_of(path): read_run(path) for path in folder.glob("validation-*.csv")}
        if not runs:
            raise ValueError(f"Folder '{folder}': expected files validation-*.csv.")
        self.batch_sizes = sorted(runs)
        ordered = [runs[size] for size in self.batch_sizes]
        self.epochs = min(len(run["progress"]) for run in ordered)
        self._tables = {
            column: np.stack([run[column][: self.epochs] for run in ordered]) for column in RUN
        }
        self._progress = self._tables["progress"].min(axis=0).tolist()
        placements = read_placements(folder / f"placements{suffix}.csv")
        largest = int(placements.local_bsz.max())
        self.batch = BatchLimits(
            known.initial,
            known.maximum,
            known.atomic_minimum,
            known.atomic_maximum if first else CAPPED.get((self.name, gpu_type), largest),
            True,
        )
        self._lines = {
            tuple(map(int, str(placement))): group[["local_bsz", *TIMES]].to_numpy(float)
            for placement, group in placements.groupby("placement")
        }
        averages = placements.groupby(POINT)[TIMES].mean().reset_index()
        self._points = pd.concat(
            [averages, read_scalability(folder / f"scalability{suffix}.csv")], ignore_index=True
        )
        self._interpolator: LinearNDInterpolator | None = None
        self._times: dict[tuple[Spread, int], StepTimes] = {}
        self._gradients: dict[tuple[int, int], GradientStatistics] = {}

    def on(self, gpu_type: str) -> Application:
        """Return the application as measured on that type."""
        if gpu_type not in self._types:
            self._types[gpu_type] = MeasuredApplication(self._folder, gpu_type)
        return self._types[gpu_type]

    def step_times(self, spread: Spread, atomic_batch_size: int) -> StepTimes:
        """Return measured or interpolated times; raise `ValueError` outside their range."""
        key = (spread, atomic_batch_size)
        if key not in self._times:
            self._times[key] = self._interpolate(spread, atomic_batch_size)
        return self._times[key]

    def _interpolate(self, spread: Spread, atomic: int) -> StepTimes:
        line = self._lines.get(min(spread[i:] + spread[:i] for i in range(len(spread))))
        if line is not None and line[0, 0] <= atomic <= line[-1, 0]:
            step, sync = (float(np.interp(atomic, line[:, 0], line[:, c])) for c in (1, 2))
            return StepTimes(step, sync)
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
            from scipy.spatial import QhullError

            points, times = (self._points[names].to_numpy(float) for names in (POINT, TIMES))
            try:
                self._interpolator = LinearNDInterpolator(points, times)
            except QhullError as error:
                raise ValueError(
                    f"Application '{self.name}': {len(points)} measurements do not span nodes, "
                    "GPUs and batch sizes; expected some that differ in each of them."
                ) from error
        return self._interpolator

    def gradient_statistics(self, batch_size: int, epoch: int) -> GradientStatistics:
        """Return the measured statistics of the epoch, linear between the measured batch sizes."""
        key = (batch_size, epoch)
        if key not in self._gradients:
            self._gradients[key] = GradientStatistics(
                self._at(batch_size, epoch, "grad_sqr"), self._at(batch_size, epoch, "grad_var")
            )
        return self._gradients[key]

    def progress(self, epoch: int) -> float:
        """Return the least cumulative progress of the batch sizes at the end of an epoch."""
        return float(self._progress[epoch])

    def steps(self, batch_size: int, epoch: int) -> float:
        """Return the measured cumulative steps, linear between the measured batch sizes."""
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
    """Return all applications of an artifact, by name.

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
