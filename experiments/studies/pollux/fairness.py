"""Figure 7 of Pollux's evaluation (OSDI'21): finish-time fairness.

A job's finish-time fairness (Themis, NSDI'20) is its completion time over the one it would have had
alone on an equal share of the cluster: rho above 1 says that sharing cost it time. The share is
GPUs / N with N the number of active jobs, averaged over the job's time in the cluster. Alone, every
job is replayed as under Pollux, whatever the policy that it is compared under, so that all policies
are measured by the same yardstick (the paper does not say which it took).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from goodalloc.data.applications.truth import applications_of
from goodalloc.data.documents.csv_text import csv_text
from goodalloc.data.documents.json_file import write_atomically
from goodalloc.data.documents.traces_digest import traces_digest
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replay_report import curves, draw_distribution
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.policies.queueing import EqualShare
from goodalloc.solvers.policies.registry import is_pollux

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from goodalloc.data.applications.application import Application
    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report, Task

#: Clusters that a share lies between: nodes and GPUs of each.
SHARES = ((1, 1), (1, 2), (1, 4), *((nodes, 4) for nodes in range(2, 17)))


@dataclass(frozen=True)
class AloneTask:
    """Replays one application alone on every share, into ``APPLICATION.csv``: seconds by cluster.

    Parameters
    ----------
    folder
        Where the file goes.
    name
        The application.
    traces
        As of `ReplayTask`.
    """

    folder: Path
    name: str
    traces: str | None = None

    @property
    def file(self) -> Path:
        """What it writes."""
        return self.folder / f"{self.name}.csv"

    def run(self, report: Report = lambda _: None) -> None:
        """Replay share after share; a finished file stays as it is."""
        if self.file.exists():
            return
        application = applications_of(self.traces)[self.name]
        rows: list[dict[str, object]] = []
        for index, (nodes, gpus_per_node) in enumerate(SHARES):
            seconds = seconds_alone(application, nodes, gpus_per_node)
            rows.append({"nodes": nodes, "gpus_per_node": gpus_per_node, "seconds": seconds})
            report((index + 1) / len(SHARES))
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.file, csv_text(rows, tuple(rows[0])))


def seconds_alone(application: Application, nodes: int, gpus_per_node: int) -> float:
    """Completion time of a job that has a cluster for itself, its start and exploration included.

    Parameters
    ----------
    application
        What it trains.
    nodes, gpus_per_node
        The cluster.
    """
    name = application.name
    job = Submission(name, 0, name, 1, int(application.batch.initial))
    simulator = Simulator(
        [job], {name: application}, EqualShare(), Setting(Cluster.uniform(nodes, gpus_per_node))
    )
    while not simulator.finished:
        simulator.step()
    return float(simulator.jobs[0].completion or math.nan)


def mean_active(start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many jobs are there on average while a job is there, itself included; shape (jobs,).

    Parameters
    ----------
    start, end
        Seconds at which jobs came and went, the second later than the first.
    """
    overlap = np.minimum.outer(end, end) - np.maximum.outer(start, start)
    found: NDArray[np.float64] = np.clip(overlap, 0.0, None).sum(axis=1) / (end - start)
    return found


def finish_time_fairness(
    jobs: pd.DataFrame, gpus: int, alone: Mapping[str, pd.DataFrame]
) -> NDArray[np.float64]:
    """The rho of every job of a finished replay, shape (jobs,).

    Parameters
    ----------
    jobs
        Rows of ``jobs.csv``.
    gpus
        Of the cluster.
    alone
        What `AloneTask` wrote, by application.
    """
    start, end = jobs.submission.to_numpy(float), jobs.completion.to_numpy(float)
    share = gpus / mean_active(start, end)
    rho = np.empty(len(jobs))
    for name, table in alone.items():
        own = (jobs.application == name).to_numpy()
        # A job may leave a part of its share idle; between two clusters speed is linear, and
        # below one GPU its time is shared out.
        speed = np.maximum.accumulate(1.0 / table.seconds.to_numpy())
        speeds = np.interp(share[own], table.nodes * table.gpus_per_node, speed)
        rho[own] = (end - start)[own] * speeds * np.minimum(share[own], 1.0)
    return rho


def _replays(plan: Plan) -> dict[str, list[ReplayTask]]:
    """Replays of every workload by curve: Pollux with three powers, and the tuned baselines."""
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


def alone_tasks(plan: Plan) -> dict[str, AloneTask]:
    """What every application of the workloads takes alone, by name."""
    folder = plan.folder / "alone" / (traces_digest(plan.traces) or "profiles")
    names = sorted({job.application for n in plan.workloads for job in plan.workload(n)})
    return {name: AloneTask(folder, name, plan.traces) for name in names}


def _tasks(plan: Plan) -> list[Task]:
    replays = [task for tasks in _replays(plan).values() for task in tasks]
    return [*replays, *alone_tasks(plan).values()]


def _fairness(plan: Plan) -> dict[str, NDArray[np.float64]]:
    """The rho of all jobs of all workloads, by curve."""
    alone = {name: pd.read_csv(task.file) for name, task in alone_tasks(plan).items()}
    return {
        label: np.concatenate(
            [
                finish_time_fairness(
                    pd.read_csv(task.folder / "jobs.csv"), task.setting.cluster.num_gpus, alone
                )
                for task in tasks
            ]
        )
        for label, tasks in _replays(plan).items()
    }


class FairnessRow(NamedTuple):
    """Finish-time fairness under a policy; a published value is None where none is known."""

    policy: str
    jobs: int
    median_rho: float
    published_below_2_percent: float | None
    below_2_percent: float
    greatest_rho: float
    published_ratio: float | None
    ratio: float


def _rows(plan: Plan) -> list[FairnessRow]:
    """Return shares and the greatest rho of every policy.

    Published: 99 % are below 2 at p = -1, whose greatest is 1.5 and 5.4 times better than that of
    Optimus and Tiresias.
    """
    found = _fairness(plan)
    greatest = {label: float(rho.max()) for label, rho in found.items()}
    first = next(iter(found))
    known = is_pollux(plan.pollux[0])
    published_share = {first: 99.0} if known else {}
    published_ratio = {first: 1.0, "optimus": 1.5, "tiresias": 5.4} if known else {}
    return [
        FairnessRow(
            policy=label,
            jobs=rho.size,
            median_rho=rounded(float(np.median(rho)), 4),
            published_below_2_percent=published_share.get(label),
            below_2_percent=rounded(100.0 * float((rho < 2.0).mean()), 4),
            greatest_rho=rounded(greatest[label], 4),
            published_ratio=published_ratio.get(label),
            ratio=rounded(greatest[label] / greatest[first], 4),
        )
        for label, rho in found.items()
    ]


def _plot(plan: Plan, _: list[FairnessRow]) -> Figure:
    from matplotlib.figure import Figure

    found = _fairness(plan)
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


FIGURE_7 = Reproduction("Figure 7: finish-time fairness", _tasks, _rows, _plot, ignores=("seeds",))
