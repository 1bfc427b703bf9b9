r"""Offline problem of a workload that the simulator replays, with what every scheduler pays there.

A replay (`experiments/replay/simulator.py`) is at least as long as a schedule of this problem:

- Jobs begin when the first decision after their submission has started them: at the end of the
  round in which they are submitted, and one restart delay later.
- The rate on *k* GPUs is the greatest over total batch sizes and placements. Batch sizes are taken
  from a grid of `TOTALS`; `MARGIN` covers those between (a test compares all whole numbers).
  Placements on up to `MEASURED_NODES` nodes are all tried, uneven ones, too; of those on more,
  whose times are known by their numbers of nodes and GPUs only, one for each number of nodes.
- Epochs end at whole seconds: one that takes :math:`\tau` seconds of training at a constant rate
  takes `round(tau)`. Its rate here is the larger of the true one and that of the rounded time. (If
  a job is started again within an epoch, the seconds of that restart are more than rounding gains.)
- GPUs are those of all nodes that are there.

Jobs that share GPUs, as those of Gandiva and AntMan do, can together be faster than alone: the
problem does not bound them.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.applications.application import ProfiledApplication
from goodalloc.data.applications.step_tables import step_table
from goodalloc.data.applications.traces import MeasuredApplication
from goodalloc.experiments.replay.simulated_job import requested_split
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics, adascale_gain
from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from goodalloc.data.applications.application import Application, Spread
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.replay.replay_conditions import Setting
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.support.array_types import Floats, Indices

#: Total batch sizes among which the best is looked for, and the factor on the best rate for those
#: between.
TOTALS, MARGIN = 200, 1.005

#: Most nodes of a placement that was measured for itself.
MEASURED_NODES = 4

#: Seconds of an epoch that are rounded to none.
SHORTEST_EPOCH = 0.5

#: Least seconds of a restart for which rounding of epochs gains nothing by it.
LEAST_DELAY = 1.0


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
        If nodes have other resources than GPUs, or a restart takes less than `LEAST_DELAY`, so that
        the problem would bound nothing.
    """
    cluster = setting.cluster
    for group in cluster.groups:
        for resource, amount in group.resources:
            raise ValueError(
                f"Group '{group.name}': it has {amount:g} of {resource} a node; expected GPUs only."
            )
    types = cluster.gpu_types or ("",)
    jobs = []
    for job in workload:
        own = applications[job.application].restart_delay
        delay = setting.restart_delay if own is None else own
        if delay < LEAST_DELAY:
            raise ValueError(
                f"Job '{job.name}': a restart takes {delay:g} s; expected at least "
                f"{LEAST_DELAY:g} s, or else rounded epochs bound nothing."
            )
        decided = max(math.ceil(job.time / setting.interval), 1) * setting.interval
        jobs.append(
            OfflineJob(
                job.name,
                job.application,
                float(job.time),
                float(decided + delay),
                1.0 / len(workload),
            )
        )
    names = sorted({job.application for job in workload})
    trainings = tuple(true_training(applications[name], cluster) for name in names)
    return OfflineProblem(trainings, tuple(jobs), supply_of(setting, types))


def supply_of(setting: Setting, types: Sequence[str]) -> Supply:
    """Return the GPUs that are there in the rounds of a replay.

    Parameters
    ----------
    setting
        Conditions of the replay, with its outages.
    types
        Types of GPU.
    """
    times = sorted({0, *(time for outage in setting.outages for time in outage[:2])})
    rows = []
    for time in times:
        lost = [outage.nodes for outage in setting.outages if outage.start <= time < outage.end]
        there = setting.cluster.resized(setting.cluster.num_nodes - max(lost, default=0))
        rows.append([_gpus_of(there, name) for name in types])
    return Supply(tuple(name or "GPU" for name in types), np.array(times), np.array(rows))


def _gpus_of(cluster: Cluster, gpu_type: str) -> int:
    """Return the number of GPUs of a type."""
    return sum(group.nodes * group.gpus for group in cluster.groups if group.gpu_type == gpu_type)


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
    epochs, types = application.epochs, cluster.gpu_types or ("",)
    work = np.diff([application.progress(epoch) for epoch in range(epochs)], prepend=0.0)
    most, gains = max(_gpus_of(cluster, name) for name in types), _Gains(application)
    gpus = np.arange(1.0, most + 1.0)
    rates = MARGIN * np.stack([_rates(gains, name, gpus, cluster) for name in types])
    with np.errstate(divide="ignore"):
        seconds = work[:, None] / rates  # infinite where it cannot run
    if (shortest := float(seconds.min())) <= SHORTEST_EPOCH:
        raise ValueError(
            f"Application '{application.name}': an epoch takes {shortest:.2g} s, which a replay "
            f"rounds to nothing; expected more than {SHORTEST_EPOCH:g} s."
        )
    rates = np.maximum(rates, work[:, None] / np.round(seconds))
    return Training(application.name, work, gpus, rates)


