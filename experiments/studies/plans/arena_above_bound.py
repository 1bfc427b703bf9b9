"""Policies for jobs that choose execution plans, above the bound on any schedule of their traces.

The replays are those of the study `arena` on equal terms. Every schedule on these GPUs that starts
jobs in rounds has an average completion time above the bound, whatever it knows and moves
(`goodalloc.solvers.steady_jobs`): a job can start at the first decision after its submission, waits
for the restart on its number of GPUs, and makes no more steps a second than by the fastest plan of
the GPUs that it holds. What further restarts, rounds and nodes cost is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.plots import COLOURS, figure_of, new_axes
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.hindsight.beside_bound import BOUND, above_percent
from goodalloc.experiments.studies.hindsight.steady_bound_task import SteadyBoundTask, first_round
from goodalloc.experiments.studies.plans.arena_replay import ARENA, PRUNED, ArenaTask, trace_name
from goodalloc.experiments.studies.plans.arena_report import EQUAL
from goodalloc.experiments.studies.plans.plan_simulator import ROUND_SECONDS
from goodalloc.models.hindsight.steady_jobs import Configurations, SteadyJobs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.plans.arena_replay import PlanCluster
    from goodalloc.experiments.support.tasks import Task
    from goodalloc.models.plans.execution_plan import Training
    from goodalloc.models.plans.plan_job import PlanJob
    from goodalloc.models.plans.plan_times import PlanTimes

#: Seconds of constant prices.
INTERVAL = 3600.0

#: What policies are told but the speeds of all plans, by name.
KNOWS: Mapping[str, str] = {"exact remaining": "true remaining"}

#: Marks of the traces, one after the other.
MARKS = "os^Dv*"

NOTE = """\
bound: no schedule is below it, whatever it knows: any GPUs of a type, at most one restart a job, no
rounds after its first."""


class PlanBoundRow(NamedTuple):
    """Policy or bound on one trace.

    Attributes
    ----------
    trace
        Name of the trace.
    policy, knows
        Policy with what it is told but the speeds of all plans, or the bound.
    average_jct_hours
        Average completion time.
    above_bound_percent
        By how much it is above the bound.
    """

    trace: str
    policy: str
    knows: str
    average_jct_hours: float
    above_bound_percent: float


@dataclass(frozen=True)
class PlanBoundTask(SteadyBoundTask):
    """Bound on every schedule of a trace; see `SteadyBoundTask`.

    Parameters
    ----------
    replay
        Any replay of the trace on equal terms.
    """

    replay: ArenaTask

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        told = self.replay.description()
        names = ("library", "workload", "table", "quick")
        return {
            "format": "goodalloc-plan-bound",
            "version": 2,
            "interval": self.interval,
            **{name: told[name] for name in names},
        }

    def problem(self) -> SteadyJobs:
        """Return the offline problem of the trace."""
        return steady_plan_jobs(*self.replay.inputs())


def steady_plan_jobs(times: PlanTimes, cluster: PlanCluster, jobs: Sequence[PlanJob]) -> SteadyJobs:
    """Return the offline problem of jobs with plans; all have equal weights, of sum 1.

    Parameters
    ----------
    times
        Seconds of a step by the fastest plan.
    cluster
        GPUs of each type, and of a node of each.
    jobs
        The jobs.
    """
    types = tuple(cluster.capacity)

    def configurations(training: Training) -> Configurations:
        speeds = {
            one: speed
            for one, speed in times.speeds(training, cluster.node_gpus).items()
            if one.gpus <= cluster.capacity[one.gpu_type]
        }
        uses = np.zeros((len(speeds), len(types)))
        for row, one in enumerate(speeds):
            uses[row, types.index(one.gpu_type)] = one.gpus
        delays = np.array([PRUNED.seconds(one.gpus) for one in speeds])
        name = " ".join(map(str, training))
        return Configurations(name, np.array(list(speeds.values())), uses, delays)

    trainings = sorted({job.training for job in jobs})
    release = np.array([job.submission for job in jobs], dtype=float)
    return SteadyJobs(
        tuple(map(configurations, trainings)),
        np.array([trainings.index(job.training) for job in jobs]),
        np.array([job.steps for job in jobs], dtype=float),
        release,
        np.array([first_round(time, ROUND_SECONDS) for time in release.tolist()]),
        np.full(len(jobs), 1.0 / max(len(jobs), 1)),
        np.array([cluster.capacity[name] for name in types], dtype=float),
    )


def _replays(plan: Plan) -> list[ArenaTask]:
    """Return the replays on equal terms."""
    tasks = [task for task in ARENA.tasks(plan) if isinstance(task, ArenaTask)]
    return [task for task in tasks if task.terms == EQUAL]


def _bounds(plan: Plan) -> dict[int, PlanBoundTask]:
    """Return the task of the bound by the number of the trace."""
    return {
        task.workload: PlanBoundTask(plan.folder, INTERVAL, task).among(plan.folder, "plan-bound")
        for task in _replays(plan)
    }


def _tasks(plan: Plan) -> list[Task]:
    return [*_replays(plan), *_bounds(plan).values()]


def _rows(plan: Plan) -> list[PlanBoundRow]:
    """Return a row for every trace and policy, the bound of each trace last."""
    rows = []
    for number, bound in _bounds(plan).items():
        least = bound.hours()
        name = f"drawn {number}" if plan.artifact is None else trace_name(number)
        hours = {
            (task.policy, KNOWS.get(task.policy, "nothing")): task.record()["average_jct_hours"]
            for task in _replays(plan)
            if task.workload == number
        }
        rows += [
            PlanBoundRow(name, *cell, value, above_percent(value, least))
            for cell, value in {**hours, (BOUND, "all"): least}.items()
        ]
    return rows


def _shown(rows: list[PlanBoundRow]) -> Rows:
    """Return the table under shorter names."""
    short = {
        "trace": "trace",
        "policy": "policy",
        "knows": "knows",
        "average_jct_hours": "average (h)",
        "above_bound_percent": "above the bound (%)",
    }
    return [{shown: line[name] for name, shown in short.items()} for line in table_of(rows)]


def plot_plans_above(rows: list[PlanBoundRow]) -> Figure:
    """Draw every policy over the bound, with a mark for each trace.

    Parameters
    ----------
    rows
        Rows of all traces.
    """
    traces = list(dict.fromkeys(row.trace for row in rows))
    policies = list(dict.fromkeys(row.policy for row in rows if row.policy != BOUND))
    ax = new_axes(7.0, 1.6 + 0.32 * len(policies))
    for trace, mark, colour in zip(traces, cycle(MARKS), cycle(COLOURS), strict=False):
        own = {row.policy: row.above_bound_percent for row in rows if row.trace == trace}
        over = [1.0 + own[policy] / 100.0 for policy in policies]
        ax.plot(over, range(len(policies)), mark, color=colour, label=trace, markersize=6)
    ax.axvline(1.0, color="black", linewidth=0.9)
    ax.set_yticks(range(len(policies)), policies)
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.invert_yaxis()
    ax.set_xlabel("average completion over the bound on any schedule")
    ax.grid(axis="x", color="0.9")
    ax.legend(frameon=False, loc="lower right")
    open_axes(ax)
    return figure_of(ax)


PLANS_ABOVE = Reproduction(
    "hindsight-plans: policies for jobs that choose execution plans above the bound",
    _tasks,
    _rows,
    lambda _, rows: plot_plans_above(rows),
    ARENA.require,
    _shown,
    ignores=ARENA.ignores,
    workloads=ARENA.workloads,
    quick_workloads=ARENA.quick_workloads,
    lists=ARENA.lists,
    note=NOTE,
)
