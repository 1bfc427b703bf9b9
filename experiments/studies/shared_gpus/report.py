"""Table and figure of the replays with shared GPUs.

Changes are means over workloads of the change of each, with 95 % intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, STYLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.data.workloads.generator import Requests
    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows

#: Labels of the requests.
REQUESTS: Mapping[Requests, str] = {"tuned": "as experts tuned", "realistic": "as users asked"}

#: Policy whose utilisation is the baseline.
BASELINE = "fifo"


class Outcome(NamedTuple):
    """Outcome of one replay.

    Attributes
    ----------
    busy_percent, memory_percent
        GPU time that computes, and used GPU memory, of all GPUs up to the last submission.
    guests
        Mean number of jobs that train on another job's GPUs.
    compared_rounds
        Rounds that were compared with the optimum.
    optimum_ms
        Greatest time of an optimum, in milliseconds.
    heuristic_below_percent, random_below_percent
        Distance of the published heuristic, and of random pairs, below the optimum; None where no
        round was compared.
    worst_gap
        Greatest proved gap of an optimum; None where no round was compared.
    """

    average_jct_hours: float
    p99_jct_hours: float
    makespan_hours: float
    busy_percent: float
    memory_percent: float
    guests: float
    restarts_per_job: float
    compared_rounds: int = 0
    optimum_ms: float = 0.0
    heuristic_below_percent: float | None = None
    random_below_percent: float | None = None
    worst_gap: float | None = None


class SharingRow(NamedTuple):
    """Key and `Outcome` of a replay, and the published changes over other schedulers."""

    system: str
    requests: Requests
    load: float
    policy: str
    workload: int
    average_jct_hours: float
    p99_jct_hours: float
    makespan_hours: float
    busy_percent: float
    memory_percent: float
    guests: float
    restarts_per_job: float
    compared_rounds: int
    optimum_ms: float
    heuristic_below_percent: float | None
    random_below_percent: float | None
    worst_gap: float | None
    published_busy_percent: float | None = None
    published_memory_percent: float | None = None


#: Function of a row that returns one of its values.
Quantity = Callable[[SharingRow], float]

#: Quantities of every replay with their column in the table that people read, and their form.
FORMS: tuple[tuple[str, Quantity, str], ...] = (
    ("jct_h", lambda row: row.average_jct_hours, ".2f"),
    ("p99_h", lambda row: row.p99_jct_hours, ".1f"),
    ("makespan_h", lambda row: row.makespan_hours, ".1f"),
    ("busy_%", lambda row: row.busy_percent, ".1f"),
    ("memory_%", lambda row: row.memory_percent, ".1f"),
    ("guests", lambda row: row.guests, ".2f"),
    ("restarts", lambda row: row.restarts_per_job, ".1f"),
)


def summarise_sharing(rows: list[SharingRow]) -> Rows:
    """Return means over workloads, with the changes of utilisation against first come, first served
    and of completion times against the published system.
    """
    shown = []
    for requests, load, policy in dict.fromkeys((r.requests, r.load, r.policy) for r in rows):
        group = _of(rows, requests, load, policy)
        base = _of(rows, requests, load, BASELINE)
        whole = _of(rows, requests, load, group[0].system)
        line: dict[str, Any] = {"requests": requests, "load": load, "policy": policy}
        for column, quantity, form in FORMS:
            line[column] = format(float(np.mean([quantity(row) for row in group])), form)
        line[f"busy_over_{BASELINE}_%"] = _change(group, base, _busy).text("+.1f")
        line["published_busy_%"] = group[0].published_busy_percent or ""
        line[f"memory_over_{BASELINE}_%"] = _change(group, base, _memory).text("+.1f")
        line["published_memory_%"] = group[0].published_memory_percent or ""
        for name, quantity in (("jct", _hours), ("busy", _busy)):
            change = _change(group, whole, quantity).text("+.1f")
            line[f"{name}_change_%"] = change if group != whole else ""
        heuristic = [row.heuristic_below_percent for row in group]
        line["heuristic_below_%"] = _mean_of_known(heuristic)
        line["random_below_%"] = _mean_of_known([row.random_below_percent for row in group])
        shown.append(line)
    return shown


def _hours(row: SharingRow) -> float:
    return row.average_jct_hours


def _busy(row: SharingRow) -> float:
    return row.busy_percent


def _memory(row: SharingRow) -> float:
    return row.memory_percent


def _mean_of_known(values: list[float | None]) -> str:
    """Return the mean of the values that are not None; empty without any."""
    known = [value for value in values if value is not None]
    return format(float(np.mean(known)), ".1f") if known else ""


def _of(rows: list[SharingRow], requests: str, load: float, policy: str) -> list[SharingRow]:
    """Return the rows of all workloads, in order."""
    key = (requests, load, policy)
    found = [row for row in rows if (row.requests, row.load, row.policy) == key]
    return sorted(found, key=lambda row: row.workload)


def _change(rows: list[SharingRow], base: list[SharingRow], quantity: Quantity) -> Estimate:
    """Return by how much `quantity` exceeds that of `base` on the same workloads, in per cent."""
    pairs = zip(rows, base, strict=True)
    return estimate_of([100.0 * (quantity(one) / quantity(other) - 1.0) for one, other in pairs])


def plot_sharing(rows: list[SharingRow], labels: Mapping[str, str]) -> Figure:
    """Draw completion times, busy GPUs and memory by load, and the effect of every part.

    Parameters
    ----------
    rows
        Rows of the study.
    labels
        Labels of the policies: other schedulers, the system, and the system without a part.
    """
    from matplotlib.figure import Figure

    panels = {
        "average completion time (h)": _hours,
        "GPU time that computes (%)": _busy,
        "GPU memory in use (%)": _memory,
    }
    system, known = rows[0].system, {row.policy for row in rows}
    labels = {name: label for name, label in labels.items() if name in known}
    whole = list(labels).index(system) + 1
    parts = {name: labels[name] for name in list(labels)[whole:]}
    figure = Figure(figsize=(15.0, 8.0), layout="constrained")
    grid = figure.subplots(len(REQUESTS), len(panels) + 1, squeeze=False)
    loads = sorted({row.load for row in rows})
    for line, (requests, title) in zip(grid, REQUESTS.items(), strict=True):
        for ax, (label, quantity) in zip(line[:-1], panels.items(), strict=True):
            for index, policy in enumerate(list(labels)[:whole]):
                found = [
                    estimate_of([quantity(row) for row in _of(rows, requests, load, policy)])
                    for load in loads
                ]
                ax.errorbar(
                    loads,
                    [one.mean for one in found],
                    np.nan_to_num([one.half_width for one in found]),
                    label=labels[policy],
                    color=COLOURS[index],
                    linewidth=1.4,
                    markersize=5,
                    marker=MARKERS[index],
                    linestyle=STYLES[index % len(STYLES)],
                    capsize=2.0,
                    elinewidth=0.8,
                )
            ax.set_xlabel("load")
            ax.set_ylabel(label)
            ax.set_xticks(loads)
            ax.set_ylim(0.0, 1.1 * max(quantity(row) for row in rows))
        _plot_parts(line[-1], [row for row in rows if row.requests == requests], parts, loads)
        line[-1].set_xlabel(f"completion time against {labels[system]} (%)")
        line[0].set_title(f"GPUs {title}", fontsize="medium", loc="left")
        for ax in line:
            ax.grid(color="0.9")
            ax.set_axisbelow(True)
    handles, names = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower left", ncols=6, frameon=False)
    handles, names = grid[0, -1].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower right", ncols=6, frameon=False)
    return figure


def _plot_parts(
    ax: Axes, rows: list[SharingRow], parts: Mapping[str, str], loads: list[float]
) -> None:
    """Draw the change of completion times without each part, a point for every load."""
    requests, system = rows[0].requests, rows[0].system
    for index, load in enumerate(loads):
        whole = _of(rows, requests, load, system)
        changes = [_change(_of(rows, requests, load, part), whole, _hours) for part in parts]
        ax.errorbar(
            [change.mean for change in changes],
            np.arange(len(parts)) + 0.15 * (index - (len(loads) - 1) / 2),
            xerr=np.nan_to_num([change.half_width for change in changes]),
            linestyle="",
            color=COLOURS[index + 4],
            marker=MARKERS[index + 4],
            markersize=4,
            capsize=2.0,
            elinewidth=0.8,
            label=f"load {load:g}",
        )
    ax.axvline(0.0, color="0.5", linewidth=0.8)
    ax.set_yticks(range(len(parts)), list(parts.values()))
    ax.invert_yaxis()
