"""Small days between the bounds, the optimum of a program, schedules and policies.

No replay of a `SmallDay` is better than the optimum of the time-indexed program, and no bound on
schedules may be above it. How far either is away tells what the distance of a policy from a bound
is on a day whose optimum nobody knows: waste of the policy, or slack of the bound.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.steady_jobs.day_optimum import (
    BOUNDS,
    CLOSED_FORM,
    HINDSIGHT,
    KINDS,
    ON_REPLAYS,
    ON_SCHEDULES,
    ROUNDING,
    DaysTask,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from matplotlib.figure import Figure

    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan

#: Jobs of a day, and days drawn of each kind, number of jobs, and with and without restarts; 2,016
#: in all.
JOBS, DAYS, QUICK_DAYS = (2, 3, 4, 5), 84, 2

#: The best of the policies of a day.
BEST = "best policy"

#: Rows of all numbers of jobs.
ANY = "any"

NOTE = """\
Mean of averages over the optimum of the day, ± 95 % over days. No replay is below the optimum; it
pays for no restarts. unsound: days on which a bound is above what it bounds, or a schedule or
policy below the optimum."""


class OptimumRow(NamedTuple):
    """Bound, schedule or policy beside the optimum of days of a kind.

    Attributes
    ----------
    kind
        One of `KINDS`.
    restarts
        Whether a restart costs time on these days, "yes" or "no". They are the same days; the
        optimum pays for no restart.
    jobs
        Number of jobs of a day, or `ANY`.
    name
        The bound, schedule or policy.
    days
        Number of days.
    over_optimum
        Average completion time, or the bound on it, over the optimum of the day: the mean over the
        days, with its 95 % interval.
    least, greatest
        The least and the greatest.
    attained_percent
        Per cent of the days on which it is the optimum.
    unsound
        Days on which a bound is above what it bounds, or a schedule or policy is below the optimum.
    """

    kind: str
    restarts: str
    jobs: str
    name: str
    days: int
    over_optimum: Estimate
    least: float
    greatest: float
    attained_percent: float
    unsound: int


def _policies(averages: dict[str, float]) -> dict[str, float]:
    """Return the averages of policies alone."""
    return {name: value for name, value in averages.items() if name not in (*BOUNDS, HINDSIGHT)}


def rows_of_days(
    kind: str, days: Iterable[tuple[int, dict[str, Any]]], *, restarts: bool
) -> list[OptimumRow]:
    """Return rows of days of a kind, for each number of jobs and for all.

    Parameters
    ----------
    kind
        Kind of the days.
    days
        Number of jobs and record of each (`day_beside_optimum`).
    restarts
        Whether restarts cost time.
    """
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    unsound: dict[tuple[str, str], int] = defaultdict(int)
    for jobs, record in days:
        best = {BEST: min(_policies(record["averages"]).values())}
        for name, value in (record["averages"] | best).items():
            for row in ((str(jobs), name), (ANY, name)):
                ratios[row].append(value / record["optimum"])
                unsound[row] += name in record["unsound"]
    return [
        OptimumRow(
            kind=kind,
            restarts="yes" if restarts else "no",
            jobs=jobs,
            name=name,
            days=len(found),
            over_optimum=estimate_of(found),
            least=rounded(min(found), 5),
            greatest=rounded(max(found), 5),
            attained_percent=rounded(
                100.0 * float(np.mean([abs(ratio - 1.0) <= ROUNDING for ratio in found])), 4
            ),
            unsound=unsound[jobs, name],
        )
        for (jobs, name), found in ratios.items()
    ]


def _tasks(plan: Plan) -> list[DaysTask]:
    """Return a task for each kind, number of jobs, and with and without restarts."""
    days = QUICK_DAYS if plan.quick else DAYS
    tasks = [
        DaysTask(plan.folder, kind, jobs, restarts, days)
        for kind in KINDS
        for restarts in (False, True)
        for jobs in JOBS
    ]
    return [task.among(plan.folder, "small-days") for task in tasks]


def _rows(plan: Plan) -> list[OptimumRow]:
    """Return the rows of all kinds."""
    days: dict[tuple[str, bool], list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    for task in _tasks(plan):
        days[task.kind, task.restarts] += [(task.jobs, record) for record in task.record()]
    return [
        row
        for (kind, restarts), found in days.items()
        for row in rows_of_days(kind, found, restarts=restarts)
    ]


def _shown(rows: list[OptimumRow]) -> Rows:
    """Return the rows of all numbers of jobs."""
    return [
        {
            "kind": row.kind,
            "restarts": row.restarts,
            "policy": row.name,
            "days": row.days,
            "over the optimum": row.over_optimum.text(".3f"),
            "least": row.least,
            "greatest": row.greatest,
            "attained (%)": row.attained_percent,
            "unsound": row.unsound,
        }
        for row in rows
        if row.jobs == ANY
    ]


#: Lines of the picture, with their labels.
LINES = {
    CLOSED_FORM: "closed form",
    ON_SCHEDULES: "bound on schedules",
    ON_REPLAYS: "bound on replays",
    HINDSIGHT: "schedule with hindsight",
    BEST: "best policy of the day",
    "srtf": "SRTF",
    "pollux": "Pollux",
    "tiresias": "Tiresias",
}


def _lines(rows: list[OptimumRow]) -> Iterator[tuple[int, str, list[OptimumRow]]]:
    """Yield number, label and rows of the lines of a panel, by jobs."""
    for index, (name, label) in enumerate(LINES.items()):
        mine = [row for row in rows if row.name == name and row.jobs != ANY]
        if mine:
            yield index, label, sorted(mine, key=lambda row: int(row.jobs))


def plot_optimum(rows: list[OptimumRow]) -> Figure:
    """Draw means over the optimum by number of jobs, a panel for each kind; no restarts.

    Parameters
    ----------
    rows
        Rows of all kinds.
    """
    from matplotlib.figure import Figure

    kinds = list(dict.fromkeys(row.kind for row in rows))
    figure = Figure(figsize=(4.4 * len(kinds), 4.2), layout="constrained")
    panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    handles: dict[str, Any] = {}
    for ax, kind in zip(panels, kinds, strict=True):
        for index, label, mine in _lines(
            [row for row in rows if row.kind == kind and row.restarts == "no"]
        ):
            handles[label] = ax.errorbar(
                [int(row.jobs) for row in mine],
                [row.over_optimum.mean for row in mine],
                yerr=np.nan_to_num([row.over_optimum.half_width for row in mine]),
                color=COLOURS[index],
                marker=MARKERS[index],
                markersize=4,
                capsize=2,
            )
        ax.axhline(1.0, color="black", linewidth=0.9)
        ax.set_title(kind, fontsize="medium")
        ax.set_xticks(JOBS)
        ax.set_xlabel("jobs of a day")
        open_axes(ax)
    panels[0].set_ylabel("average completion time over the optimum")
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False
    )
    return figure


OPTIMUM_OF_DAYS = Reproduction(
    "hindsight-optimum: bounds, schedules and policies beside the optimum of small days",
    _tasks,
    _rows,
    lambda _, rows: plot_optimum(rows),
    shown=_shown,
    ignores=("pollux", "seeds", "gaps", "workloads", "artifact"),
    note=NOTE,
)
