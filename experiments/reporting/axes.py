"""Style of the axes of all pictures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from goodalloc.experiments.reporting.report import SMALLEST_GAP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes


def open_axes(ax: Axes) -> None:
    """Draw a grid behind the lines, and no box.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import new_axes, open_axes
    >>> ax = new_axes()
    >>> open_axes(ax)
    >>> ax.spines["top"].get_visible()
    False
    """
    ax.grid(color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize="small")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def logarithmic(ax: Axes, axis: str, base: int = 10) -> None:
    """Make an axis ("x" or "y") logarithmic, with plain numbers; thousands are k, millions M.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import logarithmic, new_axes
    >>> ax = new_axes()
    >>> logarithmic(ax, "x")
    >>> ax.get_xscale()
    'log'
    """
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    if axis == "x":
        ax.set_xscale("log", base=base)
    else:
        ax.set_yscale("log", base=base)
    chosen = ax.xaxis if axis == "x" else ax.yaxis
    if axis == "y":
        chosen.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    chosen.set_major_formatter(EngFormatter(sep="") if base == 10 else "{x:g}")
    chosen.set_minor_formatter(NullFormatter())


def identity(ax: Axes) -> None:
    """Make both axes logarithmic with one range, and draw the line on which they are equal.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import identity, new_axes
    >>> ax = new_axes()
    >>> _ = ax.plot([1.0, 10.0], [2.0, 20.0])
    >>> identity(ax)
    >>> ax.get_xlim() == ax.get_ylim()
    True
    """
    from matplotlib.ticker import LogLocator

    open_axes(ax)
    for name, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
        logarithmic(ax, name)
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter("{x:g}")
    limits = (*ax.get_xlim(), *ax.get_ylim())
    low, high = min(limits), max(limits)
    ax.plot([low, high], [low, high], color="black", linewidth=1.0, zorder=1)
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)


def place_of_zero(gaps: Sequence[float]) -> float:
    """Return the place of a gap of zero on a logarithmic axis, a decade below the smallest gap."""
    smallest = min((gap for gap in gaps if gap > 100 * SMALLEST_GAP), default=1.0)
    return float(10.0 ** (math.floor(math.log10(smallest)) - 1))


def gap_ticks(none: float) -> tuple[list[float], list[str]]:
    """Return ticks from a gap of zero to 100 %, and their labels."""
    decades = [10.0**k for k in range(round(math.log10(none)) + 1, 3)]
    kept = decades[:: max(-(-len(decades) // 7), 1)]
    return [none, *kept], ["0", *(f"{tick:g}" for tick in kept)]


def plain_axes(ax: Axes) -> None:
    """Show plain numbers on logarithmic axes, and no box."""
    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.set_minor_formatter(lambda _value, _: "")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
