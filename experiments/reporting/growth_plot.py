"""Picture of seconds and gaps of rounds against their size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from goodalloc.experiments.reporting.axes import logarithmic, open_axes
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

#: Gaps below this are drawn there.
LEAST_GAP = 1e-14


class Decided(Protocol):
    """Round that was decided, as the benchmark of scale has it."""

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        ...

    @property
    def power(self) -> float:
        """Power of the mean."""
        ...

    @property
    def seconds(self) -> float:
        """Seconds from the round to the checked allocation."""
        ...

    @property
    def gap(self) -> float:
        """Certified relative gap."""
        ...

    @property
    def way(self) -> str:
        """How it was decided."""
        ...


def plot_growth(rows: Sequence[Decided], own: str = "price") -> Figure:
    """Draw seconds and gaps against the number of jobs: one way by power, the others together.

    Parameters
    ----------
    rows
        The rounds.
    own
        Way whose median and range are drawn for each power; of the others the median of all.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 4.2), layout="constrained")
    axes = dict(zip(("seconds", "gap"), figure.subplots(1, 2), strict=True))
    ours = [row for row in rows if row.way == own]
    others = [row for row in rows if row.way != own]
    ways = list(dict.fromkeys(row.way for row in others))
    groups = {
        f"p = {power:g}": [row for row in ours if row.power == power] for power in _powers(ours)
    }
    groups |= {way: [row for row in others if row.way == way] for way in ways}
    for place, (label, mine) in enumerate(groups.items()):
        sizes = sorted({row.jobs for row in mine})
        plain = label in ways
        look = {
            "color": "0.4" if plain else COLOURS[place],
            "marker": MARKERS[place % len(MARKERS)],
        }
        for name, ax in axes.items():
            values = [
                np.maximum([getattr(row, name) for row in mine if row.jobs == size], LEAST_GAP)
                for size in sizes
            ]
            middle = [float(np.median(found)) for found in values]
            line = "--" if plain else "-"
            ax.plot(sizes, middle, line, label=label, markersize=4, **look)
            if not plain:
                ends = np.array([[found.min(), found.max()] for found in values]).T
                ax.fill_between(sizes, *ends, color=COLOURS[place], alpha=0.12, linewidth=0.0)
    axes["seconds"].set_ylabel("seconds, round to checked allocation")
    axes["gap"].set_ylabel("certified gap")
    for ax in axes.values():
        ax.set_xlabel("jobs")
        open_axes(ax)
        logarithmic(ax, "x")
    logarithmic(axes["seconds"], "y")
    axes["gap"].set_yscale("log")
    axes["seconds"].legend(frameon=False, fontsize="small")
    return figure


def _powers(rows: Sequence[Decided]) -> list[float]:
    """Return the powers in the order of the rows."""
    return list(dict.fromkeys(row.power for row in rows))
