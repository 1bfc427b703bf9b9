"""Rows and figure of the replays of published traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goodalloc.experiments.reporting.axes import open_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure


class TraceRow(NamedTuple):
    """Outcome of a policy on a trace; the shares of deadlines are None where there are none."""

    trace: str
    gpus: int
    load: float
    jobs: int
    policy: str
    knows: str
    batch: str
    average_jct_hours: float
    median_jct_hours: float
    p99_jct_hours: float
    makespan_hours: float
    alone_hours: float
    restarts_per_job: float
    median_rho: float
    greatest_rho: float
    deadlines_met_percent: float | None
    deadlines_possible_percent: float | None


def plot_traces(rows: Sequence[TraceRow]) -> Figure:
    """Plot average and median completion times of every policy, a panel for each trace."""
    from matplotlib.figure import Figure

    cases = list(dict.fromkeys((row.trace, row.gpus) for row in rows))
    deep = min(len(cases), 2)
    figure = Figure(figsize=(12.0, 1.0 + 3.3 * deep), layout="constrained")
    panels = figure.subplots(deep, -(-len(cases) // deep), squeeze=False)
    for ax in panels.T.flat[len(cases) :]:
        ax.set_axis_off()
    for ax, case in zip(panels.T.flat, cases, strict=False):
        mine = [row for row in rows if (row.trace, row.gpus) == case]
        place = range(len(mine))
        ax.barh(place, [row.average_jct_hours for row in mine], color="#0072B2", label="average")
        ax.plot(
            [row.median_jct_hours for row in mine],
            place,
            "D",
            color="black",
            markersize=4,
            markerfacecolor="white",
            label="median",
        )
        ax.axvline(
            mine[0].alone_hours, color="#D55E00", linewidth=1.2, label="average without waiting"
        )
        ax.set_yticks(place, [row.policy for row in mine], fontsize="x-small")
        ax.invert_yaxis()
        ax.set_title(f"{case[0]}, {case[1]} GPUs, load {mine[0].load:.2g}", fontsize="medium")
        ax.set_xlabel("job completion time (h)")
        open_axes(ax)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure
