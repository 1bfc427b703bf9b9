r"""Figure 2 of Pollux: statistical efficiency, predicted and measured.

The artifact ran every application at several total batch sizes and states the gradient statistics
of each run at equal steps of training progress. The measured efficiency of a batch size M is that
by its own statistics; the predicted one is that by the statistics of another run,

.. math:: E(M) = (\varphi + M_0) / (\varphi + M)

with the noise scale phi as measured at M0, the only one that a scheduler knows before the batch
size first changes, or at the next smaller or larger batch size, from which it would change to M.
The model holds if phi does not depend on the batch size at which it is measured.

What efficiency is for is progress: the steps at M0 that a step at M is worth. Pollux claims that at
equal progress the validation metric is the same for every batch size (its top row). So the spread
of the metric over the batch sizes is stated at equal progress and, beside it, at equal examples.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from goodalloc.data.applications.measurements import APPLICATIONS, read_gradient
from goodalloc.data.applications.profiles import load_profile
from goodalloc.data.applications.trace_files import batch_size_of
from goodalloc.data.documents.csv_table import read_table
from goodalloc.experiments.reporting.axes import logarithmic, open_axes
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, STYLES
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.pollux.predictions import (
    prediction,
    reading,
    require_traces,
)
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics, efficiency

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.models.support.array_types import Floats, Indices


#: Line styles by the batch size that a prediction starts from.
SOURCES = {"initial": STYLES[3], "next smaller": STYLES[1], "next larger": STYLES[2]}


@dataclass(frozen=True)
class Efficiencies:
    """Efficiency of every batch size by the statistics measured at every other.

    Parameters
    ----------
    batch_sizes
        Total batch sizes in examples, ascending from M0.
    progress
        Share of the training that is done at the end of each epoch.
    predicted
        Efficiency, shape (measured at, predicted for, epochs).
    """

    batch_sizes: tuple[int, ...]
    progress: Floats
    predicted: Floats

    @property
    def measured(self) -> Floats:
        """Efficiency by a batch size's own statistics, shape (batch sizes, epochs)."""
        own = np.arange(len(self.batch_sizes))
        return self.predicted[own, own]

    def sources(self, index: int) -> dict[str, int]:
        """Return the indices of the batch sizes from which that of `index` is predicted."""
        named = {"initial": 0, "next smaller": index - 1, "next larger": index + 1}
        kept: dict[str, int] = {}
        for name, source in named.items():
            if 0 <= source < len(self.batch_sizes) and source not in kept.values():
                kept[name] = source
        return kept


def read_efficiencies(traces: Path, application: str) -> Efficiencies:
    """Read the efficiencies of `application` from the artifact's measurements.

    Raises
    ------
    ValueError
        If the files in `traces` are missing or malformed.
    """
    with reading(traces / application):
        table, _ = read_gradient(traces / application)
    sizes = table["batch_sizes"]
    gradient = GradientStatistics(
        *(np.array(table[name])[:, None, :] for name in ("square", "variance"))
    )
    predicted = efficiency(gradient, sizes[0], np.array(sizes, dtype=float)[:, None])
    return Efficiencies(tuple(sizes), np.array(table["progress"]), np.asarray(predicted))


@dataclass(frozen=True)
class Validations:
    """Validation metric at the end of every epoch, by total batch size in examples, from M0 up.

    Parameters
    ----------
    progress, examples, metric
        Steps at M0 that the training was worth so far, examples that it took, and the metric.
    """

    progress: Mapping[int, Floats]
    examples: Mapping[int, Floats]
    metric: Mapping[int, Floats]

    def at_equal(self, what: Literal["progress", "examples"]) -> Floats:
        """Return the metric at the epochs of M0, shape (batch sizes, epochs of `within`)."""
        measure: Mapping[int, Floats] = getattr(self, what)
        initial = next(iter(measure))
        ends = measure[initial][self.within]
        return np.array([np.interp(ends, measure[m], found) for m, found in self.metric.items()])

    @property
    def within(self) -> Indices:
        """Indices of the epochs of M0 at whose progress and examples every run has a metric.

        Within a hundredth of the last epoch of a run, that counts.
        """
        inside = np.ones(next(iter(self.metric.values())).size, dtype=bool)
        for measure in (self.progress, self.examples):
            own = next(iter(measure.values()))
            for run in measure.values():
                inside &= (run[0] <= own * 1.001) & (own <= run[-1] * 1.01)
        return np.flatnonzero(inside)

    def spread_percent(self, what: Literal["progress", "examples"]) -> Floats:
        """Return the mean of abs(metric - mean over the batch sizes), shape (batch sizes,).

        In per cent of the change of the metric from the first epoch to the last at M0.
        """
        found, (initial, *_) = self.at_equal(what), self.metric.values()
        deviation = np.abs(found - found.mean(axis=0)).mean(axis=1)
        return np.asarray(100.0 * deviation / abs(initial[-1] - initial[0]))


