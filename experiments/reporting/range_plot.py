"""Lines of means with whiskers, drawn side by side over sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.experiments.reporting.plots import COLOURS, MARKERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

#: Shift between lines as a share of the size, so that no whisker hides another.
SHIFT = 0.055
#: The same on a linear axis.
LINEAR_SHIFT = 0.008


def plot_ranges(
    ax: Axes, lines: Mapping[str, Mapping[Any, Sequence[float]]], *, doubling: bool = True
) -> None:
    """Draw the mean of the values at every size, with whiskers from the least to the greatest.

    Parameters
    ----------
    ax
        Axes to draw into; its horizontal axis gets a tick for every size.
    lines
        Values by label and by size.
    doubling
        Whether the horizontal axis becomes logarithmic, with base 2.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import new_axes, plot_ranges
    >>> ax = new_axes()
    >>> plot_ranges(ax, {"exact": {2: [0.1, 0.3], 4: [0.5, 0.7]}})
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['2', '4']
    """
    shift = SHIFT if doubling else LINEAR_SHIFT
    for index, (label, measured) in enumerate(lines.items()):
        sizes = np.array(list(measured))
        mean, least, greatest = (
            np.array([statistic(values) for values in measured.values()])
            for statistic in (np.mean, np.min, np.max)
        )
        ax.errorbar(
            sizes * (1.0 + shift * (index - (len(lines) - 1) / 2)),
            mean,
            np.array([mean - least, greatest - mean]),
            label=label,
            color=COLOURS[index % len(COLOURS)],
            marker=MARKERS[index % len(MARKERS)],
            markersize=5,
            capsize=2,
            linewidth=1.4,
        )
    ticks = sorted({size for measured in lines.values() for size in measured})
    if doubling:
        ax.set_xscale("log", base=2)
    ax.set_xticks(ticks, [str(size) for size in ticks])
    ax.minorticks_off()
    ax.grid(color="0.9")
    ax.set_axisbelow(True)
