"""Layout of a finished figure: space around named rows, and legends that hide nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.reporting.plots import LEGEND_INCHES, figure_of, legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D
    from matplotlib.transforms import Bbox

#: Space beyond the first and the last of named rows, in rows.
MARGIN = 0.6

#: Columns of a legend below its axes, and inches of each of its rows.
COLUMNS, ROW_INCHES = 3, 0.2


def lay_out(figure: Figure) -> None:
    """Give named rows space at both ends, and move legends that hide data below their axes.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import figure_of, new_axes
    >>> from goodalloc.experiments.reporting.figure_layout import lay_out
    >>> ax = new_axes()
    >>> _ = ax.barh([0, 1], [1.0, 1.0], height=1.0, label="everywhere")
    >>> _, legend = ax.set_yticks([0, 1], ["one", "another"]), ax.legend()
    >>> lay_out(figure_of(ax))
    >>> low, high = map(float, ax.get_ylim())
    >>> (low <= -0.6, high >= 1.6), ax.get_legend() is legend
    ((True, True), False)
    """
    for ax in figure.axes:
        _widen_rows(ax)
    for ax in figure.axes:
        legend = ax.get_legend()
        if legend is not None and _hides_data(ax, legend):
            _move_below(ax, legend)


def _widen_rows(ax: Axes) -> None:
    """Extend the vertical axis to `MARGIN` beyond rows that have names, one unit apart."""
    names = [label.get_text() for label in ax.get_yticklabels()]
    ticks = np.sort(np.asarray(ax.get_yticks(), dtype=float))
    named = ticks.size and all(any(map(str.isalpha, name)) for name in names)
    if not named or ax.get_yscale() != "linear" or not np.allclose(np.diff(ticks), 1.0):
        return
    bottom, top = ax.get_ylim()
    low, high = sorted((bottom, top))
    low, high = min(low, ticks[0] - MARGIN), max(high, ticks[-1] + MARGIN)
    ax.set_ylim((low, high) if bottom < top else (high, low))


def _move_below(ax: Axes, legend: Legend) -> None:
    """Draw the entries of a legend below the axes, and make the figure higher by as much."""
    names = [text.get_text() for text in legend.get_texts()]
    drawn = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    handles = [drawn.get(name, old) for name, old in zip(names, legend.legend_handles, strict=True)]
    title = legend.get_title().get_text() or None
    legend_below(ax, COLUMNS, handles=handles, labels=names, title=title)
    figure, rows = figure_of(ax), -(-len(names) // COLUMNS) + (title is not None)
    figure.set_figheight(figure.get_figheight() + LEGEND_INCHES / 2 + rows * ROW_INCHES)


def _hides_data(ax: Axes, legend: Legend) -> bool:
    """Return whether a legend lies over a bar or a marker."""
    from matplotlib.container import BarContainer

    figure_of(ax).draw_without_rendering()  # places the legend
    area = legend.get_window_extent()
    bars = [bar for one in ax.containers if isinstance(one, BarContainer) for bar in one.patches]
    if any(area.overlaps(bar.get_window_extent()) for bar in bars):
        return True
    marked = [line for line in ax.lines if line.get_marker() not in ("None", "", None)]
    return any(_within(line, area) for line in marked)


def _within(line: Line2D, area: Bbox) -> bool:
    """Return whether a point of a line lies in an area."""
    points = line.get_transform().transform(np.asarray(line.get_xydata(), dtype=float))
    return bool(((points > area.min) & (points < area.max)).all(axis=1).any())
