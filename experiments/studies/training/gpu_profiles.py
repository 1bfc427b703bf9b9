"""What a GPU trains at: the measured profiles of trainings of real size that ship.

A step with few examples takes as long as the host needs to launch its kernels: the GPU is idle for
most of it, and a pass is not longer for more examples. From where its kernels keep the GPU busy, a
pass takes as long as its examples need. Pollux's line alpha + beta m (OSDI'21, section 3.2)
is fitted to both, so that its error tells how far one line can have either.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.files.measured_profile import FITS, read_measured_profile, read_rows
from goodalloc.experiments.measure.profile_fit import fit_profile
from goodalloc.experiments.measure.step_parts import StepParts
from goodalloc.experiments.reporting.axes import logarithmic, open_axes
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: Profiles that ship, as `profiles/NAME.csv` of the data.
PROFILES = ("h100-resnet50-bf16", "h100-bert-base-bf16", "h100-gpt-124m-bf16", "h100-gpt-350m-bf16")


class GpuProfileRow(NamedTuple):
    """Training of one replica with a number of examples in a pass.

    Attributes
    ----------
    profile, model, precision, device
        Name of the file, and what was measured.
    batch
        Examples of a pass.
    pass_ms, update_ms, step_ms
        Measured means, in milliseconds.
    error_percent
        Standard error of the mean of the step, of that mean.
    examples_per_second
        In whole steps.
    busy_percent
        Part of a step in which the GPU computes.
    peak_gib
        Most memory that PyTorch gave out, on CPUs of the process.
    line_percent
        By how much the pass of the fitted model is longer (or shorter, if negative).
    """

    profile: str
    model: str
    precision: str
    device: str
    batch: int
    pass_ms: float
    update_ms: float
    step_ms: float
    error_percent: float
    examples_per_second: float
    busy_percent: float
    peak_gib: float
    line_percent: float


def rows_of(name: str) -> list[GpuProfileRow]:
    """Return the rows of a profile that ships.

    Parameters
    ----------
    name
        One of `PROFILES`.
    """
    path = str(resources.files("goodalloc.data").joinpath(f"profiles/{name}.csv"))
    fitted = fit_profile(read_measured_profile(path), method="steps").parameters
    rows = []
    for one in read_rows(path):
        if one["outcome"] != FITS:
            continue
        busy = StepParts(*(float(one[f"{part}_s"]) for part in StepParts._fields)).busy
        batch, step = int(one["atomic_batch_size"]), float(one["step_s"])
        whole = float(one["pass_s"]) + float(one["update_s"])
        line = fitted.alpha_grad + fitted.beta_grad * batch
        rows.append(
            GpuProfileRow(
                name,
                one["model"],
                one["precision"],
                one["device"],
                batch,
                rounded(1e3 * float(one["pass_s"]), 4),
                rounded(1e3 * float(one["update_s"]), 4),
                rounded(1e3 * step, 4),
                rounded(100.0 * float(one["step_error"]), 3),
                rounded(batch / step, 4),
                rounded(100.0 * min(busy / step, 1.0), 3),
                rounded(float(one["peak_memory_mib"]) / 1024.0, 3),
                rounded(100.0 * (float(line) / whole - 1.0), 3),
            )
        )
    return rows


def _rows(_: object) -> list[GpuProfileRow]:
    return [row for name in PROFILES for row in rows_of(name)]


def plot_gpu_profiles(rows: list[GpuProfileRow]) -> Figure:
    """Draw the speed of every training, and how busy it keeps the GPU, against its batch size."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    speed, busy = figure.subplots(1, 2)
    for place, name in enumerate(dict.fromkeys(row.profile for row in rows)):
        own = [row for row in rows if row.profile == name]
        look = {
            "color": COLOURS[place % len(COLOURS)],
            "marker": MARKERS[place % len(MARKERS)],
            "label": f"{own[0].model}, {own[0].precision}",
        }
        sizes = [row.batch for row in own]
        speed.plot(sizes, [row.examples_per_second for row in own], **look)
        busy.plot(sizes, [row.busy_percent for row in own], **look)
    for axes in (speed, busy):
        logarithmic(axes, "x")
        open_axes(axes)
        axes.set_xlabel("examples of a pass")
    logarithmic(speed, "y")
    speed.set_ylabel("examples a second")
    busy.set_ylabel("GPU computes (% of a step)")
    busy.set_ylim(0.0, 105.0)
    busy.legend(frameon=False, fontsize="small")
    figure.suptitle(f"One {' and '.join(np.unique([row.device for row in rows]))}")
    return figure


GPU_PROFILES = Reproduction(
    "What a GPU trains at: measured profiles of trainings of real size",
    lambda _: (),
    _rows,
    lambda _, rows: plot_gpu_profiles(rows),
    ignores=("workloads", "pollux", "seeds", "artifact", "gaps", "quick"),
)
