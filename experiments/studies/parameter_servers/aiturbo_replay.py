"""AITurbo against other schedulers, by the fraction of unpredictable jobs.

Drawn workloads (`data/parameter_servers/workload.py`) are replayed
(`parameter_servers/simulator.py`) under every policy with 0 to 100 % of the jobs unpredictable, on
two clusters, one a third of the other. The paper's own numbers are not available to us. Its slides
claim at most half the average completion time and at least 15 % more CPU and GPU utilisation, and
show that the difference between the two is below 60 % for 80 % of the time without AITurbo and
below 40 % with it. By share there are numbers only of a follow-on
(github.com/MaoZzzzz/Aiturbo-vGPU, commit 11ab921), relative to its own scheduler; over AITurbo they
give the ratios in `PUBLISHED`.

The contenders differ in their decisions: AITurbo chooses the numbers of servers and workers and
their pods, Optimus the numbers with the requested pods; the others give jobs their requested
allocation, which is drawn. AITurbo accounts for the cost of a restart, as described; the others do
not.

Utilisation is that of nodes and rounds until the last submission; a core of a worker with a GPU is
busy while the GPU computes (`models/parameter_servers/utilisation.py`). Short jobs are those whose
running time with the requested allocation is at most the median of the workload.

References
----------
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.parameter_servers.workload import PsWorkloadOptions
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, STYLES
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.parameter_servers.aiturbo_task import (
    CONTENDERS,
    QUANTILES,
    PsReplay,
)
from goodalloc.experiments.studies.parameter_servers.setting import PsSetting
from goodalloc.experiments.support.records import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan

#: Per cent of unpredictable jobs, and the share of the detailed figures.
SHARES = (0, 25, 50, 75, 100)
CLOSE = 50

#: Nodes of the clusters.
NODES = (12, 4)


#: Average completion time over that of AITurbo by share, in the follow-on, not the paper.
PUBLISHED: Mapping[str, Mapping[int, float]] = {
    "optimus": {0: 2.1 / 1.48, 25: 2.2 / 1.34, 50: 2.5 / 1.24, 75: 3.3 / 1.1, 100: 3.9},
    "tiresias": {0: 5.3 / 1.48, 25: 4.3 / 1.34, 50: 3.9 / 1.24, 75: 3.3 / 1.1, 100: 2.2},
    "srtf": {50: 1.9 / 1.24},
    "fcfs": {50: 4.2 / 1.24},
}

#: Makespan over that of AITurbo, likewise, with half the jobs unpredictable.
PUBLISHED_MAKESPAN = {
    "optimus": 2.1 / 1.34,
    "tiresias": 3.394 / 1.34,
    "srtf": 4.694 / 1.34,
    "fcfs": 3.394 / 1.34,
}

#: Published quantiles of the difference of utilisation over nodes and rounds.
SLIDES = {"without AITurbo": 60.0, "with AITurbo": 40.0}

#: Policies whose differences are drawn.
DISTRIBUTIONS = ("aiturbo", "log-time", "optimus", "tiresias", "srtf", "fcfs")


class ShareRow(NamedTuple):
    """Outcome of a workload on one cluster, under a policy and with a share of unpredictable jobs.

    The last eight columns are those of `PsOutcome`.
    """

    nodes: int
    policy: str
    unpredictable_percent: int
    workload: int
    jobs: int
    average_jct_hours: float
    short_jct_hours: float
    long_jct_hours: float
    makespan_hours: float
    cpu_percent: float
    gpu_percent: float
    difference_p80_percent: float
    starts_per_job: float


def _task(plan: Plan, nodes: int, policy: str, share: int, seed: int) -> PsReplay:
    """Return a replay, of half the jobs if quick; blind policies have one for all shares."""
    share = SHARES[0] if CONTENDERS[policy].blind else share
    jobs = PsWorkloadOptions().jobs // (2 if plan.quick else 1)
    task = PsReplay(plan.folder, policy, share, seed, jobs, PsSetting(nodes))
    name = f"ps-{policy}-{digest(task.description())}"
    return replace(task, folder=plan.folder / "replays" / name)


def _tasks(plan: Plan) -> list[PsReplay]:
    """Return a replay for every cluster, policy, share and workload."""
    return list(
        dict.fromkeys(
            _task(plan, nodes, policy, share, seed)
            for nodes in NODES
            for seed in plan.workloads
            for policy in CONTENDERS
            for share in SHARES
        )
    )


def _rows(plan: Plan) -> list[ShareRow]:
    """Return a row for every cluster, policy, share and workload."""
    rows = []
    for nodes in NODES:
        for policy in CONTENDERS:
            for share in SHARES:
                for seed in plan.workloads:
                    task = _task(plan, nodes, policy, share, seed)
                    numbers = task.record()[:-1]
                    rows.append(ShareRow(nodes, policy, share, seed, task.jobs, *numbers))
    return rows


def summarise_shares(rows: list[ShareRow]) -> Rows:
    """Return a row for every cluster, policy and share: means over workloads, and over AITurbo's.

    The half-width is that of the 95 % confidence interval of the ratio, paired by workload.
    """
    shown = []
    for nodes in NODES:
        for policy in CONTENDERS:
            for share in SHARES:
                group, hybrid = (_of(rows, nodes, name, share) for name in (policy, "aiturbo"))
                pairs = list(zip(group, hybrid, strict=True))
                ratio = estimate_of([a.average_jct_hours / b.average_jct_hours for a, b in pairs])
                makespan = estimate_of([a.makespan_hours / b.makespan_hours for a, b in pairs])
                published = PUBLISHED.get(policy, {}).get(share)
                longest = PUBLISHED_MAKESPAN.get(policy) if share == CLOSE else None
                shown.append(
                    {
                        "nodes": nodes,
                        "policy": policy,
                        "unpredictable_%": share,
                        "workloads": len(group),
                        "jct_h": _mean(group, lambda row: row.average_jct_hours),
                        "over_aiturbo": rounded(ratio.mean, 3),
                        "half_width": rounded(ratio.half_width, 2),
                        "published": "" if published is None else rounded(published, 3),
                        "makespan_over": rounded(makespan.mean, 3),
                        "makespan_published": "" if longest is None else rounded(longest, 3),
                        "short_h": _mean(group, lambda row: row.short_jct_hours),
                        "long_h": _mean(group, lambda row: row.long_jct_hours),
                        "makespan_h": _mean(group, lambda row: row.makespan_hours),
                        "cpu_%": _mean(group, lambda row: row.cpu_percent),
                        "gpu_%": _mean(group, lambda row: row.gpu_percent),
                        "difference_p80_%": _mean(group, lambda row: row.difference_p80_percent),
                        "starts": _mean(group, lambda row: row.starts_per_job),
                    }
                )
    return shown


def _mean(rows: list[ShareRow], value: Callable[[ShareRow], float]) -> float:
    return rounded(float(np.mean([value(row) for row in rows])), 3)


def _of(rows: list[ShareRow], nodes: int, policy: str, share: int) -> list[ShareRow]:
    """Return the rows of a cluster, a policy and a share."""
    key = (nodes, policy, share)
    return [row for row in rows if (row.nodes, row.policy, row.unpredictable_percent) == key]


def plot_replays(plan: Plan, rows: list[ShareRow]) -> Figure:
    """Draw completion times by share on both clusters; differences and use on the smaller."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(17.0, 5.2), layout="constrained")
    *times, differences, bars = figure.subplots(1, len(NODES) + 2)
    look = _looks()
    for ax, nodes in zip(times, NODES, strict=True):
        for policy, contender in CONTENDERS.items():
            groups = [_of(rows, nodes, policy, share) for share in SHARES]
            means = [np.mean([row.average_jct_hours for row in group]) for group in groups]
            ax.plot(
                SHARES, means, label=contender.label, markersize=5, linewidth=1.4, **look[policy]
            )
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter("{x:g}")
        ax.set_xticks(SHARES)
        ax.set_xlabel("unpredictable jobs (%)")
        ax.set_ylabel("average completion time (h)")
        ax.set_title(f"{nodes} nodes", fontsize="medium")
    heights = np.linspace(0.0, 100.0, QUANTILES)
    for policy in (name for name in DISTRIBUTIONS if name in CONTENDERS):
        values = [
            _task(plan, NODES[-1], policy, CLOSE, seed).record().differences_percent
            for seed in plan.workloads
        ]
        style = {name: look[policy][name] for name in ("color", "linestyle")}
        differences.plot(np.mean(values, axis=0), heights, linewidth=1.4, **style)
    for marker, (label, place) in zip("+x", SLIDES.items(), strict=True):
        differences.plot(
            place,
            80.0,
            marker=marker,
            color="black",
            markersize=9,
            linestyle="none",
            label=f"slides, {label}",
        )
    differences.legend(loc="lower right", frameon=False)
    differences.set_xlim(0.0, 100.0)
    differences.set_ylim(0.0, 100.0)
    differences.set_xlabel("|CPU - GPU utilisation| (%)")
    differences.set_ylabel("nodes and rounds (%)")
    differences.set_title(f"{NODES[-1]} nodes, {CLOSE} % unpredictable", fontsize="medium")
    _plot_bars(rows, bars)
    for ax in (*times, differences):
        ax.grid(color="0.9")
        ax.set_axisbelow(True)
    figure.legend(
        *times[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False
    )
    return figure


def _looks() -> dict[str, dict[str, Any]]:
    """Return a colour for every scheduler, and a line and a marker for each of its variants."""
    schedulers = list(dict.fromkeys(policy.split("-")[0] for policy in CONTENDERS))
    look = {}
    for colour, scheduler in zip(COLOURS, schedulers, strict=False):
        variants = [policy for policy in CONTENDERS if policy.split("-")[0] == scheduler]
        for variant, policy in enumerate(variants):
            line, marker = STYLES[variant % len(STYLES)], MARKERS[variant % len(MARKERS)]
            look[policy] = {"color": colour, "linestyle": line, "marker": marker}
    return look


def _plot_bars(rows: list[ShareRow], ax: Axes) -> None:
    """Draw the utilisation of CPUs and GPUs by policy."""
    groups = [_of(rows, NODES[-1], policy, CLOSE) for policy in CONTENDERS]
    used = {
        "CPU": [_mean(group, lambda row: row.cpu_percent) for group in groups],
        "GPU": [_mean(group, lambda row: row.gpu_percent) for group in groups],
    }
    for index, (label, means) in enumerate(used.items()):
        places = np.arange(len(CONTENDERS)) + 0.4 * (index - 0.5)
        ax.barh(places, means, height=0.38, color=COLOURS[index], label=label)
    ax.set_yticks(range(len(CONTENDERS)), [found.label for found in CONTENDERS.values()])
    ax.invert_yaxis()
    ax.set_xlim(0.0, 100.0)
    ax.set_xlabel("utilisation (%)")
    ax.set_title(f"{NODES[-1]} nodes, {CLOSE} % unpredictable", fontsize="medium")
    ax.legend(frameon=False)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)


AITURBO_REPLAY = Reproduction(
    "AITurbo (HPDC'21) against others, by the share of unpredictable jobs",
    _tasks,
    _rows,
    plot_replays,
    shown=summarise_shares,
    ignores=("pollux", "seeds", "gaps", "artifact"),
)
