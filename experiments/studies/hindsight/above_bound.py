"""Policies above the bounds of hindsight: how good could any scheduler have been on these days?

For every day (a workload at a load, on 64 GPUs) there is a bound below which no schedule is,
whatever the scheduler knows, one below which no replay in rounds with restarts is, an ideal
schedule with hindsight, and one that was planned on the nodes and replayed by the simulator's
rules. Between these and Pollux stand policies that know a part of what is to come, so that the
distance from Pollux to the bounds splits into what each piece of knowledge is worth (`LADDER`). At
load 1 the policies of `equal-terms`, told what they are told as published, with either batch size,
and further ones stand beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np

from goodalloc.experiments.hindsight.known_replay import Foresight
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replay_report import summarise
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.comparisons.terms import POLLUX, USUAL, Cell, replays
from goodalloc.experiments.studies.framework.reproduction import EIGHT, Plan, Reproduction
from goodalloc.experiments.studies.hindsight.beside_bound import (
    BOUND,
    IDEAL,
    ON_REPLAYS,
    REPLAYED,
    WITHOUT_NODES,
    above_percent,
    day_of,
    draw_above,
    hours_of_day,
    label_of,
)
from goodalloc.experiments.studies.hindsight.known_task import known_task
from goodalloc.solvers.policies.policy_table import POLICIES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure

    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.hindsight.day_task import DayRecord, DayTask
    from goodalloc.experiments.support.tasks import Task

#: Published loads, and that of the detailed comparison.
LOADS, DETAILED = (0.5, 1.0, 1.5, 2.0), 1.0

#: Further policies at the detailed load, with the terms that they have as published: all others of
#: `family` whose jobs have GPUs of their own.
FURTHER = (
    "pollux-greedy",
    "pollux-goodput",
    "sia",
    "tiresias-gittins",
    "gavel-makespan",
    "gavel-finish-time",
    "gavel-completion",
    "gavel-throughput",
    "gavel-levels",
    "themis-exact",
    "themis-maxmin",
    "slaq-exact",
    "allox",
)

#: Policies and schedules from Pollux to the bound, by what each has that the one before lacks.
LADDER: tuple[tuple[str, str], ...] = (
    ("pollux", "measured"),
    ("pollux", "true speed"),
    ("remaining work", "true remaining"),
    ("plans", "true remaining"),
    ("arrivals of an hour", "arrivals of an hour"),
    (REPLAYED, "all"),
    (WITHOUT_NODES, "all"),
    (ON_REPLAYS, "all"),
    (IDEAL, "all"),
    (BOUND, "all"),
)


class AboveRow(NamedTuple):
    """Policy, schedule or bound on one day.

    Attributes
    ----------
    load, workload
        The day.
    policy, knows, batch
        Policy with its terms; or a bound, or a schedule.
    average_jct_hours
        Average completion time.
    above_bound_percent
        By how much it is above the bound on every schedule.
    above_replays_percent
        By how much it is above the bound on every replay; None of what is no replay.
    of_pollux_percent
        The average completion time in per cent of that of Pollux on this day.
    step_percent
        By how much less that is than one step of the `LADDER` before; None beside the ladder.
    """

    load: float
    workload: int
    policy: str
    knows: str
    batch: str
    average_jct_hours: float
    above_bound_percent: float
    above_replays_percent: float | None
    of_pollux_percent: float
    step_percent: float | None


def _day(plan: Plan, load: float, number: int) -> DayTask:
    return day_of(plan, plan.workload(number, load=load), Setting())


def _with_pollux(plan: Plan, load: float) -> dict[Cell, list[ReplayTask]]:
    """Return replays of Pollux at a load, with what it measured and with a profile."""
    workloads = [plan.workload(number, load=load) for number in plan.workloads]
    found = {}
    for setting in (
        Setting(batch_sizes="adaptive"),
        Setting(batch_sizes="adaptive", knowledge="profiled"),
    ):
        tasks = [plan.replay("pollux", jobs, setting=setting) for jobs in workloads]
        found[Cell("pollux", *tasks[0].terms)] = tasks
    return found


def _with_all(plan: Plan) -> dict[Cell, list[ReplayTask]]:
    """Return replays of every policy at load 1, one for every workload."""
    workloads = [plan.workload(number) for number in plan.workloads]
    found = {
        cell: tasks
        for cell, tasks in replays(plan).items()
        if cell.interval == USUAL
        and (cell.policy == "pollux" or cell.knows == POLICIES[cell.policy].knows)
    }
    for policy in () if plan.quick else FURTHER:
        tasks = [plan.replay(policy, jobs) for jobs in workloads]
        found.setdefault(Cell(policy, *tasks[0].terms), tasks)
    for foresight in get_args(Foresight)[: 1 if plan.quick else None]:
        knows = foresight if foresight == "arrivals of an hour" else "true remaining"
        found[Cell(foresight, knows, "adaptive")] = [
            known_task(plan, jobs, foresight) for jobs in workloads
        ]
    return found


@dataclass(frozen=True)
class _Comparison:
    """Policies beside the bound at some loads.

    Parameters
    ----------
    loads
        The loads; of a quick run the first.
    replays
        Function that returns the replays of every policy at a load.
    """

    loads: tuple[float, ...]
    replays: Callable[[Plan, float], dict[Cell, list[ReplayTask]]]

    def _loads(self, plan: Plan) -> tuple[float, ...]:
        return self.loads[: 1 if plan.quick else None]

    def tasks(self, plan: Plan) -> list[Task]:
        """Return all work that has to be done first."""
        found: list[Task] = []
        for load in self._loads(plan):
            found += [task for tasks in self.replays(plan, load).values() for task in tasks]
            found += [_day(plan, load, number) for number in plan.workloads]
        return found

    def rows(self, plan: Plan) -> list[AboveRow]:
        """Return a row for every day and policy, the ladder first."""
        rows = []
        for load in self._loads(plan):
            found = self.replays(plan, load)
            for index, number in enumerate(plan.workloads):
                own = {cell: tasks[index] for cell, tasks in found.items()}
                rows += _rows_of_day(load, number, _day(plan, load, number).found(), own)
        return rows


def _rows_of_day(
    load: float, number: int, day: DayRecord, replayed: Mapping[Cell, ReplayTask]
) -> list[AboveRow]:
    """Return the rows of one day."""
    hours = {
        cell: float(summarise(cell.policy, task.folder)["average_jct_hours"])
        for cell, task in replayed.items()
    }
    hours |= hours_of_day(day)
    ladder = [Cell(*step, "adaptive") for step in LADDER]
    there = [cell for cell in ladder if cell in hours]
    before = dict(zip(there[1:], there, strict=False))
    bound, pollux = hours[ladder[-1]], hours[POLLUX]
    on_replays = hours[Cell(ON_REPLAYS, "all", "adaptive")]
    return [
        AboveRow(
            load,
            number,
            cell.policy,
            cell.knows,
            cell.batch,
            rounded(hours[cell], 6),
            above_percent(hours[cell], bound),
            None if cell.policy in (IDEAL, BOUND) else above_percent(hours[cell], on_replays),
            rounded(100.0 * hours[cell] / pollux, 6),
            rounded(100.0 * (hours[before[cell]] - hours[cell]) / pollux, 6)
            if cell in before
            else None,
        )
        for cell in (*there, *(cell for cell in hours if cell not in there))
    ]


def _summary(rows: list[AboveRow]) -> Rows:
    """Return means over the days with 95 % intervals, by load; the shortest times last."""
    grouped: dict[tuple[float, str, str, str], list[AboveRow]] = {}
    for row in rows:
        grouped.setdefault((row.load, row.policy, row.knows, row.batch), []).append(row)
    table = []
    for (load, policy, knows, batch), own in grouped.items():
        steps = [row.step_percent for row in own if row.step_percent is not None]
        above = [row.above_replays_percent for row in own if row.above_replays_percent is not None]
        table.append(
            {
                "load": load,
                "policy": policy,
                "knows": knows,
                "batch": batch,
                "average (h)": estimate_of([row.average_jct_hours for row in own]).text(".2f"),
                "above the bound (%)": estimate_of([row.above_bound_percent for row in own]).text(
                    ".0f"
                ),
                "above replays (%)": estimate_of(above).text(".0f") if above else "",
                "of Pollux (%)": estimate_of([row.of_pollux_percent for row in own]).text(".0f"),
                "step (%)": estimate_of(steps).text(".1f") if steps else "",
            }
        )
    return table


def _above_replays(rows: list[AboveRow]) -> list[float]:
    """Return by how much replays are above the bound on them; nothing of what is no replay."""
    return [row.above_replays_percent for row in rows if row.above_replays_percent is not None]


def plot_above(rows: list[AboveRow]) -> Figure:
    """Draw the steps from Pollux to the bound, and every policy above the bound on replays."""
    from matplotlib.figure import Figure

    cells: dict[Cell, list[AboveRow]] = {}
    for row in rows:
        cells.setdefault(Cell(row.policy, row.knows, row.batch), []).append(row)
    figure = Figure(figsize=(12.0, 1.6 + 0.2 * len(cells)), layout="constrained")
    steps, above = figure.subplots(1, 2, width_ratios=(1.0, 1.25))
    ladder = [Cell(*step, "adaptive") for step in LADDER]
    there = [cell for cell in ladder if cell in cells]
    for place, cell in enumerate(there):
        found = estimate_of([row.of_pollux_percent for row in cells[cell]])
        half = np.nan_to_num(found.half_width)
        steps.barh(place, found.mean, xerr=half, color=COLOURS[0], height=0.6, capsize=2)
        steps.annotate(
            f"{found.mean:.0f} %",
            (found.mean + half, place),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
        )
    steps.set_yticks(range(len(there)), [label_of(cell) for cell in there], fontsize="small")
    steps.invert_yaxis()
    steps.set_xlabel("average completion time, % of Pollux's")
    open_axes(steps)
    percents = {cell: _above_replays(own) for cell, own in cells.items()}
    replayed = {cell: own for cell, own in percents.items() if own}
    draw_above(above, replayed, ladder, {cell: label_of(cell) for cell in cells})
    above.set_xlabel("over the bound on replays (filled: adaptive batch sizes)")
    return figure


NOTE = """\
bound: no schedule is below it, whatever it knows. bound on replays: no replay in rounds with
restarts is; "above replays" is above it. ideal schedule: with hindsight, no restarts, GPUs
anywhere. schedule without nodes: in rounds with restarts. replayed schedule: planned on the nodes
and replayed by the simulator's rules. arrivals of an hour, plans, remaining work: policies that
know the true work that is left, and the arrivals of the next hour; plan anew whenever jobs come or
go; or decide by what is left alone. step: by how much less, in per cent of Pollux's time, than the
row before."""


def plot_loads(rows: list[AboveRow]) -> Figure:
    """Draw average completion times by load, from Pollux down to the bound."""
    ax = new_axes(6.0, 4.0)
    loads = sorted({row.load for row in rows})
    shown = [step for step in LADDER if any((row.policy, row.knows) == step for row in rows)]
    for colour, step in zip(COLOURS, shown, strict=False):
        found = [
            estimate_of(
                [
                    row.average_jct_hours
                    for row in rows
                    if row.load == load and (row.policy, row.knows) == step
                ]
            )
            for load in loads
        ]
        ax.errorbar(
            loads,
            [one.mean for one in found],
            yerr=np.nan_to_num([one.half_width for one in found]),
            marker="o",
            color=colour,
            capsize=2,
            label=label_of(Cell(*step, "adaptive")),
        )
    ax.set_xlabel("load")
    ax.set_ylabel("average completion time (h)")
    ax.set_ylim(0.0)
    ax.legend(frameon=False, fontsize="small")
    return figure_of(ax)


def _study(
    title: str, comparison: _Comparison, plot: Callable[[list[AboveRow]], Figure]
) -> Reproduction[AboveRow]:
    """Return the study of a comparison."""
    return Reproduction(
        title,
        comparison.tasks,
        comparison.rows,
        lambda _, rows: plot(rows),
        shown=_summary,
        ignores=("pollux", "seeds", "gaps"),
        workloads=EIGHT,
        quick_workloads=Plan.workloads,
        note=NOTE,
    )


HINDSIGHT = _study(
    "Policies above bounds on schedules and replays, and what each piece of knowledge is worth",
    _Comparison((DETAILED,), lambda plan, _: _with_all(plan)),
    plot_above,
)

HINDSIGHT_LOADS = _study(
    "Pollux above the bounds on schedules and replays, by load",
    _Comparison(LOADS, _with_pollux),
    plot_loads,
)
