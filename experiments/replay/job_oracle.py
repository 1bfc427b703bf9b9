"""Oracles of simulated jobs, true and estimated, and the true speed of jobs that share GPUs.

A true oracle knows when a job ends and how long its steps take, as Pollux's evaluation lets
"Optimus+Oracle" know. An estimated one knows what Optimus could know: the losses so far, to which
the curve of Optimus is fitted, and the step times so far, to which Pollux's model is fitted.

References
----------
Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters",
    EuroSys 2018. doi:10.1145/3190508.3190517
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.applications.application import examples_per_second, packed
from goodalloc.experiments.replay.job_modes import at_batch_size
from goodalloc.experiments.replay.simulated_job import gpu_use, published_split, requested_split
from goodalloc.models.goodput.batch_size import best_batch_size
from goodalloc.models.goodput.statistical_efficiency import adascale_gain
from goodalloc.models.losses.loss_forecast import forecast
from goodalloc.models.shared_gpus.shared_speed import FAIR
from goodalloc.solvers.policies.policy import MOST_REPLICAS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goodalloc.data.applications.application import Application, Spread
    from goodalloc.experiments.replay.simulated_job import SimulatedJob
    from goodalloc.models.goodput.model import BatchLimits, GoodputModel
    from goodalloc.models.shared_gpus.shared_speed import GpuUse, Sharing
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.policies.policy import Oracle


#: Total batch sizes among which the best is looked for.
TOTALS = 50


class BestSpeeds:
    """Steps of applications at their best batch sizes, kept since many jobs train the same."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, str, Spread, int], float] = {}

    def seconds(self, application: Application, gpu_type: str, spread: Spread, epoch: int) -> float:
        """Return the least true seconds in which the progress of a step at M0 is made.

        Parameters
        ----------
        application
            The application on `gpu_type`.
        gpu_type
            Name of the type.
        spread
            Number of GPUs on each node.
        epoch
            The epoch, counted from 0, which the statistical efficiency depends on.
        """
        key = (application.name, gpu_type, spread, epoch)
        if key not in self._seconds:
            splits = set(_splits(application, sum(spread)))
            self._seconds[key] = min(
                _seconds_at_initial(application, spread, epoch, *split) for split in splits
            )
        return self._seconds[key]


