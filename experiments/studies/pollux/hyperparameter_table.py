"""Table 3 of Pollux: hyper-parameter search, published and ours.

As Pollux did, trials run on two nodes of eight A100, by the shipped profile of that type. The fixed
configuration gives every trial four GPUs. Its batch size is not published, and decides the
comparison; ours are two ends of what users choose: the application's initial batch size, and of its
doublings the one with which a trial ends soonest. For all doublings the table also has the minutes
of a trial alone, which with fixed GPUs and batch size do not depend on the search. The accuracy is
the mean of the five best trials.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 5.3.4. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pandas as pd

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.replay.simulated_job import SimulatedJob
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import figure_of, looks, new_axes
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.framework.reproduction import EACH_POLLUX, Reproduction
from goodalloc.experiments.studies.pollux.hyperparameter_search import (
    APPLICATION,
    CLUSTER,
    SearchTask,
)
from goodalloc.experiments.support.extras import require_extra
from goodalloc.experiments.support.records import digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from goodalloc.data.applications.application import Application
    from goodalloc.experiments.replay.replay_conditions import Knowledge
    from goodalloc.experiments.studies.framework.reproduction import Plan

#: GPUs of a trial in the fixed configuration.
REPLICAS = 4

ACCURACY, MINUTES, HOURS = "accuracy of the best 5 (%)", "minutes per trial", "total hours"

#: Published values.
POLLUX = {ACCURACY: 95.4, MINUTES: 25.0, HOURS: 10.0}
FIXED = {ACCURACY: 95.5, MINUTES: 34.0, HOURS: 14.0}

#: Ticks of the figure, in per cent of wrong answers.
ERRORS = (50, 40, 30, 20, 15, 10, 7, 5, 4, 3, 2.5, 2, 1)

#: Published ratios of Pollux's times to those of the fixed configuration.
RATIO = {name: POLLUX[name] / FIXED[name] for name in (MINUTES, HOURS)}


@dataclass(frozen=True)
class Configuration:
    """Way to run the trials.

    Parameters
    ----------
    label
        Label in tables and figures.
    published
        Published value by quantity; None where there is none.
    policy
        Name of the policy; `EACH_POLLUX` stands for each of Pollux's that the plan selects.
    batch_size
        The initial batch size or the tuned one; Pollux chooses its own.
    knowledge
        Knowledge of a trial about its application when it starts.
    """

    label: str
    published: Mapping[str, float] | None
    policy: str = EACH_POLLUX
    batch_size: Literal["initial", "tuned"] = "initial"
    knowledge: Knowledge = "explored"

    def tasks(self, plan: Plan, policy: str) -> list[SearchTask]:
        """Return the searches, one for every seed."""
        tuned = self.batch_size == "tuned"
        batch = tuned_batch_size(trained()) if tuned else int(trained().batch.initial)
        setting = replace(CLUSTER, knowledge=self.knowledge)
        tasks = (
            SearchTask(
                plan.folder,
                policy,
                trials=30 if plan.quick else 100,
                seed=number,
                replicas=REPLICAS,
                batch_size=batch,
                setting=setting,
            )
            for number in plan.workloads
        )
        return [
            replace(
                task, folder=plan.folder / "searches" / f"{policy}-{digest(task.description())}"
            )
            for task in tasks
        ]


CONFIGURATIONS = (
    Configuration("Pollux", POLLUX),
    Configuration("Pollux, measurements shared", None, knowledge="history"),
    Configuration("fixed, tuned batch", FIXED, "fifo", "tuned"),
    Configuration("fixed, initial batch", FIXED, "fifo", "initial"),
)


def trained() -> Application:
    """Return the true behaviour of a trial: the shipped profile on the cluster's type of GPU."""
    (gpu_type,) = CLUSTER.cluster.gpu_types
    return profiled_applications()[APPLICATION].on(gpu_type)


