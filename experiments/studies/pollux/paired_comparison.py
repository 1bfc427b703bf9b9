"""Studies that compare two ways to replay, in pairs: workload by workload, scenario by scenario.

What differs between workloads then does not blur what differs between the ways. The interval is
Student's over the workloads; seeds of one workload are averaged first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from goodalloc.experiments.replay.replay_report import summarise
from goodalloc.experiments.reporting.estimates import estimate, shown_estimate
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, figure_of, new_axes
from goodalloc.experiments.studies.framework.reproduction import Reproduction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.pollux.scenario import Scenario

#: What is short and what long in Pollux's workloads: below an hour of GPU time, above ten.
SHORT, LONG = ("cifar10", "ncf"), ("yolov3", "imagenet")

#: How the names of columns end that say how good decisions are.
GAPS = ("gap", "more_starved", "served_over_best")

#: What is compared: hours, whose relative changes are shown.
QUANTITIES = ("average", "short", "long", "p99", "makespan")


@dataclass(frozen=True)
class Way:
    """One way to replay.

    Parameters
    ----------
    label
        For people.
    policy
        Its policy.
    options
        Fields of `ReplayTask` that are not the default.
    setting
        Fields of `Setting` that are not the scenario's.
    """

    label: str
    policy: str = "pollux"
    options: Mapping[str, Any] = field(default_factory=dict)
    setting: Mapping[str, Any] = field(default_factory=dict)

    def tasks(self, plan: Plan, scenario: Scenario, number: int) -> list[ReplayTask]:
        """The replays of one workload."""
        workload = scenario.workload(plan, number)
        setting = replace(scenario.setting, **self.setting)
        return [
            plan.replay(self.policy, workload, setting=setting, seed=seed, **self.options)
            for seed in plan.seeds_of(self.policy)
        ]


@dataclass(frozen=True)
class Pair:
    """Two ways under one scenario; the change is from the baseline to the way."""

    scenario: Scenario
    way: Way
    baseline: Way

    @property
    def label(self) -> str:
        """Its row."""
        return f"{self.way.label} against {self.baseline.label}, {self.scenario.label}"

    def row(self, plan: Plan) -> dict[str, Any]:
        """Changes in per cent with half-widths, and what they are changes of."""
        found, base = (
            [
                [hours(task.folder) for task in way.tasks(plan, self.scenario, number)]
                for number in plan.workloads
            ]
            for way in (self.way, self.baseline)
        )
        row: dict[str, Any] = {
            "scenario": self.scenario.label,
            "way": self.way.label,
            "baseline": self.baseline.label,
            "workloads": len(found),
            "seeds": max(len(found[0]), len(base[0])),
            "average_hours": estimate(_over_seeds(found, "average"))["mean"],
            "baseline_hours": estimate(_over_seeds(base, "average"))["mean"],
        }
        for quantity in QUANTITIES:
            pairs = zip(_over_seeds(found, quantity), _over_seeds(base, quantity), strict=True)
            change = estimate([100.0 * (ours / theirs - 1.0) for ours, theirs in pairs])
            row[f"{quantity}_change"] = change["mean"]
            row[f"{quantity}_half_width"] = change["half_width"]
        for name in ("mean_more_starved", "served_over_best", "mean_gap"):
            row[name] = estimate(_over_seeds(found, name))["mean"]
            row[f"baseline_{name}"] = estimate(_over_seeds(base, name))["mean"]
        row["baseline_worst_gap"] = max(one["worst_gap"] for seeds in base for one in seeds)
        return row


def hours(folder: Path) -> dict[str, float]:
    """Hours by quantity, and gaps, of a finished replay."""
    jobs, summary = pd.read_csv(folder / "jobs.csv"), summarise("", folder)
    return {
        "average": summary["average_jct_hours"],
        "p99": summary["p99_jct_hours"],
        "makespan": summary["makespan_hours"],
        "worst_gap": summary["worst_gap"],
        **{name: summary[name] for name in ("mean_more_starved", "served_over_best", "mean_gap")},
        "short": float(jobs.jct[jobs.application.isin(SHORT)].mean()) / 3600.0,
        "long": float(jobs.jct[jobs.application.isin(LONG)].mean()) / 3600.0,
    }


def _over_seeds(found: Sequence[Sequence[Mapping[str, float]]], quantity: str) -> list[float]:
    """The mean over the seeds, one number a workload."""
    return [float(np.mean([one[quantity] for one in seeds])) for seeds in found]


def paired_study(
    title: str, pairs: Sequence[Pair], *, gaps: bool = False
) -> Reproduction[dict[str, Any]]:
    """The pairs as a study.

    Parameters
    ----------
    title
        For people.
    pairs
        What is compared.
    gaps
        Whether decisions are judged even if the plan does not ask for it.
    """

    def judged(plan: Plan) -> Plan:
        return replace(plan, gaps=plan.gaps or gaps)

    def tasks(plan: Plan) -> list[ReplayTask]:
        return [
            task
            for pair in pairs
            for number in plan.workloads
            for way in (pair.way, pair.baseline)
            for task in way.tasks(judged(plan), pair.scenario, number)
        ]

    def rows(plan: Plan) -> Rows:
        return [pair.row(judged(plan)) for pair in pairs]

    return Reproduction(
        title,
        tasks,
        rows,
        lambda _, rows: plot_pairs(title, rows),
        shown=shortened,
        ignores=("pollux",),
    )


def shortened(rows: Rows) -> Rows:
    """Changes in per cent as "mean ± half-width", and no gaps where none were judged."""
    judged = not all(math.isnan(row["baseline_mean_gap"]) for row in rows)
    return [
        {
            **{name: row[name] for name in ("scenario", "way", "baseline", "workloads", "seeds")},
            **{
                f"{name} (%)": shown_estimate(
                    row[f"{name}_change"], row[f"{name}_half_width"], "+.1f"
                )
                for name in QUANTITIES
            },
            **({name: row[name] for name in row if name.endswith(GAPS)} if judged else {}),
        }
        for row in rows
    ]


def plot_pairs(title: str, rows: Rows) -> Figure:
    """Changes of the average completion time with their confidence intervals."""
    labels = list(dict.fromkeys(f"{row['way']}, {row['scenario']}" for row in rows))
    baselines = list(dict.fromkeys(row["baseline"] for row in rows))
    ax = new_axes(8.0, 1.6 + 0.5 * len(labels))
    for index, baseline in enumerate(baselines):
        shown = [row for row in rows if row["baseline"] == baseline]
        shift = 0.25 * (index - (len(baselines) - 1) / 2)
        ax.errorbar(
            [row["average_change"] for row in shown],
            [labels.index(f"{row['way']}, {row['scenario']}") + shift for row in shown],
            xerr=np.nan_to_num([row["average_half_width"] for row in shown]),
            label=f"against {baseline}",
            color=COLOURS[index],
            marker=MARKERS[index],
            markerfacecolor=COLOURS[index] if index == 0 else "white",
            linestyle="none",
            capsize=3,
        )
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_yticks(range(len(labels)), labels, fontsize="small")
    ax.invert_yaxis()
    ax.set_xlabel("change of the average completion time (%), 95 % intervals over workloads")
    ax.set_title(title, fontsize="medium")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.legend(fontsize="small")
    return figure_of(ax)
