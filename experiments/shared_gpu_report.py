"""What replays with shared GPUs came to: a table, and pictures by load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.experiments.plots import COLOURS, MARKERS, STYLES
from goodalloc.experiments.replay_report import rounded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from goodalloc.data.workload_generator import Requests
    from goodalloc.experiments.reproduction import Rows

#: How the GPUs were asked for.
REQUESTS: Mapping[Requests, str] = {"tuned": "as experts tuned", "realistic": "as users asked"}

#: Whom utilisation is compared with.
BASELINE = "fifo"
OVER = ("busy_%", "memory_%")

#: What every replay comes to, and what some are compared by.
QUANTITIES = ("jct_h", "p99_h", "makespan_h", "busy_%", "memory_%", "restarts")
COMPARISONS = (
    "heuristic_below_%", "random_below_%", "worst_gap", "compared_rounds", "optimum_ms",
)  # fmt: skip


def summarise_sharing(rows: Rows) -> Rows:
    """Means over workloads, and how much more is busy and full than first come, first served."""
    shown = []
    keys = dict.fromkeys((row["requests"], row["load"], row["policy"]) for row in rows)
    for requests, load, policy in keys:
        group = _of(rows, requests, load, policy)
        base = _of(rows, requests, load, BASELINE)
        line: dict[str, Any] = {"requests": requests, "load": load, "policy": policy}
        for name in QUANTITIES:
            line[name] = rounded(_mean(group, name), 3)
        for name in OVER:
            over = 100.0 * (_mean(group, name) / _mean(base, name) - 1.0)
            line[f"{name[:-2]}_over_{BASELINE}_%"] = rounded(over, 3)
            line[f"published_{name}"] = group[0][f"published_{name}"]
        below = [row for row in group if row["heuristic_below_%"] != ""]
        for name in COMPARISONS[:2]:
            values = [row[name] for row in below if row[name] != ""]
            line[name] = rounded(float(np.mean(values)), 3) if values else ""
        shown.append(line)
    return shown


def _of(rows: Rows, requests: str, load: float, policy: str) -> Rows:
    """The rows of all workloads."""
    key = (requests, load, policy)
    return [row for row in rows if (row["requests"], row["load"], row["policy"]) == key]


def _mean(rows: Rows, name: str) -> float:
    return float(np.mean([row[name] for row in rows]))


def plot_sharing(rows: Rows, labels: Mapping[str, str]) -> Figure:
    """Completion times, makespans, busy GPUs and memory by load, a row of panels a request.

    Parameters
    ----------
    rows
        Of the reproduction.
    labels
        What the policies are called, in order.
    """
    from matplotlib.figure import Figure

    panels = {
        "jct_h": "average completion time (h)", "makespan_h": "makespan (h)",
        "busy_%": "GPU time that computes (%)", "memory_%": "GPU memory in use (%)",
    }  # fmt: skip
    figure = Figure(figsize=(15.0, 7.5), layout="constrained")
    grid = figure.subplots(len(REQUESTS), len(panels), squeeze=False)
    loads = sorted({row["load"] for row in rows})
    for line, (requests, title) in zip(grid, REQUESTS.items(), strict=True):
        for ax, (quantity, label) in zip(line, panels.items(), strict=True):
            for index, (policy, name) in enumerate(labels.items()):
                means = [_mean(_of(rows, requests, load, policy), quantity) for load in loads]
                ax.plot(
                    loads, means, label=name, color=COLOURS[index], linewidth=1.4, markersize=5,
                    marker=MARKERS[index], linestyle=STYLES[index % len(STYLES)],
                )  # fmt: skip
            ax.set_xlabel("load")
            ax.set_ylabel(label)
            ax.set_xticks(loads)
            ax.set_ylim(bottom=0)
            ax.grid(color="0.9")
            ax.set_axisbelow(True)
        line[0].set_title(f"GPUs {title}", fontsize="medium", loc="left")
    figure.legend(
        *grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False
    )
    return figure
