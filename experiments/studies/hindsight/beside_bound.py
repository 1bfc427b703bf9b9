"""Policies beside the bound and the schedules of their day: what the studies of it share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.workloads.generator import HOUR
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.comparisons.terms import Cell
from goodalloc.experiments.studies.hindsight.day_task import DayTask

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from matplotlib.axes import Axes

    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.replay.replay_conditions import Setting
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.hindsight.day_task import DayRecord

#: Steps of the search of an ideal schedule; of a quick run.
STEPS, QUICK_STEPS = 1000, 50

#: Bounds on every schedule and on every replay, and schedules with hindsight.
BOUND, ON_REPLAYS, IDEAL = "bound", "bound on replays", "ideal schedule"
REPLAYED, WITHOUT_NODES = "replayed schedule", "schedule without nodes"

#: Ratios to the bound that the axis names.
TICKS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)


def day_of(plan: Plan, workload: tuple[Submission, ...], setting: Setting) -> DayTask:
    """Return the day of a workload as a task in a folder of its own.

    Parameters
    ----------
    plan
        Options of the study.
    workload, setting
        The submitted jobs, and the conditions of their replays.
    """
    steps = QUICK_STEPS if plan.quick else STEPS
    return DayTask(plan.folder, workload, setting, plan.traces, steps).among(plan.folder, "day")


def hours_of_day(day: DayRecord) -> dict[Cell, float]:
    """Return the average hours of the schedules of a day that there are, and of its bounds.

    Examples
    --------
    >>> from goodalloc.experiments.studies.hindsight.beside_bound import hours_of_day
    >>> from goodalloc.experiments.studies.hindsight.day_task import DayRecord
    >>> found = hours_of_day(DayRecord(bound=1800.0, ideal=3600.0))
    >>> [(cell.policy, hours) for cell, hours in found.items()]
    [('ideal schedule', 1.0), ('bound', 0.5)]
    """
    seconds = {
        REPLAYED: day.replayed,
        WITHOUT_NODES: day.without_nodes,
        IDEAL: day.ideal,
        ON_REPLAYS: day.bound_on_replays,
        BOUND: day.bound,
    }
    return {
        Cell(name, "all", "adaptive"): value / HOUR
        for name, value in seconds.items()
        if value is not None
    }


def above_percent(hours: float, bound: float) -> float:
    """Return by how many per cent some hours are above the bound.

    Examples
    --------
    >>> from goodalloc.experiments.studies.hindsight.beside_bound import above_percent
    >>> above_percent(0.6, 0.4)
    50.0
    """
    return rounded(100.0 * (hours / bound - 1.0), 6)


def label_of(cell: Cell) -> str:
    """Return a policy and what it knows, for people.

    Examples
    --------
    >>> from goodalloc.experiments.studies.comparisons.terms import Cell
    >>> from goodalloc.experiments.studies.hindsight.beside_bound import label_of
    >>> label_of(Cell("sia", "measured", "adaptive")), label_of(Cell("bound", "all", "adaptive"))
    ('sia (measured)', 'bound')
    """
    alone = cell.policy == cell.knows or cell.knows == "all"
    return cell.policy if alone else f"{cell.policy} ({cell.knows})"


def draw_above(
    ax: Axes,
    above: Mapping[Cell, Sequence[float]],
    marked: Collection[Cell],
    labels: Mapping[Cell, str],
) -> list[Cell]:
    """Draw the mean of every policy over a bound; return the policies from the top down.

    Parameters
    ----------
    ax
        Axes.
    above
        Per cent above the bound on every day.
    marked
        Policies of the other colour.
    labels
        Labels of the policies.
    """
    means = {
        cell: estimate_of([1.0 + percent / 100.0 for percent in own]) for cell, own in above.items()
    }
    order = sorted(above, key=lambda cell: means[cell].mean)
    for place, cell in enumerate(order):
        found = means[cell]
        colour = COLOURS[1] if cell in marked else COLOURS[0]
        ax.errorbar(
            found.mean,
            place,
            xerr=np.nan_to_num(found.half_width),
            marker="o",
            color=colour,
            markerfacecolor=colour if cell.batch == "adaptive" else "white",
            markersize=4,
            capsize=2,
            linewidth=0.9,
        )
    ax.set_yticks(range(len(order)), [labels[cell] for cell in order], fontsize="x-small")
    ax.set_xscale("log")
    ax.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    ax.set_xticks([], minor=True)
    ax.set_xlim(left=0.9)
    ax.invert_yaxis()
    ax.set_xlabel("over the bound (filled: adaptive batch sizes)")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    open_axes(ax)
    return order
