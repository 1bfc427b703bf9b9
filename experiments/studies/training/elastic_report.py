"""Rows, table and figure of the trained elastic jobs (`elastic.py`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.documents.json_file import dump
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.table_numbers import rounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows

#: Policy that the others are compared with.
BASELINE = "equal"

#: Times in seconds since the first submission, and the slots of every job from then on.
Held = list[tuple[float, dict[str, int]]]


class ElasticRow(NamedTuple):
    """Outcome of one job in one repetition under a policy.

    Attributes
    ----------
    submitted_s, first_slot_s, end_s
        Submission, first slot and end, in seconds since the first submission.
    completion_s
        Seconds from the job's submission to its end.
    slot_seconds
        Total slot time.
    accuracy
        Fraction of the validation examples that the trained network classifies correctly.
    steps, examples, progress
        Optimiser steps, examples and scale-invariant steps.
    batch_size
        Total batch size at the end.
    cores, torch
        Cores of the machine, and version of PyTorch.
    """

    policy: str
    repetition: int
    job: str
    submitted_s: float
    first_slot_s: float
    end_s: float
    completion_s: float
    restarts: int
    slot_seconds: float
    accuracy: float
    steps: int
    examples: int
    progress: float
    batch_size: int
    cores: int
    torch: str


class ElasticRecords(NamedTuple):
    """Records of one repetition under a policy.

    Attributes
    ----------
    rows
        Outcome of every job.
    held
        Slots of the jobs over time.
    decision_seconds
        Seconds of every decision.
    """

    rows: list[ElasticRow]
    held: Held
    decision_seconds: list[float]

    def text(self) -> str:
        """Return the records as JSON."""
        return dump(self._asdict() | {"rows": [row._asdict() for row in self.rows]})

    @classmethod
    def parse(cls, text: str) -> ElasticRecords:
        """Return the records of a text that `text` returned."""
        found = json.loads(text)
        held = [(float(at), slots) for at, slots in found["held"]]
        return cls([ElasticRow(**row) for row in found["rows"]], held, found["decision_seconds"])


def summarise_elastic(rows: list[ElasticRow]) -> Rows:
    """Return a row for every policy: averages, and the change against equal shares.

    The change is that of the average completion time in per cent, paired by repetition, with its
    95 % confidence interval.
    """
    shown = []
    for policy in dict.fromkeys(row.policy for row in rows):
        mine = [row for row in rows if row.policy == policy]
        averages, base = (average_completions(rows, name) for name in (policy, BASELINE))
        change = estimate_of([100.0 * (ours / base[r] - 1.0) for r, ours in averages.items()])
        makespans = [max(row.end_s for row in mine if row.repetition == r) for r in averages]
        shown.append(
            {
                "policy": policy,
                "repetitions": len(averages),
                "average_completion_s": _mean(averages.values()),
                "makespan_s": _mean(makespans),
                f"change against {BASELINE} (%)": (
                    change.text("+.1f") if policy != BASELINE else ""
                ),
                "restarts_per_job": _mean(row.restarts for row in mine),
                "slot_seconds_per_job": _mean(row.slot_seconds for row in mine),
                "accuracy_percent": _mean(100.0 * row.accuracy for row in mine),
            }
        )
    return shown


def _mean(values: Iterable[float]) -> float:
    return rounded(float(np.mean(list(values))), 3)


def average_completions(rows: list[ElasticRow], policy: str) -> dict[int, float]:
    """Return the mean completion time of the jobs under `policy`, in seconds, by repetition."""
    found: dict[int, list[float]] = {}
    for row in rows:
        if row.policy == policy:
            found.setdefault(row.repetition, []).append(row.completion_s)
    return {repetition: float(np.mean(seconds)) for repetition, seconds in found.items()}


def plot_elastic(records: Sequence[ElasticRecords]) -> Figure:
    """Draw the slots over time in the first repetition of each policy, and completion times."""
    from matplotlib.figure import Figure

    rows = [row for one in records for row in one.rows]
    policies = list(dict.fromkeys(row.policy for row in rows))
    figure = Figure(figsize=(11.0, 1.4 + 1.5 * len(policies)), layout="constrained")
    grid = figure.add_gridspec(len(policies), 2, width_ratios=(2.2, 1.0))
    timelines: list[Axes] = []
    for index, policy in enumerate(policies):
        ax = figure.add_subplot(grid[index, 0], sharex=timelines[0] if timelines else None)
        found = next(one for one in records if one.rows[0].policy == policy)
        _plot_slots(found, ax)
        ax.set_title(policy, loc="left", fontsize="medium")
        ax.tick_params(labelbottom=index == len(policies) - 1)
        timelines.append(ax)
    timelines[0].set_xlim(0.0, 1.02 * max(row.end_s for row in rows))
    timelines[-1].set_xlabel("time from the first submission (s)")
    _plot_completions(rows, policies, figure.add_subplot(grid[:, 1]))
    handles, labels = timelines[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=len(labels), frameon=False)
    figure.suptitle(f"{rows[0].cores} cores, PyTorch {rows[0].torch}", fontsize="medium")
    return figure


def _plot_slots(found: ElasticRecords, ax: Axes) -> None:
    """Draw a layer for every job between decisions until it ends, and a mark at its submission."""
    ends = {row.job: row.end_s for row in found.rows}
    times = sorted({0.0, *(max(at, 0.0) for at, _ in found.held), *ends.values()})
    below = np.zeros(len(times))
    for index, row in enumerate(found.rows):
        name = row.job
        heights = np.array([_slots(found.held, name, at, ends[name]) for at in times])
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
        ax.plot(row.submitted_s, 2.15, marker="v", color=COLOURS[index], clip_on=False)
    ax.set_ylim(0.0, 2.3)
    ax.set_yticks([0, 1, 2])
    ax.set_ylabel("slots")
    open_axes(ax)


def _slots(held: Held, name: str, at: float, end: float) -> int:
    """Return the slots of a job at the time `at`, by the last decision; 0 after its `end`."""
    decided = [slots for when, slots in held if when <= at]
    return int(decided[-1].get(name, 0)) if decided and at < end else 0


def _plot_completions(rows: list[ElasticRow], policies: Sequence[str], ax: Axes) -> None:
    """Draw a bar for each policy's mean over the repetitions, and a mark for each repetition."""
    for index, policy in enumerate(policies):
        averages = list(average_completions(rows, policy).values())
        ax.bar(index, np.mean(averages), color="0.8", width=0.6)
        ax.plot([index] * len(averages), averages, "o", color="black", markersize=4)
    ax.set_xticks(range(len(policies)), policies)
    ax.set_ylabel("average completion time (s)")
    ax.set_ylim(bottom=0.0)
    open_axes(ax)
