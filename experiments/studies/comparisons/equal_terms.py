"""Policies on equal terms: what they are told of jobs, and who chooses the batch sizes.

Published comparisons mix three differences. Some policies are told the remaining steps or the true
step times of every job, others measure them or know nothing. Under some the batch sizes follow the
goodput, under others they stay as requested. And they schedule differently. Here every policy is
replayed with every knowledge and batch size that it can use (`Setting.oracle`, `Setting.knowledge`,
`Setting.batch_sizes`), and some once more with rounds of six minutes, as Gavel has them, in place
of one.

Fairness is the finish-time fairness of Themis on two rulers (`pollux/fairness.py`): against a job
alone whose batch size follows its goodput, as under Pollux, and against a job alone at the batch
size that the policy's jobs have, its own ruler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from goodalloc.experiments.replay.replay_report import summarise
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, figure_of, new_axes
from goodalloc.experiments.studies.comparisons.terms import POLLUX, USUAL, replays
from goodalloc.experiments.studies.framework.reproduction import EIGHT, Plan, Reproduction
from goodalloc.experiments.studies.pollux.fairness import alone_tasks, finish_time_fairness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.support.tasks import Task
    from goodalloc.models.support.array_types import Floats


def _tasks(plan: Plan) -> list[Task]:
    whole = [task for tasks in replays(plan).values() for task in tasks]
    return [*whole, *alone_tasks(plan).values(), *alone_tasks(plan, requested=True).values()]


class TermsRow(NamedTuple):
    """Outcome of a policy on some terms, means over the workloads with 95 % intervals.

    Attributes
    ----------
    interval_seconds
        Seconds between decisions.
    over_pollux_percent
        Average completion time above that of Pollux on its own terms, by workload.
    above_2_percent, own_above_2_percent
        Jobs whose finish-time fairness is above 2, on the ruler of Pollux and on its own.
    greatest_rho, own_greatest_rho
        Greatest finish-time fairness of any job, on either ruler.
    """

    policy: str
    knows: str
    batch: str
    interval_seconds: int
    workloads: int
    average_jct_hours: Estimate
    p99_jct_hours: Estimate
    makespan_hours: Estimate
    over_pollux_percent: Estimate
    restarts_per_job: float
    above_2_percent: Estimate
    greatest_rho: float
    own_above_2_percent: Estimate
    own_greatest_rho: float


def _rows(plan: Plan) -> list[TermsRow]:
    """Return a row for every cell."""
    found = replays(plan)
    rulers = {
        rule: {name: pd.read_csv(task.file) for name, task in tasks.items()}
        for rule, tasks in (
            ("adaptive", alone_tasks(plan)),
            ("requested", alone_tasks(plan, requested=True)),
        )
    }
    hours = {
        cell: [summarise(cell.policy, task.folder) for task in tasks]
        for cell, tasks in found.items()
    }
    best = [one["average_jct_hours"] for one in hours[POLLUX]]
    rows = []
    for cell, tasks in found.items():
        own = [_fairness(task, cell.batch, rulers[cell.batch]) for task in tasks]
        shared = [_fairness(task, "adaptive", rulers["adaptive"]) for task in tasks]
        average = [one["average_jct_hours"] for one in hours[cell]]
        over = [100.0 * (one / base - 1.0) for one, base in zip(average, best, strict=True)]
        rows.append(
            TermsRow(
                *cell,
                workloads=len(tasks),
                average_jct_hours=estimate_of(average),
                p99_jct_hours=estimate_of([one["p99_jct_hours"] for one in hours[cell]]),
                makespan_hours=estimate_of([one["makespan_hours"] for one in hours[cell]]),
                over_pollux_percent=estimate_of(over),
                restarts_per_job=float(np.mean([one["restarts_per_job"] for one in hours[cell]])),
                above_2_percent=_above_2(shared),
                greatest_rho=max(float(rho.max()) for rho in shared),
                own_above_2_percent=_above_2(own),
                own_greatest_rho=max(float(rho.max()) for rho in own),
            )
        )
    return rows


def _fairness(task: ReplayTask, batch: str, alone: Mapping[str, pd.DataFrame]) -> Floats:
    """Return the finish-time fairness of the jobs of a replay, on one ruler."""
    jobs, keys = pd.read_csv(task.folder / "jobs.csv"), None
    if batch == "requested":
        sizes = {job.name: f"{job.application}-{job.batch_size}" for job in task.workload}
        keys = jobs.job.map(sizes)
    return finish_time_fairness(jobs, task.setting.cluster.num_gpus, alone, keys)


def _above_2(rho: list[Floats]) -> Estimate:
    return estimate_of([100.0 * float((one > 2.0).mean()) for one in rho])


def shortened(rows: list[TermsRow]) -> Rows:
    """Return the estimates as "mean ± half-width", the shortest completion times first."""
    return [
        {
            "policy": row.policy,
            "knows": row.knows,
            "batch": row.batch,
            "interval (s)": row.interval_seconds,
            "average (h)": row.average_jct_hours.text(".2f"),
            "over Pollux (%)": row.over_pollux_percent.text("+.0f"),
            "p99 (h)": row.p99_jct_hours.text(".1f"),
            "makespan (h)": row.makespan_hours.text(".1f"),
            "restarts": f"{row.restarts_per_job:.1f}",
            "rho above 2 (%)": row.above_2_percent.text(".1f"),
            "greatest rho": f"{row.greatest_rho:.1f}",
            "own rho above 2 (%)": row.own_above_2_percent.text(".1f"),
            "own greatest rho": f"{row.own_greatest_rho:.1f}",
        }
        for row in sorted(rows, key=lambda row: row.average_jct_hours.mean)
    ]


NOTE = """\
knows: what the policy is told of jobs beyond their requests and attained service; batch: requested
by the users, or adaptive, the best by the jobs' own predictions of goodput. rho: finish-time
fairness, a job's completion time over that alone on its share of the GPUs, with a batch size that
follows its goodput; own rho: alone with the batch size that the jobs of the policy have."""


def plot_terms(rows: list[TermsRow]) -> Figure:
    """Plot average completion times over Pollux's: colours for knowledge, filled if adaptive."""
    usual = [row for row in rows if row.interval_seconds == USUAL]
    least = {
        policy: min(row.over_pollux_percent.mean for row in usual if row.policy == policy)
        for policy in {row.policy for row in usual}
    }
    order = sorted(least, key=least.__getitem__)
    shift: dict[str, float] = {
        "nothing": 0.0,
        "measured": -0.12,
        "true speed": 0.12,
        "true remaining": 0.12,
    }
    ax = new_axes(8.0, 1.8 + 0.45 * len(order))
    for row in usual:
        colour = COLOURS[[*shift].index(row.knows)]
        ax.errorbar(
            1.0 + row.over_pollux_percent.mean / 100.0,
            order.index(row.policy) + shift[row.knows],
            xerr=np.nan_to_num(row.over_pollux_percent.half_width) / 100.0,
            marker="o",
            color=colour,
            markerfacecolor=colour if row.batch == "adaptive" else "white",
            label=f"{row.knows}, {row.batch}",
            linestyle="none",
            capsize=2,
            linewidth=0.9,
        )
    ax.axvline(1.0, color="black", linewidth=0.8)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("{x:g}")
    ax.tick_params(axis="x", which="minor", labelsize="x-small")
    ax.set_yticks(range(len(order)), order)
    ax.invert_yaxis()
    ax.set_xlabel("average completion time over that of Pollux, 95 % intervals over workloads")
    ax.set_title("Policies by what they are told (colour) and batch sizes (filled: adaptive)")
    handles, labels = ax.get_legend_handles_labels()
    unique = dict(sorted(zip(labels, handles, strict=True), key=lambda pair: pair[0]))
    ax.legend(unique.values(), unique.keys(), fontsize="x-small", title="knows, batch")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    return figure_of(ax)


EQUAL_TERMS = Reproduction(
    "Policies by what they are told and who chooses the batch sizes",
    _tasks,
    _rows,
    lambda _, rows: plot_terms(rows),
    shown=shortened,
    ignores=("pollux", "seeds", "gaps"),
    workloads=EIGHT,
    quick_workloads=Plan.workloads,
    note=NOTE,
)
