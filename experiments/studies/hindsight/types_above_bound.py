"""Sia, and Pollux with and without types, above the bound on any schedule of three types of GPU.

The replays are those of the study `sia`, on its workloads and its cluster, with its restart delays,
slow-downs and moves without a restart. For each of these days there is a bound below which no
schedule is, whatever the scheduler knows, and an ideal schedule with hindsight
(`formulations/HINDSIGHT.md`). Nothing is replayed with hindsight on several types of GPU.

The rates of the problem are the greatest on each type, over all its placements and batch sizes;
its jobs choose the types at any time. So policies that cannot tell types apart, or that leave GPUs
idle, are above the bound, too.

References
----------
Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling",
    SOSP 2023. doi:10.1145/3600006.3613175
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.comparisons.terms import Cell
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.hindsight.beside_bound import (
    BOUND,
    IDEAL,
    above_percent,
    day_of,
    draw_above,
    hours_of_day,
    label_of,
)
from goodalloc.experiments.studies.sia_and_synergy.sia_replay import (
    LABELS,
    SIA_REPLAY,
    sia_setting,
    sia_workload,
)
from goodalloc.solvers.policies.registry import make_policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.hindsight.day_task import DayTask
    from goodalloc.experiments.support.tasks import Task

NOTE = """\
bound: no schedule is below it, whatever it knows. ideal schedule: with hindsight, no restarts, GPUs
of one type anywhere. at least, at most: of the workloads."""


class TypesRow(NamedTuple):
    """Policy, schedule or bound on one day.

    Attributes
    ----------
    workload
        Number of the workload.
    policy, knows, batch
        Policy with its terms; or the bound, or the schedule.
    average_jct_hours
        Average completion time.
    above_bound_percent
        By how much it is above the bound.
    """

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


def require_own_gpus(plan: Plan) -> None:
    """Refuse policies whose jobs share GPUs: together they can be faster than the rates.

    Parameters
    ----------
    plan
        Options of the study.

    Raises
    ------
    ValueError
        If there is one.
    """
    for name in plan.pollux:
        if getattr(make_policy(name), "sharing", None) is not None:
            raise ValueError(
                f"Policies: jobs share GPUs under '{name}', where the bound does not hold; "
                "expected policies that give each GPU to one job."
            )


def _day(plan: Plan, number: int) -> DayTask:
    return day_of(plan, sia_workload(plan, number), sia_setting())


def _tasks(plan: Plan) -> list[Task]:
    """Return the replays of the study `sia`, and the days."""
    return [*SIA_REPLAY.tasks(plan), *(_day(plan, number) for number in plan.workloads)]


def _rows(plan: Plan) -> list[TypesRow]:
    """Return a row for every workload and policy, the shortest possible times last."""
    replayed = SIA_REPLAY.rows(plan)
    rows = []
    for number in plan.workloads:
        hours = {
            Cell(row.policy, row.knows, row.batch): row.average_jct_hours
            for row in replayed
            if row.workload == number
        }
        rows += _rows_of_day(number, hours | hours_of_day(_day(plan, number).found()))
    return rows


def _rows_of_day(number: int, hours: Mapping[Cell, float]) -> list[TypesRow]:
    """Return the rows of one day; `hours` are averages, that of the bound among them."""
    (bound,) = (value for cell, value in hours.items() if cell.policy == BOUND)
    return [
        TypesRow(
            number,
            cell.policy,
            cell.knows,
            cell.batch,
            rounded(value, 6),
            above_percent(value, bound),
        )
        for cell, value in hours.items()
    ]


def _by_policy(rows: list[TypesRow]) -> dict[Cell, list[TypesRow]]:
    found: dict[Cell, list[TypesRow]] = {}
    for row in rows:
        found.setdefault(row.cell, []).append(row)
    return found


def summarise_types(rows: list[TypesRow]) -> Rows:
    """Return means over the days with 95 % intervals, by policy.

    Parameters
    ----------
    rows
        Rows of all days.

    Examples
    --------
    >>> from goodalloc.experiments.studies.hindsight.types_above_bound import TypesRow
    >>> from goodalloc.experiments.studies.hindsight.types_above_bound import summarise_types
    >>> row = TypesRow(3, "sia", "measured", "adaptive", 0.6, 150.0)
    >>> (line,) = summarise_types([row, row._replace(workload=1, above_bound_percent=160.0)])
    >>> line["above the bound (%)"], line["at least (%)"], line["at most (%)"]
    ('155 ± 64', '150', '160')
    """
    table = []
    for cell, own in _by_policy(rows).items():
        above = [row.above_bound_percent for row in own]
        table.append(
            {
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


def plot_types(rows: list[TypesRow]) -> Figure:
    """Draw the mean of every policy over the bound, and each workload as a faint mark.

    Parameters
    ----------
    rows
        Rows of all days.
    """
    cells = _by_policy(rows)
    ax = new_axes(8.5, 1.7 + 0.3 * len(cells))
    above = {cell: [row.above_bound_percent for row in own] for cell, own in cells.items()}
    ends = [cell for cell in cells if cell.policy in (IDEAL, BOUND)]
    labels = {cell: LABELS.get(cell.policy, label_of(cell)) for cell in cells}
    for place, cell in enumerate(draw_above(ax, above, ends, labels)):
        ratios = [1.0 + percent / 100.0 for percent in above[cell]]
        ax.plot(ratios, [place] * len(ratios), "|", color="0.5", markersize=9, zorder=1)
    greatest = max(1.0 + percent / 100.0 for own in above.values() for percent in own)
    ax.set_xlim(right=1.15 * greatest)
    ax.tick_params(axis="y", labelsize="medium")
    ax.set_xlabel(
        "average completion over the bound\n(filled: adaptive batch sizes; bars: workloads)"
    )
    return figure_of(ax)


TYPES = Reproduction(
    "hindsight-types: Sia, and Pollux with and without types, above the bound on any schedule",
    _tasks,
    _rows,
    lambda _, rows: plot_types(rows),
    require=require_own_gpus,
    shown=summarise_types,
    ignores=SIA_REPLAY.ignores,
    workloads=SIA_REPLAY.workloads,
    quick_workloads=SIA_REPLAY.quick_workloads,
    note=NOTE,
)