def _splits(application: Application, replicas: int) -> Iterator[tuple[int, int]]:
    """Return the splits of total batch sizes into examples per GPU and pass and further passes."""
    limits, restriction = application.batch, application.restriction
    if restriction is not None and restriction.batch_size is not None:
        yield requested_split(restriction.batch_size, replicas, limits)
        return
    least = max(int(limits.initial), int(limits.atomic_minimum) * replicas)
    for total in np.geomspace(least, max(int(limits.maximum), least), TOTALS).tolist():
        atomic, further = requested_split(int(total), replicas, limits)
        yield min(atomic, int(limits.maximum) // (replicas * (further + 1))), further


def _seconds_at_initial(
    application: Application, spread: Spread, epoch: int, atomic: int, further: int
) -> float:
    """Return the seconds in which a split makes the progress of a step at M0."""
    step, synchronisation = application.step_times(spread, atomic)
    batch = sum(spread) * atomic * (further + 1)
    gradient = application.gradient_statistics(batch, epoch)
    gain = float(adascale_gain(gradient, float(application.batch.initial), batch))
    return float(step + (step - synchronisation) * further) / gain


class TrueOracle:
    """Remaining steps and true step times of a job, as Optimus is given them.

    Parameters
    ----------
    job
        The job.
    sharing
        Rule by which jobs share GPUs.
    speeds
        Steps at the best batch sizes, for jobs whose batch size follows their goodput.
    """

    def __init__(
        self, job: SimulatedJob, sharing: Sharing = FAIR, speeds: BestSpeeds | None = None
    ) -> None:
        self._job, self._sharing, self._speeds = job, sharing, speeds or BestSpeeds()
        self._seconds: dict[tuple[str, int, int], float] = {}

    def remaining_steps(self) -> float:
        """Return the steps from the end of this epoch to the end of the last."""
        job, last = self._job, self._job.application.epochs - 1
        if job.epoch >= last:
            return 1.0
        if job.batch_sizes == "goodput":
            return job.application.progress(last) - job.application.progress(job.epoch)
        batch = job.submission.batch_size
        return job.application.steps(batch, last) - job.application.steps(batch, job.epoch)

    def seconds_per_step(self, replicas: int, gpus_per_node: int, gpu_type: str = "") -> float:
        """Return the true seconds of a step on packed nodes; one GPU always accumulates."""
        key = (gpu_type or self._job.gpu_type, replicas, gpus_per_node)
        if self._job.batch_sizes == "goodput":
            application, spread = self._job.application_on(key[0]), packed(replicas, gpus_per_node)
            return self._speeds.seconds(application, key[0], spread, self._job.epoch)
        if key not in self._seconds:
            self._seconds[key] = self._step(*key)
        return self._seconds[key]

    def beside(
        self, other: Oracle, replicas: int, gpus_per_node: int, gpu_type: str = ""
    ) -> tuple[float, float] | None:
        """Return the rates of this job as host and of `other` as guest at requested batch sizes.

        None where the memory of a GPU is too small for both.
        """
        if not isinstance(other, TrueOracle):
            return None
        kind = gpu_type or self._job.gpu_type
        host, guest = (one.use(kind, replicas, gpus_per_node) for one in (self, other))
        if not self._sharing.fits(host, guest):
            return None
        shares = self._sharing.host_rate(host, [guest]), self._sharing.guest_rate(host, guest)
        seconds = (one.seconds_per_step(replicas, gpus_per_node, kind) for one in (self, other))
        mine, its = (share / step for share, step in zip(shares, seconds, strict=True))
        return mine, its

    def use(self, gpu_type: str, replicas: int, gpus_per_node: int) -> GpuUse:
        """Return its load on each of its GPUs at the requested batch size, rounded up."""
        application, batch = self._job.application_on(gpu_type), self._job.submission.batch_size
        split = requested_split(batch, replicas, application.batch)
        return gpu_use(application, packed(replicas, gpus_per_node), *split)

    def _step(self, gpu_type: str, replicas: int, gpus_per_node: int) -> float:
        """Return the true seconds of a step."""
        application = self._job.application_on(gpu_type)
        limits = application.batch
        atomic, steps = published_split(
            self._job.submission.batch_size, replicas, limits, accumulates=replicas == 1
        )
        atomic = min(atomic, int(limits.maximum / (replicas * (steps + 1))))
        step, synchronisation = application.step_times(packed(replicas, gpus_per_node), atomic)
        return float(step + (step - synchronisation) * steps)


class EstimatedOracle:
    """Remaining steps by the losses of a job so far, and step times by its fitted model.

    The losses are drawn for the name of the job, by the law that Optimus assumes, with noise. Until
    there are enough of them 20 more epochs are assumed, as in Optimus's code
    (`models/losses/loss_forecast.py`), and until the first measurement of a step that GPUs are as
    fast together as the one on which every job is profiled. Nothing is estimated of jobs that share
    GPUs.

    Parameters
    ----------
    job
        The job, whose model is fitted before it is asked.
    """

    def __init__(self, job: SimulatedJob) -> None:
        self._job = job
        self._tables: dict[tuple[str, int], tuple[GoodputModel, Floats]] = {}

    def remaining_steps(self) -> float:
        """Return the forecast steps, at the efficiency measured last."""
        job = self._job
        left = forecast(job.loss_run(), job.progress).steps - job.progress
        if job.batch_sizes != "goodput":
            initial, batch = float(job.application.batch.initial), job.submission.batch_size
            gradient = job.gradient
            gain = float(adascale_gain(gradient, initial, batch)) if gradient else batch / initial
            left /= gain
        return max(left, 1.0)

    def seconds_per_step(self, replicas: int, gpus_per_node: int, gpu_type: str = "") -> float:
        """Return the predicted seconds of a step on packed nodes."""
        kind = gpu_type or self._job.gpu_type
        application = self._job.application_on(kind)
        batch = self._limits(application)
        model = self._job.models().get(kind)
        if model is None:
            return float(batch.initial) / (replicas * examples_per_second(application))
        model = model._replace(batch=batch)
        known, table = self._tables.get((kind, gpus_per_node), (None, np.empty(0)))
        if known != model or len(table) < replicas:
            table = _examples_per_second(model, max(replicas, MOST_REPLICAS), gpus_per_node)
            self._tables[kind, gpus_per_node] = model, table
        return float(batch.initial) / float(table[replicas - 1])

    def _limits(self, application: Application) -> BatchLimits:
        """Return the batch limits within which its batch size is chosen."""
        if self._job.batch_sizes == "goodput":
            return application.batch
        return at_batch_size(application.batch, self._job.submission.batch_size)

    def beside(
        self, other: Oracle, replicas: int, gpus_per_node: int, gpu_type: str = ""
    ) -> tuple[float, float] | None:
        """Return None: nothing is estimated of jobs that share GPUs."""
        return None


def _examples_per_second(model: GoodputModel, most: int, gpus_per_node: int) -> Floats:
    """Return the best goodput on 1, 2, … GPUs on packed nodes."""
    replicas = np.arange(1, most + 1)
    found = best_batch_size(model, -(-replicas // gpus_per_node), replicas, search="grid")
    return np.asarray(found.goodput)


def crowded_nodes(jobs: Iterable[SimulatedJob]) -> set[int]:
    """Return the nodes that several distributed jobs share."""
    counts = Counter(node for job in jobs if len(job.placement) > 1 for node, _ in job.placement)
    return {node for node, count in counts.items() if count > 1}


def share_gpus(jobs: Iterable[SimulatedJob], sharing: Sharing) -> None:
    """Set the relative speed of every job in the interval that begins.

    A pair lasts to the end of the interval even if one of the two completes, or waits for its
    restart. (A guest whose host is gone afterwards is alone on its GPUs until the next decision,
    which follows at once.)

    Parameters
    ----------
    jobs
        All jobs.
    sharing
        Rule by which they share GPUs.
    """
    uses: dict[str, GpuUse] = {}
    guests: dict[str, list[str]] = defaultdict(list)
    for job in jobs:
        job.share = 1.0
        if job.placement and job.completion is None:
            uses[job.submission.name] = job.measure_use()
            guests[job.host].append(job.submission.name)
    for job in jobs:
        own = uses.get(job.submission.name)
        if own is None:
            continue
        if job.host in uses:
            job.share = sharing.guest_rate(uses[job.host], own)
        else:
            beside = [uses[name] for name in guests[job.submission.name]]
            job.share = sharing.host_rate(own, beside)
