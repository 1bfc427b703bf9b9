"""Picture of kernels under the limits of a machine, and of how two libraries grow with size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from goodalloc.experiments.reporting.axes import logarithmic, open_axes
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure


class Timed(Protocol):
    """Speed of one measure on one library, as the benchmark of goodput has it."""

    @property
    def measure(self) -> str:
        """What was measured."""
        ...

    @property
    def backend(self) -> str:
        """Library."""
        ...

    @property
    def size(self) -> int:
        """Number of items."""
        ...

    @property
    def first_call_seconds(self) -> float:
        """Seconds of the first call."""
        ...

    @property
    def run_seconds(self) -> float:
        """Seconds of the fastest other one."""
        ...

    @property
    def per_second(self) -> float:
        """Items a second."""
        ...

    @property
    def functions_each(self) -> float | None:
        """Transcendental functions of an item; None where they do not limit it."""
        ...

    @property
    def bytes_each(self) -> float | None:
        """Bytes that an item moves; None where they do not limit it."""
        ...


#: Measures of the limits.
LIMITS = ("functions", "bytes")


def plot_limits(rows: Sequence[Timed]) -> Figure:
    """Draw functions a second against functions a byte under both limits, and growth with size.

    Parameters
    ----------
    rows
        The measures, those of the limits among them.
    """
    from matplotlib.figure import Figure

    most, moved = (max(row.per_second for row in rows if row.measure == limit) for limit in LIMITS)
    colours = dict(zip(dict.fromkeys(row.backend for row in rows), COLOURS, strict=False))
    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    roof, growth = figure.subplots(1, 2)
    intensity = np.geomspace(0.02, 20.0, 100)
    roof.plot(intensity, np.minimum(most, moved * intensity), color="0.4", linewidth=1.2)
    for place, row in enumerate(rows):
        if row.functions_each is not None and row.bytes_each is not None:
            roof.plot(
                row.functions_each / row.bytes_each,
                row.functions_each * row.per_second,
                linestyle="none",
                marker=MARKERS[place % len(MARKERS)],
                color=colours[row.backend],
                label=f"{row.measure}, {row.backend}",
            )
    roof.set_xlabel("transcendental functions a byte")
    roof.set_ylabel("transcendental functions a second")
    for backend, colour in colours.items():
        own = [row for row in rows if (row.measure, row.backend) == ("growth", backend)]
        sizes = [row.size for row in own]
        runs = np.array([row.run_seconds for row in own])
        growth.plot(sizes, runs, color=colour, marker="o", label=backend)
        if backend == "jax" and own:
            first = max(row.first_call_seconds - row.run_seconds for row in own)
            growth.plot(sizes, runs + first, color=colour, linestyle="--", label="jax, first call")
    growth.set_xlabel("allocations")
    growth.set_ylabel("seconds")
    for ax in (roof, growth):
        open_axes(ax)
        logarithmic(ax, "x")
        logarithmic(ax, "y")
        ax.legend(frameon=False, fontsize="small")
    return figure
