"""Picture of a fitted profile, predicted beside measured, as figure 3 of Pollux.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, figure 3. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.reporting.axes import identity, logarithmic, open_axes
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, STYLES
from goodalloc.models.goodput.throughput_model import throughput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.experiments.measure.profile_fit import ProfileFit
    from goodalloc.models.support.array_types import Flags

#: Points of a line.
POINTS = 50


def plot_profile(fit: ProfileFit, name: str) -> Figure:
    """Draw throughput against the batch size, and predicted against measured steps.

    Lines are fitted to all configurations. Steps on the right are predicted by the fits that held
    them out, if there are such fits.

    Parameters
    ----------
    fit
        The fitted profile.
    name
        Name of the trained model.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _plot_throughput(fit, left)
    _plot_steps(fit, right)
    device = fit.profile.facts["device"]
    figure.suptitle(f"{name} on {device}" if device else name, fontsize="medium")
    figure.legend(
        *left.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        frameon=False,
        fontsize="small",
    )
    return figure


def _kinds(fit: ProfileFit) -> list[tuple[int, int, int, Flags]]:
    """Return nodes, replicas and accumulated passes, each with a mask of its configurations."""
    one = fit.profile
    table = np.stack([one.nodes, one.replicas, one.accumulation_steps], axis=1).astype(int)
    return [
        (row[0], row[1], row[2], (table == row).all(axis=1))
        for row in np.unique(table, axis=0).tolist()
    ]


def _label(nodes: int, replicas: int, accumulation: int) -> str:
    """Return the label of a line."""
    several = f"{nodes} nodes, " if nodes > 1 else ""
    return f"{several}{replicas} replica{'s' * (replicas > 1)}, {accumulation} accumulated"


def _plot_throughput(fit: ProfileFit, ax: Axes) -> None:
    """Draw throughput against the batch size."""
    one = fit.profile
    for look, (nodes, replicas, accumulation, here) in enumerate(_kinds(fit)):
        atomic = one.atomic_batch_size[here]
        line = np.geomspace(atomic.min(), atomic.max(), POINTS)
        passes, colour = replicas * (accumulation + 1), COLOURS[look % len(COLOURS)]
        ax.plot(
            passes * line,
            throughput(fit.parameters, nodes, replicas, line, accumulation),
            color=colour,
            linestyle=STYLES[look % len(STYLES)],
            linewidth=1.4,
        )
        ax.plot(
            passes * atomic,
            passes * atomic / one.step_time[here],
            color=colour,
            markersize=4.5,
            linestyle="none",
            marker=MARKERS[look % len(MARKERS)],
            label=_label(nodes, replicas, accumulation),
        )
    open_axes(ax)
    logarithmic(ax, "x")
    logarithmic(ax, "y")
    ax.set_xlabel("batch size (examples)")
    ax.set_ylabel("throughput (examples/s): measured, and the model")


def _plot_steps(fit: ProfileFit, ax: Axes) -> None:
    """Draw predicted against measured steps."""
    one = fit.profile
    _, predicted = fit.predicted(held_out=bool(fit.held_out))
    for look, (*_, here) in enumerate(_kinds(fit)):
        ax.plot(
            one.step_time[here],
            predicted[here],
            linestyle="none",
            markersize=4.5,
            color=COLOURS[look % len(COLOURS)],
            marker=MARKERS[look % len(MARKERS)],
        )
    identity(ax)
    ax.set_xlabel("measured step (s)")
    ax.set_ylabel("predicted step, held out (s)" if fit.held_out else "step as fitted (s)")
