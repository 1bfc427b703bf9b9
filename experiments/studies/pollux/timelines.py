"""Figures 5 and 6 of Pollux: GPUs, efficiency and batch sizes over time.

The paper reads its pictures at marked places, in words. Figure 5: with little contention Pollux
gives a job more GPUs and larger batches, though that lowers the efficiency (A); with much fewer
GPUs and smaller batches, which raises it (B). Figure 6: ImageNet alone has many GPUs and a large
batch (A), under contention fewer and a smaller one, at a higher efficiency (B); alone again, its
batch per GPU is much larger than in (A), since training has reached its efficient stage (C). Here
each of them is a number.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
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

#: Most active jobs of a round with little contention, and fewest of one with much: 16 GPUs a job
#: and more; 4, a node, and fewer.
FEW, MANY = 4, 16


def tuned_replays(plan: Plan) -> dict[str, ReplayTask]:
    """Return the replays of the first workload under Pollux and the tuned baselines, by policy."""
    workload = plan.workload(plan.workloads[0])
    policies = (*plan.pollux, "optimus", "tiresias")
    return {policy: plan.replay(policy, workload) for policy in policies}


def _cluster_tasks(plan: Plan) -> Sequence[ReplayTask]:
    return list(tuned_replays(plan).values())


class ClusterRow(NamedTuple):
    """Use of the cluster under a policy.

    Attributes
    ----------
    mean_gpus_arrivals, efficiency_arrivals, mean_gpus_all, efficiency_all
        Allocated GPUs, and efficiency of the jobs weighted with these, while jobs arrive and over
        the whole replay.
    few_jobs_hours, few_jobs_gpus, few_jobs_batch, few_jobs_efficiency
        Length of the rounds with at most `FEW` active jobs; GPUs a running job there, its batch
        size over the initial one (geometric mean), and the efficiency; None if there are none.
    many_jobs_hours, many_jobs_gpus, many_jobs_batch, many_jobs_efficiency
        The same with at least `MANY` active jobs.
    """

    policy: str
    mean_gpus_arrivals: float
    efficiency_arrivals: float
    mean_gpus_all: float
    efficiency_all: float
    few_jobs_hours: float
    few_jobs_gpus: float | None
    few_jobs_batch: float | None
    few_jobs_efficiency: float | None
    many_jobs_hours: float
    many_jobs_gpus: float | None
    many_jobs_batch: float | None
    many_jobs_efficiency: float | None


class Contention(NamedTuple):
    """Hours of some rounds, and what a running job has in them, as in `ClusterRow`."""

    hours: float
    gpus: float | None
    batch: float | None
    efficiency: float | None


def _cluster_rows(plan: Plan) -> list[ClusterRow]:
    """Return averages by part of the replay and by contention; GPUs weight the efficiency."""
    rows = []
    initial = {name: known.batch.initial for name, known in plan.applications.items()}
    for policy, task in tuned_replays(plan).items():
        rounds = pd.read_csv(task.folder / "rounds.csv")
        samples = pd.read_csv(task.folder / "samples.csv")
        samples["times_initial"] = samples.batch_size / samples.application.map(initial)
        arrivals = rounds[rounds.time < ARRIVALS * HOUR]
        few, many = (
            contention(rounds[chosen], samples, task.setting.interval)
            for chosen in (rounds.active_jobs <= FEW, rounds.active_jobs >= MANY)
        )
        rows.append(
            ClusterRow(
                policy,
                rounded(float(arrivals.allocated_gpus.mean()), 4),
                rounded(mean_efficiency(arrivals), 4),
                rounded(float(rounds.allocated_gpus.mean()), 4),
                rounded(mean_efficiency(rounds), 4),
                *few,
                *many,
            )
        )
    return rows


def contention(rounds: pd.DataFrame, samples: pd.DataFrame, interval: int) -> Contention:
    """Return what jobs have in `rounds`."""
    hours = rounded(len(rounds) * interval / HOUR, 4)
    running = samples[samples.time.isin(rounds.time) & (samples.gpus > 0)]
    if running.empty:
        return Contention(hours, None, None, None)
    return Contention(
        hours,
        rounded(float(running.gpus.mean()), 4),
        rounded(float(np.exp(np.log(running.times_initial).mean())), 4),
        rounded(mean_efficiency(rounds), 4),
    )


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


#: What the paper says of the phases of its ImageNet job, by their number.
PUBLISHED_PHASES = {
    1: "(A) many GPUs, large batch, low efficiency",
    3: "(B) fewer GPUs, smaller batch, higher efficiency",
    5: "(C) many GPUs, batch per GPU much larger than in (A)",
}


class JobRow(NamedTuple):
    """Means over the rounds of a phase, between two changes of the number of active jobs.

    Attributes
    ----------
    phase
        Number of the phase in the replay.
    published
        What the paper says of it; blank if nothing.
    active_jobs
        Number of active jobs, the job included.
    start_hours, running_hours
        First round in which the job runs, and length of all of them.
    batch_per_gpu
        Mean of the total batch size over the GPUs.
    """

    job: str
    phase: int
    published: str
    active_jobs: int
    start_hours: float
    running_hours: float
    mean_gpus: float
    mean_batch_size: float
    batch_per_gpu: float
    mean_efficiency: float


def _job_rows(plan: Plan) -> list[JobRow]:
    """Return a row for each job and phase, over the rounds in which it runs."""
    samples, interval = _samples(plan), _job_task(plan).setting.interval
    active = samples.groupby("time").job.count()
    samples["active_jobs"] = samples.time.map(active)
    samples["phase"] = samples.time.map((active != active.shift()).cumsum())
    rows = []
    for _, part in samples[samples.gpus > 0].groupby(["job", "phase"]):
        job, phase = str(part.job.iloc[0]), int(part.phase.iloc[0])
        leads = job == COADAPTED[0].name
        rows.append(
            JobRow(
                job=job,
                phase=phase,
                published=PUBLISHED_PHASES.get(phase, "") if leads else "",
                active_jobs=int(part.active_jobs.iloc[0]),
                start_hours=rounded(float(part.time.iloc[0]) / HOUR, 4),
                running_hours=rounded(len(part) * interval / HOUR, 4),
                mean_gpus=rounded(float(part.gpus.mean()), 4),
                mean_batch_size=rounded(float(part.batch_size.mean()), 4),
                batch_per_gpu=rounded(float((part.batch_size / part.gpus).mean()), 4),
                mean_efficiency=rounded(float(part.efficiency.mean()), 4),
            )
        )
    return rows


def _samples(plan: Plan) -> pd.DataFrame:
    return pd.read_csv(_job_task(plan).folder / "samples.csv")


def _plot_jobs(plan: Plan, _: list[JobRow]) -> Figure:
    from matplotlib.figure import Figure

    samples = _samples(plan)
    figure = Figure(figsize=(8.0, 9.0), layout="constrained")
    panels = figure.subplots(4, 1, sharex=True)
    labels = ("GPUs", "batch size (initial = 1)", "batch per GPU (initial = 1)", "efficiency (%)")
    initial = {job.name: job.batch_size for job in COADAPTED}
    for job, look in curves(initial).items():
        own = samples[(samples.job == job) & (samples.efficiency > 0)]
        times = own.batch_size / initial[job]
        values = (own.gpus, times, times / own.gpus, 100.0 * own.efficiency)
        for ax, series in zip(panels, values, strict=True):
            ax.step(own.time / HOUR, series, where="post", **look)
    for ax, label in zip(panels, labels, strict=True):
        ax.set_ylabel(label)
        ax.grid(color="0.9")
        ax.set_axisbelow(True)
    panels[0].set_ylim(bottom=0)
    panels[0].yaxis.get_major_locator().set_params(integer=True)
    for ax in panels[1:3]:
        ax.set_yscale("log", base=2)
        ax.yaxis.set_major_formatter("{x:g}")
    panels[3].set_ylim(0, 105)
    panels[3].set_xlabel("time (h)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


FIGURE_6 = Reproduction(
    "Figure 6: one ImageNet and two YOLOv3 jobs adapt to each other",
    lambda plan: [_job_task(plan)],
    _job_rows,
    _plot_jobs,
    ignores=("workloads", "seeds", "quick"),
)
