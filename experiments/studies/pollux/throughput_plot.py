"""Drawing of Figure 3 of Pollux: throughput, predicted and measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.applications.application import packed
from goodalloc.data.applications.measurements import APPLICATIONS
from goodalloc.data.applications.traces import MeasuredApplication
from goodalloc.experiments.reporting.axes import logarithmic
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, STYLES
from goodalloc.experiments.studies.pollux.predictions import (
    measured_throughput,
    plan_pass,
    predicted_throughput,
    prediction,
    require_traces,
    two_rows,
)
from goodalloc.experiments.studies.pollux.throughput_prediction import (
    cross_validate,
    fig3_rows,
    read_tables,
)
from goodalloc.models.goodput.throughput_model import throughput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.pollux.throughput_prediction import CrossValidation
    from goodalloc.models.support.array_types import Floats


#: Packed allocations that were measured.
PLOTTED_GPUS = (*range(1, 17), 24, 32, 48, 64)

FIXED_GPUS = (1, 4, 16, 64)


def plot_fig3(traces: str | None) -> Figure:
    """Draw throughput by GPUs (above) and by batch size (below) of every application.

    Lines are fitted to the filled markers' half of the allocations; the open ones are held out.

    Parameters
    ----------
    traces
        The artifact's folder ``traces``.

    Raises
    ------
    ValueError
        If `traces` is None, or its files are missing or malformed.
    """
    folder = require_traces(traces, 3)
    figure, panels = two_rows(tuple(APPLICATIONS))
    validated = cross_validate(read_tables(folder))
    for (name, found), (above, below) in zip(validated.items(), panels, strict=True):
        _plot_gpus(found, MeasuredApplication(folder / name), above)
        _plot_batch_sizes(found, below)
    for ax in panels[0]:
        ax.set_ylabel("throughput (examples/s)")
    _add_legend(figure)
    return figure


def _plot_gpus(found: CrossValidation, application: MeasuredApplication, ax: Axes) -> None:
    """Draw packed GPUs at the middle and the largest measured total batch size."""
    limits, sizes = application.batch, application.batch_sizes
    for look, batch in enumerate((sizes[len(sizes) // 2], sizes[-1])):
        gpus = [count for count in PLOTTED_GPUS if count * limits.atomic_minimum <= batch]
        passes = [plan_pass(batch, count, limits) for count in gpus]
        measured = [measured_throughput(application, one) for one in passes]
        ax.plot(
            gpus,
            predicted_throughput(found.fits[0], passes),
            color=COLOURS[look],
            linestyle=STYLES[look],
            linewidth=1.4,
        )
        seen = [found.seen(len(packed(count)), count) for count in gpus]
        _mark(ax, gpus, measured, seen, look, f"{batch}")
    logarithmic(ax, "x", base=2)
    logarithmic(ax, "y")
    ax.set_xlabel("GPUs", fontsize="small")
    ax.legend(title="batch size", fontsize="small", title_fontsize="small", frameon=False)


def _plot_batch_sizes(found: CrossValidation, ax: Axes) -> None:
    """All measured batch sizes on some numbers of packed GPUs."""
    nodes, replicas, atomic, _, step = found.observations.T
    for look, gpus in enumerate(FIXED_GPUS):
        count = len(packed(gpus))
        here = (nodes == count) & (replicas == gpus)
        if not here.any():
            continue
        batch = gpus * atomic[here]
        local = np.geomspace(atomic[here].min(), atomic[here].max(), 50)
        ax.plot(
            gpus * local,
            throughput(found.fits[0], count, gpus, local, 0.0),
            color=COLOURS[look],
            linestyle=STYLES[look],
            linewidth=1.4,
        )
        seen = [found.seen(count, gpus)] * batch.size
        _mark(ax, batch, batch / step[here], seen, look, f"{gpus}")
    logarithmic(ax, "x")
    logarithmic(ax, "y")
    ax.set_xlabel("batch size (examples)", fontsize="small")
    ax.legend(title="GPUs", fontsize="small", title_fontsize="small", frameon=False)


def _mark(
    ax: Axes,
    x: Sequence[float] | Floats,
    y: Sequence[float] | Floats,
    seen: Sequence[bool],
    look: int,
    label: str,
) -> None:
    """Draw measurements: filled where they were fitted, open where they were held out."""
    for filled in (True, False):
        chosen = np.array(seen) == filled
        ax.plot(
            np.asarray(x)[chosen],
            np.asarray(y)[chosen],
            color=COLOURS[look],
            markersize=4,
            marker=MARKERS[look],
            markerfacecolor=None if filled else "white",
            linestyle="none",
        )
    ax.plot(
        [],
        [],
        color=COLOURS[look],
        marker=MARKERS[look],
        linestyle=STYLES[look],
        markersize=4,
        label=label,
    )


def _add_legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    marker: dict[str, Any] = {"color": "black", "marker": "o", "linestyle": "none"}
    figure.legend(
        handles=[
            Line2D([], [], color="black", label="model"),
            Line2D([], [], label="measured, model fitted to it", **marker),
            Line2D([], [], label="measured, held out", markerfacecolor="white", **marker),
        ],
        loc="outside lower center",
        ncols=3,
        frameon=False,
    )


FIGURE_3 = prediction(
    "Figure 3: throughput, measured and predicted",
    fig3_rows,
    plot_fig3,
    lambda plan: require_traces(plan.traces, 3),
)