def read_validations(traces: Path, application: str) -> Validations:
    """Read the validation metrics of `application` from the artifact's measurements.

    Raises
    ------
    ValueError
        If the files in `traces` are missing or malformed.
    """
    columns = ("progress", "iteration", "metric")
    with reading(traces / application):
        files = {batch_size_of(f): f for f in (traces / application).glob("validation-*.csv")}
        tables = {size: read_table(files[size], columns) for size in sorted(files)}
        steps, progress, metric = (
            {size: table.numbers(column) for size, table in tables.items()}
            for column in ("iteration", "progress", "metric")
        )
    return Validations(progress, {size: size * run for size, run in steps.items()}, metric)


class EfficiencyRow(NamedTuple):
    """Errors of the efficiency predicted for a batch size, or spread of its validation metric.

    Attributes
    ----------
    batch_size, predicted_from
        Total batch size other than M0 (where efficiency is 1 by definition), and the one whose
        statistics predict its efficiency; for a spread any batch size, and M0.
    source
        Name of `predicted_from`: "initial", "next smaller" or "next larger"; for the spread of the
        metric, "equal progress" or "equal examples".
    measured_efficiency
        Mean of the measured efficiency.
    mean_error, worst_error
        Mean and maximum of abs(predicted / measured - 1).
    bias
        Mean of predicted / measured - 1; negative where the model underestimates the efficiency.
    metric_epochs, metric_spread_percent
        Number of epochs of M0 at which the metric is compared, and the mean of abs(metric - mean
        over the batch sizes) there, in per cent of the change of the metric over the training.
    """

    application: str
    batch_size: int
    predicted_from: int
    source: str
    measured_efficiency: float
    mean_error: float | None = None
    worst_error: float | None = None
    bias: float | None = None
    metric_epochs: int | None = None
    metric_spread_percent: float | None = None


def fig2_rows(traces: str | None) -> list[EfficiencyRow]:
    """Return the errors of every application, batch size and source of its prediction.

    Parameters
    ----------
    traces
        The artifact's folder ``traces``.

    Raises
    ------
    ValueError
        If `traces` is None, or its files are missing or malformed.
    """
    folder = require_traces(traces, 2)
    rows: list[EfficiencyRow] = []
    for name in APPLICATIONS:
        found = read_efficiencies(folder, name)
        rows += _rows(name, found)
        rows += _spreads(name, found, read_validations(folder, name))
    return rows


def _rows(name: str, found: Efficiencies) -> list[EfficiencyRow]:
    rows = []
    measured = found.measured
    for index, batch in enumerate(found.batch_sizes[1:], start=1):
        for source, origin in found.sources(index).items():
            error = found.predicted[origin, index] / measured[index] - 1.0
            rows.append(
                EfficiencyRow(
                    name,
                    batch,
                    found.batch_sizes[origin],
                    source,
                    measured_efficiency=rounded(float(measured[index].mean())),
                    mean_error=rounded(float(np.abs(error).mean())),
                    worst_error=rounded(float(np.abs(error).max())),
                    bias=rounded(float(error.mean())),
                )
            )
    return rows


def _spreads(name: str, found: Efficiencies, runs: Validations) -> list[EfficiencyRow]:
    return [
        EfficiencyRow(
            name,
            batch,
            found.batch_sizes[0],
            f"equal {what}",
            measured_efficiency=rounded(float(found.measured[index].mean())),
            metric_epochs=len(runs.within),
            metric_spread_percent=rounded(float(runs.spread_percent(what)[index]), 4),
        )
        for what in ("progress", "examples")
        for index, batch in enumerate(found.batch_sizes)
    ]


