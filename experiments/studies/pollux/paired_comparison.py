"""Studies that compare two ways to replay, in pairs by workload and scenario.

Pairing removes the variation between workloads from the comparison. Intervals are Student's over
the workloads; seeds of one workload are averaged first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from goodalloc.experiments.replay.replay_report import summarise
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, figure_of, new_axes
from goodalloc.experiments.studies.framework.reproduction import EIGHT, Plan, Reproduction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.pollux.scenario import Scenario

#: Applications of short and of long jobs: below an hour of GPU time, above ten.
SHORT, LONG = ("cifar10", "ncf"), ("yolov3", "imagenet")

#: Columns on the quality of decisions, shown where they were judged.
GAPS = (
    "mean_more_starved",
    "baseline_mean_more_starved",
    "served_over_best",
    "baseline_served_over_best",
    "mean_gap",
    "baseline_mean_gap",
    "baseline_worst_gap",
)


@dataclass(frozen=True)
class Way:
    """Way to replay a workload.

    Parameters
    ----------
    label
        Label in tables and figures.
    policy
        Name of the policy.
    options
        Fields of `ReplayTask` that differ from the default.
    setting
        Fields of `Setting` that differ from the scenario's.
    """

    label: str
    policy: str = "pollux"
    options: Mapping[str, Any] = field(default_factory=dict)
    setting: Mapping[str, Any] = field(default_factory=dict)

    def tasks(self, plan: Plan, scenario: Scenario, number: int) -> list[ReplayTask]:
        """Return the replays of one workload, one for every seed."""
        workload = scenario.workload(plan, number)
        setting = replace(scenario.setting, **self.setting)
        return [
            plan.replay(self.policy, workload, setting=setting, seed=seed, **self.options)
            for seed in plan.seeds_of(self.policy)
        ]


@dataclass(frozen=True)
class Pair:
    """Way and its baseline under one scenario; changes are from the baseline to the way."""

    scenario: Scenario
    way: Way
    baseline: Way

    @property
    def label(self) -> str:
        """Label of the pair."""
        return f"{self.way.label} against {self.baseline.label}, {self.scenario.label}"

    def row(self, plan: Plan) -> PairRow:
        """Return the changes in per cent, and the values that they are changes of."""
        found, base = (
            [
                [replayed(task.folder) for task in way.tasks(plan, self.scenario, number)]
                for number in plan.workloads
            ]
            for way in (self.way, self.baseline)
        )

        def change(value: Callable[[Replayed], float]) -> Estimate:
            pairs = zip(_over_seeds(found, value), _over_seeds(base, value), strict=True)
            return estimate_of([100.0 * (ours / theirs - 1.0) for ours, theirs in pairs])

        def difference(value: Callable[[Replayed], float]) -> Estimate:
            pairs = zip(_over_seeds(found, value), _over_seeds(base, value), strict=True)
            return estimate_of([ours - theirs for ours, theirs in pairs])

        def mean(of: Outcomes, value: Callable[[Replayed], float]) -> float:
            return estimate_of(_over_seeds(of, value)).mean

        return PairRow(
            scenario=self.scenario.label,
            way=self.way.label,
            baseline=self.baseline.label,
            workloads=len(found),
            seeds=max(len(found[0]), len(base[0])),
            average_hours=mean(found, lambda one: one.average_hours),
            baseline_hours=mean(base, lambda one: one.average_hours),
            average_change_percent=change(lambda one: one.average_hours),
            short_change_percent=change(lambda one: one.short_hours),
            long_change_percent=change(lambda one: one.long_hours),
            p99_change_percent=change(lambda one: one.p99_hours),
            makespan_change_percent=change(lambda one: one.makespan_hours),
            restarts_change=difference(lambda one: one.restarts_per_job),
            ramp_up_change_minutes=difference(lambda one: one.ramp_up_minutes),
            mean_more_starved=mean(found, lambda one: one.mean_more_starved),
            baseline_mean_more_starved=mean(base, lambda one: one.mean_more_starved),
            served_over_best=mean(found, lambda one: one.served_over_best),
            baseline_served_over_best=mean(base, lambda one: one.served_over_best),
            mean_gap=mean(found, lambda one: one.mean_gap),
            baseline_mean_gap=mean(base, lambda one: one.mean_gap),
            baseline_worst_gap=max(one.worst_gap for seeds in base for one in seeds),
        )


class Replayed(NamedTuple):
    """Times and gaps of a finished replay.

    Attributes
    ----------
    ramp_up_minutes
        Mean minutes from the first start of a job to that on its greatest number of GPUs.
    """

    average_hours: float
    p99_hours: float
    makespan_hours: float
    short_hours: float
    long_hours: float
    restarts_per_job: float
    ramp_up_minutes: float
    mean_more_starved: float
    served_over_best: float
    mean_gap: float
    worst_gap: float


#: Finished replays by workload and seed.
Outcomes = Sequence[Sequence[Replayed]]


class PairRow(NamedTuple):
    """Changes from a baseline to another way, means over workloads with 95 % intervals.

    Attributes
    ----------
    average_hours, baseline_hours
        Average completion time of the way, and of the baseline.
    average_change_percent, short_change_percent, long_change_percent
        Change of the average completion time of all, of short and of long jobs.
    p99_change_percent, makespan_change_percent
        Change of the 99th percentile of completion times, and of the makespan.
    restarts_change, ramp_up_change_minutes
        Change of the restarts per job, and of the mean time from the first start of a job to that
        on its greatest number of GPUs.
    mean_more_starved, served_over_best, mean_gap
        Gaps of the decisions of the way (see `parts_of_gaps`); NaN where none were judged.
    """

    scenario: str
    way: str
    baseline: str
    workloads: int
    seeds: int
    average_hours: float
    baseline_hours: float
    average_change_percent: Estimate
    short_change_percent: Estimate
    long_change_percent: Estimate
    p99_change_percent: Estimate
    makespan_change_percent: Estimate
    restarts_change: Estimate
    ramp_up_change_minutes: Estimate
    mean_more_starved: float
    baseline_mean_more_starved: float
    served_over_best: float
    baseline_served_over_best: float
    mean_gap: float
    baseline_mean_gap: float
    baseline_worst_gap: float


def replayed(folder: Path) -> Replayed:
    """Return the times and gaps of the finished replay in `folder`."""
    jobs, summary = pd.read_csv(folder / "jobs.csv"), summarise("", folder)
    return Replayed(
        average_hours=summary["average_jct_hours"],
        p99_hours=summary["p99_jct_hours"],
        makespan_hours=summary["makespan_hours"],
        short_hours=float(jobs.jct[jobs.application.isin(SHORT)].mean()) / 3600.0,
        long_hours=float(jobs.jct[jobs.application.isin(LONG)].mean()) / 3600.0,
        restarts_per_job=float(jobs.restarts.mean()),
        ramp_up_minutes=_ramp_up(pd.read_csv(folder / "samples.csv")),
        mean_more_starved=summary["mean_more_starved"],
        served_over_best=summary["served_over_best"],
        mean_gap=summary["mean_gap"],
        worst_gap=summary["worst_gap"],
    )


def _ramp_up(samples: pd.DataFrame) -> float:
    """Return the mean minutes from a job's first GPUs to its most, from allocations by round."""
    running = samples[samples.gpus > 0]
    greatest = running.gpus == running.groupby("job").gpus.transform("max")
    most = running[greatest].groupby("job").time.min()
    return float((most - running.groupby("job").time.min()).mean()) / 60.0


