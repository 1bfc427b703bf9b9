"""Policies on a tree of racks above the bound on any schedule there.

The replays are those of the study `tree-replays`. On the tree of each of its days there is a bound
below which no schedule is, a greater one on replays in rounds with restarts, and an ideal schedule
with hindsight (`formulations/HINDSIGHT.md`). Nothing is replayed with hindsight on trees.

The rates of the problem are the greatest over all placements and batch sizes, each at the lowest
level that has room for its nodes (`goodalloc.data.applications.on_best_levels`). What uplinks and
required levels forbid is left out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.comparisons.terms import Cell
from goodalloc.experiments.studies.framework.reproduction import EIGHT, Plan, Reproduction
from goodalloc.experiments.studies.hindsight.beside_bound import (
    BOUND,
    IDEAL,
    ON_REPLAYS,
    above_percent,
    day_of,
    draw_above,
    hours_of_day,
    label_of,
)
from goodalloc.experiments.studies.hindsight.day_task import DayRecord, DayTask
from goodalloc.experiments.studies.topology.replays import (
    TREE_REPLAYS,
    WISHES,
    loads_of,
    tree_replay,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.support.tasks import Report, Task

NOTE = """\
bound: no schedule on the tree is below it, whatever it knows. bound on replays: no replay in rounds
with restarts. ideal schedule: with hindsight, no restarts, nodes as near as there are any. at
least, at most: of the workloads."""


@dataclass(frozen=True)
class TreeDayTask(DayTask):
    """Day with hindsight on the tree of the study `tree-replays`; see `DayTask`."""

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        return super().description() | {
            "format": "goodalloc-hindsight-tree-day",
            "topology": asdict(WISHES.topology),
        }

    def work(self, report: Report) -> dict[str, float | None]:
        """Bound the day, and find an ideal schedule."""
        from goodalloc.experiments.hindsight.day import HindsightDay  # not needed to describe a day
        from goodalloc.experiments.hindsight.day_by_objective import day_by
        from goodalloc.experiments.hindsight.day_search import DaySearch
        from goodalloc.experiments.replay_bound.replay_bound import bound_replays

        day = day_by(
            "completion",
            self.workload,
            self.setting,
            self.traces,
            DaySearch(steps=self.steps),
            topology=WISHES.topology,
            report=report,
        )
        assert isinstance(day, HindsightDay)  # of an average
        on_replays = bound_replays(day, self.setting, self.traces)
        return DayRecord(
            float(day.certificate["bound"]),
            day.schedule.value,
            float(on_replays.certificate["bound"]),
        )._asdict()


class TreesRow(NamedTuple):
    """Policy, schedule or bound on one day.

    Attributes
    ----------
    load, workload
        The day.
    policy, knows, batch
        Policy with its placing and its terms; or the bound, or the schedule.
    average_jct_hours
        Average completion time.
    above_bound_percent
        By how much it is above the bound.
    """

    load: float
    workload: int
    policy: str
    knows: str
    batch: str
    average_jct_hours: float
    above_bound_percent: float

    @property
    def cell(self) -> Cell:
        """The policy with its terms."""
        return Cell(self.policy, self.knows, self.batch)


def _day(plan: Plan, load: float, number: int) -> TreeDayTask:
    replay = tree_replay(plan, load, number, "pollux")
    flat = day_of(plan, replay.workload, replay.setting)
    return TreeDayTask(**vars(flat)).among(plan.folder, "tree-day")


def _tasks(plan: Plan) -> list[Task]:
    """Return the days, and the replays of the study `tree-replays`."""
    days = [_day(plan, load, number) for load in loads_of(plan) for number in plan.workloads]
    return [*days, *TREE_REPLAYS.tasks(plan)]


def _rows(plan: Plan) -> list[TreesRow]:
    """Return a row for every day and policy, the shortest possible times last."""
    replayed, rows = TREE_REPLAYS.rows(plan), []
    for load in loads_of(plan):
        for number in plan.workloads:
            hours = {
                Cell(row.policy, row.knows, row.batch): row.average_jct_hours
                for row in replayed
                if (row.load, row.workload) == (load, number)
            }
            day = _day(plan, load, number).found()
            bound = hours_of_day(day)[Cell(BOUND, "all", "adaptive")]
            rows += [
                TreesRow(
                    load,
                    number,
                    cell.policy,
                    cell.knows,
                    cell.batch,
                    rounded(value, 6),
                    above_percent(value, bound),
                )
                for cell, value in (hours | hours_of_day(day)).items()
            ]
    return rows


def _by_policy(rows: list[TreesRow], load: float) -> dict[Cell, list[TreesRow]]:
    found: dict[Cell, list[TreesRow]] = {}
    for row in rows:
        if row.load == load:
            found.setdefault(row.cell, []).append(row)
    return found


def summarise_on_trees(rows: list[TreesRow]) -> Rows:
    """Return means over the days of a load with 95 % intervals, by policy.

    Parameters
    ----------
    rows
        Rows of all days.

    Examples
    --------
    >>> from goodalloc.experiments.studies.hindsight.trees_above_bound import TreesRow
    >>> from goodalloc.experiments.studies.hindsight.trees_above_bound import summarise_on_trees
    >>> row = TreesRow(0.5, 3, "pollux", "measured", "adaptive", 0.6, 150.0)
    >>> other = row._replace(workload=1, above_bound_percent=160.0)
    >>> (line,) = summarise_on_trees([row, other])
    >>> line["above the bound (%)"], line["at least (%)"], line["at most (%)"]
    ('155 ± 64', '150', '160')
    """
    table = []
    for load in dict.fromkeys(row.load for row in rows):
        for cell, own in _by_policy(rows, load).items():
            above = [row.above_bound_percent for row in own]
            table.append(
                {
                    "load": load,
                    "policy": cell.policy,
                    "knows": cell.knows,
                    "batch": cell.batch,
                    "average (h)": estimate_of([row.average_jct_hours for row in own]).text(".2f"),
                    "above the bound (%)": estimate_of(above).text(".0f"),
                    "at least (%)": f"{min(above):.0f}",
                    "at most (%)": f"{max(above):.0f}",
                }
            )
    return table


def plot_on_trees(rows: list[TreesRow]) -> Figure:
    """Draw the mean of every policy over the bound, a panel for each load.

    Parameters
    ----------
    rows
        Rows of all days.
    """
    from matplotlib.figure import Figure

    loads = list(dict.fromkeys(row.load for row in rows))
    figure = Figure(figsize=(5.2 * len(loads) + 0.8, 3.6), layout="constrained")
    panels = figure.subplots(1, len(loads), squeeze=False)[0]
    greatest = max(1.0 + row.above_bound_percent / 100.0 for row in rows)
    for ax, load in zip(panels, loads, strict=True):
        cells = _by_policy(rows, load)
        above = {cell: [row.above_bound_percent for row in own] for cell, own in cells.items()}
        ends = [cell for cell in cells if cell.policy in (BOUND, ON_REPLAYS, IDEAL)]
        draw_above(ax, above, ends, {cell: label_of(cell) for cell in cells})
        ax.set_xlim(right=1.15 * greatest)
        ax.set_title(f"load {load:g}", fontsize="medium")
    return figure


TREES = Reproduction(
    "hindsight-trees: policies on a tree of racks above the bound on any schedule there",
    _tasks,
    _rows,
    lambda _, rows: plot_on_trees(rows),
    shown=summarise_on_trees,
    ignores=TREE_REPLAYS.ignores,
    workloads=EIGHT,
    quick_workloads=Plan.workloads,
    note=NOTE,
)
