"""What of Arena's published comparison comes out, and by which way to count.

Arena's paper (EuroSys'26) claims average completion times 75 % below Sia's and 77 % below Gavel's
on its simulated cluster. On its own terms of restarts and progress (`arena_replay.py`), Sia and
Gavel know all plans, or plan with data parallelism alone; models of more than `LARGEST` parameters
do not fit into a GPU then and never run. Averages are those of the jobs that run; of those that are
complete when the last job is submitted, as the published simulator has it; and of all jobs, where
one that never runs counts from its submission to that of the last job.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from goodalloc.data.plans.data_parallel import data_parallel_times
from goodalloc.data.plans.plan_tables import FOLDER, read_estimated_plans
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.plans.arena_replay import (
    ArenaTask,
    require_arena_tables,
    trace_name,
)
from goodalloc.experiments.studies.plans.arena_report import BASE, PUBLISHED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.plans.arena_replay import PlanCluster
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.plans.plan_job import PlanJob
    from goodalloc.models.plans.plan_times import PlanTimes

#: Plans that a policy knows.
Plans = Literal["all", "data parallel"]

#: Most parameters of a model that is trained with data parallelism alone (*reading* of the
#: published simulator, which has such models wait).
LARGEST = 2e9

#: Policies and the plans that they know.
WAYS: tuple[tuple[str, Plans], ...] = (
    (BASE, "all"),
    ("sia one by one", "all"),
    ("sia one by one", "data parallel"),
    ("gavel one by one", "all"),
    ("gavel one by one", "data parallel"),
)

#: Published average completion time of Arena below that of each policy, in per cent.
CLAIMED = {"sia one by one": 75.0, "gavel one by one": 77.0}

#: Ways to average: the jobs that run, those of them that end within the trace, and all jobs.
COUNTED = ("average_jct_hours", "in_time_jct_hours", "counted_jct_hours")


class PublishedRow(NamedTuple):
    """Outcome of a replay on published terms.

    Attributes
    ----------
    trace, policy, plans
        What was replayed, and which plans the policy knows.
    jobs, never
        Number of jobs that ran, and of those that cannot.
    average_jct_hours, in_time_jct_hours, counted_jct_hours
        Average completion times: of the jobs that ran; of those complete when the last job was
        submitted; and of all, those that never ran waiting until then.
    arena_below_percent, arena_below_in_time_percent, arena_below_counted_percent
        By how much each is higher than Arena's, as the share of it that Arena saves.
    """

    trace: str
    policy: str
    plans: Plans
    jobs: int
    never: int
    average_jct_hours: float
    in_time_jct_hours: float | None
    counted_jct_hours: float
    arena_below_percent: float
    arena_below_in_time_percent: float | None
    arena_below_counted_percent: float


class PublishedSummary(NamedTuple):
    """Means over the traces, with 95 % intervals.

    Attributes
    ----------
    policy, plans
        As of `PublishedRow`.
    published_percent
        Published share of the average completion time that Arena saves.
    below_percent, below_in_time_percent, below_counted_percent
        Ours, by the three ways to count.
    never_percent
        Share of the jobs that cannot run.
    """

    policy: str
    plans: Plans
    published_percent: float | None
    below_percent: Estimate
    below_in_time_percent: Estimate
    below_counted_percent: Estimate
    never_percent: Estimate


@dataclass(frozen=True)
class PublishedTask(ArenaTask):
    """Replay of a trace with the plans that a policy knows; see `ArenaTask`.

    Parameters
    ----------
    plans
        Plans that the policy knows.
    """

    plans: Plans = "all"

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        told = {"format": "goodalloc-arena-published", "plans": self.plans, "largest": LARGEST}
        return super().description() | told

    def inputs(self) -> tuple[PlanTimes, PlanCluster, tuple[PlanJob, ...]]:
        """Return the times of plans, the cluster, and the jobs that can run on it."""
        times, cluster, jobs = super().inputs()
        if self.plans == "data parallel" and self.artifact is not None:
            times = data_parallel_times(times, read_estimated_plans(self.artifact), LARGEST)
        can_run = {
            training
            for training in {job.training for job in jobs}
            if any(
                one.gpus <= cluster.capacity[one.gpu_type]
                for one in times.speeds(training, cluster.node_gpus)
            )
        }
        return times, cluster, tuple(job for job in jobs if job.training in can_run)

    def work(self, report: Report) -> dict[str, Any]:
        """Replay, and count the jobs that cannot run as waiting until the last submission."""
        found = super().work(report)
        _, _, jobs = super().inputs()
        can_run = {job.name for job in self.inputs()[2]}
        last = max(job.submission for job in jobs)
        waits = [(last - job.submission) / HOUR for job in jobs if job.name not in can_run]
        ended = found["average_jct_hours"] * found["jobs"]
        counted = rounded((ended + float(np.sum(waits))) / len(jobs), 6)
        return found | {"never": len(waits), "counted_jct_hours": counted}


def require_published_tables(plan: Plan) -> None:
    """Refuse a plan without Arena's tables, which alone tell of data parallelism."""
    if plan.artifact is None:
        raise ValueError(
            "argument --artifact: expected the folder of Arena's tables (data/ARTIFACTS.md)."
        )
    require_arena_tables(plan)


