"""The table and the picture of the elastic jobs that were trained (`elastic.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import estimate, shown_estimate
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.table_numbers import rounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows

#: What the others are compared with.
BASELINE = "equal"


def summarise_elastic(rows: Rows) -> Rows:
    """A line a policy: averages over jobs and repetitions, and the change against equal shares.

    The change is that of the average completion time in per cent, repetition by repetition, with
    half the width of its 95 % confidence interval.
    """
    shown = []
    for policy in dict.fromkeys(row["policy"] for row in rows):
        mine = [row for row in rows if row["policy"] == policy]
        averages, base = (average_completions(rows, name) for name in (policy, BASELINE))
        change = estimate([100.0 * (ours / base[r] - 1.0) for r, ours in averages.items()])
        makespans = [max(row["end_s"] for row in mine if row["repetition"] == r) for r in averages]
        shown.append(
            {
                "policy": policy,
                "repetitions": len(averages),
                "average_completion_s": _mean(averages.values()),
                "makespan_s": _mean(makespans),
                f"change against {BASELINE} (%)": (
                    shown_estimate(**change, form="+.1f") if policy != BASELINE else ""
                ),
                "restarts_per_job": _mean(row["restarts"] for row in mine),
                "slot_seconds_per_job": _mean(row["slot_seconds"] for row in mine),
                "accuracy_percent": _mean(100.0 * row["accuracy"] for row in mine),
            }
        )
    return shown


def _mean(values: Iterable[float]) -> float:
    return rounded(float(np.mean(list(values))), 3)


def average_completions(rows: Rows, policy: str) -> dict[int, float]:
    """Mean completion time of the jobs under a policy, in seconds, by repetition."""
    found: dict[int, list[float]] = {}
    for row in rows:
        if row["policy"] == policy:
            found.setdefault(row["repetition"], []).append(row["completion_s"])
    return {repetition: float(np.mean(seconds)) for repetition, seconds in found.items()}


def plot_elastic(records: Sequence[dict[str, Any]]) -> Figure:
    """Who held how many slots when, in the first repetition of each policy; completion times."""
    from matplotlib.figure import Figure

    rows = [row for one in records for row in one["rows"]]
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    figure = Figure(figsize=(11.0, 1.4 + 1.5 * len(policies)), layout="constrained")
    grid = figure.add_gridspec(len(policies), 2, width_ratios=(2.2, 1.0))
    timelines: list[Axes] = []
    for index, policy in enumerate(policies):
        ax = figure.add_subplot(grid[index, 0], sharex=timelines[0] if timelines else None)
        found = next(one for one in records if one["rows"][0]["policy"] == policy)
        _plot_slots(found, ax)
        ax.set_title(policy, loc="left", fontsize="medium")
        ax.tick_params(labelbottom=index == len(policies) - 1)
        timelines.append(ax)
    timelines[0].set_xlim(0.0, 1.02 * max(row["end_s"] for row in rows))
    timelines[-1].set_xlabel("time from the first submission (s)")
    _plot_completions(rows, policies, figure.add_subplot(grid[:, 1]))
    handles, labels = timelines[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=len(labels), frameon=False)
    cores = rows[0]["cores"]
    figure.suptitle(f"{cores} cores, PyTorch {rows[0]['torch']}", fontsize="medium")
    return figure


def _plot_slots(found: dict[str, Any], ax: Axes) -> None:
    """A layer a job, from decision to decision until it ends; marks where it was submitted."""
    ends = {row["job"]: row["end_s"] for row in found["rows"]}
    times = sorted({0.0, *(max(at, 0.0) for at, _ in found["held"]), *ends.values()})
    below = np.zeros(len(times))
    for index, row in enumerate(found["rows"]):
        name = row["job"]
        heights = np.array([_slots(found["held"], name, at, ends[name]) for at in times])
        ax.fill_between(
            times,
            below,
            below + heights,
            step="post",
            color=COLOURS[index],
            linewidth=0.0,
            label=name,
        )
        below = below + heights
        ax.plot(row["submitted_s"], 2.15, marker="v", color=COLOURS[index], clip_on=False)
    ax.set_ylim(0.0, 2.3)
    ax.set_yticks([0, 1, 2])
    ax.set_ylabel("slots")
    open_axes(ax)


def _slots(held: Sequence[Any], name: str, at: float, end: float) -> int:
    """What a job has from a time on, as decided last."""
    decided = [slots for when, slots in held if when <= at]
    return int(decided[-1].get(name, 0)) if decided and at < end else 0


def _plot_completions(rows: Rows, policies: Sequence[str], ax: Axes) -> None:
    """A bar a policy, the mean over the repetitions, each of which is a mark."""
    for index, policy in enumerate(policies):
        averages = list(average_completions(rows, policy).values())
        ax.bar(index, np.mean(averages), color="0.8", width=0.6)
        ax.plot([index] * len(averages), averages, "o", color="black", markersize=4)
    ax.set_xticks(range(len(policies)), policies)
    ax.set_ylabel("average completion time (s)")
    ax.set_ylim(bottom=0.0)
    open_axes(ax)
