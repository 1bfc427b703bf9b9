"""Agreement with the logs of the artifact of Pollux, workload by workload.

The artifact's simulator replayed its eight workloads at four loads under Tiresias, Optimus with an
oracle and Pollux's genetic algorithm (the data of Figure 8a). The former two are deterministic, so
that a faithful simulator gives the same seconds; for Pollux it can only come close, as its random
numbers are not published.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.framework.reproduction import EACH_POLLUX, EIGHT, Reproduction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from matplotlib.figure import Figure

    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan

#: Seconds within which two results are the same, as logs round them.
SAME = 0.5

#: The only load of a quick run.
QUICK_LOAD = 1.0

#: Published average completion times and makespans in seconds, of workloads 1 to 8, by policy and
#: load.
PUBLISHED: Mapping[tuple[str, float], tuple[tuple[float, ...], tuple[float, ...]]] = {
    ("tiresias", 0.5): (
        (1450.938, 2333.275, 1869.9, 1946.763, 1425.388, 1826.575, 3979.15, 1899.95),
        (54281.0, 40222.0, 40472.0, 41252.0, 28712.0, 48249.0, 88244.0, 32552.0),
    ),
    ("tiresias", 1.0): (
        (2473.65, 5144.962, 3876.256, 3280.262, 3501.012, 3469.694, 5479.913, 5079.706),
        (83751.0, 85625.0, 55541.0, 98885.0, 93281.0, 78609.0, 116204.0, 84863.0),
    ),
    ("tiresias", 1.5): (
        (5520.292, 6333.771, 6561.979, 5577.321, 6832.421, 5830.483, 5366.783, 7435.75),
        (142751.0, 91820.0, 63071.0, 122525.0, 128741.0, 113469.0, 123849.0, 123065.0),
    ),
    ("tiresias", 2.0): (
        (10138.175, 8655.991, 10727.819, 9664.728, 12098.103, 10254.669, 8370.847, 10405.806),
        (203624.0, 117731.0, 83419.0, 152765.0, 185910.0, 132969.0, 133004.0, 153005.0),
    ),
    ("optimus", 0.5): (
        (1309.688, 3124.562, 1986.838, 2173.863, 1324.525, 1957.963, 5314.0, 1971.475),
        (46292.0, 30872.0, 45461.0, 41252.0, 27935.0, 43606.0, 65494.0, 32552.0),
    ),
    ("optimus", 1.0): (
        (4087.062, 6913.875, 3944.006, 5967.75, 5656.25, 5301.875, 7290.856, 6293.794),
        (72422.0, 64224.0, 45299.0, 68486.0, 70339.0, 66299.0, 85859.0, 65954.0),
    ),
    ("optimus", 1.5): (
        (7673.842, 6678.188, 5683.625, 7683.792, 7899.725, 7500.254, 6426.183, 8331.3),
        (108532.0, 70482.0, 48067.0, 91061.0, 92041.0, 82095.0, 90763.0, 91662.0),
    ),
    ("optimus", 2.0): (
        (10806.597, 8515.388, 8363.356, 10312.913, 11830.044, 9767.256, 6997.969, 11174.794),
        (160733.0, 87245.0, 68128.0, 107304.0, 124798.0, 99900.0, 99042.0, 111338.0),
    ),
    (EACH_POLLUX, 0.5): (
        (1059.513, 1826.263, 1310.525, 1497.763, 976.837, 1287.825, 2881.05, 1432.037),
        (43797.0, 30531.0, 34576.0, 36290.0, 28027.0, 41447.0, 58677.0, 30585.0),
    ),
    (EACH_POLLUX, 1.0): (
        (2088.769, 3322.944, 2188.494, 2720.981, 2673.7, 2446.131, 3616.144, 2951.906),
        (64849.0, 56644.0, 36806.0, 64694.0, 63372.0, 58642.0, 78359.0, 60673.0),
    ),
    (EACH_POLLUX, 1.5): (
        (3855.779, 3380.579, 3299.917, 3902.675, 4007.3, 3474.267, 3217.629, 4345.117),
        (94333.0, 61262.0, 40935.0, 81672.0, 80518.0, 70568.0, 80996.0, 81527.0),
    ),
    (EACH_POLLUX, 2.0): (
        (6186.259, 4190.828, 5131.837, 5262.4, 6590.822, 5105.312, 3836.325, 6009.812),
        (134515.0, 75850.0, 58158.0, 95080.0, 106232.0, 87422.0, 85961.0, 95876.0),
    ),
}


class AgreementRow(NamedTuple):
    """Completion of a workload under a policy, published and here (mean over the seeds)."""

    policy: str
    load: float
    workload: int
    seeds: int
    published_average_seconds: float
    average_seconds: float
    average_deviation_percent: float
    published_makespan_seconds: float
    makespan_seconds: float
    makespan_deviation_percent: float
    same: bool


def _ways(plan: Plan) -> Iterator[tuple[str, float, str]]:
    """Iterate over published policies, loads, and the policies that stand for them."""
    for published, load in PUBLISHED:
        if plan.quick and load != QUICK_LOAD:
            continue
        for policy in plan.policies_of(published):
            yield published, load, policy


def _replays(plan: Plan, policy: str, load: float, workload: int) -> list[ReplayTask]:
    jobs = replace(plan, quick=False).workload(workload, load=load)  # all jobs, as published
    return [plan.replay(policy, jobs, seed=seed) for seed in plan.seeds_of(policy)]


def _tasks(plan: Plan) -> list[ReplayTask]:
    return [
        task
        for _, load, policy in _ways(plan)
        for workload in plan.workloads
        for task in _replays(plan, policy, load, workload)
    ]


def _rows(plan: Plan) -> list[AgreementRow]:
    return [
        _row(plan, published, policy, load, workload)
        for published, load, policy in _ways(plan)
        for workload in plan.workloads
    ]


def _row(plan: Plan, published: str, policy: str, load: float, workload: int) -> AgreementRow:
    averages, makespans = PUBLISHED[published, load]
    replays = _replays(plan, policy, load, workload)
    found = [pd.read_csv(task.folder / "jobs.csv") for task in replays]
    average = float(np.mean([jobs.jct.mean() for jobs in found]))
    makespan = float(np.mean([jobs.completion.max() for jobs in found]))
    wanted = averages[workload - 1], makespans[workload - 1]
    return AgreementRow(
        policy=policy,
        load=load,
        workload=workload,
        seeds=len(found),
        published_average_seconds=wanted[0],
        average_seconds=rounded(average, 8),
        average_deviation_percent=rounded(100.0 * (average / wanted[0] - 1.0), 3),
        published_makespan_seconds=wanted[1],
        makespan_seconds=rounded(makespan, 8),
        makespan_deviation_percent=rounded(100.0 * (makespan / wanted[1] - 1.0), 3),
        same=max(abs(average - wanted[0]), abs(makespan - wanted[1])) < SAME,
    )


def summarise_agreement(rows: list[AgreementRow]) -> Rows:
    """Return a row for every policy and load: agreeing workloads, mean and largest deviation."""
    shown = []
    for policy, load in dict.fromkeys((row.policy, row.load) for row in rows):
        group = [row for row in rows if (row.policy, row.load) == (policy, load)]
        average = estimate_of([row.average_deviation_percent for row in group])
        makespan = [row.makespan_deviation_percent for row in group]
        shown.append(
            {
                "policy": policy,
                "load": load,
                "workloads": len(group),
                "same_to_the_second": sum(row.same for row in group),
                "average_deviation_%": average.mean,
                "half_width_%": average.half_width,
                "largest_%": max((row.average_deviation_percent for row in group), key=abs),
                "makespan_deviation_%": rounded(float(np.mean(makespan)), 3),
            }
        )
    return shown


def _plot(rows: list[AgreementRow]) -> Figure:
    """Draw our average completion time against the published one, a panel for every load."""
    from matplotlib.figure import Figure

    loads = list(dict.fromkeys(row.load for row in rows))
    figure = Figure(figsize=(3.2 * len(loads), 3.8), layout="constrained")
    for ax, load in zip(figure.subplots(1, len(loads), squeeze=False)[0], loads, strict=True):
        for policy in dict.fromkeys(row.policy for row in rows):
            group = [row for row in rows if (row.policy, row.load) == (policy, load)]
            ax.plot(
                [row.published_average_seconds / HOUR for row in group],
                [row.average_seconds / HOUR for row in group],
                marker="o",
                linestyle="none",
                alpha=0.8,
                label=policy,
            )
        ax.axline((1.0, 1.0), slope=1.0, color="0.6", linewidth=0.8, zorder=0)
        ax.set_title(f"load {load:g}")
        ax.set_xlabel("published (h)")
    figure.axes[0].set_ylabel("average completion here (h)")
    figure.axes[0].legend(frameon=False)
    return figure


def _require(plan: Plan) -> None:
    """Refuse drawn workloads, and numbers of workloads that were not published.

    Raises
    ------
    ValueError
        If there is no artifact, or a workload is not one of 1 to 8.
    """
    if plan.artifact is None:
        raise ValueError(
            "Agreement with the artifact: no artifact is given; expected --artifact with the "
            "folder simulator of Pollux's artifact (data/ARTIFACTS.md)."
        )
    for workload in plan.workloads:
        if workload not in EIGHT:
            raise ValueError(f"Workload is {workload}; expected one of 1 to 8.")


AGREEMENT = Reproduction(
    "Artifact's simulator: every workload at every load, published and here",
    _tasks,
    _rows,
    lambda _, rows: _plot(rows),
    require=_require,
    shown=summarise_agreement,
    workloads=EIGHT,
    quick_workloads=(6,),
    ignores=("gaps",),
)
