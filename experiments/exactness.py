"""Does deciding every round exactly shorten the jobs? Exact against genetic, scenario by scenario.

Replays of the same workloads are compared in pairs: what differs between workloads does not blur
what differs between the ways to decide. Beside them stands the same exact solver with another way
to choose among equal optima: a difference no larger than that between these two is noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.workload_generator import draw_workload
from goodalloc.experiments.plots import COLOURS, MARKERS, figure_of, new_axes
from goodalloc.experiments.replay_report import summarise
from goodalloc.experiments.reproduction import Reproduction, estimate
from goodalloc.experiments.simulator import Outage, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from goodalloc.data.workload import Submission
    from goodalloc.experiments.replay_task import ReplayTask
    from goodalloc.experiments.reproduction import Plan, Rows

HOUR = 3600
EXACT, UNTIED, GENETIC = "pollux", "pollux-untied", "pollux-genetic"

#: Columns that are compared, with what they are called in the table.
COMPARED = {
    "average_jct_hours": "average", "p99_jct_hours": "p99", "makespan_hours": "makespan",
}  # fmt: skip


@dataclass(frozen=True)
class Scenario:
    """Conditions under which a workload is replayed.

    Parameters
    ----------
    label
        For people.
    load
        Of the workload.
    parts
        Workloads of that load that are submitted together.
    burst
        Jobs of another workload that are submitted all at once, three hours in.
    setting
        The conditions.
    """

    label: str
    load: float = 1.0
    parts: int = 1
    burst: int = 0
    setting: Setting = Setting()  # noqa: RUF009 - frozen, so that one default serves all

    def workload(self, plan: Plan, number: int) -> tuple[Submission, ...]:
        """The jobs; parts and burst are drawn with seeds of their own."""
        jobs = list(plan.workload(number, load=self.load))
        for part in range(1, self.parts):
            more = draw_workload(1000 * part + number, load=self.load)
            jobs += [replace(job, name=f"{job.name}-part-{part}") for job in more]
        if self.burst:
            jobs += [
                replace(job, name=f"{job.name}-burst", time=3 * HOUR)
                for job in draw_workload(100_000 + number, jobs=self.burst)
            ]
        return tuple(sorted(jobs, key=lambda job: job.time))


SCENARIOS = (
    Scenario("load 0.5", 0.5),
    Scenario("load 1"),
    Scenario("load 1.5", 1.5),
    Scenario("load 2", 2.0),
    Scenario("half the nodes lost", setting=Setting(outages=(Outage(3 * HOUR, 4 * HOUR, 8),))),
    Scenario("burst of 80 jobs", burst=80),
    Scenario("4 x the cluster and the jobs", parts=4, setting=Setting(nodes=64)),
)


def _tasks(plan: Plan, scenario: Scenario, policy: str, number: int) -> list[ReplayTask]:
    workload = scenario.workload(plan, number)
    return [
        plan.replay(policy, workload, setting=scenario.setting, seed=seed)
        for seed in plan.seeds_of(policy)
    ]


def exactness(title: str, scenarios: Sequence[Scenario] = SCENARIOS) -> Reproduction:
    """The comparison as a reproduction; it judges the decisions of the genetic algorithm."""

    def tasks(plan: Plan) -> list[ReplayTask]:
        plan = replace(plan, gaps=True)
        return [
            task
            for scenario in scenarios
            for number in plan.workloads
            for policy in (EXACT, UNTIED, GENETIC)
            for task in _tasks(plan, scenario, policy, number)
        ]

    def rows(plan: Plan) -> Rows:
        plan = replace(plan, gaps=True)
        return [row for scenario in scenarios for row in _rows(plan, scenario)]

    return Reproduction(title, tasks, rows, lambda _, rows: plot_exactness(rows))


def _rows(plan: Plan, scenario: Scenario) -> Rows:
    """Change by deciding exactly, and change by another tie rule: per cent, one row a policy."""
    found = {
        policy: [
            [summarise(policy, task.folder) for task in _tasks(plan, scenario, policy, number)]
            for number in plan.workloads
        ]
        for policy in (EXACT, UNTIED, GENETIC)
    }
    return [
        {
            "scenario": scenario.label, "against": other, "workloads": len(plan.workloads),
            "seeds": len(found[other][0]), **_changes(found[EXACT], found[other]),
            "average_jct_hours": estimate(_over_seeds(found[other], "average_jct_hours"))["mean"],
            "exact_jct_hours": estimate(_over_seeds(found[EXACT], "average_jct_hours"))["mean"],
            "mean_gap": float(np.mean(_over_seeds(found[other], "mean_gap"))),
            "worst_gap": max(row["worst_gap"] for rows in found[other] for row in rows),
        }
        for other in (GENETIC, UNTIED)
    ]  # fmt: skip


def _over_seeds(found: Sequence[Sequence[Mapping[str, Any]]], column: str) -> list[float]:
    """The mean over the seeds, one number a workload."""
    return [float(np.mean([row[column] for row in rows])) for rows in found]


def _changes(
    exact: Sequence[Sequence[Mapping[str, Any]]], other: Sequence[Sequence[Mapping[str, Any]]]
) -> dict[str, float]:
    """Relative change from the other to the exact, in per cent, with its half-width."""
    changes = {}
    for column, name in COMPARED.items():
        pairs = zip(_over_seeds(exact, column), _over_seeds(other, column), strict=True)
        change = estimate([100.0 * (ours / theirs - 1.0) for ours, theirs in pairs])
        changes[f"{name}_change_percent"] = change["mean"]
        changes[f"{name}_half_width"] = change["half_width"]
    return changes


def plot_exactness(rows: Rows) -> Figure:
    """Change of the average completion time by deciding exactly, with confidence intervals."""
    scenarios = list(dict.fromkeys(row["scenario"] for row in rows))
    ax = new_axes(8.0, 1.4 + 0.55 * len(scenarios))
    looks = {
        GENETIC: ("against the genetic algorithm", -0.12),
        UNTIED: ("against other ties", 0.12),
    }
    for index, (policy, (label, shift)) in enumerate(looks.items()):
        shown = [row for row in rows if row["against"] == policy]
        places = [scenarios.index(row["scenario"]) + shift for row in shown]
        ax.errorbar(
            [row["average_change_percent"] for row in shown], places,
            xerr=np.nan_to_num([row["average_half_width"] for row in shown]), label=label,
            color=COLOURS[index], marker=MARKERS[index], linestyle="none", capsize=3,
            markerfacecolor=COLOURS[index] if index == 0 else "white",
        )  # fmt: skip
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_yticks(range(len(scenarios)), scenarios)
    ax.invert_yaxis()
    ax.set_xlabel("change of the average completion time by deciding exactly (%), 95 % intervals")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.legend(fontsize="small")
    return figure_of(ax)
