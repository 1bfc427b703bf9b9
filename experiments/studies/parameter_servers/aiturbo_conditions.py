"""Under which conditions AITurbo takes half the time of the better baseline, as its slides claim.

The replays of `aiturbo_replay.py`, half of the jobs unpredictable, under AITurbo, its variant that
counts the logarithm of the remaining time, Optimus, Tiresias and SRTF, which is told the true
times. Each condition changes one thing of the base, a cluster of 4 nodes of 16 cores and 2 GPUs
whose network has the bandwidth at which step times were measured:

- the bandwidth between nodes, for jobs as long on the least configuration; within a node it stays
  as it is, unless the network is faster. The slides show steps at 1 and 0.1 Gbps. What was measured
  is not published: DL2's simulator has 0.7 Gbps as the median of its models, the fitted transfers
  of the gradients of its models are 1 to 18 Gbps, so that 0.1 Gbps is between a seventh and less
  than a hundredth;
- where the GPUs are: on two of the four nodes, the others have cores only; or half as many, on one
  node, for jobs half as long;
- what users ask for: half of them for workers without a GPU; or as in Philly, on Microsoft's ten
  clusters, or in AITurbo's own records, each where the folder of `Plan.artifact` has the list;
- the size of the cluster, with as many more jobs in the same time;
- real courses of losses in place of drawn ones: the validation runs of Pollux's artifact.

All else about the jobs is equal by common random numbers.

References
----------
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.parameter_servers.real_losses import read_real_courses
from goodalloc.data.parameter_servers.requests import (
    read_aiturbo_requests,
    read_itp_requests,
    read_philly_requests,
    requests_without_gpus,
)
from goodalloc.data.parameter_servers.workload import PsWorkloadOptions
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, figure_of, new_axes
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.parameter_servers.aiturbo_task import PsReplay
from goodalloc.experiments.studies.parameter_servers.setting import WITHIN_NODES, PsSetting
from goodalloc.experiments.support.records import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.parameter_servers.aiturbo_task import PsOutcome

#: Compared policies, and which of them are baselines.
POLICIES = ("aiturbo", "log-time", "optimus", "tiresias", "srtf")
BASELINES = POLICIES[2:]

#: Per cent of unpredictable jobs.
SHARE = 50

#: Jobs and nodes of the base, and the larger cluster.
JOBS, NODES, LARGER = 20, 4, 12

#: Bandwidths between nodes over that measured.
BANDWIDTHS = {
    "network ten times as fast": 10.0,
    "network a tenth as fast": 0.1,
    "network a hundredth as fast": 0.01,
}

#: Average completion time of the better baseline over AITurbo's, claimed in the slides.
PUBLISHED = 2.0

#: Lists of the artifact's folder by condition, and where they come from.
LISTS: Mapping[str, tuple[str, str]] = {
    "requests as in Philly": (
        "chronus-philly",
        "github.com/S-Lab-System-Group/ChronusArtifact, code/data/exp",
    ),
    "requests as on Microsoft's clusters": (
        "elasticflow-itp-2021",
        "github.com/microsoft/elasticflow-traces",
    ),
    "requests as in AITurbo's records": ("aiturbo-jobs", "github.com/LFSCODE/AITurbo"),
    "real losses": ("pollux/traces", "github.com/petuum/adaptdl, branch osdi21-artifact"),
}


class Condition(NamedTuple):
    """What workloads and cluster are like.

    Attributes
    ----------
    drawn
        Parameters of the workloads.
    setting
        Cluster and rules of the replays.
    """

    drawn: PsWorkloadOptions
    setting: PsSetting


def conditions(artifact: Path | None = None, *, quick: bool = False) -> dict[str, Condition]:
    """Return the conditions by name, the base first.

    Parameters
    ----------
    artifact
        Folder of published lists; conditions whose list it lacks are left out.
    quick
        Whether there are half of the jobs.
    """
    drawn, setting = PsWorkloadOptions(jobs=JOBS // (2 if quick else 1)), PsSetting(NODES)
    larger = LARGER / NODES
    found = {
        "base": Condition(drawn, setting),
        **{
            name: Condition(
                replace(drawn, bandwidth=bandwidth),
                replace(setting, within_nodes=max(WITHIN_NODES / bandwidth, 1.0)),
            )
            for name, bandwidth in BANDWIDTHS.items()
        },
        "GPUs on half of the nodes": Condition(drawn, replace(setting, node_gpus=(4, 4, 0, 0))),
        "half of the GPUs, on one node": Condition(
            replace(drawn, hours=drawn.hours / 2.0), replace(setting, node_gpus=(4, 0, 0, 0))
        ),
        "half ask for no GPU": Condition(
            replace(drawn, requests=requests_without_gpus(0.5)), setting
        ),
        "12 nodes, three times the jobs": Condition(
            replace(drawn, jobs=round(drawn.jobs * larger), mean_gap=drawn.mean_gap / larger),
            replace(setting, nodes=LARGER),
        ),
    }
    if artifact is None:
        return found
    for name, read in _READERS.items():
        folder = artifact / LISTS[name][0]
        if folder.is_dir():
            found[name] = Condition(read(drawn, folder), setting)
    return found


def _real(drawn: PsWorkloadOptions, folder: Path) -> PsWorkloadOptions:
    return replace(drawn, courses=tuple(read_real_courses(folder).values()))


#: Readers of the lists by condition.
_READERS: Mapping[str, Callable[[PsWorkloadOptions, Path], PsWorkloadOptions]] = {
    "requests as in Philly": lambda drawn, path: replace(
        drawn, requests=read_philly_requests(path)
    ),
    "requests as on Microsoft's clusters": lambda drawn, path: replace(
        drawn, requests=read_itp_requests(path)
    ),
    "requests as in AITurbo's records": lambda drawn, path: replace(
        drawn, requests=read_aiturbo_requests(path)
    ),
    "real losses": _real,
}


class ConditionRow(NamedTuple):
    """Outcome of a policy under a condition, with 95 % intervals over the workloads.

    Attributes
    ----------
    short_jct_hours, long_jct_hours
        Average completion time of jobs that need at most, and more than, the median time with what
        they ask for.
    optimus_ratio
        Average completion time under Optimus over that under the policy, by workload.
    better_baseline
        Baseline of the least average completion time over all workloads.
    better_ratio, better_short_ratio, better_long_ratio
        Average completion time under that baseline over that under the policy, by workload: of all,
        of short and of long jobs.
    published_ratio
        What the slides claim at least for the better baseline over AITurbo.
    """

    condition: str
    policy: str
    nodes: int
    jobs: int
    workloads: int
    average_jct_hours: Estimate
    short_jct_hours: Estimate
    long_jct_hours: Estimate
    optimus_ratio: Estimate
    better_baseline: str
    better_ratio: Estimate
    better_short_ratio: Estimate
    better_long_ratio: Estimate
    published_ratio: float | None
    cpu_percent: float
    gpu_percent: float


def _replays(plan: Plan) -> dict[str, dict[str, list[PsReplay]]]:
    """Return the replays of all workloads by condition and policy."""
    found: dict[str, dict[str, list[PsReplay]]] = {}
    for name, (drawn, setting) in conditions(plan.artifact, quick=plan.quick).items():
        found[name] = {policy: [] for policy in POLICIES}
        for policy in POLICIES:
            for seed in plan.workloads:
                task = PsReplay(plan.folder, policy, SHARE, seed, drawn.jobs, setting, drawn)
                folder = plan.folder / "replays" / f"ps-{policy}-{digest(task.description())}"
                found[name][policy].append(replace(task, folder=folder))
    return found


def _tasks(plan: Plan) -> list[PsReplay]:
    """Return all replays, each once."""
    found = _replays(plan).values()
    return list(dict.fromkeys(task for one in found for tasks in one.values() for task in tasks))


def _rows(plan: Plan) -> list[ConditionRow]:
    """Return a row for every condition and policy."""
    return [
        row
        for name, tasks in _replays(plan).items()
        for row in rows_of(
            name,
            tasks["aiturbo"][0],
            {policy: [task.record() for task in one] for policy, one in tasks.items()},
        )
    ]


def rows_of(
    condition: str, task: PsReplay, outcomes: Mapping[str, Sequence[PsOutcome]]
) -> list[ConditionRow]:
    """Return a row for every policy under a condition.

    Parameters
    ----------
    condition
        Its name.
    task
        One of its replays.
    outcomes
        Outcome of every workload by policy.
    """
    hours = {
        name: np.array([outcome[:3] for outcome in found], dtype=float).T.tolist()
        for name, found in outcomes.items()
    }
    better = min(BASELINES, key=lambda name: sum(hours[name][0]))
    rows = []
    for policy, found in outcomes.items():
        average, short, long = hours[policy]
        rows.append(
            ConditionRow(
                condition=condition,
                policy=policy,
                nodes=task.setting.nodes,
                jobs=task.jobs,
                workloads=len(found),
                average_jct_hours=estimate_of(average),
                short_jct_hours=estimate_of(short),
                long_jct_hours=estimate_of(long),
                optimus_ratio=_over(hours["optimus"][0], average),
                better_baseline=better,
                better_ratio=_over(hours[better][0], average),
                better_short_ratio=_over(hours[better][1], short),
                better_long_ratio=_over(hours[better][2], long),
                published_ratio=PUBLISHED if policy == "aiturbo" else None,
                cpu_percent=float(np.mean([outcome.cpu_percent for outcome in found])),
                gpu_percent=float(np.mean([outcome.gpu_percent for outcome in found])),
            )
        )
    return rows


def _over(these: Sequence[float], those: Sequence[float]) -> Estimate:
    """Return the ratio of two averages by workload."""
    return estimate_of([one / other for one, other in zip(these, those, strict=True)])


def shortened(rows: list[ConditionRow]) -> Rows:
    """Return the rows as people read them."""
    return [
        {
            "condition": row.condition,
            "policy": row.policy,
            "average (h)": row.average_jct_hours.text(".2f"),
            "short (h)": row.short_jct_hours.text(".2f"),
            "long (h)": row.long_jct_hours.text(".2f"),
            "Optimus over it": row.optimus_ratio.text(".2f"),
            "better baseline": row.better_baseline,
            "that over it": row.better_ratio.text(".2f"),
            "published": "" if row.published_ratio is None else f"≥ {row.published_ratio:g}",
            "of short": row.better_short_ratio.text(".2f"),
            "of long": row.better_long_ratio.text(".2f"),
        }
        for row in rows
    ]


def plot_conditions(rows: list[ConditionRow]) -> Figure:
    """Plot the better baseline, and Optimus, over AITurbo and over its variant, by condition."""
    names = list(dict.fromkeys(row.condition for row in rows))
    ax = new_axes(8.5, 2.0 + 0.5 * len(names))
    ratios = [
        ("aiturbo", "better_ratio", "better baseline over AITurbo"),
        ("aiturbo", "optimus_ratio", "Optimus over AITurbo"),
        ("log-time", "better_ratio", "better baseline over AITurbo, log time (ours)"),
        ("log-time", "optimus_ratio", "Optimus over AITurbo, log time (ours)"),
    ]
    for index, (policy, field, label) in enumerate(ratios):
        shown = [row for row in rows if row.policy == policy]
        found: list[Estimate] = [getattr(row, field) for row in shown]
        colour = COLOURS[POLICIES.index(policy)]
        ax.errorbar(
            [one.mean for one in found],
            [names.index(row.condition) + 0.16 * (index - 1.5) for row in shown],
            xerr=np.nan_to_num([one.half_width for one in found]),
            marker=MARKERS[index % 2],
            color=colour,
            markerfacecolor=colour if field == "better_ratio" else "white",
            linestyle="none",
            capsize=2,
            linewidth=0.9,
            label=label,
        )
    ax.axvline(1.0, color="black", linewidth=0.8)
    ax.axvline(
        PUBLISHED, color="black", linewidth=0.9, linestyle="--", label="claimed in the slides"
    )
    policies = {policy for policy, _, _ in ratios}
    means = [row.optimus_ratio.mean for row in rows if row.policy in policies]
    ax.set_xlim(0.0, 1.3 * max(PUBLISHED, *means))
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel("ratio of average completion times, 95 % intervals over workloads")
    ax.legend(loc="upper center", bbox_to_anchor=(0.4, -0.09), ncols=2, frameon=False)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    return figure_of(ax)


def _require(plan: Plan) -> None:
    """Refuse a folder that has none of the lists.

    Raises
    ------
    ValueError
        If it has none.
    """
    if plan.artifact is not None and not any(
        (plan.artifact / folder).is_dir() for folder, _ in LISTS.values()
    ):
        wanted = "; ".join(f"{folder} ({source})" for folder, source in LISTS.values())
        raise ValueError(f"Artifact '{plan.artifact}': expected a folder with some of {wanted}.")


NOTE = """\
better baseline: of Optimus, Tiresias and SRTF, which is told the true times, the one of the least
average over all workloads. short: jobs that need at most the median time with what they ask for."""

AITURBO_CONDITIONS = Reproduction(
    "AITurbo (HPDC'21) over the better baseline, by network, GPUs, requests, size and losses",
    _tasks,
    _rows,
    lambda _, rows: plot_conditions(rows),
    require=_require,
    shown=shortened,
    ignores=("pollux", "seeds", "gaps"),
    workloads=(11, 12, 13),
    quick_workloads=(11,),
    note=NOTE,
)
