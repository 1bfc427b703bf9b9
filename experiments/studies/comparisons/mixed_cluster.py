"""Policies on a cluster with two types of GPU and scarce cores.

The cores that a job needs beside each GPU to keep the fastest type busy are drawn from 1 to 12
(`experiments/replay/job_modes.py`); a GPU's proportional share is 3. Pollux decides on types,
nodes, GPUs and cores, exactly or by its genetic algorithm, and also with proportional shares of the
cores only; so does Sia, by its own objective. Synergy-TUNE keeps the requested GPUs and batch sizes
and divides the cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.workloads.generator import draw_workload
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replay_report import summarise
from goodalloc.experiments.reporting.plots import COLOURS, figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.mode import resources

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan

#: 32 GPUs, and as many cores for each as Synergy's servers have.
MIXED = Cluster(
    (
        NodeGroup("t4", 4, 4, "t4", resources({"cpu": 12.0})),
        NodeGroup("a100", 2, 8, "a100", resources({"cpu": 24.0})),
    )
)

#: Half the published GPUs, and half the jobs.
LOAD = 0.5

POLICIES = {
    "pollux": "Pollux, exactly",
    "pollux-genetic": "Pollux, genetic algorithm",
    "pollux-proportional": "Pollux, shares of the cores",
    "sia": "Sia",
    "synergy-tune": "Synergy-TUNE",
}

#: Time limit of a decision, in seconds; then the best allocation found so far is taken.
SECONDS = 2.0


class MixedRow(NamedTuple):
    """Summary of the replay of a workload under a policy."""

    workload: int
    policy: str
    knows: str
    batch: str
    average_jct_hours: float
    p99_jct_hours: float
    makespan_hours: float
    restarts_per_job: float
    efficiency: float
    mean_more_starved: float
    served_over_best: float
    mean_gap: float
    decision_ms: float
    worst_decision_ms: float


#: Columns of the table, from the summary of a replay.
QUANTITIES = MixedRow._fields[4:]


def _task(plan: Plan, number: int, policy: str) -> ReplayTask:
    workload = draw_workload(number, load=LOAD / 2 if plan.quick else LOAD)
    return plan.replay(policy, workload, setting=Setting(MIXED), seconds=SECONDS)


def _tasks(plan: Plan) -> list[ReplayTask]:
    return [_task(plan, number, policy) for number in plan.workloads for policy in POLICIES]


def _rows(plan: Plan) -> list[MixedRow]:
    """Return a row for each workload and policy."""
    rows = []
    for number in plan.workloads:
        for policy in POLICIES:
            task = _task(plan, number, policy)
            found = summarise(policy, task.folder)
            values = {name: found[name] for name in QUANTITIES}
            rows.append(MixedRow(number, policy, *task.terms, **values))
    return rows


def _shown(rows: list[MixedRow]) -> Rows:
    """Return means over the workloads."""
    shown = []
    for policy in POLICIES:
        own = table_of([row for row in rows if row.policy == policy])
        knows, batch = own[0]["knows"], own[0]["batch"]
        means: dict[str, Any] = {
            name: rounded(float(np.mean([line[name] for line in own])), 4) for name in QUANTITIES
        }
        head = {"policy": policy, "knows": knows, "batch": batch, "workloads": len(own)}
        shown.append(head | means)
    return shown


def _plot(_: Plan, rows: list[MixedRow]) -> Figure:
    """Draw average completion times: a bar for each policy's mean, a dot for each workload."""
    ax = new_axes(7.0, 3.6)
    for index, policy in enumerate(POLICIES):
        values = [row.average_jct_hours for row in rows if row.policy == policy]
        bar = ax.barh(index, float(np.mean(values)), color=COLOURS[index], height=0.6)
        ax.bar_label(bar, fmt="%.2f", padding=12)
        ax.plot(values, [index] * len(values), "o", color="black", markersize=4)
    ax.set_yticks(range(len(POLICIES)), list(POLICIES.values()))
    ax.invert_yaxis()
    ax.margins(x=0.1)
    ax.set_xlabel("average job completion time (h); dots: every workload")
    return figure_of(ax)


MIXED_CLUSTER = Reproduction(
    "Two types of GPU and few cores: co-adapted, by shares, by Synergy-TUNE",
    _tasks,
    _rows,
    _plot,
    shown=_shown,
    ignores=("pollux", "seeds", "artifact"),
)