def _over_seeds(found: Outcomes, value: Callable[[Replayed], float]) -> list[float]:
    """Return the mean of `value` over the seeds of every workload."""
    return [float(np.mean([value(one) for one in seeds])) for seeds in found]


def paired_study(
    title: str, pairs: Sequence[Pair], *, gaps: bool = False, quick_pairs: int | None = None
) -> Reproduction[PairRow]:
    """Return a study of `pairs`.

    Parameters
    ----------
    title
        Title of the study.
    pairs
        Compared pairs.
    gaps
        Whether to judge decisions even if the plan does not request it.
    quick_pairs
        Number of pairs that a quick run compares, the first ones; None for all.
    """

    def judged(plan: Plan) -> Plan:
        return replace(plan, gaps=plan.gaps or gaps)

    def compared(plan: Plan) -> Sequence[Pair]:
        return pairs[:quick_pairs] if plan.quick else pairs

    def tasks(plan: Plan) -> list[ReplayTask]:
        return [
            task
            for pair in compared(plan)
            for number in plan.workloads
            for way in (pair.way, pair.baseline)
            for task in way.tasks(judged(plan), pair.scenario, number)
        ]

    def rows(plan: Plan) -> list[PairRow]:
        return [pair.row(judged(plan)) for pair in compared(plan)]

    return Reproduction(
        title,
        tasks,
        rows,
        lambda _, rows: plot_pairs(title, rows),
        shown=shortened,
        ignores=("pollux",),
        workloads=EIGHT,
        quick_workloads=Plan.workloads,
    )


def shortened(rows: list[PairRow]) -> Rows:
    """Return the changes as "mean ± half-width", without gaps where none were judged."""
    judged = not all(math.isnan(row.baseline_mean_gap) for row in rows)
    return [
        {
            "scenario": row.scenario,
            "way": row.way,
            "baseline": row.baseline,
            "workloads": row.workloads,
            "seeds": row.seeds,
            "average (%)": row.average_change_percent.text("+.1f"),
            "short (%)": row.short_change_percent.text("+.1f"),
            "long (%)": row.long_change_percent.text("+.1f"),
            "p99 (%)": row.p99_change_percent.text("+.1f"),
            "makespan (%)": row.makespan_change_percent.text("+.1f"),
            "restarts per job": row.restarts_change.text("+.2f"),
            "ramp-up (min)": row.ramp_up_change_minutes.text("+.1f"),
            **({name: getattr(row, name) for name in GAPS} if judged else {}),
        }
        for row in rows
    ]


def plot_pairs(title: str, rows: list[PairRow]) -> Figure:
    """Draw the changes of the average completion time with their confidence intervals."""
    labels = list(dict.fromkeys(f"{row.way}, {row.scenario}" for row in rows))
    baselines = list(dict.fromkeys(row.baseline for row in rows))
    ax = new_axes(8.0, 1.6 + 0.5 * len(labels))
    for index, baseline in enumerate(baselines):
        shown = [row for row in rows if row.baseline == baseline]
        shift = 0.25 * (index - (len(baselines) - 1) / 2)
        ax.errorbar(
            [row.average_change_percent.mean for row in shown],
            [labels.index(f"{row.way}, {row.scenario}") + shift for row in shown],
            xerr=np.nan_to_num([row.average_change_percent.half_width for row in shown]),
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
