"""Table 2 and Figure 8 of Pollux: published values, ours, and the deviation.

Table 2 was measured on a testbed; Figures 8a to 8c come from the artifact's simulator, averaged
over eight workloads. All values are hours. Ours are replays of the published workloads on the
artifact's measurements where its folder is given, else of drawn ones on the shipped profiles.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replay_report import GAP_PARTS, summarise
from goodalloc.experiments.replay.replay_task import is_seeded
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import (
    EACH_POLLUX,
    EIGHT,
    Plan,
    Reproduction,
)
from goodalloc.solvers.policies.registry import is_pollux

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from goodalloc.data.workloads.generator import Requests
    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.models.support.array_types import Floats

AVERAGE, TAIL, MAKESPAN = "average_jct_hours", "p99_jct_hours", "makespan_hours"


@dataclass(frozen=True)
class Case:
    """Row of a table, or point of a figure.

    Parameters
    ----------
    label
        Label, as in the paper.
    policy
        Name of the policy; `EACH_POLLUX` stands for each of Pollux's that the plan selects.
    published
        Published hours by quantity.
    requests, load, interval, interference, interference_avoidance, power
        Conditions of the replay, by default the published ones.
    """

    label: str
    policy: str
    published: Mapping[str, float]
    requests: Requests = "tuned"
    load: float = 1.0
    interval: int = 60
    interference: float = 0.0
    interference_avoidance: bool = True
    power: float = -1.0

    def tasks(self, plan: Plan, policy: str) -> list[ReplayTask]:
        """Return the replays under `policy`, one for every workload and seed."""
        setting = Setting(interval=self.interval, interference=self.interference)
        return [
            plan.replay(
                policy,
                plan.workload(number, self.requests, self.load),
                setting=setting,
                power=self.power,
                interference_avoidance=self.interference_avoidance,
                seed=seed,
            )
            for number in plan.workloads
            for seed in plan.seeds_of(policy)
        ]


def _hours(average: float, tail: float, makespan: float) -> dict[str, float]:
    return {AVERAGE: average, TAIL: tail, MAKESPAN: makespan}


def _loads(policy: str, *averages: float) -> tuple[Case, ...]:
    return tuple(
        Case(f"{policy.capitalize()}, load {load:g}", policy, {AVERAGE: hours}, load=load)
        for load, hours in zip((0.5, 1.0, 1.5, 2.0), averages, strict=True)
    )


#: Cases by name of the study.
CASES: Mapping[str, tuple[Case, ...]] = {
    "table2": (
        Case("Pollux (p = -1)", EACH_POLLUX, _hours(0.76, 11, 16)),
        Case("Optimus+Oracle+TunedJobs", "optimus", _hours(1.5, 15, 20)),
        Case("Tiresias+TunedJobs", "tiresias", _hours(1.2, 15, 24)),
        Case("Optimus+Oracle", "optimus", _hours(2.7, 22, 28), "realistic"),
        Case("Tiresias", "tiresias", _hours(2.8, 25, 31), "realistic"),
        Case("Pollux (p = +1)", EACH_POLLUX, _hours(0.83, 10, 16), power=1.0),
        Case("Pollux (p = -10)", EACH_POLLUX, _hours(0.84, 12, 18), power=-10.0),
    ),
    "fig8a": (
        *_loads(EACH_POLLUX, 0.426, 0.764, 1.024, 1.469),
        *_loads("optimus", 0.665, 1.578, 2.010, 2.700),
        *_loads("tiresias", 0.581, 1.122, 1.717, 2.789),
    ),
    "fig8b": tuple(
        Case(f"Pollux, every {seconds} s", EACH_POLLUX, {AVERAGE: hours}, interval=seconds)
        for seconds, hours in ((30, 0.758), (60, 0.764), (120, 0.779), (240, 0.825), (480, 0.932))
    ),
    "fig8c": (
        Case("avoided", EACH_POLLUX, {AVERAGE: 0.764}),
        *(
            Case(
                f"not avoided, {loss:.0%} lost",
                EACH_POLLUX,
                {AVERAGE: hours},
                interference=loss,
                interference_avoidance=False,
            )
            for loss, hours in ((0.0, 0.766), (0.25, 0.883), (0.5, 1.084))
        ),
    ),
}


class CaseRow(NamedTuple):
    """Published value of a quantity beside ours, over all replays of a case under a policy.

    Ours is the mean over the workloads, each the mean over its seeds; `published_within` tells
    whether its 95 % interval holds the published value (None with one workload).
    """

    case: str
    policy: str
    knows: str
    batch: str
    quantity: str
    published: float
    ours: Estimate
    deviation_percent: float
    published_within: bool | None
    least: float
    greatest: float
    workloads: int
    replays: int
    mean_starved: float
    mean_more_starved: float
    served_over_best: float
    mean_gap: float
    worst_gap: float


def published_cases(title: str, cases: Sequence[Case]) -> Reproduction[CaseRow]:
    """Return the reproduction of `cases`."""

    def tasks(plan: Plan) -> list[ReplayTask]:
        return [
            task
            for case in cases
            for policy in plan.policies_of(case.policy)
            for task in case.tasks(plan, policy)
        ]

    def rows(plan: Plan) -> list[CaseRow]:
        return [row for case in cases for row in _rows(plan, case)]

    def plot(_: Plan, rows: list[CaseRow]) -> Figure:
        return plot_cases(title, rows)

    return Reproduction(title, tasks, rows, plot, workloads=EIGHT, quick_workloads=Plan.workloads)


def _rows(plan: Plan, case: Case) -> list[CaseRow]:
    """Return a row for every policy and quantity of `case`."""
    rows = []
    for policy in plan.policies_of(case.policy):
        tasks = case.tasks(plan, policy)
        found = [summarise(policy, task.folder) for task in tasks]
        rows += [
            _row(case, tasks[0], quantity, found, len(plan.workloads))
            for quantity in case.published
        ]
    return rows


def _row(
    case: Case,
    task: ReplayTask,
    quantity: str,
    found: Sequence[Mapping[str, Any]],
    workloads: int,
) -> CaseRow:
    """Return the row of a quantity; `found` has the replays of each workload one after another."""
    values = np.array([row[quantity] for row in found])
    published, ours = case.published[quantity], estimate_of(_by_workload(values, workloads))
    alone = math.isnan(ours.half_width)
    return CaseRow(
        case=case.label,
        policy=task.policy,
        knows=task.terms.knows,
        batch=task.terms.batch,
        quantity=quantity,
        published=published,
        ours=ours,
        deviation_percent=rounded(100.0 * (ours.mean / published - 1.0), 3),
        published_within=None if alone else abs(ours.mean - published) <= ours.half_width,
        least=rounded(float(values.min()), 4),
        greatest=rounded(float(values.max()), 4),
        workloads=workloads,
        replays=len(found),
        **{name: rounded(float(np.mean([row[name] for row in found])), 4) for name in GAP_PARTS},
        mean_gap=float(np.mean([row["mean_gap"] for row in found])),
        worst_gap=float(np.max([row["worst_gap"] for row in found])),
    )


def _by_workload(values: Floats, workloads: int) -> list[float]:
    """Return the mean over the seeds of each workload."""
    means: list[float] = values.reshape(workloads, -1).mean(axis=1).tolist()
    return means


def plot_cases(title: str, rows: Sequence[CaseRow]) -> Figure:
    """Draw average completion times: published as diamonds, ours as bars with their ranges."""
    shown = [row for row in rows if row.quantity == AVERAGE]
    several = len({row.case for row in shown}) < len(shown)
    ax = new_axes(8.0, 1.2 + 0.38 * len(shown))
    for index, row in enumerate(shown):
        exact = is_pollux(row.policy) and not is_seeded(row.policy)
        ax.barh(
            index,
            row.ours.mean,
            height=0.6,
            color="#0072B2" if exact else "#9ecae1",
            label="every round exactly" if exact else "other policies",
        )
        if row.replays > 1:
            reach = [[row.ours.mean - row.least], [row.greatest - row.ours.mean]]
            ax.errorbar(row.ours.mean, index, xerr=reach, color="black", capsize=3, linewidth=1.0)
        ax.plot(
            row.published,
            index,
            marker="D",
            color="black",
            markerfacecolor="white",
            linestyle="none",
            label="published",
        )
    labels = [f"{row.case}: {row.policy}" if several else row.case for row in shown]
    labels = [label.replace("= -", "= −") for label in labels]
    ax.set_yticks(range(len(shown)), labels, fontsize="small")
    ax.invert_yaxis()
    ax.set_xlabel("average job completion time (h)")
    ax.set_title(title)
    handles, names = ax.get_legend_handles_labels()
    unique = dict(zip(names, handles, strict=True))
    ax.legend(unique.values(), unique.keys(), fontsize="small")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    return figure_of(ax)


TABLE_2 = published_cases("Table 2: policies on a testbed", CASES["table2"])
FIGURE_8A = published_cases("Figure 8a: load", CASES["fig8a"])
FIGURE_8B = published_cases("Figure 8b: scheduling interval", CASES["fig8b"])
FIGURE_8C = published_cases("Figure 8c: interference", CASES["fig8c"])
