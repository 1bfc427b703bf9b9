"""Sia and Gavel in the simulator of Sia's artifact and in ours: same workloads, cluster and jobs.

The values beside ours are results of the artifact's simulator, unchanged except for the solver of
its program, on its workloads `philly` and its cluster of 64 GPUs of three types. For workload 1
they are means of three exact solvers, whose ties alone spread makespans from 14.9 to 15.7 h; for
the others they are those of the artifact's solver. As there, a job that only changes nodes
continues without a restart. Beside Sia stand its objective decided on nodes, with every number of
GPUs and without rounding, and Pollux's, exactly and by its genetic algorithm, on the same models
of every type.

Gavel's jobs are rigid: they keep the GPUs and batch size that their users requested. The artifact's
Gavel, with rounds of 360 s, maximises the total *steps* per second, in which small batches count
most; it gives spare GPUs to any job that can run on them; and it counts the GPU time of a job's
whole life. Adding these three one after the other turns our Gavel into the artifact's. Beside it
stand Gavel with each job's rate relative to its largest, Gavel with max-min fairness, and AlloX.

References
----------
Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling",
    SOSP 2023. doi:10.1145/3600006.3613175
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.rounds.typed import sia_cluster
from goodalloc.data.workloads.generator import draw_workload
from goodalloc.data.workloads.workload import read_workload
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replay_report import summarise
from goodalloc.experiments.reporting.plots import COLOURS, figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.solvers.gavel.policy import Gavel
from goodalloc.solvers.policies.policy_table import POLICIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan

#: Results of the artifact by policy, quantity and number of the workload.
ARTIFACT: Mapping[str, Mapping[str, Mapping[int, float]]] = {
    "sia": {
        "average_jct_hours": {1: 0.545, 2: 0.747, 3: 0.575},
        "p99_jct_hours": {1: 8.05, 2: 9.46, 3: 4.06},
        "makespan_hours": {1: 15.36, 2: 13.26, 3: 9.97},
        "restarts_per_job": {1: 4.47, 2: 4.54, 3: 4.13},
    },
    "gavel-as-there": {
        "average_jct_hours": {1: 1.671, 2: 2.103, 3: 1.328},
        "p99_jct_hours": {1: 27.6, 2: 24.8, 3: 6.64},
        "makespan_hours": {1: 35.63, 2: 36.74, 3: 12.53},
        "restarts_per_job": {1: 6.42, 2: 5.01, 3: 2.50},
    },
}

#: Compared quantities, and their names in the table that people read.
SHORT = {
    "average_jct_hours": "jct",
    "p99_jct_hours": "p99",
    "makespan_hours": "makespan",
    "restarts_per_job": "restarts",
}

#: Replayed policies and their labels in the figure.
LABELS = {
    "sia": "Sia",
    "sia-exact": "Sia's objective, exactly on nodes",
    "pollux": "Pollux, exactly",
    "pollux-genetic": "Pollux, genetic algorithm",
    "gavel-as-there": "Gavel as in the artifact",
    "gavel-throughput": "Gavel, rates over largest",
    "gavel": "Gavel, max-min",
    "allox": "AlloX",
}

#: Steps from our Gavel to the artifact's, in the table only.
STEPS = ("gavel-steps", "gavel-steps-spare")


def gavel_steps() -> Gavel:
    """Return Gavel that maximises the total steps per second."""
    return Gavel("steps")


def gavel_steps_spare() -> Gavel:
    """Return the Gavel of `gavel_steps` that also uses spare GPUs."""
    return Gavel("steps", spare=True)


def gavel_as_there() -> Gavel:
    """Return the Gavel of `gavel_steps_spare` that counts GPU time as the artifact does."""
    return Gavel("steps", spare=True, lifelong=True)


#: Time limit of a decision, in seconds; then the best allocation found so far is taken.
SECONDS = 10.0


def sia_workload(plan: Plan, number: int) -> tuple[Submission, ...]:
    """Return a workload `philly` of Sia's artifact, or a drawn one where no artifact is given.

    Raises
    ------
    ValueError
        If the file of the workload is missing or malformed.
    """
    if plan.artifact is None:
        return draw_workload(number, load=0.5 if plan.quick else 1.0)
    jobs = read_workload(plan.artifact / "workloads" / "philly" / f"workload-{number}.csv")
    return jobs[::2] if plan.quick else jobs


def sia_setting() -> Setting:
    """Return the cluster and the rules of Sia's simulator."""
    return Setting(sia_cluster(), free_moves=True)


