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
    def exact_seconds(self) -> float | None:
        """Seconds of the exact solver; None where it was not asked."""
        ...


def plot_growth(rows: Sequence[Decided]) -> Figure:
    """Draw seconds and gaps against the number of jobs, the median and the range by power.

    Parameters
    ----------
    rows
        The rounds.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    seconds, gaps = figure.subplots(1, 2)
    for place, power in enumerate(dict.fromkeys(row.power for row in rows)):
        mine = [row for row in rows if row.power == power]
        sizes = sorted({row.jobs for row in mine})
        look = {"color": COLOURS[place], "marker": MARKERS[place], "markersize": 4}
        for ax, name in ((seconds, "seconds"), (gaps, "gap")):
            values = [[getattr(row, name) for row in mine if row.jobs == size] for size in sizes]
            bounded = [np.maximum(found, LEAST_GAP) for found in values]
            middle = [float(np.median(found)) for found in bounded]
            ax.plot(sizes, middle, label=f"p = {power:g}", **look)
            ends = np.array([[found.min(), found.max()] for found in bounded]).T
            ax.fill_between(sizes, *ends, color=COLOURS[place], alpha=0.12, linewidth=0.0)
    known = [(row.jobs, row.exact_seconds) for row in rows if row.exact_seconds is not None]
    sizes = sorted({jobs for jobs, _ in known})
    exact = [float(np.median([found for jobs, found in known if jobs == size])) for size in sizes]
    seconds.plot(sizes, exact, "--x", color="0.4", label="highs, all p")
    seconds.set_ylabel("seconds, round to checked allocation")
    gaps.set_ylabel("certified gap")
    for ax in (seconds, gaps):
        ax.set_xlabel("jobs")
        open_axes(ax)
        logarithmic(ax, "x")
    logarithmic(seconds, "y")
    gaps.set_yscale("log")
    seconds.legend(frameon=False, fontsize="small")
    return figure
