"""Sia and Pollux in the simulator of Sia's artifact and in ours: same workloads, cluster and jobs.

The values beside ours are results of the artifact's simulator, unchanged except for the solver of
its program, on its workloads `philly` and its cluster of 64 GPUs of three types. For workload 1
they are means of three exact solvers, whose ties alone spread makespans from 14.9 to 15.7 h; for
the others they are those of the artifact's solver. As there, a job that only changes nodes
continues without a restart.

Beside Sia stands Pollux, twice: knowing a model of every type, and as in Sia's evaluation unable to
tell types apart, with one model fitted to the measurements on all (`type_blind.py`). The plan
selects in which ways it decides, exactly or by its genetic algorithm, and other policies beside it,
as `sia-exact`: Sia's objective decided on nodes, with every number of GPUs and without rounding.

References
----------
Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling",
    SOSP 2023. doi:10.1145/3600006.3613175
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
from goodalloc.experiments.studies.sia_and_synergy.replay_difference import NOT_COMPARED
from goodalloc.solvers.policies.policy import Terms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.sia_and_synergy.replay_difference import ReplayDifference

#: Results of the artifact by policy, quantity and number of the workload.
ARTIFACT: Mapping[str, Mapping[str, Mapping[int, float]]] = {
    "sia": {
        "average_jct_hours": {1: 0.545, 2: 0.747, 3: 0.575},
        "p99_jct_hours": {1: 8.05, 2: 9.46, 3: 4.06},
        "makespan_hours": {1: 15.36, 2: 13.26, 3: 9.97},
        "restarts_per_job": {1: 4.47, 2: 4.54, 3: 4.13},
    },
    "gavel": {
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

#: Labels in the figure of Sia and of the policies that a plan may select.
LABELS = {
    "sia": "Sia",
    "sia-exact": "Sia's objective, exactly on nodes",
    "pollux": "Pollux, exactly, a model for every type",
    "pollux-blind": "Pollux, exactly, one model for all types",
    "pollux-genetic": "Pollux, genetic algorithm, a model for every type",
    "pollux-genetic-blind": "Pollux, genetic algorithm, one model for all types",
}

#: By how many per cent Sia's average completion is below that of Pollux in its evaluation, at
#: least; there Pollux could not tell types apart.
PUBLISHED_BELOW_PERCENT = 30.0

#: Module of the policies that cannot tell types apart.
BLIND = "goodalloc.experiments.studies.sia_and_synergy.type_blind"

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


def _policies(plan: Plan) -> tuple[str, ...]:
    """Return Sia and the selected policies, each also without types if there is such a version."""
    both = [name for chosen in plan.pollux for name in (chosen, f"{chosen}-blind")]
    return ("sia", *(name for name in both if name in LABELS or not name.endswith("-blind")))


def _task(plan: Plan, number: int, policy: str) -> ReplayTask:
    """Return a replay; policies that cannot tell types apart are named by their functions."""
    name = f"{BLIND}:{policy.replace('-', '_')}" if policy.endswith("-blind") else policy
    return plan.replay(name, sia_workload(plan, number), setting=sia_setting(), seconds=SECONDS)


def _tasks(plan: Plan) -> list[ReplayTask]:
    return [_task(plan, number, name) for number in plan.workloads for name in _policies(plan)]


class ComparedRow(NamedTuple):
    """Replay of a policy beside the artifact's result; None where the artifact has none.

    Attributes
    ----------
    workload, policy
        Number of the workload, and name of the policy.
    knows, batch
        Terms of the policy.
    sia_below_percent
        By how much Sia's average completion is below that of the policy, on the same workload.
    published_below_percent
        The same in Sia's evaluation, at least.
    interval_seconds
        Seconds between decisions.
    parted
        Difference from the replay of another row.
    """

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
    sia_below_percent: float | None = None
    published_below_percent: float | None = None
    interval_seconds: int = 60
    parted: ReplayDifference = NOT_COMPARED


def compared(task: ReplayTask, number: int, policy: str, terms: Terms, beside: str) -> ComparedRow:
    """Return the row of a replay.

    Parameters
    ----------
    task
        The replay, which is done.
    number, policy
        Number of the workload, and name of the policy.
    terms
        Terms of the policy.
    beside
        Name of the policy in `ARTIFACT` whose results stand beside it.
    """
    found = summarise(policy, task.folder)
    row: dict[str, Any] = {}
    published = ARTIFACT.get(beside, {})
    for quantity in SHORT:
        row[quantity] = found[quantity]
        value = published.get(quantity, {}).get(number)
        row[f"artifact_{quantity}"] = value
        row[f"{quantity}_deviation_percent"] = (
            None if value is None else rounded(100 * (found[quantity] / value - 1), 3)
        )
    row |= {name: found[name] for name in ("decision_ms", "worst_decision_ms")}
    row["interval_seconds"] = task.setting.interval
    return ComparedRow(number, policy, *terms, **row)


def is_known(plan: Plan) -> bool:
    """Return whether the artifact's results are of the same jobs as the replays."""
    return plan.artifact is not None and not plan.quick