def _policies() -> tuple[str, ...]:
    return (*LABELS, *STEPS)


def _task(plan: Plan, number: int, policy: str) -> ReplayTask:
    """Return a replay; policies of this study are named by the path of their functions."""
    name = policy if policy in POLICIES else f"{__name__}:{policy.replace('-', '_')}"
    return plan.replay(name, sia_workload(plan, number), setting=sia_setting(), seconds=SECONDS)


def _tasks(plan: Plan) -> list[ReplayTask]:
    return [_task(plan, number, policy) for number in plan.workloads for policy in _policies()]


class ComparedRow(NamedTuple):
    """Replay of a policy beside the artifact's result; None where the artifact has none."""

    workload: int
    policy: str
    knows: str
    batch: str
    average_jct_hours: float
    artifact_average_jct_hours: float | None
    average_jct_hours_deviation_percent: float | None
    p99_jct_hours: float
    artifact_p99_jct_hours: float | None
    p99_jct_hours_deviation_percent: float | None
    makespan_hours: float
    artifact_makespan_hours: float | None
    makespan_hours_deviation_percent: float | None
    restarts_per_job: float
    artifact_restarts_per_job: float | None
    restarts_per_job_deviation_percent: float | None
    decision_ms: float
    worst_decision_ms: float


def _rows(plan: Plan) -> list[ComparedRow]:
    """Return a row for every workload and policy."""
    known = plan.artifact is not None and not plan.quick
    rows: list[ComparedRow] = []
    for number in plan.workloads:
        for policy in _policies():
            task = _task(plan, number, policy)
            found = summarise(policy, task.folder)
            row: dict[str, Any] = {}
            published = ARTIFACT.get(policy, {}) if known else {}
            for quantity in SHORT:
                row[quantity] = found[quantity]
                value = published.get(quantity, {}).get(number)
                row[f"artifact_{quantity}"] = value
                row[f"{quantity}_deviation_percent"] = (
                    None if value is None else rounded(100 * (found[quantity] / value - 1), 3)
                )
            row |= {name: found[name] for name in ("decision_ms", "worst_decision_ms")}
            rows.append(ComparedRow(number, policy, *task.terms, **row))
    return rows


def _shown(rows: list[ComparedRow]) -> Rows:
    """Return the quantities beside the artifact's, under short names."""
    shown = []
    for row in table_of(rows):
        line: dict[str, Any] = {
            name: row[name] for name in ("workload", "policy", "knows", "batch")
        }
        for quantity, name in SHORT.items():
            line[name] = row[quantity]
            line[f"artifact_{name}"] = row[f"artifact_{quantity}"]
        line["decision_ms"] = row["decision_ms"]
        shown.append(line)
    return shown


def _plot(_: Plan, rows: list[ComparedRow]) -> Figure:
    """Draw average completion times by workload and policy, the artifact's as diamonds."""
    ax = new_axes(8.5, 4.6)
    numbers = list(dict.fromkeys(row.workload for row in rows))
    width = 0.8 / len(LABELS)
    for index, (policy, label) in enumerate(LABELS.items()):
        own = [row for row in rows if row.policy == policy]
        place = np.arange(len(own)) + (index - (len(LABELS) - 1) / 2) * width
        ax.bar(
            place,
            [row.average_jct_hours for row in own],
            width,
            label=label,
            color=COLOURS[index],
        )
        known = [
            (at, row.artifact_average_jct_hours)
            for at, row in zip(place, own, strict=True)
            if row.artifact_average_jct_hours is not None
        ]
        if known:
            ax.plot(
                *zip(*known, strict=True),
                "D",
                color="black",
                markersize=6,
                markerfacecolor="white",
                label="in the artifact's simulator" if policy == "sia" else None,
            )
    ax.set_xticks(range(len(numbers)), [f"workload {number}" for number in numbers])
    ax.set_ylabel("average job completion time (h)")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, frameon=False)
    return figure_of(ax)


SIA_REPLAY = Reproduction(
    "Sia and Gavel on three types of GPU, in Sia's simulator and in ours",
    _tasks,
    _rows,
    _plot,
    shown=_shown,
    ignores=("pollux", "seeds", "gaps"),
)
