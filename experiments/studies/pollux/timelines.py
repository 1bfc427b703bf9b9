"""Figures 5 and 6 of Pollux: GPUs, efficiency and batch sizes over time.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replay_report import curves, draw_over_time, mean_efficiency
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.models.round.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.studies.framework.reproduction import Plan

#: Hours in which jobs arrive.
ARRIVALS = 8.0


def tuned_replays(plan: Plan) -> dict[str, ReplayTask]:
    """Return the replays of the first workload under Pollux and the tuned baselines, by policy."""
    workload = plan.workload(plan.workloads[0])
    policies = (*plan.pollux, "optimus", "tiresias")
    return {policy: plan.replay(policy, workload) for policy in policies}


def _cluster_tasks(plan: Plan) -> Sequence[ReplayTask]:
    return list(tuned_replays(plan).values())


class ClusterRow(NamedTuple):
    """Use of the cluster under a policy, while jobs arrive and over the whole replay."""

    policy: str
    mean_gpus_arrivals: float
    efficiency_arrivals: float
    mean_gpus_all: float
    efficiency_all: float


def _cluster_rows(plan: Plan) -> list[ClusterRow]:
    """Return averages while jobs arrive and over the replay; GPUs weight the efficiency."""
    rows = []
    for policy, task in tuned_replays(plan).items():
        rounds = pd.read_csv(task.folder / "rounds.csv")
        arrivals = rounds[rounds.time < ARRIVALS * HOUR]
        rows.append(
            ClusterRow(
                policy=policy,
                mean_gpus_arrivals=rounded(float(arrivals.allocated_gpus.mean()), 4),
                efficiency_arrivals=rounded(mean_efficiency(arrivals), 4),
                mean_gpus_all=rounded(float(rounds.allocated_gpus.mean()), 4),
                efficiency_all=rounded(mean_efficiency(rounds), 4),
            )
        )
    return rows


def _plot_cluster(plan: Plan, _: list[ClusterRow]) -> Figure:
    from matplotlib.figure import Figure

    folders = {policy: task.folder for policy, task in tuned_replays(plan).items()}
    figure = Figure(figsize=(8.0, 6.0), layout="constrained")
    gpus, efficiency = figure.subplots(2, 1, sharex=True)
    draw_over_time(gpus, folders, "allocated_gpus", "allocated GPUs")
    draw_over_time(efficiency, folders, "efficiency", "statistical efficiency (%)", 100.0)
    gpus.set_xlabel("")
    gpus.set_title("moving averages over half an hour", fontsize="medium", loc="left")
    figure.legend(*gpus.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


FIGURE_5 = Reproduction(
    "Figure 5: allocated GPUs and efficiency over time",
    _cluster_tasks,
    _cluster_rows,
    _plot_cluster,
    ignores=("seeds",),
)

#: One ImageNet job from the start, two YOLOv3 jobs later; cluster and times are ours.
COADAPTED = (
    Submission("imagenet", 0, "imagenet", 1, 200),
    Submission("yolov3-a", 2 * 3600, "yolov3", 1, 8),
    Submission("yolov3-b", 4 * 3600, "yolov3", 1, 8),
)


def _job_task(plan: Plan) -> ReplayTask:
    return plan.replay(plan.pollux[0], COADAPTED, setting=Setting(Cluster.uniform(4, 4)))


class JobRow(NamedTuple):
    """Means over the rounds in which a job runs among `active_jobs` jobs, itself included.

    Attributes
    ----------
    running_hours
        Length of these rounds.
    """

    job: str
    active_jobs: int
    running_hours: float
    mean_gpus: float
    mean_batch_size: float
    mean_efficiency: float


def _job_rows(plan: Plan) -> list[JobRow]:
    """Return a row for each job and number of active jobs, over the rounds in which it runs."""
    samples, interval = _samples(plan), _job_task(plan).setting.interval
    samples["active_jobs"] = samples.groupby("time").job.transform("count")
    grouped = samples[samples.gpus > 0].groupby(["job", "active_jobs"])
    return [
        JobRow(
            job=str(job),
            active_jobs=int(part.active_jobs.iloc[0]),
            running_hours=rounded(len(part) * interval / HOUR, 4),
            mean_gpus=rounded(float(part.gpus.mean()), 4),
            mean_batch_size=rounded(float(part.batch_size.mean()), 4),
            mean_efficiency=rounded(float(part.efficiency.mean()), 4),
        )
        for (job, _), part in grouped
    ]


def _samples(plan: Plan) -> pd.DataFrame:
    return pd.read_csv(_job_task(plan).folder / "samples.csv")


def _plot_jobs(plan: Plan, _: list[JobRow]) -> Figure:
    from matplotlib.figure import Figure

    samples = _samples(plan)
    figure = Figure(figsize=(8.0, 7.5), layout="constrained")
    panels = figure.subplots(3, 1, sharex=True)
    labels = ("GPUs", "batch size (initial = 1)", "efficiency (%)")
    initial = {job.name: job.batch_size for job in COADAPTED}
    for job, look in curves(initial).items():
        own = samples[(samples.job == job) & (samples.efficiency > 0)]
        values = (own.gpus, own.batch_size / initial[job], 100.0 * own.efficiency)
        for ax, series in zip(panels, values, strict=True):
            ax.step(own.time / HOUR, series, where="post", **look)
    for ax, label in zip(panels, labels, strict=True):
        ax.set_ylabel(label)
        ax.grid(color="0.9")
        ax.set_axisbelow(True)
    panels[0].set_ylim(bottom=0)
    panels[0].yaxis.get_major_locator().set_params(integer=True)
    panels[1].set_yscale("log", base=2)
    panels[1].yaxis.set_major_formatter("{x:g}")
    panels[2].set_ylim(0, 105)
    panels[2].set_xlabel("time (h)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


FIGURE_6 = Reproduction(
    "Figure 6: one ImageNet and two YOLOv3 jobs adapt to each other",
    lambda plan: [_job_task(plan)],
    _job_rows,
    _plot_jobs,
    ignores=("workloads", "seeds", "quick"),
)