def _rows(plan: Plan) -> list[ComparedRow]:
    """Return a row for every workload and policy."""
    rows: list[ComparedRow] = []
    for number in plan.workloads:
        own: list[ComparedRow] = []
        for policy in _policies(plan):
            task, blind = _task(plan, number, policy), policy.endswith("-blind")
            terms = Terms("measured", "adaptive") if blind else task.terms
            row = compared(task, number, policy, terms, policy if is_known(plan) else "")
            sia = (own or [row])[0].average_jct_hours
            own.append(
                row._replace(
                    sia_below_percent=rounded(100 * (1 - sia / row.average_jct_hours), 3),
                    published_below_percent=PUBLISHED_BELOW_PERCENT if blind else None,
                )
            )
        rows += own
    return rows


def shown(rows: list[ComparedRow]) -> Rows:
    """Return the quantities beside the artifact's, under short names."""
    lines = []
    for row in table_of(rows):
        line: dict[str, Any] = {
            name: row[name] for name in ("workload", "policy", "knows", "batch")
        }
        for quantity, name in SHORT.items():
            line[name] = row[quantity]
            line[f"artifact_{name}"] = row[f"artifact_{quantity}"]
        line["decision_ms"] = row["decision_ms"]
        lines.append(line)
    return lines


def _shown(rows: list[ComparedRow]) -> Rows:
    """Return the table with how far Sia is below every policy."""
    ahead = {
        "Sia below (%)": "sia_below_percent",
        "published, at least (%)": "published_below_percent",
    }
    full = table_of(rows)
    return [
        line | {name: row[column] for name, column in ahead.items()}
        for line, row in zip(shown(rows), full, strict=True)
    ]


def _plot(_: Plan, rows: list[ComparedRow]) -> Figure:
    """Draw average completion times by workload and policy, the artifact's as diamonds."""
    ax = new_axes(8.5, 4.6)
    numbers = list(dict.fromkeys(row.workload for row in rows))
    drawn = {row.policy: LABELS.get(row.policy, row.policy) for row in rows}
    width = 0.8 / len(drawn)
    marked = False
    for index, (policy, label) in enumerate(drawn.items()):
        own = [row for row in rows if row.policy == policy]
        place = np.arange(len(own)) + (index - (len(drawn) - 1) / 2) * width
        heights = [row.average_jct_hours for row in own]
        ax.bar(place, heights, width, label=label, color=COLOURS[index])
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
                label=None if marked else "in the artifact's simulator",
            )
            marked = True
    ax.set_xticks(range(len(numbers)), [f"workload {number}" for number in numbers])
    ax.set_ylabel("average job completion time (h)")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, frameon=False)
    return figure_of(ax)


SIA_REPLAY = Reproduction(
    "Sia on three types of GPU, and Pollux with and without types",
    _tasks,
    _rows,
    _plot,
    shown=_shown,
    ignores=("seeds", "gaps"),
    workloads=(3,),
)