def _tasks(plan: Plan) -> list[PublishedTask]:
    tasks = [
        PublishedTask(plan.folder, number, policy, PUBLISHED, plan.artifact, plan.quick, plans)
        for number in plan.workloads
        for policy, plans in WAYS
    ]
    return [task.among(plan.folder, "arena-published") for task in tasks]


def _rows(plan: Plan) -> list[PublishedRow]:
    rows = []
    for task in _tasks(plan):
        base = replace(task, policy=BASE, plans="all").among(plan.folder, "arena-published")
        found, arena = task.record(), base.record()
        saved = [_below(arena[name], found[name]) for name in COUNTED]
        rows.append(
            PublishedRow(
                trace_name(task.workload),
                task.policy,
                task.plans,
                found["jobs"],
                found["never"],
                *(found[name] for name in COUNTED),
                *saved,
            )
        )
    return rows


def _below(arena: float | None, other: float | None) -> Any:
    """Return by how many per cent Arena's average is below another; None where one is unknown."""
    if arena is None or other is None:
        return None
    return rounded(100.0 * (1.0 - arena / other), 5)


def summarise_published(rows: list[PublishedRow]) -> list[PublishedSummary]:
    """Return means over the traces for every policy and its plans.

    Parameters
    ----------
    rows
        Rows of all traces, every one of which has all `WAYS`.
    """
    found = []
    for policy, plans in WAYS:
        group = [row for row in rows if (row.policy, row.plans) == (policy, plans)]
        in_time = [row.arena_below_in_time_percent for row in group]
        found.append(
            PublishedSummary(
                policy,
                plans,
                CLAIMED.get(policy),
                estimate_of([row.arena_below_percent for row in group]),
                estimate_of([one for one in in_time if one is not None]),
                estimate_of([row.arena_below_counted_percent for row in group]),
                estimate_of([100.0 * row.never / (row.jobs + row.never) for row in group]),
            )
        )
    return found


def plot_published(rows: list[PublishedRow]) -> Figure:
    """Draw how far Arena is below the others, by each way to count, with the published values.

    Parameters
    ----------
    rows
        Rows of all traces.
    """
    from matplotlib.figure import Figure

    others = [row for row in rows if row.policy != BASE]
    ways = list(dict.fromkeys((row.policy, row.plans) for row in others))
    figure = Figure(figsize=(8.0, 1.6 + 0.55 * len(ways)), layout="constrained")
    ax = figure.subplots()
    labels = ("jobs that run", "of them, those that end within the trace", "all jobs")
    for place, (label, name) in enumerate(zip(labels, PublishedRow._fields[-3:], strict=True)):
        known = [row for row in others if getattr(row, name) is not None]
        ax.plot(
            [getattr(row, name) for row in known],
            [ways.index((row.policy, row.plans)) + 0.2 * (place - 1) for row in known],
            "os^"[place],
            color=COLOURS[place],
            label=label,
        )
    for place, (policy, _) in enumerate(ways):
        ax.plot(2 * [CLAIMED[policy]], [place - 0.4, place + 0.4], color="0.2", linewidth=2.0)
    ax.plot([], [], color="0.2", linewidth=2.0, label="published")
    ax.axvline(0.0, color="0.6", linewidth=1.0)
    ax.set_yticks(range(len(ways)), [f"{policy},\n{plans} plans" for policy, plans in ways])
    ax.invert_yaxis()
    ax.set_xlabel("average completion time of Arena below that (%)")
    open_axes(ax)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    return figure


def _shown(rows: list[PublishedRow]) -> Rows:
    """Return the table of the means."""
    return table_of(summarise_published(rows))


ARENA_PUBLISHED = Reproduction(
    "What of Arena's published comparison comes out, and by which way to count",
    _tasks,
    _rows,
    lambda _, rows: plot_published(rows),
    require=require_published_tables,
    shown=_shown,
    ignores=("pollux", "seeds", "gaps"),
    workloads=(1, 2, 3),
    quick_workloads=(1,),
    lists=FOLDER,
)
