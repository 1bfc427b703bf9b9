"""Figure 7 of Pollux: finish-time fairness.

The finish-time fairness rho of a job, defined by Themis, is its completion time over the one that
it would have had alone on an equal share of the cluster: rho above 1 says that sharing cost it
time. The share is GPUs / N with N the number of active jobs, averaged over the job's time in the
cluster. The replay of a job alone is the same for all policies, with batch sizes as under Pollux;
the paper does not say how it measured that time.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021. https://www.usenix.org/conference/osdi21/presentation/qiao
Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020.
    https://www.usenix.org/conference/nsdi20/presentation/mahajan
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from goodalloc.data.applications.truth import applications_of
from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.documents.traces_digest import traces_digest
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replay_report import curves, draw_distribution
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import EIGHT, Plan, Reproduction
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.policies.queueing import EqualShare
from goodalloc.solvers.policies.registry import is_pollux

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from goodalloc.data.applications.application import Application
    from goodalloc.experiments.replay.replay_conditions import BatchRule
    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.support.tasks import Report, Task

#: Clusters (nodes, GPUs per node) on which jobs are replayed alone; shares lie between them.
SHARES = ((1, 1), (1, 2), (1, 4), *((nodes, 4) for nodes in range(2, 17)))


class AloneRow(NamedTuple):
    """Completion time of a job alone on a cluster."""

    nodes: int
    gpus_per_node: int
    seconds: float


@dataclass(frozen=True)
class AloneTask:
    """Task that replays an application alone on every cluster of `SHARES`.

    Parameters
    ----------
    folder
        Folder of the file ``NAME.csv``, completion times by cluster.
    name
        Name of the application.
    traces
        Folder of the measurements, as in `ReplayTask`.
    batch_size
        Its total batch size; None for that of the highest goodput.
    """

    folder: Path
    name: str
    traces: str | None = None
    batch_size: int | None = None

    @property
    def label(self) -> str:
        """Name of the application, with the batch size if that is fixed."""
        return self.name if self.batch_size is None else f"{self.name}-{self.batch_size}"

    @property
    def file(self) -> Path:
        """Path of the written file."""
        return self.folder / f"{self.label}.csv"

    def run(self, report: Report = lambda _: None) -> None:
        """Replay on one cluster after another; a finished file stays as it is."""
        if self.file.exists():
            return
        application = applications_of(self.traces)[self.name]
        rows: list[AloneRow] = []
        for index, (nodes, gpus_per_node) in enumerate(SHARES):
            seconds = seconds_alone(application, nodes, gpus_per_node, self.batch_size)
            rows.append(AloneRow(nodes, gpus_per_node, seconds))
            report((index + 1) / len(SHARES))
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.file, csv_text([row._asdict() for row in rows], AloneRow._fields))


def seconds_alone(
    application: Application, nodes: int, gpus_per_node: int, batch_size: int | None = None
) -> float:
    """Return the completion time of a job alone on a cluster, with start and exploration.

    Parameters
    ----------
    application
        Application of the job.
    nodes, gpus_per_node
        Size of the cluster.
    batch_size
        Its total batch size; None for that of the highest goodput.
    """
    name = application.name
    job = Submission(name, 0, name, 1, batch_size or int(application.batch.initial))
    rule: BatchRule = "policy" if batch_size is None else "requested"
    setting = Setting(Cluster.uniform(nodes, gpus_per_node), batch_sizes=rule)
    simulator = Simulator([job], {name: application}, EqualShare(), setting)
    while not simulator.finished:
        simulator.step()
    return float(simulator.jobs[0].completion or math.nan)


def mean_active(start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean number of active jobs while each job is active, shape (jobs,).

    Parameters
    ----------
    start, end
        Times of submission and completion in seconds, `end` > `start`, shape (jobs,).
    """
    overlap = np.minimum.outer(end, end) - np.maximum.outer(start, start)
    found: NDArray[np.float64] = np.clip(overlap, 0.0, None).sum(axis=1) / (end - start)
    return found


def finish_time_fairness(
    jobs: pd.DataFrame,
    gpus: int,
    alone: Mapping[str, pd.DataFrame],
    keys: pd.Series[str] | None = None,
) -> NDArray[np.float64]:
    """Return the finish-time fairness of every job of a finished replay, shape (jobs,).

    Parameters
    ----------
    jobs
        Rows of ``jobs.csv``.
    gpus
        GPUs of the cluster.
    alone
        Tables of `AloneTask` by their labels.
    keys
        Label of the table of every job; None for its application.
    """
    start, end = jobs.submission.to_numpy(float), jobs.completion.to_numpy(float)
    share = gpus / mean_active(start, end)
    rho = np.empty(len(jobs))
    for name, table in alone.items():
        own = ((jobs.application if keys is None else keys) == name).to_numpy()
        # A job may leave a part of its share idle; between two clusters speed is linear, and
        # below one GPU its time is shared out.
        speed = np.maximum.accumulate(1.0 / table.seconds.to_numpy())
        speeds = np.interp(share[own], table.nodes * table.gpus_per_node, speed)
        rho[own] = (end - start)[own] * speeds * np.minimum(share[own], 1.0)
    return rho


