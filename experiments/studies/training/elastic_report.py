"""Rows, table and figure of the trained elastic jobs (`elastic.py`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.documents.json_file import dump
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.training.elastic_rates import RoundSpeed

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
    interval_s
        Seconds between the decisions of the policy.
    submitted_s, first_slot_s, end_s
        Submission, first slot and end, in seconds since the first submission.
    completion_s
        Seconds from the job's submission to its end.
    slot_seconds
        Total slot time.
    rounds, measured_over_predicted
        Number of intervals between decisions in which its speed was predicted and measured, and
        the median ratio of the two; None without any.
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
    interval_s: float
    repetition: int
    job: str
    submitted_s: float
    first_slot_s: float
    end_s: float
    completion_s: float
    restarts: int
    slot_seconds: float
    rounds: int
    measured_over_predicted: float | None
    accuracy: float
    steps: int
    examples: int
    progress: float
    batch_size: int
    cores: int
    torch: str

    @property
    def setting(self) -> tuple[str, float]:
        """Policy, and seconds between its decisions."""
        return self.policy, self.interval_s


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
    speeds
        Predicted and measured speeds between decisions.
    """

    rows: list[ElasticRow]
    held: Held
    decision_seconds: list[float]
    speeds: list[RoundSpeed]

    def text(self) -> str:
        """Return the records as JSON."""
        rows = [row._asdict() for row in self.rows]
        speeds = [one._asdict() for one in self.speeds]
        return dump(self._asdict() | {"rows": rows, "speeds": speeds})

    @classmethod
    def parse(cls, text: str) -> ElasticRecords:
        """Return the records of a text that `text` returned."""
        found = json.loads(text)
        held = [(float(at), slots) for at, slots in found["held"]]
        return cls(
            [ElasticRow(**row) for row in found["rows"]],
            held,
            found["decision_seconds"],
            [RoundSpeed(**row) for row in found["speeds"]],
        )


def summarise_elastic(rows: list[ElasticRow]) -> Rows:
    """Return a row for every policy and interval: averages, and the change against equal shares.

    The change is that of the average completion time in per cent, paired by repetition, with its
    95 % confidence interval.
    """
    shown = []
    (base,) = {row.setting for row in rows if row.policy == BASELINE}
    for setting in dict.fromkeys(row.setting for row in rows):
        mine = [row for row in rows if row.setting == setting]
        averages, usual = (average_completions(rows, one) for one in (setting, base))
        change = estimate_of([100.0 * (ours / usual[r] - 1.0) for r, ours in averages.items()])
        makespans = [max(row.end_s for row in mine if row.repetition == r) for r in averages]
        ratios = [
            row.measured_over_predicted for row in mine if row.measured_over_predicted is not None
        ]
        shown.append(
            {
                "policy": setting[0],
                "interval_s": setting[1],
                "repetitions": len(averages),
                "average_completion_s": _mean(averages.values()),
                "makespan_s": _mean(makespans),
                f"change against {BASELINE} (%)": change.text("+.1f") if setting != base else "",
                "restarts_per_job": _mean(row.restarts for row in mine),
                "slot_seconds_per_job": _mean(row.slot_seconds for row in mine),
                "measured_over_predicted": _mean(ratios) if ratios else "",
                "accuracy_percent": _mean(100.0 * row.accuracy for row in mine),
            }
        )
    return shown


def _mean(values: Iterable[float]) -> float:
    return rounded(float(np.mean(list(values))), 3)


def average_completions(rows: list[ElasticRow], setting: tuple[str, float]) -> dict[int, float]:
    """Return the mean completion time of the jobs in a setting, in seconds, by repetition."""
    found: dict[int, list[float]] = {}
    for row in rows:
        if row.setting == setting:
            found.setdefault(row.repetition, []).append(row.completion_s)
    return {repetition: float(np.mean(seconds)) for repetition, seconds in found.items()}


def plot_elastic(records: Sequence[ElasticRecords]) -> Figure:
    """Draw slots over time in each setting, completion times, and speeds predicted and measured."""
    from matplotlib.figure import Figure

    rows = [row for one in records for row in one.rows]
    settings = list(dict.fromkeys(row.setting for row in rows))
    height = max(1.4 + 1.3 * len(settings), 6.0)
    figure = Figure(figsize=(11.0, height), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(2.0, 1.0), squeeze=False)[0]
    timelines = left.subplots(len(settings), 1, sharex=True, squeeze=False)[:, 0]
    for setting, ax in zip(settings, timelines, strict=True):
        found = next(one for one in records if one.rows[0].setting == setting)
        _plot_slots(found, ax)
        ax.set_title(_title(setting), loc="left", fontsize="medium")
    timelines[0].set_xlim(0.0, 1.02 * max(row.end_s for row in rows))
    timelines[-1].set_xlabel("time from the first submission (s)")
    completions, speeds = right.subplots(2, 1)
    _plot_completions(rows, settings, completions)
    _plot_speeds([speed for one in records for speed in one.speeds], speeds)
    handles, labels = timelines[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=3, frameon=False)
    figure.suptitle(f"{rows[0].cores} cores, PyTorch {rows[0].torch}", fontsize="medium")
    return figure


def _title(setting: tuple[str, float]) -> str:
    """Return a policy and its interval for people."""
    return f"{setting[0]}, {setting[1]:g} s"


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


def _plot_completions(
    rows: list[ElasticRow], settings: Sequence[tuple[str, float]], ax: Axes
) -> None:
    """Draw a bar for each setting's mean over the repetitions, and a mark for each repetition."""
    for index, setting in enumerate(settings):
        averages = list(average_completions(rows, setting).values())
        ax.barh(index, np.mean(averages), color="0.8", height=0.6)
        ax.plot(averages, [index] * len(averages), "o", color="black", markersize=3)
    ax.set_yticks(range(len(settings)), [_title(setting) for setting in settings])
    ax.invert_yaxis()
    ax.set_xlabel("average completion time (s)")
    ax.set_xlim(left=0.0)
    open_axes(ax)


def _plot_speeds(speeds: Sequence[RoundSpeed], ax: Axes) -> None:
    """Draw the measured speed of every round over the predicted one, by slots."""
    for index, slots in enumerate(sorted({one.slots for one in speeds})):
        mine = [one for one in speeds if one.slots == slots and one.measured > 0.0]
        ax.plot(
            [one.predicted for one in mine],
            [one.measured for one in mine],
            MARKERS[index],
            color=COLOURS[index],
            markersize=3,
            alpha=0.5,
            label=f"{slots} slot" if slots == 1 else f"{slots} slots",
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    if speeds:
        ends = [min(one.predicted for one in speeds), max(one.predicted for one in speeds)]
        ax.plot(ends, ends, color="0.5", linewidth=0.8)
        ax.legend(frameon=False)
    ax.set_xlabel("predicted steps at M0 (1/s)")
    ax.set_ylabel("measured")
    open_axes(ax)
