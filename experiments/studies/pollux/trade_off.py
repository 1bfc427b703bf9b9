r"""Figure 1 of Pollux: gains of ResNet-18 on CIFAR-10 from GPUs and from large batches.

1a is throughput against GPUs for a small and a large total batch size. 1b is the best fixed batch
size for one half of the training, the one that finishes it first. Progress w_e in epoch e takes
time in proportion to w_e / (throughput x E_e), and by the model 1 / E_e(M) = (phi_e + M) /
(phi_e + M0), so that the half is equivalent to one epoch with noise scale phi:

.. math:: 1 / (\varphi + M_0) = \sum_e w_e / (\varphi_e + M_0) / \sum_e w_e

The model knows the fitted throughput and the noise scale at M0. With the artifact's measurements
the figure also shows the results by the measured step times and by each batch size's own gradient
statistics.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.applications.measurements import read_gradient
from goodalloc.data.applications.profiles import load_profile
from goodalloc.data.applications.traces import MeasuredApplication
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, STYLES
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.pollux.predictions import (
    GPUS_PER_NODE,
    Pass,
    measured_throughput,
    plan_pass,
    predicted_throughput,
    prediction,
)
from goodalloc.models.goodput.batch_size import best_batch_size
from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.goodput.statistical_efficiency import (
    GradientStatistics,
    efficiency,
    noise_scale,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from goodalloc.data.applications.profiles import Profile
    from goodalloc.models.support.array_types import Floats


APPLICATION = "cifar10"
BATCH_SIZES = (512, 2048)
HALVES = ("first half", "second half")

TABLE_GPUS = (1, 2, 4, 8, 12, 16)
PLOTTED_GPUS = tuple(range(1, 17))

#: Number of total batch sizes among which the best by the measurements is sought.
CANDIDATES = 200


class Curve(NamedTuple):
    """Line of the figure, one value for each number of GPUs.

    Attributes
    ----------
    model
        Values by the model, shape (numbers of GPUs,).
    measured
        Values by the measurements; None without them.
    lost
        Fraction of the measured goodput lost with the model's batch size; None in 1a.
    """

    model: Floats
    measured: Floats | None = None
    lost: Floats | None = None


class TradeOffRow(NamedTuple):
    """Throughput or best batch size on some GPUs: by the model, and as measured.

    The last three columns are None without measurements, and the last in 1a.
    """

    figure: str
    line: str
    gpus: int
    unit: str
    model: float
    measured: float | None = None
    error_percent: float | None = None
    goodput_lost_percent: float | None = None


def fig1_rows(traces: str | None) -> list[TradeOffRow]:
    """Return the rows of both panels.

    Parameters
    ----------
    traces
        The artifact's folder ``traces``; None for the model alone.

    Raises
    ------
    ValueError
        If the files in `traces` are missing or malformed.
    """
    rows = []
    for panel, unit, curves in (
        ("1a", "examples/s", throughput_curves(traces, TABLE_GPUS)),
        ("1b", "examples", batch_size_curves(traces, TABLE_GPUS)),
    ):
        for line, (model, measured, lost) in curves.items():
            for index, gpus in enumerate(TABLE_GPUS):
                row = TradeOffRow(panel, line, gpus, unit, rounded(float(model[index])))
                if measured is not None:
                    error = 100.0 * float(model[index] / measured[index] - 1.0)
                    row = row._replace(
                        measured=rounded(float(measured[index])), error_percent=rounded(error, 3)
                    )
                if lost is not None:
                    percent = rounded(100.0 * float(lost[index]), 3)
                    row = row._replace(goodput_lost_percent=percent)
                rows.append(row)
    return rows


def throughput_curves(traces: str | None, gpus: Sequence[int]) -> dict[str, Curve]:
    """Return the examples per second by total batch size."""
    profile, application = load_profile(APPLICATION), _measurements(traces)
    curves = {}
    for batch in BATCH_SIZES:
        passes = [plan_pass(batch, count, profile.batch) for count in gpus]
        measured = None
        if application is not None:
            measured = np.array([measured_throughput(application, one) for one in passes])
        model = predicted_throughput(profile.throughput, passes)
        curves[f"batch size {batch}"] = Curve(model, measured)
    return curves


def batch_size_curves(traces: str | None, gpus: Sequence[int]) -> dict[str, Curve]:
    """Return the best total batch size in examples by half of the training."""
    profile, application = load_profile(APPLICATION), _measurements(traces)
    weights, initial = _halves(profile), float(profile.batch.initial)
    gradient = GradientStatistics(profile.gradient_square[0], profile.gradient_variance[0])
    noise = effective_noise_scale(np.asarray(noise_scale(gradient, initial)), weights, initial)
    model = GoodputModel(
        profile.throughput, GradientStatistics(initial, noise[:, None]), profile.batch
    )
    replicas = np.array(gpus)
    found = best_batch_size(model, np.ceil(replicas / GPUS_PER_NODE), replicas)
    curves = {}
    for half, line in enumerate(HALVES):
        atomic, accumulation = found.atomic[half], found.accumulation_steps[half]
        chosen = [Pass(*map(int, one)) for one in zip(gpus, atomic, accumulation, strict=True)]
        curve = Curve(np.array([float(one.batch_size) for one in chosen]))
        if application is not None and traces is not None:
            table, _ = read_gradient(Path(traces) / APPLICATION)
            pairs = [best_measured(application, table, one, weights[half]) for one in chosen]
            curve = Curve(curve.model, *np.array(pairs).T)
        curves[line] = curve
    return curves


def effective_noise_scale(noise: Floats, weights: Floats, initial: float) -> Floats:
    """Return the one noise scale at which all epochs together cost as much as with their own.

    Parameters
    ----------
    noise
        Noise scale of each epoch in examples, shape (epochs,).
    weights
        Progress of each epoch, shape (parts, epochs).
    initial
        M0 in examples.
    """
    mean = (weights / (noise + initial)).sum(axis=1) / weights.sum(axis=1)
    return np.asarray(1.0 / mean - initial)


def _halves(profile: Profile) -> Floats:
    """Return the progress of every epoch in the first and second half, shape (2, epochs)."""
    steps = np.diff(profile.progress, prepend=0.0)
    first = profile.progress - steps / 2 <= 0.5
    return np.where(np.stack([first, ~first]), steps, 0.0)


def _measurements(traces: str | None) -> MeasuredApplication | None:
    return None if traces is None else MeasuredApplication(Path(traces) / APPLICATION)


def best_measured(
    application: MeasuredApplication, table: Mapping[str, Any], chosen: Pass, weights: Floats
) -> tuple[float, float]:
    """Return the best total batch size by the measurements, and the goodput lost with `chosen`.

    Parameters
    ----------
    application, table
        Measured step times, and gradient statistics as `read_gradient` returns them.
    chosen
        Pass that the model chooses, which fixes the number of GPUs.
    weights
        Progress of each epoch, shape (epochs,).
    """
    limits, gpus = application.batch, chosen.gpus
    least = max(limits.initial, limits.atomic_minimum * gpus)
    totals = np.unique(np.geomspace(least, limits.maximum, CANDIDATES).round().astype(int))
    passes = [
        plan_pass(total, gpus, limits, accumulates=gpus == 1 and total > limits.initial)
        for total in totals.tolist()
    ]
    passes = [chosen, *(one for one in passes if one.batch_size <= limits.maximum)]
    batch = np.array([one.batch_size for one in passes], dtype=float)
    speed = np.array([measured_throughput(application, one) for one in passes])
    cost = (weights[:, None] / _measured_efficiency(table, batch)).sum(axis=0) / speed
    best = int(np.argmin(cost))
    return float(batch[best]), float(1.0 - cost[best] / cost[0])


def _measured_efficiency(table: Mapping[str, Any], batch: Floats) -> Floats:
    """Return the efficiency by the statistics measured at `batch`, shape (epochs, sizes)."""
    sizes = table["batch_sizes"]
    square, variance = (
        np.array([np.interp(batch, sizes, column) for column in np.transpose(table[name])])
        for name in ("square", "variance")
    )
    return np.asarray(efficiency(GradientStatistics(square, variance), sizes[0], batch))


def plot_fig1(traces: str | None) -> Figure:
    """Draw throughput (left) and best batch size (right) against GPUs.

    Parameters
    ----------
    traces
        The artifact's folder ``traces``; None for the model's lines alone.

    Raises
    ------
    ValueError
        If the files in `traces` are missing or malformed.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for ax, curves, label in (
        (left, throughput_curves(traces, PLOTTED_GPUS), "throughput (examples/s)"),
        (right, batch_size_curves(traces, PLOTTED_GPUS), "best batch size (examples)"),
    ):
        for index, (line, (model, measured, _)) in enumerate(curves.items()):
            look = {"color": COLOURS[index], "label": line, "marker": MARKERS[index]}
            ax.plot(
                PLOTTED_GPUS,
                model,
                color=COLOURS[index],
                linestyle=STYLES[index],
                linewidth=1.5,
                label=f"{line}, model" if measured is not None else line,
            )
            if measured is not None:
                look["label"] = f"{line}, measured"
                ax.plot(PLOTTED_GPUS, measured, linestyle="none", markersize=5, **look)
        open_axes(ax)
        ax.set_xticks([1, *range(2, 17, 2)])
        ax.set_xlabel(f"GPUs ({GPUS_PER_NODE} a node)")
        ax.set_ylabel(label)
        ax.set_ylim(bottom=0.0)
        ax.legend(fontsize="small", frameon=False)
    figure.suptitle(load_profile(APPLICATION).title, fontsize="medium")
    return figure


FIGURE_1 = prediction("Figure 1: batch size, GPUs and stage of training", fig1_rows, plot_fig1)
