"""Policies that keep the users' GPUs above the bound on any schedule of published traces.

The replays are those of the study `traces`. Every job can begin at the first decision after its
submission, and needs its GPUs for its seconds, whoever schedules it; what restarts, rounds and
nodes cost is left out (`goodalloc.solvers.hindsight.rigid_jobs_bound`). On a cluster in which
nobody waits the bound is the average time of the jobs alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.workloads.generator import HOUR
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.comparisons.terms import Cell
from goodalloc.experiments.studies.comparisons.trace_replay import TRACE_REPLAY, TRACES, TraceTask
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.hindsight.beside_bound import BOUND, above_percent, draw_above
from goodalloc.solvers.hindsight.rigid_jobs import rigid_jobs_bound

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan

NOTE = """\
bound: no schedule is below it, whatever it knows: GPUs in one pool, no restarts, and no job faster
than alone."""


class TraceBoundRow(NamedTuple):
    """Policy or bound on one trace and cluster.

    Attributes
    ----------
    trace, gpus
        Label of the trace, and GPUs of the cluster.
    policy, knows, batch
        Policy with its terms, or the bound.
    average_jct_hours
        Average completion time.
    above_bound_percent
        By how much it is above the bound.
    """

    trace: str
    gpus: int
    policy: str
    knows: str
    batch: str
    average_jct_hours: float
    above_bound_percent: float


def hours_of_bound(task: TraceTask) -> float:
    """Return hours below which no average completion time of a trace on its cluster is.

    Parameters
    ----------
    task
        Any replay of the trace.
    """
    jobs, interval = task.workload(), TRACES[task.trace].interval
    begins = [math.ceil(job.submission / interval) * interval for job in jobs]
    seconds = rigid_jobs_bound(
        [job.submission for job in jobs],
        begins,
        [job.replicas for job in jobs],
        [job.seconds for job in jobs],
        task.cluster().num_gpus,
    )
    return seconds / HOUR


def _rows(plan: Plan) -> list[TraceBoundRow]:
    """Return a row for every trace, cluster and policy, the bound last."""
    by_trace: dict[str, list[TraceBoundRow]] = {}
    bounds: dict[str, float] = {}
    tasks = [task for task in TRACE_REPLAY.tasks(plan) if isinstance(task, TraceTask)]
    for task, row in zip(tasks, TRACE_REPLAY.rows(plan), strict=True):
        if task.trace not in bounds:
            bounds[task.trace] = hours_of_bound(task)
        ends = zip(task.record()["completion"], task.workload(), strict=True)
        hours = float(np.mean([end - job.submission for end, job in ends])) / HOUR
        own = TraceBoundRow(
            row.trace,
            row.gpus,
            row.policy,
            row.knows,
            row.batch,
            rounded(hours, 6),
            above_percent(hours, bounds[task.trace]),
        )
        by_trace.setdefault(task.trace, []).append(own)
    for trace, rows in by_trace.items():
        hours = rounded(bounds[trace], 6)
        rows.append(TraceBoundRow(*rows[0][:2], BOUND, "all", "requested", hours, 0.0))
    return [row for rows in by_trace.values() for row in rows]


def _shown(rows: list[TraceBoundRow]) -> Rows:
    """Return the table under shorter names."""
    short = {
        "trace": "trace",
        "gpus": "GPUs",
        "policy": "policy",
        "knows": "knows",
        "average_jct_hours": "average (h)",
        "above_bound_percent": "above the bound (%)",
    }
    return [{shown: line[name] for name, shown in short.items()} for line in table_of(rows)]


def plot_traces_above(rows: list[TraceBoundRow]) -> Figure:
    """Draw every policy over the bound, a panel for each trace on its smaller cluster.

    Parameters
    ----------
    rows
        Rows of all traces.
    """
    from matplotlib.figure import Figure

    least = {trace: min(row.gpus for row in rows if row.trace == trace) for trace in _names(rows)}
    figure = Figure(figsize=(4.4 * len(least) + 0.4, 4.2), layout="constrained")
    panels = figure.subplots(1, len(least), squeeze=False)[0]
    for ax, (trace, gpus) in zip(panels, least.items(), strict=True):
        own = [row for row in rows if (row.trace, row.gpus) == (trace, gpus)]
        above = {Cell(r.policy, r.knows, r.batch): [r.above_bound_percent] for r in own}
        ends = [cell for cell in above if cell.policy == BOUND]
        draw_above(ax, above, ends, {cell: cell.policy for cell in above})
        ax.set_xlim(right=1.15 * max(1.0 + row.above_bound_percent / 100.0 for row in own))
        ax.set_title(f"{trace}, {gpus} GPUs", fontsize="medium")
        ax.set_xlabel("over the bound")
    return figure


def _names(rows: list[TraceBoundRow]) -> list[str]:
    return list(dict.fromkeys(row.trace for row in rows))


TRACES_ABOVE = Reproduction(
    "hindsight-traces: policies that keep the users' GPUs above the bound on published traces",
    TRACE_REPLAY.tasks,
    _rows,
    lambda _, rows: plot_traces_above(rows),
    TRACE_REPLAY.require,
    _shown,
    ignores=TRACE_REPLAY.ignores,
    note=NOTE,
)