def doublings(application: Application) -> list[int]:
    """Return the initial batch size of `application` and its doublings, up to the largest."""
    limits = application.batch
    powers = range(int(np.log2(limits.maximum / limits.initial)) + 1)
    return [int(limits.initial) << power for power in powers]


def tuned_batch_size(application: Application, replicas: int = REPLICAS) -> int:
    """Return the batch size, of the initial one and its doublings, of the shortest training alone.

    Parameters
    ----------
    application
        True behaviour of the application.
    replicas
        Number of GPUs, all on one node.
    """
    sizes = doublings(application)
    return min(sizes, key=lambda size: seconds_alone(application, replicas, size))


def seconds_alone(application: Application, replicas: int, batch_size: int) -> float:
    """Return the seconds of a whole training on GPUs that are never taken away."""
    submission = Submission("alone", 0, application.name, replicas, batch_size)
    job = SimulatedJob(submission, application, "requested")
    job.reallocate(((0, replicas),), 0.0)
    job.set_requested_batch()
    while job.completion is None:
        job.train(job.attained_service / replicas, float(1 << 30), 0.0)
    return job.completion


def hyperparameter_table(title: str) -> Reproduction[QuantityRow]:
    """Return the table as a reproduction."""

    def tasks(plan: Plan) -> list[SearchTask]:
        return [
            task
            for configuration in CONFIGURATIONS
            for policy in plan.policies_of(configuration.policy)
            for task in configuration.tasks(plan, policy)
        ]

    def require(_: Plan) -> None:
        require_extra("search", "Table 3")

    return Reproduction(
        title,
        tasks,
        table_rows,
        plot_searches,
        require,
        ignores=("seeds", "artifact"),
        workloads=(1, 2, 3),
        quick_workloads=(1,),
    )


class QuantityRow(NamedTuple):
    """Quantity of a configuration, or ratio of two configurations: published and ours.

    Attributes
    ----------
    published, deviation_percent
        Published value and our deviation from it; None where there is none.
    ours, half_width
        Mean over the seeds and half the width of its 95 % interval.
    searches
        Number of seeds; 0 where nothing depends on one.
    """

    configuration: str
    policy: str
    quantity: str
    published: float | None
    ours: float
    half_width: float
    deviation_percent: float | None
    searches: int


def table_rows(plan: Plan) -> list[QuantityRow]:
    """Return the quantities of every configuration, then Pollux's ratios to each fixed one."""
    found = [
        (configuration, policy, [quantities(task) for task in configuration.tasks(plan, policy)])
        for configuration in CONFIGURATIONS
        for policy in plan.policies_of(configuration.policy)
    ]
    rows: list[QuantityRow] = []
    for configuration, policy, searches in found:
        rows += _rows(configuration.label, policy, configuration.published, searches)
    for pollux, policy, ours in found:
        for fixed, other, theirs in found:
            if pollux.policy == EACH_POLLUX and fixed.policy != EACH_POLLUX:
                label, names = f"{pollux.label} / {fixed.label}", f"{policy} / {other}"
                pairs = zip(ours, theirs, strict=True)
                ratios = [{name: one[name] / two[name] for name in RATIO} for one, two in pairs]
                rows += _rows(label, names, RATIO if pollux.published else None, ratios)
    for pollux, policy, ours in found:
        if pollux.policy == EACH_POLLUX:
            rows += alone_rows(pollux, policy, [search[MINUTES] for search in ours])
    return rows


def alone_rows(pollux: Configuration, policy: str, minutes: Sequence[float]) -> list[QuantityRow]:
    """Return the ratios of Pollux's minutes a trial to those alone at each fixed batch size.

    Parameters
    ----------
    pollux, policy
        Configuration under Pollux, and name of its policy.
    minutes
        Its minutes a trial, one for every seed.
    """
    rows: list[QuantityRow] = []
    known, delay = pollux.published is not None, CLUSTER.restart_delay
    for size in doublings(trained()):
        alone = (seconds_alone(trained(), REPLICAS, size) + delay) / 60.0
        fixed, ratios = f"fixed alone, batch {size}", [{MINUTES: each / alone} for each in minutes]
        if known:
            (row,) = _rows(fixed, "", FIXED, [{MINUTES: alone}])
            rows.append(row._replace(searches=0))
        rows += _rows(f"{pollux.label} / {fixed}", policy, RATIO if known else None, ratios)
    return rows