def plot_fig2(traces: str | None) -> Figure:
    """Draw every application: metric by progress and by examples, efficiency by time and size.

    Parameters
    ----------
    traces
        The artifact's folder ``traces``.

    Raises
    ------
    ValueError
        If `traces` is None, or its files are missing or malformed.
    """
    from matplotlib.figure import Figure

    folder = require_traces(traces, 2)
    figure = Figure(figsize=(2.3 * len(APPLICATIONS), 10.6), layout="constrained")
    panels = figure.subplots(4, len(APPLICATIONS), squeeze=False)
    labels = (
        "validation metric",
        "validation metric",
        "efficiency",
        "efficiency, mean of training",
    )
    for row, label in zip(panels, labels, strict=True):
        row[0].set_ylabel(label)
        for ax in row:
            open_axes(ax)
    for name, (top, second, third, last) in zip(APPLICATIONS, panels.T, strict=True):
        top.set_title(load_profile(name).title, fontsize="small")
        runs, found = read_validations(folder, name), read_efficiencies(folder, name)
        _plot_metric(runs, "progress", top)
        _plot_metric(runs, "examples", second)
        _plot_training(found, third)
        _plot_batch_sizes(found, last)
    figure.legend(
        *panels[3, 0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        frameon=False,
    )
    return figure


def _plot_metric(runs: Validations, what: Literal["progress", "examples"], ax: Axes) -> None:
    """Draw the metric of every batch size, from light (M0) to dark, over progress or examples."""
    from matplotlib import colormaps

    measure: Mapping[int, Floats] = getattr(runs, what)
    whole = next(iter(measure.values()))[-1]
    shades = colormaps["viridis_r"](np.linspace(0.1, 1.0, len(measure)))
    for shade, (size, run) in zip(shades, measure.items(), strict=True):
        look: dict[str, Any] = {"marker": ".", "markersize": 3} if run.size < 20 else {}
        share = 100.0 * run / whole
        ax.plot(share, runs.metric[size], color=shade, linewidth=0.9, label=f"{size}", **look)
    ax.set_xlim(left=0.0)
    ax.set_xlabel(f"{what} (%, M0 = 100)", fontsize="small")
    if what == "examples":
        ax.legend(fontsize="x-small", frameon=False, ncols=2, title="batch size", title_fontsize=6)


def _plot_training(found: Efficiencies, ax: Axes) -> None:
    """Draw the middle and the largest batch size over the training, measured and predicted."""
    percent = 100.0 * found.progress
    sizes = len(found.batch_sizes)
    for colour, index in enumerate((sizes // 2, sizes - 1)):
        look: dict[str, Any] = {"color": COLOURS[colour], "linewidth": 1.3}
        every = max(percent.size // 8, 1)
        ax.plot(
            percent,
            found.measured[index],
            marker=MARKERS[colour],
            markersize=4,
            markevery=every,
            label=f"{found.batch_sizes[index]}",
            **look,
        )
        for source, origin in (("initial", 0), ("next smaller", index - 1)):
            ax.plot(percent, found.predicted[origin, index], linestyle=SOURCES[source], **look)
    ax.set_xlim(0.0, 102.0)
    ax.set_ylim(0.0, 1.05)
    ax.set_xlabel("training progress (%)", fontsize="small")
    ax.legend(
        title="batch size", fontsize="small", title_fontsize="small", frameon=False, loc="best"
    )


def _plot_batch_sizes(found: Efficiencies, ax: Axes) -> None:
    """Draw means over the training by batch size, measured and predicted."""
    sizes, mean = found.batch_sizes, found.predicted.mean(axis=2)
    lines = {
        "initial": (sizes, mean[0]),
        "next smaller": (sizes[1:], np.diagonal(mean, 1)),
        "next larger": (sizes[:-1], np.diagonal(mean, -1)),
    }
    for colour, (source, line) in enumerate(lines.items(), start=2):
        ax.plot(
            *line,
            color=COLOURS[colour],
            linestyle=SOURCES[source],
            linewidth=1.6,
            label=f"predicted from the {source} batch size",
        )
    ax.plot(
        sizes,
        found.measured.mean(axis=1),
        marker="o",
        markersize=5,
        linestyle="none",
        color="black",
        label="measured",
    )
    logarithmic(ax, "x", base=2)
    ax.set_xticks(sizes[::2])
    ax.set_ylim(0.0, 1.05)
    ax.set_xlabel("batch size (examples)", fontsize="small")


FIGURE_2 = prediction(
    "Figure 2: statistical efficiency, measured and predicted",
    fig2_rows,
    plot_fig2,
    lambda plan: require_traces(plan.traces, 2),
)
