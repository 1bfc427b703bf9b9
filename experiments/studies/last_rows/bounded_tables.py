"""Bounds on any schedule of the workloads whose averages other studies show in tables.

Below each of them is no policy of its table, whatever it knows:

- `gavel`: of the jobs in the middle, on GPUs of a type, at the greatest measured rate;
- `aiturbo-conditions`: of all jobs, of the short and of the long ones, with cores and GPUs in two
  pools (`hindsight/pods_above_bound.py`), under each condition;
- `themis-searches`: of searches, which end with their last trial, at the best batch sizes; Gandiva
  is not bounded, since its trials share GPUs;
- `mixed`: of all jobs, at the best batch sizes and as if no cores lacked.

Jobs can start in the first round after their submission (`formulations/HINDSIGHT.md`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.experiments.replay import ReplayTask
from goodalloc.experiments.reporting import estimate_of, figure_of, new_axes
from goodalloc.experiments.studies.classical.themis_searches import (
    THEMIS_SEARCHES,
    with_searches,
)
from goodalloc.experiments.studies.comparisons.mixed_cluster import MIXED_CLUSTER
from goodalloc.experiments.studies.framework import Reproduction
from goodalloc.experiments.studies.gavel.replay import GAVEL, GavelTask
from goodalloc.experiments.studies.hindsight.beside_bound import above_percent
from goodalloc.experiments.studies.last_rows.bound_tasks import (
    DayTableTask,
    MiddleTask,
    PodsTableTask,
    groups_of,
)
from goodalloc.experiments.studies.parameter_servers.aiturbo_conditions import (
    AITURBO_CONDITIONS,
    SHARE,
    conditions,
)
from goodalloc.experiments.studies.parameter_servers.aiturbo_task import PsReplay
from goodalloc.solvers.classical.search_auctions import search_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework import Plan, Rows
    from goodalloc.experiments.studies.last_rows.bound_tasks import Counted, TableTask

#: Seconds of constant prices, by study.
INTERVALS = {
    "gavel": 4 * 3600.0,
    "aiturbo-conditions": 1200.0,
    "themis-searches": 300.0,
    "mixed": 300.0,
}

#: By how many times these are longer where half of the jobs count, whom others delay little.
HALF_COARSER = 2.0

#: By how many times they are longer in quick runs, and how many conditions these have.
QUICK_COARSER, QUICK_CONDITIONS = 4.0, 1

#: Workloads of the table of `mixed`; those of the others are the usual ones of their studies.
MIXED_WORKLOADS = (1, 2, 3)

#: Folder of Pollux's workloads and measurements in that of all published data.
POLLUX = "pollux"

#: Averages of `aiturbo-conditions`.
COUNTED: tuple[Counted, ...] = ("all", "short", "long")

#: Colours and marks of the figure: of the averages of all that counts, of short and of long jobs.
MARKS = {"short": ("#E69F00", "v"), "long": ("#009E73", "^")}
OTHER_MARK = ("#0072B2", "o")

NOTE = """\
bound: no schedule is below it, whatever it knows (of searches: none without shared GPUs). alone: if
every job were alone on the cluster. Means over workloads or seeds, ± 95 %."""


class BoundCase(NamedTuple):
    """Average that a table shows, and the task of its bound; see `TableBoundRow`."""

    study: str
    case: str
    counted: str
    workload: int | None
    seed: int | None
    task: TableTask


class TableBoundRow(NamedTuple):
    """Bound on an average that a table shows.

    Attributes
    ----------
    study, case
        Study of the table, and its load or condition; blank where it has one case only.
    counted
        What the average is of: "middle" jobs, "all", "short" or "long" ones, or "searches".
    workload, seed
        Number of the workload, or the seed of one that has no number.
    jobs
        Jobs whose completion times count, the trials of searches.
    bound_hours
        No schedule has a smaller average.
    alone_hours
        The average if every job were alone on the cluster.
    above_alone_percent
        By how much the bound is above that.
    """

    study: str
    case: str
    counted: str
    workload: int | None
    seed: int | None
    jobs: int
    bound_hours: float
    alone_hours: float
    above_alone_percent: float


def _own(plan: Plan, study: Reproduction[Any], workloads: tuple[int, ...] = ()) -> Plan:
    """Return the part of the plan that concerns another study, on its usual workloads."""
    return study.own(replace(plan, workloads=workloads))


def _days(plan: Plan) -> Plan:
    """Return the part of the plan that concerns `themis-searches`."""
    folder = None if plan.artifact is None else plan.artifact / POLLUX
    return _own(replace(plan, artifact=folder), THEMIS_SEARCHES)


def _interval(plan: Plan, study: str) -> float:
    return INTERVALS[study] * (QUICK_COARSER if plan.quick else 1.0)


def _middles(plan: Plan) -> Iterator[BoundCase]:
    """Yield the averages of `gavel`, not of the batches, of which it shows makespans."""
    interval, seen = _interval(plan, "gavel"), set[tuple[float, int]]()
    for replay in GAVEL.tasks(_own(plan, GAVEL)):
        assert isinstance(replay, GavelTask)
        load, seed = replay.load, replay.seed
        if load and (load, seed) not in seen:
            seen.add((load, seed))
            task = MiddleTask(plan.folder, interval, replay).among(plan.folder, "middle-bound")
            yield BoundCase("gavel", f"{load:.1f}", "middle", None, seed, task)


def _conditions(plan: Plan) -> Iterator[BoundCase]:
    """Yield the averages of `aiturbo-conditions`."""
    study, own = "aiturbo-conditions", _own(plan, AITURBO_CONDITIONS)
    found = list(conditions(own.artifact, quick=own.quick).items())
    for name, (drawn, setting) in found[: QUICK_CONDITIONS if plan.quick else None]:
        for seed in own.workloads:
            replay = PsReplay(plan.folder, "fcfs", SHARE, seed, drawn.jobs, setting, drawn)
            for counted in COUNTED:
                coarser = 1.0 if counted == "all" else HALF_COARSER
                interval = coarser * _interval(plan, study)
                task = PodsTableTask(plan.folder, interval, replay, counted)
                task = task.among(plan.folder, "pods-table-bound")
                yield BoundCase(study, name, counted, seed, None, task)


def _searches(plan: Plan) -> Iterator[BoundCase]:
    """Yield the averages of `themis-searches`."""
    study, own = "themis-searches", _days(plan)
    for number in own.workloads:
        replay = own.replay("srtf", with_searches(own.workload(number), number))
        groups = groups_of(replay.workload, search_of)
        task = DayTableTask(plan.folder, _interval(plan, study), replay, groups)
        task = task.among(plan.folder, "searches-bound")
        yield BoundCase(study, "", "searches", number, None, task)


def _mixed(plan: Plan) -> Iterator[BoundCase]:
    """Yield the averages of `mixed`."""
    own = _own(plan, MIXED_CLUSTER, MIXED_WORKLOADS[:1] if plan.quick else MIXED_WORKLOADS)
    replays = [task for task in MIXED_CLUSTER.tasks(own) if isinstance(task, ReplayTask)]
    first = {replay.workload: replay for replay in replays}
    for number, replay in zip(own.workloads, first.values(), strict=True):
        each = groups_of(replay.workload, str)
        task = DayTableTask(plan.folder, _interval(plan, "mixed"), replay, each)
        task = task.among(plan.folder, "mixed-bound")
        yield BoundCase("mixed", "", "all", number, None, task)


def cases_of(plan: Plan) -> list[BoundCase]:
    """Return all averages that are bounded.

    Parameters
    ----------
    plan
        Options of the study.
    """
    return [*_middles(plan), *_conditions(plan), *_searches(plan), *_mixed(plan)]


def _tasks(plan: Plan) -> list[TableTask]:
    return [case.task for case in cases_of(plan)]


def _rows(plan: Plan) -> list[TableBoundRow]:
    """Return a row for every average of every workload."""
    rows = []
    for one in cases_of(plan):
        found = one.task.found()
        rows.append(
            TableBoundRow(
                one.study,
                one.case,
                one.counted,
                one.workload,
                one.seed,
                found.jobs,
                found.bound_hours,
                found.alone_hours,
                above_percent(found.bound_hours, found.alone_hours),
            )
        )
    return rows


def _by_average(rows: list[TableBoundRow]) -> dict[tuple[str, str, str], list[TableBoundRow]]:
    """Return the rows by study, case and what counts."""
    found: dict[tuple[str, str, str], list[TableBoundRow]] = {}
    for row in rows:
        found.setdefault((row.study, row.case, row.counted), []).append(row)
    return found


def summarise_bounds(rows: list[TableBoundRow]) -> Rows:
    """Return means over the workloads or seeds with 95 % intervals, by average.

    Parameters
    ----------
    rows
        Rows of all workloads.

    Examples
    --------
    >>> from goodalloc.experiments.studies.last_rows.bounded_tables import TableBoundRow
    >>> from goodalloc.experiments.studies.last_rows.bounded_tables import summarise_bounds
    >>> row = TableBoundRow("mixed", "", "all", 1, None, 80, 0.3, 0.2, 50.0)
    >>> (line,) = summarise_bounds([row, row._replace(workload=2, above_alone_percent=60.0)])
    >>> line["bound (h)"], line["above alone (%)"]
    ('0.30 ± 0.00', '55 ± 64')
    """
    return [
        {
            "study": study,
            "case": case,
            "counted": counted,
            "bound (h)": estimate_of([row.bound_hours for row in own]).text(".2f"),
            "alone (h)": estimate_of([row.alone_hours for row in own]).text(".2f"),
            "above alone (%)": estimate_of([row.above_alone_percent for row in own]).text(".0f"),
        }
        for (study, case, counted), own in _by_average(rows).items()
    ]


def plot_bounds(rows: list[TableBoundRow]) -> Figure:
    """Draw every bound over the average of the jobs alone: how much of it is due to the others.

    Parameters
    ----------
    rows
        Rows of all workloads.
    """
    averages = _by_average(rows)
    lines = list(dict.fromkeys((study, case) for study, case, _ in averages))
    ax = new_axes(8.5, 1.6 + 0.3 * len(lines))
    for (study, case, counted), own in averages.items():
        colour, mark = MARKS.get(counted, OTHER_MARK)
        over = [1.0 + row.above_alone_percent / 100.0 for row in own]
        mean = sum(over) / len(over)
        ax.errorbar(
            mean,
            lines.index((study, case)) + 0.2 * ((counted == "long") - (counted == "short")),
            xerr=[[mean - min(over)], [max(over) - mean]],
            marker=mark,
            color=colour,
            markersize=5,
            capsize=2,
            linewidth=0.9,
        )
    for name, (colour, mark) in {"all that counts": OTHER_MARK, **MARKS}.items():
        ax.plot([], [], mark, color=colour, label=name)
    ax.axvline(1.0, color="black", linewidth=0.8)
    ax.set_yticks(range(len(lines)), [_label(*line) for line in lines])
    ax.invert_yaxis()
    ax.set_xlabel("bound on any schedule over the jobs alone\n(bars: range of the workloads)")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.legend(frameon=False, fontsize="small")
    return figure_of(ax)


def _label(study: str, case: str) -> str:
    """Return the name of a line of the figure."""
    if not case:
        return study
    return f"{study}, {case} jobs an hour" if study == "gavel" else f"{study}, {case}"


def _require(plan: Plan) -> None:
    """Refuse a folder that lacks data of one of the studies.

    Raises
    ------
    ValueError
        If it does.
    """
    GAVEL.require(_own(plan, GAVEL))
    AITURBO_CONDITIONS.require(_own(plan, AITURBO_CONDITIONS))
    if plan.artifact is None:
        return
    for name in ("workloads", "traces"):
        if not (plan.artifact / POLLUX / name).is_dir():
            raise ValueError(
                f"Artifact '{plan.artifact}': it has no folder '{POLLUX}/{name}'; expected that of "
                "Pollux's artifact (github.com/petuum/adaptdl, branch osdi21-artifact)."
            )


BOUNDED_TABLES = Reproduction(
    "hindsight-tables: bounds on any schedule for the tables of four studies of policies",
    _tasks,
    _rows,
    lambda _, rows: plot_bounds(rows),
    require=_require,
    shown=summarise_bounds,
    ignores=("pollux", "seeds", "gaps", "workloads"),
    note=NOTE,
)
