r"""Figure 2 of Pollux: statistical efficiency, predicted and measured.

The artifact ran every application at several total batch sizes and states the gradient statistics
of each run at equal steps of training progress. The measured efficiency of a batch size M is that
by its own statistics; the predicted one is that by the statistics of another run,

.. math:: E(M) = (\varphi + M_0) / (\varphi + M)

with the noise scale phi as measured at M0, the only one that a scheduler knows before the batch
size first changes, or at the next smaller or larger batch size, from which it would change to M.
The model holds if phi does not depend on the batch size at which it is measured.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.applications.measurements import APPLICATIONS, read_gradient
from goodalloc.experiments.reporting.axes import logarithmic
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, STYLES
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.pollux.predictions import (
    prediction,
    reading,
    require_traces,
    two_rows,
)
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics, efficiency

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.models.support.array_types import Floats


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


class EfficiencyRow(NamedTuple):
    """Relative errors of the efficiency predicted for a batch size, over the epochs of a training.

    Attributes
    ----------
    batch_size, predicted_from
        Total batch size other than M0 (where efficiency is 1 by definition), and the one whose
        statistics predict its efficiency.
    source
        Name of `predicted_from`: "initial", "next smaller" or "next larger".
    measured_efficiency
        Mean of the measured efficiency.
    mean_error, worst_error
        Mean and maximum of abs(predicted / measured - 1).
    bias
        Mean of predicted / measured - 1; negative where the model underestimates the efficiency.
    """

    application: str
    batch_size: int
    predicted_from: int
    source: str
    measured_efficiency: float
    mean_error: float
    worst_error: float
    bias: float


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
    return [row for name in APPLICATIONS for row in _rows(name, read_efficiencies(folder, name))]


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


def plot_fig2(traces: str | None) -> Figure:
    """Draw efficiency over the training (above) and by batch size (below) of every application.

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
    figure, panels = two_rows(tuple(APPLICATIONS))
    for name, (above, below) in zip(APPLICATIONS, panels, strict=True):
        found = read_efficiencies(folder, name)
        _plot_training(found, above)
        _plot_batch_sizes(found, below)
    panels[0][0].set_ylabel("efficiency")
    panels[0][1].set_ylabel("efficiency, mean over the training")
    figure.legend(
        *panels[0][1].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        frameon=False,
    )
    return figure


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
