"""What replays with shared GPUs came to: a table, and pictures by load.

Changes are means of what workloads show one by one, with 95 % intervals where these are several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.experiments.reporting.estimates import estimate, shown_estimate
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, STYLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.data.workloads.generator import Requests
    from goodalloc.experiments.studies.framework.records import Rows

#: How the GPUs were asked for.
REQUESTS: Mapping[Requests, str] = {"tuned": "as experts tuned", "realistic": "as users asked"}

#: Whom utilisation is compared with.
BASELINE = "fifo"
OVER = ("busy_%", "memory_%")

#: What every replay comes to, with its form; and what some are compared by.
FORMS = {
    "jct_h": ".2f",
    "p99_h": ".1f",
    "makespan_h": ".1f",
    "busy_%": ".1f",
    "memory_%": ".1f",
    "guests": ".2f",
    "restarts": ".1f",
}
QUANTITIES = tuple(FORMS)
COMPARISONS = ("heuristic_below_%", "random_below_%", "worst_gap", "compared_rounds", "optimum_ms")


def summarise_sharing(rows: Rows) -> Rows:
    """Means over workloads; changes of utilisation against first come, first served, and of
    completion times against the system as published.
    """
    shown = []
    keys = dict.fromkeys((row["requests"], row["load"], row["policy"]) for row in rows)
    for requests, load, policy in keys:
        group = _of(rows, requests, load, policy)
        base = _of(rows, requests, load, BASELINE)
        whole = _of(rows, requests, load, group[0]["system"])
        line: dict[str, Any] = {"requests": requests, "load": load, "policy": policy}
        for name, form in FORMS.items():
            line[name] = format(_mean(group, name), form)
        for name in OVER:
            over = shown_estimate(**_change(group, base, name), form="+.1f")
            line[f"{name[:-2]}_over_{BASELINE}_%"] = over
            line[f"published_{name}"] = group[0][f"published_{name}"]
        for name in ("jct_h", "busy_%"):
            change = shown_estimate(**_change(group, whole, name), form="+.1f")
            line[f"{name[: name.index('_')]}_change_%"] = change if group != whole else ""
        for name in COMPARISONS[:2]:
            values = [row[name] for row in group if row[name] != ""]
            line[name] = format(float(np.mean(values)), ".1f") if values else ""
        shown.append(line)
    return shown


def _of(rows: Rows, requests: str, load: float, policy: str) -> Rows:
    """The rows of all workloads, in order."""
    key = (requests, load, policy)
    found = [row for row in rows if (row["requests"], row["load"], row["policy"]) == key]
    return sorted(found, key=lambda row: int(row["workload"]))


def _mean(rows: Rows, name: str) -> float:
    return float(np.mean([row[name] for row in rows]))


def _change(rows: Rows, base: Rows, name: str) -> dict[str, float]:
    """Per cent more than others have on the same workloads."""
    pairs = zip(rows, base, strict=True)
    return estimate([100.0 * (ours[name] / theirs[name] - 1.0) for ours, theirs in pairs])


def plot_sharing(rows: Rows, labels: Mapping[str, str]) -> Figure:
    """Completion times, busy GPUs and memory by load; and what leaving out a part changes.

    Parameters
    ----------
    rows
        Of the reproduction.
    labels
        What the policies are called, in order: others, the system, and what it is without a part.
    """
    from matplotlib.figure import Figure

    panels = {
        "jct_h": "average completion time (h)",
        "busy_%": "GPU time that computes (%)",
        "memory_%": "GPU memory in use (%)",
    }
    system, known = rows[0]["system"], {row["policy"] for row in rows}
    labels = {name: label for name, label in labels.items() if name in known}
    whole = list(labels).index(system) + 1
    parts = {name: labels[name] for name in list(labels)[whole:]}
    figure = Figure(figsize=(15.0, 8.0), layout="constrained")
    grid = figure.subplots(len(REQUESTS), len(panels) + 1, squeeze=False)
    loads = sorted({row["load"] for row in rows})
    for line, (requests, title) in zip(grid, REQUESTS.items(), strict=True):
        for ax, (quantity, label) in zip(line[:-1], panels.items(), strict=True):
            for index, policy in enumerate(list(labels)[:whole]):
                found = [
                    estimate([row[quantity] for row in _of(rows, requests, load, policy)])
                    for load in loads
                ]
                ax.errorbar(
                    loads,
                    [one["mean"] for one in found],
                    np.nan_to_num([one["half_width"] for one in found]),
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
            ax.set_ylim(0.0, 1.1 * max(float(row[quantity]) for row in rows))
        _plot_parts(line[-1], [row for row in rows if row["requests"] == requests], parts, loads)
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


def _plot_parts(ax: Axes, rows: Rows, parts: Mapping[str, str], loads: list[float]) -> None:
    """A line of points for every part that is left out, one a load."""
    requests, system = rows[0]["requests"], rows[0]["system"]
    for index, load in enumerate(loads):
        whole = _of(rows, requests, load, system)
        changes = [_change(_of(rows, requests, load, part), whole, "jct_h") for part in parts]
        ax.errorbar(
            [change["mean"] for change in changes],
            np.arange(len(parts)) + 0.15 * (index - (len(loads) - 1) / 2),
            xerr=np.nan_to_num([change["half_width"] for change in changes]),
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
