"""How the axes of all pictures look."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def open_axes(ax: Axes) -> None:
    """A grid behind the lines, and no box."""
    ax.grid(color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize="small")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def logarithmic(ax: Axes, axis: str, base: int = 10) -> None:
    """A logarithmic axis ("x" or "y") with plain numbers; thousands are k, millions M."""
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
    """Logarithmic axes of one range, and where predicted and measured would be equal."""
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
