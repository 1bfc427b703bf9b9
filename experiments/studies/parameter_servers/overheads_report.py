"""Table and figure of the measured overheads (`overheads.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.reporting.axes import identity, open_axes
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS
from goodalloc.experiments.reporting.table_numbers import rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.parameter_servers.overhead_measurements import OverheadRow

#: Labels of the parts of a restart, by column.
PARTS = {
    "checkpoint_s": "checkpoint written",
    "stop_s": "old processes stopped",
    "interpreters_s": "interpreters started",
    "imports_s": "PyTorch imported",
    "connection_s": "connected",
    "state_s": "state loaded",
    "first_step_s": "first step",
}

#: Seconds of a round of AITurbo.
ROUND = 240.0

#: Shares, in per cent, to which an overhead may be limited.
SHARES = (5, 1)


def summarise_overheads(rows: list[OverheadRow]) -> Rows:
    """Return median, least and greatest value of every network and quantity, and their number."""
    shown = []
    for network in dict.fromkeys(row.network for row in rows):
        quantities = _quantities([row for row in rows if row.network == network])
        for quantity, values in quantities.items():
            shown.append(
                {
                    "network": network,
                    "quantity": quantity,
                    "median": rounded(np.median(values), 3),
                    "least": rounded(min(values), 3),
                    "greatest": rounded(max(values), 3),
                    "values": len(values),
                }
            )
    return shown


def _quantities(rows: list[OverheadRow]) -> dict[str, Sequence[float]]:
    """Return the measured quantities of a network, by name."""
    restarts, fitted, held_out = (
        [row for row in rows if row.kind == kind] for kind in ("restart", "fitted", "held out")
    )
    costs = [row.cost_s for row in restarts]
    repetitions = dict.fromkeys(row.repetition for row in fitted)
    sums = [sum(row.cost_s for row in fitted if row.repetition == r) for r in repetitions]
    configurations = len(fitted) // len(repetitions)
    return {
        **{
            f"restart: {name} (s)": [getattr(row, part) for row in restarts]
            for part, name in PARTS.items()
        },
        "restart: all (s)": costs,
        "restart: processor time of the start (s)": [row.start_processor_s for row in restarts],
        "usual step between restarts (s)": [row.step_s for row in restarts],
        f"a restart in every {ROUND:g} s (%)": [100.0 * cost / ROUND for cost in costs],
        **{
            f"round of which a restart is {share} % (s)": [100.0 * cost / share for cost in costs]
            for share in SHARES
        },
        "profiling: a configuration (s)": [row.cost_s for row in fitted],
        f"profiling: {configurations} configurations (s)": sums,
        **{
            f"job of which profiling is {share} % (s)": [100.0 * s / share for s in sums]
            for share in SHARES
        },
        "error of a step as fitted (%)": [abs(row.error_percent or 0.0) for row in fitted],
        "error of a step as predicted (%)": [abs(row.error_percent or 0.0) for row in held_out],
    }


def plot_overheads(rows: list[OverheadRow]) -> Figure:
    """Draw the parts of a restart by configuration, and predicted over measured steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 5.0), layout="constrained")
    parts, steps = figure.subplots(1, 2, width_ratios=(1.3, 1.0))
    _plot_parts([row for row in rows if row.kind == "restart"], parts)
    _plot_steps([row for row in rows if row.kind != "restart"], steps)
    cores = rows[0].cores
    figure.suptitle(f"{cores} cores, PyTorch {rows[0].torch}", fontsize="medium")
    return figure


def _plot_parts(rows: list[OverheadRow], ax: Axes) -> None:
    """Draw bars of medians for every network and configuration, with ranges over repetitions."""
    groups: dict[str, list[OverheadRow]] = {}
    for row in rows:
        before = f"{row.old_servers} × {row.old_workers}"
        after = f"{row.servers} × {row.workers}"
        groups.setdefault(f"{row.network}, {before} to {after}", []).append(row)
    names = list(groups)
    left = np.zeros(len(names))
    for index, (part, label) in enumerate(PARTS.items()):
        widths = np.array(
            [np.median([getattr(row, part) for row in groups[name]]) for name in names]
        )
        ax.barh(range(len(names)), widths, left=left, color=COLOURS[index], label=label)
        left += widths
    for place, name in enumerate(names):
        costs = [row.cost_s for row in groups[name]]
        ax.plot([min(costs), max(costs)], [place, place], color="black", marker="|", linewidth=1.0)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel("restart, from and to servers × workers (s)")
    open_axes(ax)
    ax.legend(loc="upper center", bbox_to_anchor=(0.4, -0.13), ncols=4, frameon=False)


def _plot_steps(rows: list[OverheadRow], ax: Axes) -> None:
    """Draw predicted over measured steps; hollow marks were held out."""
    for index, network in enumerate(dict.fromkeys(row.network for row in rows)):
        for kind in ("fitted", "held out"):
            some = [row for row in rows if (row.network, row.kind) == (network, kind)]
            face = COLOURS[index] if kind == "fitted" else "none"
            ax.plot(
                [row.step_s for row in some],
                [row.predicted_s or 0.0 for row in some],
                linestyle="none",
                marker=MARKERS[index],
                markersize=5,
                color=COLOURS[index],
                markerfacecolor=face,
                label=f"{network}, {kind}",
            )
    identity(ax)
    ax.set_xlabel("measured step (s)")
    ax.set_ylabel("fitted and predicted step (s)")
    ax.legend(frameon=False)
