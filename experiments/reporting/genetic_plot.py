"""Picture of the benchmark of the genetic algorithm: gaps by size, and against generations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from goodalloc.experiments.reporting.plots import COLOURS, STYLES, legend_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Starts of the runs, and their labels in the picture.
STARTS = {
    "none": "current placements",
    "greedy": "greedy allocation",
    "population": "population of a run before",
}

#: Gaps up to this, in per cent, are drawn alike.
NO_GAP = 1e-3


class Labelled(Protocol):
    """Common columns of all tables."""

    @property
    def size(self) -> str:
        """Jobs x nodes."""
        ...

    @property
    def state(self) -> str:
        """State of the generator."""
        ...

    @property
    def start(self) -> str:
        """Start of the run."""
        ...

    @property
    def seed(self) -> int:
        """Seed of the run."""
        ...

    @property
    def gap(self) -> float:
        """Relative gap."""
        ...


class Curve(Labelled, Protocol):
    """Improvement during a run."""

    @property
    def generation(self) -> int:
        """Generation of the improvement."""
        ...


class Longer(Labelled, Protocol):
    """Longer run."""

    @property
    def generations(self) -> int:
        """Number of generations."""
        ...


def plot_genetic(
    runs: Sequence[Labelled], curves: Sequence[Curve], longer: Sequence[Longer]
) -> Figure:
    """Draw every run at the published budget above, and gaps against generations below.

    Parameters
    ----------
    runs
        Runs at the published budget.
    curves, longer
        Improvements of the longer runs, and their final gaps.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 8.5), layout="constrained")
    above, *below = figure.subplot_mosaic(
        [["runs", "runs"], ["none", "greedy"]], height_ratios=(1.0, 0.9)
    ).values()
    plot_strips(runs, above)
    for start, axes in zip(("none", "greedy"), below, strict=True):
        plot_curves(curves, longer, start, axes)
    return figure


def plot_strips(runs: Sequence[Labelled], ax: Axes) -> None:
    """Draw the gap of every run as a point, and medians as lines, by size, state and start."""
    groups = list(dict.fromkeys((run.size, run.state) for run in runs))
    names = [name for name in STARTS if any(run.start == name for run in runs)]
    for number, start in enumerate(names):
        for place, group in enumerate(groups):
            gaps = [
                max(100 * run.gap, NO_GAP)
                for run in runs
                if (run.size, run.state) == group and run.start == start
            ]
            centre = place + 0.27 * (number - (len(names) - 1) / 2)
            spread = np.linspace(-0.09, 0.09, len(gaps)) if len(gaps) > 1 else np.zeros(len(gaps))
            ax.plot(
                centre + spread,
                gaps,
                "o",
                color=COLOURS[number],
                markersize=3,
                alpha=0.6,
                markeredgewidth=0,
                label=STARTS[start] if place == 0 else None,
            )
            ax.plot([centre - 0.12, centre + 0.12], [np.median(gaps)] * 2, color=COLOURS[number])
    ax.set_xticks(range(len(groups)), [f"{size}\n{state}" for size, state in groups])
    ax.set_title(
        "published budget (100 members, 100 generations), by jobs x nodes of four GPUs",
        fontsize="medium",
    )
    _gap_axis(ax)
    legend_below(ax, markerscale=2)
    ax.grid(visible=False, axis="x")


def plot_curves(curves: Sequence[Curve], longer: Sequence[Longer], start: str, ax: Axes) -> None:
    """Draw the gap against generations, a line for every longer run from one start."""
    sizes = list(dict.fromkeys(run.size for run in longer))
    states = list(dict.fromkeys(run.state for run in longer))
    named: set[tuple[str, str]] = set()
    for run in longer:
        if run.start != start:
            continue
        points = [
            point
            for point in curves
            if (point.size, point.state, point.start, point.seed)
            == (run.size, run.state, start, run.seed)
        ]
        group = (run.size, run.state)
        ax.step(
            [*(point.generation for point in points), run.generations],
            [max(100 * gap, NO_GAP) for gap in (*(point.gap for point in points), run.gap)],
            where="post",
            color=COLOURS[sizes.index(run.size) % len(COLOURS)],
            linewidth=1.1,
            linestyle=STYLES[states.index(run.state) % len(STYLES)],
            label=None if group in named else f"{run.size}, {run.state}",
        )
        named.add(group)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.axhline(1.0, color="#888888", linewidth=0.8)
    ax.axvline(100.0, color="#888888", linewidth=0.8)
    ax.set_xlabel("generations")
    ax.set_title(f"longer runs from the {STARTS[start]}", fontsize="medium")
    _gap_axis(ax)
    if named:
        legend_below(ax, columns=2)


def _gap_axis(ax: Axes) -> None:
    """Make a logarithmic axis of gaps, with the smallest at its foot."""
    decades = [0.01, 0.1, 1.0, 10.0, 100.0]
    ax.set_yscale("log")
    ax.set_ylim(NO_GAP / 1.5, 150.0)
    ax.set_yticks([NO_GAP, *decades], [f"≤ {NO_GAP:g}", *(f"{decade:g}" for decade in decades)])
    ax.set_ylabel("gap to the optimum (%)")
    ax.grid(color="#DDDDDD", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
