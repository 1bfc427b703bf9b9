r"""Offline problem of a workload that the simulator replays, with what every scheduler pays there.

A replay (`experiments/replay/simulator.py`) is at least as long as a schedule of this problem:

- Jobs begin when the first decision after their submission has started them: at the end of the
  round in which they are submitted, and one restart delay later.
- The rate on *k* GPUs is the greatest over all whole total batch sizes and all placements
  (`placements.py`).
- A batch is within the limits of its application: no GPU has fewer examples than its least. (Other
  jobs are refused.)
- Epochs end at whole seconds: one that takes :math:`\tau` seconds of training at a constant rate
  takes `round(tau)`. Its rate here is the larger of the true one and that of the rounded time. (If
  a job is started again within an epoch, the seconds of that restart are more than rounding gains.)
- GPUs are those of all nodes that are there.

Jobs that share GPUs, as those of Gandiva and AntMan do, can together be faster than alone: the
problem does not bound them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.hindsight.placements import placements_of
from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.data.applications.application import Application
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.replay.replay_conditions import Setting
    from goodalloc.models.round.cluster import Cluster

#: Factor on the greatest rate, for rounding.
ROUNDING = 1.0 + 1e-9

#: Seconds of an epoch that are rounded to none.
SHORTEST_EPOCH = 0.5

#: Least seconds of a restart for which rounding of epochs gains nothing by it.
LEAST_DELAY = 1


def replayed_problem(
    workload: Sequence[Submission], applications: Mapping[str, Application], setting: Setting
) -> OfflineProblem:
    """Return the offline problem of a replay; all jobs have equal weights, of sum 1.

    Parameters
    ----------
    workload
        The submitted jobs.
    applications
        The true applications that they train, by name.
    setting
        Conditions of the replay.

    Raises
    ------
    ValueError
        If nodes have other resources than GPUs, a restart takes no whole seconds or less than
        `LEAST_DELAY`, nodes go or come within a round, or a job requests fewer examples a GPU than
        its application allows, so that the problem would bound nothing.
    """
    cluster = setting.cluster
    for group in cluster.groups:
        for resource, amount in group.resources:
            raise ValueError(
                f"Group '{group.name}': it has {amount:g} of {resource} a node; expected GPUs only."
            )
    types = cluster.gpu_types
    jobs = []
    for job in workload:
        application = applications[job.application]
        _require_examples(job, application)
        decided = max(math.ceil(job.time / setting.interval), 1) * setting.interval
        jobs.append(
            OfflineJob(
                job.name,
                job.application,
                float(job.time),
                float(decided + restart_seconds(application, setting)),
                1.0 / len(workload),
            )
        )
    names = sorted({job.application for job in workload})
    trainings = tuple(true_training(applications[name], cluster) for name in names)
    return OfflineProblem(trainings, tuple(jobs), supply_of(setting, types))


def restart_seconds(application: Application, setting: Setting) -> float:
    """Return the seconds of a restart in a replay.

    Parameters
    ----------
    application, setting
        The true application, and the conditions of the replay, whose delay it may have in place of
        one of its own.

    Raises
    ------
    ValueError
        If they are no whole number from `LEAST_DELAY`: with others, rounding of epochs gains what
        no bound counts.
    """
    own = application.restart_delay
    delay = setting.restart_delay if own is None else own
    if delay < LEAST_DELAY or delay % 1:
        raise ValueError(
            f"Application '{application.name}': a restart takes {delay:g} s; expected whole "
            f"seconds, at least {LEAST_DELAY}, as a replay rounds epochs to them."
        )
    return float(delay)


def _require_examples(job: Submission, application: Application) -> None:
    """Refuse a job whose requested batch has too few examples for every requested GPU."""
    least = int(application.batch.atomic_minimum)
    if job.batch_size < least * job.replicas:
        raise ValueError(
            f"Job '{job.name}': it requests {job.batch_size} examples on {job.replicas} GPUs; "
            f"expected at least {least} on each for '{application.name}', below which no rates "
            "are bounded."
        )


def supply_of(setting: Setting, types: Sequence[str]) -> Supply:
    """Return the GPUs that are there in the rounds of a replay.

    Parameters
    ----------
    setting
        Conditions of the replay, with its outages.
    types
        Types of GPU.

    Raises
    ------
    ValueError
        If nodes go or come within a round: a replay takes them away at its end, and no bound on
        the GPUs that are there would hold.

    Examples
    --------
    >>> from goodalloc.experiments.hindsight import supply_of
    >>> from goodalloc.experiments.replay import Outage, Setting
    >>> from goodalloc.models.round import Cluster
    >>> supply_of(Setting(Cluster.uniform(2, 4), outages=(Outage(120, 300, 1),)), [""]).gpus
    array([[8.],
           [4.],
           [8.]])
    """
    for outage in setting.outages:
        if outage.start % setting.interval or outage.end % setting.interval:
            raise ValueError(
                f"Hindsight: nodes are missing from {outage.start:g} to {outage.end:g} s; expected "
                f"multiples of the {setting.interval:g} s of a round, in which a replay counts."
            )
    times = sorted({0, *(time for outage in setting.outages for time in outage[:2])})
    rows = []
    for time in times:
        lost = [outage.nodes for outage in setting.outages if outage.start <= time < outage.end]
        there = setting.cluster.resized(setting.cluster.num_nodes - max(lost, default=0))
        rows.append([there.type_gpus.get(name, 0) for name in types])
    return Supply(tuple(name or "GPU" for name in types), np.array(times), np.array(rows))


def true_training(application: Application, cluster: Cluster) -> Training:
    """Return the phases of an application, and its greatest rates on a cluster.

    Parameters
    ----------
    application
        The true application.
    cluster
        Nodes and types of GPU.

    Raises
    ------
    ValueError
        If an epoch can take no more than `SHORTEST_EPOCH`.
    """
    epochs, types = application.epochs, cluster.gpu_types
    work = np.diff([application.progress(epoch) for epoch in range(epochs)], prepend=0.0)
    gpus = np.arange(1.0, max(cluster.type_gpus.values()) + 1.0)
    placements = [placements_of(application, cluster, name) for name in types]
    rates = ROUNDING * np.stack([own.best_rates(gpus) for own in placements])
    with np.errstate(divide="ignore"):
        seconds = work[:, None] / rates  # infinite where it cannot run
    if (shortest := float(seconds.min())) <= SHORTEST_EPOCH:
        raise ValueError(
            f"Application '{application.name}': an epoch takes {shortest:.2g} s, which a replay "
            f"rounds to nothing; expected more than {SHORTEST_EPOCH:g} s."
        )
    rates = np.maximum(rates, work[:, None] / np.round(seconds))
    return Training(application.name, work, gpus, rates)