def _replays(plan: Plan) -> dict[str, list[ReplayTask]]:
    """Return the replays by curve: Pollux with three powers, and the tuned baselines."""
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        f"{policy} (p = {power:+g})": (policy, {"power": power})
        for policy in plan.pollux
        for power in (-1.0, 1.0, -10.0)
    }
    ways |= {"optimus": ("optimus", {}), "tiresias": ("tiresias", {})}
    return {
        label: [plan.replay(policy, plan.workload(n), **options) for n in plan.workloads]
        for label, (policy, options) in ways.items()
    }


def alone_tasks(plan: Plan, *, requested: bool = False) -> dict[str, AloneTask]:
    """Return the task of every application of the workloads, by label.

    Parameters
    ----------
    plan
        The plan.
    requested
        Whether there is one for every requested batch size, in place of one that follows the
        goodput.
    """
    folder = plan.folder / "alone" / (traces_digest(plan.traces) or "profiles")
    kinds = {
        (job.application, job.batch_size if requested else None)
        for n in plan.workloads
        for job in plan.workload(n)
    }
    tasks = [AloneTask(folder, name, plan.traces, batch_size) for name, batch_size in kinds]
    return {task.label: task for task in sorted(tasks, key=lambda task: task.label)}


def _tasks(plan: Plan) -> list[Task]:
    replays = [task for tasks in _replays(plan).values() for task in tasks]
    return [*replays, *alone_tasks(plan).values()]


def _fairness(plan: Plan) -> dict[str, list[NDArray[np.float64]]]:
    """Return the finish-time fairness of all jobs of each workload, by curve."""
    alone = {name: pd.read_csv(task.file) for name, task in alone_tasks(plan).items()}
    return {
        label: [
            finish_time_fairness(
                pd.read_csv(task.folder / "jobs.csv"), task.setting.cluster.num_gpus, alone
            )
            for task in tasks
        ]
        for label, tasks in _replays(plan).items()
    }


class FairnessRow(NamedTuple):
    """Finish-time fairness under a policy; a published value is None where none is known.

    Shares below 2 and ratios are means over the workloads.
    """

    policy: str
    knows: str
    batch: str
    workloads: int
    jobs: int
    median_rho: float
    published_below_2_percent: float | None
    below_2_percent: Estimate
    greatest_rho: float
    published_ratio: float | None
    ratio: Estimate


def _rows(plan: Plan) -> list[FairnessRow]:
    """Return shares and the greatest rho of every policy.

    Published: 99 % are below 2 at p = -1, whose greatest is 1.5 and 5.4 times better than that of
    Optimus and Tiresias.
    """
    found = _fairness(plan)
    greatest = {label: [float(one.max()) for one in rho] for label, rho in found.items()}
    first = next(iter(found))
    terms = {label: tasks[0].terms for label, tasks in _replays(plan).items()}
    known = is_pollux(plan.pollux[0])
    published_share = {first: 99.0} if known else {}
    published_ratio = {first: 1.0, "optimus": 1.5, "tiresias": 5.4} if known else {}
    return [
        FairnessRow(
            policy=label,
            knows=terms[label].knows,
            batch=terms[label].batch,
            workloads=len(rho),
            jobs=sum(one.size for one in rho),
            median_rho=rounded(float(np.median(np.concatenate(rho))), 4),
            published_below_2_percent=published_share.get(label),
            below_2_percent=estimate_of([100.0 * float((one < 2.0).mean()) for one in rho]),
            greatest_rho=rounded(max(greatest[label]), 4),
            published_ratio=published_ratio.get(label),
            ratio=estimate_of(np.divide(greatest[label], greatest[first]).tolist()),
        )
        for label, rho in found.items()
    ]


def _plot(plan: Plan, _: list[FairnessRow]) -> Figure:
    from matplotlib.figure import Figure

    found = {label: np.concatenate(rho) for label, rho in _fairness(plan).items()}
    figure = Figure(figsize=(7.5, 4.8), layout="constrained")
    ax = figure.subplots()
    for label, look in curves(found).items():
        draw_distribution(ax, found[label], look)
    ax.axvline(1.0, color="0.5", linewidth=0.8)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("{x:g}")
    ax.tick_params(axis="x", which="minor", labelsize="x-small")
    ax.set_xlabel("finish-time fairness ρ (completion time / time alone on an equal share)")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


FIGURE_7 = Reproduction(
    "Figure 7: finish-time fairness",
    _tasks,
    _rows,
    _plot,
    ignores=("seeds",),
    workloads=EIGHT,
    quick_workloads=Plan.workloads,
)