def quantities(task: SearchTask) -> dict[str, float]:
    """Return the quantities of a finished search."""
    trials = pd.read_csv(task.folder / "trials.csv")
    return {
        ACCURACY: 100.0 * float(trials.accuracy.nlargest(5).mean()),
        MINUTES: float(trials.seconds.mean()) / 60.0,
        HOURS: float(trials.completion.max()) / HOUR,
    }


def _rows(
    label: str,
    policy: str,
    published: Mapping[str, float] | None,
    searches: Sequence[Mapping[str, float]],
) -> list[QuantityRow]:
    """Return a row for every quantity of `searches`, one mapping for every seed."""
    rows: list[QuantityRow] = []
    for quantity in searches[0]:
        ours = estimate_of([search[quantity] for search in searches])
        known = published[quantity] if published else None
        rows.append(
            QuantityRow(
                label,
                policy,
                quantity,
                published=None if known is None else rounded(known, 3),
                ours=ours.mean,
                half_width=ours.half_width,
                deviation_percent=(
                    None if known is None else rounded(100.0 * (ours.mean / known - 1.0), 3)
                ),
                searches=len(searches),
            )
        )
    return rows


def plot_searches(plan: Plan, _: list[QuantityRow]) -> Figure:
    """Draw the best accuracy so far over time, mean of the seeds, on a logarithmic error scale."""
    from matplotlib.ticker import FixedLocator, NullLocator

    ax = new_axes(8.0, 4.6)
    curves = {
        (configuration.label, policy): mean_best([task.folder for task in found])
        for configuration in CONFIGURATIONS
        for policy in plan.policies_of(configuration.policy)
        for found in [configuration.tasks(plan, policy)]
    }
    styles = looks(f"{label} {policy}" for label, policy in curves)
    for index, ((label, policy), (hours, best)) in enumerate(curves.items()):
        style = {**styles[f"{label} {policy}"], "markevery": (0.04 * (index + 1), 0.16)}
        ax.plot(
            hours, 100.0 - best, **style, linewidth=1.6, markersize=5, label=f"{label} ({policy})"
        )
        ax.plot(hours[-1], 100.0 - best[-1], "|", color=style["color"], markersize=16)
    ax.set_yscale("log")
    ax.invert_yaxis()
    ax.yaxis.set_major_locator(FixedLocator(ERRORS))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(lambda error, _: f"{100.0 - error:g}")
    ax.set_xlim(left=0.0)
    ax.set_xlabel("time (h); a bar ends the longest search")
    ax.set_ylabel("best accuracy so far (%), mean over seeds")
    ax.legend(fontsize="small", loc="lower right")
    ax.grid(color="0.9")
    ax.set_axisbelow(True)
    return figure_of(ax)


def mean_best(folders: Sequence[Path]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return hours, from where every search has a result, and the mean best accuracy in per cent.

    A search that has ended keeps its best accuracy.
    """
    searches = [
        pd.read_csv(folder / "trials.csv").sort_values(["completion", "trial"])
        for folder in folders
    ]
    ends = [search.completion.to_numpy(float) / HOUR for search in searches]
    hours = np.linspace(max(end[0] for end in ends), max(end[-1] for end in ends), 2000)
    best = [
        search.accuracy.cummax().to_numpy(float)[np.searchsorted(end, hours, side="right") - 1]
        for search, end in zip(searches, ends, strict=True)
    ]
    return hours, 100.0 * np.mean(best, axis=0)


TABLE_3 = hyperparameter_table("Table 3: hyper-parameter search (digits for CIFAR-10)")
