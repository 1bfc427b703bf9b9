"""Bound, ideal schedule and replay of a day that is planned on the nodes, side by side.

How much of the distance from the bound to what a scheduler that knows everything reaches by the
simulator's rules is due to nodes, rounds and restarts, and how much to the bound and the ideal
schedule: the replay is the plan, to the second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import EIGHT, Plan, Reproduction
from goodalloc.experiments.studies.hindsight.beside_bound import day_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.hindsight.day_task import DayRecord, DayTask


class PlacedRow(NamedTuple):
    """One day.

    Attributes
    ----------
    workload, jobs
        Number of the workload, and of its jobs.
    bound_s, bound_on_replays_s
        No schedule has a shorter average completion time, and no replay in rounds with restarts.
    ideal_s
        Of the best ideal schedule: no restarts, GPUs anywhere.
    planned_s, replayed_s
        Of the plan on the nodes, and of its replay.
    bound_over_ideal, bound_over_replayed, bound_on_replays_over_replayed, ideal_over_replayed
        Their ratios.
    """

    workload: int
    jobs: int
    bound_s: float
    bound_on_replays_s: float
    ideal_s: float
    planned_s: float
    replayed_s: float
    bound_over_ideal: float
    bound_over_replayed: float
    bound_on_replays_over_replayed: float
    ideal_over_replayed: float


def _days(plan: Plan) -> dict[int, DayTask]:
    """Return the days by workload; each has a folder that other studies share."""
    return {number: day_of(plan, plan.workload(number), Setting()) for number in plan.workloads}


def _rows(plan: Plan) -> list[PlacedRow]:
    return [
        placed_row(number, len(task.workload), task.found()) for number, task in _days(plan).items()
    ]


def placed_row(number: int, jobs: int, found: DayRecord) -> PlacedRow:
    """Return the row of a day.

    Parameters
    ----------
    number, jobs
        Number of the workload, and of its jobs.
    found
        Record of the day, on GPUs of one type.
    """
    on_replays, planned, replayed = found.bound_on_replays, found.planned, found.replayed
    assert on_replays is not None  # GPUs of one type
    assert planned is not None
    assert replayed is not None
    return PlacedRow(
        number,
        jobs,
        rounded(found.bound, 8),
        rounded(on_replays, 8),
        rounded(found.ideal, 8),
        rounded(planned, 8),
        rounded(replayed, 8),
        rounded(found.bound / found.ideal, 6),
        rounded(found.bound / replayed, 6),
        rounded(on_replays / replayed, 6),
        rounded(found.ideal / replayed, 6),
    )


def days_and_means(rows: Sequence[PlacedRow]) -> Rows:
    """Return a row for every day, and the means with 95 % intervals.

    Parameters
    ----------
    rows
        The days.
    """
    columns = {
        "bound (s)": (".0f", "bound_s"),
        "bound on replays (s)": (".0f", "bound_on_replays_s"),
        "ideal (s)": (".0f", "ideal_s"),
        "replayed (s)": (".0f", "replayed_s"),
        "bound / ideal": (".3f", "bound_over_ideal"),
        "bound / replayed": (".3f", "bound_over_replayed"),
        "bound on replays / replayed": (".3f", "bound_on_replays_over_replayed"),
        "ideal / replayed": (".3f", "ideal_over_replayed"),
    }
    days: Rows = [
        {"workload": row.workload}
        | {name: format(getattr(row, field), form) for name, (form, field) in columns.items()}
        for row in rows
    ]
    means = {
        name: estimate_of([getattr(row, field) for row in rows]).text(form)
        for name, (form, field) in columns.items()
    }
    return [*days, {"workload": "mean"} | means]


def plot_placed_days(rows: Sequence[PlacedRow]) -> Figure:
    """Draw what the bound and the ideal schedule are of the replay, a line for every day."""
    ax = new_axes(6.4, 1.2 + 0.3 * len(rows))
    for place, row in enumerate(rows):
        ax.plot([row.bound_over_replayed, 1.0], [place, place], color="0.8", zorder=0)
        for shape, colour, value in (
            ("|", COLOURS[0], row.bound_over_replayed),
            ("|", COLOURS[3], row.bound_on_replays_over_replayed),
            ("o", COLOURS[1], row.ideal_over_replayed),
            ("s", COLOURS[2], 1.0),
        ):
            ax.plot([value], [place], shape, color=colour, markersize=9 if shape == "|" else 5)
    for shape, colour, label in (
        ("|", COLOURS[0], "bound on every schedule"),
        ("|", COLOURS[3], "bound on every replay"),
        ("o", COLOURS[1], "ideal schedule"),
        ("s", COLOURS[2], "replayed on the nodes"),
    ):
        ax.plot([], [], shape, color=colour, label=label)
    ax.set_yticks(range(len(rows)), [f"workload {row.workload}" for row in rows])
    ax.invert_yaxis()
    ax.set_xlim(0.5, 1.05)
    ax.set_xlabel("average completion time over that of the replay")
    ax.legend(loc="upper left", frameon=False, fontsize="small")
    open_axes(ax)
    return figure_of(ax)


NOTE = """\
bound: no schedule is below it, whatever it knows. bound on replays: no replay in rounds with
restarts. ideal: with hindsight, no restarts, GPUs anywhere. replayed: with
hindsight and the true best batch sizes, planned on the nodes and replayed by the simulator's rules,
which ends every job at the planned second."""

PLACED_REPLAYS = Reproduction(
    "Schedules with hindsight planned on the nodes and replayed to the second, beside the bound",
    lambda plan: [*_days(plan).values()],
    _rows,
    lambda _, rows: plot_placed_days(rows),
    shown=days_and_means,
    ignores=("pollux", "seeds", "gaps"),
    workloads=EIGHT,
    quick_workloads=Plan.workloads,
    note=NOTE,
)