def _rates(gains: _Gains, gpu_type: str, gpus: Floats, cluster: Cluster) -> Floats:
    """Return the greatest rate in every epoch on every number of GPUs; shape (epochs, counts)."""
    own = [group for group in cluster.groups if group.gpu_type == gpu_type]
    per_node, nodes = max(group.gpus for group in own), sum(group.nodes for group in own)
    rates = np.zeros((gpus.size, gains.application.epochs))
    on_type = gains.application.on(gpu_type)
    for row in range(_gpus_of(cluster, gpu_type)):
        rates[row] = _best_rates(on_type, [*_spreads(row + 1, per_node, nodes)], gains)
    return rates.T


def _spreads(gpus: int, per_node: int, nodes: int) -> Iterator[Spread]:
    """Yield the placements whose times may differ; rotations of one are equal."""
    for number in range(-(-gpus // per_node), min(gpus, nodes) + 1):
        if number <= MEASURED_NODES:
            for spread in product(range(1, per_node + 1), repeat=number):
                rotations = (spread[start:] + spread[:start] for start in range(number))
                if sum(spread) == gpus and spread == min(rotations):
                    yield spread
        else:
            each, more = divmod(gpus, number)
            yield (each + 1,) * more + (each,) * (number - more)


def _best_rates(application: Application, spreads: Sequence[Spread], gains: _Gains) -> Floats:
    """Return the greatest rate in every epoch over placements of as many GPUs and batch sizes.

    A batch size gains as much wherever it runs, so that only its shortest step counts.
    """
    limits, replicas = application.batch, sum(spreads[0])
    maximum = int(limits.maximum)
    least = max(int(limits.initial), int(limits.atomic_minimum) * replicas)
    if least > maximum:
        return np.zeros(application.epochs)
    totals = {int(total) for total in np.geomspace(least, maximum, TOTALS).tolist()}
    splits = {requested_split(total, replicas, limits) for total in totals}
    used = {(min(size, maximum // (replicas * (more + 1))), more) for size, more in splits}
    sizes, further = np.array(sorted(used)).T
    seconds = _least_seconds(application, spreads, sizes, further)
    known = np.isfinite(seconds)  # others are not measured: no job of a replay can run there
    if not known.any():
        return np.zeros(application.epochs)
    gained = gains.at((replicas * sizes * (further + 1))[known].tolist())
    return np.asarray((gained / seconds[known, None]).max(axis=0))


def _least_seconds(
    application: Application, spreads: Sequence[Spread], sizes: Indices, further: Indices
) -> Floats:
    """Return the least seconds of steps over placements; infinity if none was measured."""
    step, synchronisation = step_table(application, spreads, sizes)
    seconds = (step + (step - synchronisation) * further) * application.slowdown
    return np.asarray(np.where(np.isnan(seconds), np.inf, seconds).min(axis=0))


class _Gains:
    """Progress of a step of an application in every epoch, by total batch size."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self._sizes = _sizes_of_statistics(application)
        self._table = self._found(self._sizes)

    def _found(self, batches: Sequence[int]) -> Floats:
        """Return square and variance as the application tells them; shape (2, batches, epochs)."""
        one, epochs = self.application, range(self.application.epochs)
        found = [[one.gradient_statistics(batch, epoch) for epoch in epochs] for batch in batches]
        return np.array(found, dtype=float).reshape(len(batches), len(epochs), 2).transpose(2, 0, 1)

    def at(self, batches: Sequence[int]) -> Floats:
        """Return the gains at total batch sizes; shape (batches, epochs)."""
        if self._sizes:
            for end in (min(batches), max(batches)):
                self.application.gradient_statistics(end, 0)  # refuses what was not measured
            square, variance = (
                np.stack([np.interp(batches, self._sizes, column) for column in table.T], axis=1)
                for table in self._table
            )
        else:
            square, variance = self._found(batches)
        initial, total = float(self.application.batch.initial), np.array(batches, float)[:, None]
        return np.asarray(adascale_gain(GradientStatistics(square, variance), initial, total))


def _sizes_of_statistics(application: Application) -> tuple[int, ...]:
    """Return the batch sizes between which gradient statistics are linear; none if not known."""
    if isinstance(application, MeasuredApplication):
        return tuple(application.batch_sizes)
    if isinstance(application, ProfiledApplication):
        sizes = application.profile.batch_sizes.tolist()
        if all(size.is_integer() for size in sizes):
            return tuple(map(int, sizes))
    return ()
