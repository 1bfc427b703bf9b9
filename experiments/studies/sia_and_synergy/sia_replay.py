"""Sia (SOSP'23) and Gavel in Sia's simulator and in ours: the same workloads, cluster and truth.

The values beside ours are what the artifact's simulator gave, run unchanged but for the solver of
its program, on its workloads `philly` and its cluster of 64 GPUs of three types: of the first the
mean of three exact solvers, whose ties alone spread makespans from 14.9 to 15.7 h, of the others
that of the artifact's solver. Like there, a job that only changes nodes goes on without a restart.
Beside Sia stands its objective decided on nodes, with every number of GPUs and unrounded, and
Pollux's, exactly and by its genetic algorithm, on the same models of every type.

Gavel's jobs are rigid: GPUs and batch size as their users asked. The artifact's Gavel, with rounds
of 360 s, maximises the *steps* a second of all jobs together, in which small batches count most; it
gives GPUs that nobody has a share of to whoever can run on them; and it counts what a job had over
its life. One after the other these make our Gavel that of the artifact. Beside it stand Gavel with
each job's rate over its largest, with max-min fairness, and AlloX, as they are here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.rounds.typed import sia_cluster
from goodalloc.data.workloads.generator import draw_workload
from goodalloc.data.workloads.workload import read_workload
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replay_report import summarise
from goodalloc.experiments.reporting.plots import COLOURS, figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.solvers.gavel.policy import Gavel
from goodalloc.solvers.policies.registry import POLICIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan

#: Policy and quantity to what the artifact gave, by number of the workload.
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

#: Quantities, and how the table that people read names them.
SHORT = {
    "average_jct_hours": "jct",
    "p99_jct_hours": "p99",
    "makespan_hours": "makespan",
    "restarts_per_job": "restarts",
}

#: What is replayed, in words for the picture.
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

#: From our Gavel of the sum of rates to that of the artifact, in the table only.
STEPS = ("gavel-steps", "gavel-steps-spare")


def gavel_steps() -> Gavel:
    """The sum of the steps a second."""
    return Gavel("steps")


def gavel_steps_spare() -> Gavel:
    """The same, and spare GPUs are used."""
    return Gavel("steps", spare=True)


def gavel_as_there() -> Gavel:
    """The same, with time counted as in the artifact."""
    return Gavel("steps", spare=True, lifelong=True)


#: Seconds for the decision of a round, after which the best so far is taken.
SECONDS = 10.0


def sia_workload(plan: Plan, number: int) -> tuple[Submission, ...]:
    """A workload `philly` of Sia's artifact, or a drawn one.

    Raises
    ------
    ValueError
        If it cannot be read.
    """
    if plan.artifact is None:
        return draw_workload(number, load=0.5 if plan.quick else 1.0)
    jobs = read_workload(plan.artifact / "workloads" / "philly" / f"workload-{number}.csv")
    return jobs[::2] if plan.quick else jobs


def sia_setting() -> Setting:
    """The cluster and the rules of Sia's simulator."""
    return Setting(sia_cluster(), free_moves=True)


def _policies() -> tuple[str, ...]:
    return (*LABELS, *STEPS)


def _task(plan: Plan, number: int, policy: str) -> ReplayTask:
    """A replay; policies that are only known here go by the path of what makes them."""
    name = policy if policy in POLICIES else f"{__name__}:{policy.replace('-', '_')}"
    return plan.replay(name, sia_workload(plan, number), setting=sia_setting(), seconds=SECONDS)


def _tasks(plan: Plan) -> list[ReplayTask]:
    return [_task(plan, number, policy) for number in plan.workloads for policy in _policies()]


def _rows(plan: Plan) -> Rows:
    """A row for every workload and policy."""
    known = plan.artifact is not None and not plan.quick
    rows: Rows = []
    for number in plan.workloads:
        for policy in _policies():
            found = summarise(policy, _task(plan, number, policy).folder)
            row: dict[str, Any] = {"workload": number, "policy": policy}
            published = ARTIFACT.get(policy, {}) if known else {}
            for quantity in SHORT:
                row[quantity] = found[quantity]
                value = published.get(quantity, {}).get(number)
                row[f"artifact_{quantity}"] = "" if value is None else value
                row[f"{quantity}_deviation_%"] = (
                    "" if value is None else rounded(100 * (found[quantity] / value - 1), 3)
                )
            row["decision_ms"] = found["decision_ms"]
            row["worst_decision_ms"] = found["worst_decision_ms"]
            rows.append(row)
    return rows


def _shown(rows: Rows) -> Rows:
    """Quantities beside the artifact's."""
    shown = []
    for row in rows:
        line: dict[str, Any] = {"workload": row["workload"], "policy": row["policy"]}
        for quantity, name in SHORT.items():
            line[name] = row[quantity]
            line[f"artifact_{name}"] = row[f"artifact_{quantity}"]
        line["decision_ms"] = row["decision_ms"]
        shown.append(line)
    return shown


def _plot(_: Plan, rows: Rows) -> Figure:
    """Average completion time by workload: a bar for every policy, diamonds for the artifact's."""
    ax = new_axes(8.5, 4.6)
    numbers = list(dict.fromkeys(row["workload"] for row in rows))
    width = 0.8 / len(LABELS)
    for index, (policy, label) in enumerate(LABELS.items()):
        own = [row for row in rows if row["policy"] == policy]
        place = np.arange(len(own)) + (index - (len(LABELS) - 1) / 2) * width
        ax.bar(
            place,
            [row["average_jct_hours"] for row in own],
            width,
            label=label,
            color=COLOURS[index],
        )
        known = [
            (at, row["artifact_average_jct_hours"])
            for at, row in zip(place, own, strict=True)
            if row["artifact_average_jct_hours"] != ""
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
