"""Job of a replay: its true progress, its measurements, and its predictions from them.

The rules are those of the simulator published with Pollux: a job advances in segments that end with
its epoch or with the interval. In every segment it measures its true step times and gradient
statistics; from its measurements it predicts its goodput and chooses its batch size.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.applications.application import pass_time
from goodalloc.data.workloads.loss_runs import losses_of
from goodalloc.experiments.replay.job_modes import (
    Equipment,
    Measured,
    at_batch_size,
    bounded,
    equip,
    predict,
)
from goodalloc.experiments.replay.job_state import SimulatedJobState
from goodalloc.experiments.replay.replay_conditions import EXACTLY
from goodalloc.models.goodput.statistical_efficiency import adascale_gain
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.shared_gpus.shared_speed import GpuUse, busy_part, memory_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from goodalloc.data.applications.application import Application, Spread
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.replay.replay_conditions import MeasurementNoise
    from goodalloc.models.goodput.input_pipeline import InputPipeline
    from goodalloc.models.goodput.model import BatchLimits, GoodputModel
    from goodalloc.models.goodput.similar_jobs import Experience
    from goodalloc.models.losses.loss_forecast import LossRun
    from goodalloc.models.losses.reduction import LossHistory
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.mode import Mode
    from goodalloc.solvers.policies.policy import BatchSizes

#: Tolerance of the published ceilings, in examples.
ROUNDING = 1e-8


class Interval(NamedTuple):
    """Work of a job in one interval.

    Attributes
    ----------
    gpu_seconds
        GPU-seconds of training.
    useful_examples, examples
        Examples in units of those at the initial batch size M0, and examples processed.
    efficient_gpu_seconds
        GPU-seconds times statistical efficiency.
    """

    gpu_seconds: float = 0.0
    useful_examples: float = 0.0
    examples: float = 0.0
    efficient_gpu_seconds: float = 0.0


#: Work of a job that did not train.
NOTHING = Interval()


def total(intervals: Iterable[Interval]) -> Interval:
    """Return the sum of the work of `intervals`."""
    return Interval._make(map(sum, zip(NOTHING, *intervals, strict=True)))


#: Equipment of a cluster where only GPUs matter.
PLAIN = Equipment.of(Cluster.uniform(1, 1))


def published_split(
    batch: int, replicas: int, limits: BatchLimits, *, accumulates: bool
) -> tuple[int, int]:
    """Split a total batch size into examples per GPU and pass and accumulation steps, rounded up.

    Parameters
    ----------
    batch, replicas
        Total batch size, and the number of GPUs it is split over.
    limits
        Batch limits of the application.
    accumulates
        Whether there is at least one accumulation step.

    Examples
    --------
    >>> from goodalloc.experiments.replay import published_split
    >>> from goodalloc.models.goodput import BatchLimits
    >>> limits = BatchLimits(initial=128, maximum=4096, atomic_minimum=32, atomic_maximum=256)
    >>> published_split(1024, 2, limits, accumulates=False)  # 512 a GPU, in two passes
    (256, 1)
    """
    local = math.ceil(batch / replicas - ROUNDING)
    passes = math.ceil(local / limits.atomic_maximum - ROUNDING)
    passes = max(passes, 2) if accumulates else passes
    return math.ceil(local / passes - ROUNDING), passes - 1


def requested_split(batch: int, replicas: int, limits: BatchLimits) -> tuple[int, int]:
    """Split a batch size that a user requested: one GPU accumulates above the initial batch size.

    Parameters
    ----------
    batch, replicas, limits
        As in `published_split`.
    """
    alone = replicas == 1 and batch > int(limits.initial)
    return published_split(batch, replicas, limits, accumulates=alone)


def gpu_use(
    application: Application, spread: Spread, atomic_batch_size: int, accumulation_steps: int
) -> GpuUse:
    """Return the load of a job on each of its GPUs.

    By equations (1) and (2) of `models/shared_gpus/shared_speed.py`.

    Parameters
    ----------
    application
        The true application on the type of its GPUs.
    spread
        Number of GPUs on each of its nodes.
    atomic_batch_size, accumulation_steps
        Examples per GPU and pass, and passes before the one that synchronises.
    """
    times = application.step_times(spread, atomic_batch_size)
    step = times.step + accumulation_steps * (times.step - times.synchronisation)
    per_example = pass_time(application).per_example
    busy = busy_part(per_example, atomic_batch_size, accumulation_steps + 1, step)
    return GpuUse(busy, memory_part(atomic_batch_size, float(application.batch.atomic_maximum)))


class SimulatedJob(SimulatedJobState):
    """Job under way: a state, and the rules by which it changes.

    Parameters
    ----------
    submission
        The submission of its user.
    application
        The true application, on the first type of GPU.
    batch_sizes
        Rule for its batch size; an application that Pollux restricts keeps to its restriction.
    equipment
        Equipment that the nodes offer.
    pipeline
        Its input pipeline, None where cores do not count.
    predicts_request
        Whether it predicts its goodput at the requested batch size only.
    noise
        Errors of its measurements.
    experiences
        Finished jobs from which it predicts what it did not measure.
    pooled
        Whether its agent takes all types of GPU for one: it then fits one model to the measurements
        on all of them, of equal configurations the first, and keeps these under the first type.
    """

    def __init__(
        self,
        submission: Submission,
        application: Application,
        batch_sizes: BatchSizes,
        equipment: Equipment = PLAIN,
        pipeline: InputPipeline | None = None,
        *,
        predicts_request: bool = False,
        noise: MeasurementNoise = EXACTLY,
        experiences: Callable[[], Sequence[Experience]] = tuple,
        pooled: bool = False,
    ) -> None:
        super().__init__(gpu_type=equipment.gpu_types[0])
        self.submission, self._application = submission, application
        self.batch_sizes = batch_sizes
        self.equipment, self.pipeline, self.noise = equipment, pipeline, noise
        self.experiences, self.pooled = experiences, pooled
        self.predicted_batch_size = submission.batch_size if predicts_request else None
        restriction = application.restriction
        fixed = restriction.batch_size if restriction else None
        as_asked = batch_sizes in ("requested", "proportional")
        self.target_batch_size = submission.batch_size if as_asked else fixed
        self.fixed_replicas = restriction.replicas if restriction else None
        self.spread: Spread = ()
        self.replicas = 0
        self.rate = 0.0
        self.interval = NOTHING

    def restore(self, state: SimulatedJobState) -> None:
        """Take over a whole state."""
        vars(self).update(vars(state))
        self.spread = tuple(gpus for _, gpus in self.placement)
        self.replicas = sum(self.spread)

    @property
    def application(self) -> Application:
        """The true application on the type of GPU that it runs on, or ran on last."""
        return self.application_on(self.gpu_type)

    def application_on(self, gpu_type: str) -> Application:
        """Return the true application on `gpu_type`."""
        return self._application.on(gpu_type)

    @property
    def batch(self) -> BatchLimits:
        """Batch limits within which it predicts its goodput."""
        limits, only = self.application.batch, self.predicted_batch_size
        return limits if only is None else at_batch_size(limits, only)

    @property
    def batch_size(self) -> int:
        """Total batch size, 0 while it does not run."""
        return self.replicas * self.atomic_batch_size * (self.accumulation_steps + 1)

    @property
    def memory(self) -> float:
        """Part of a GPU's memory that its batch takes, or would take on the GPUs it requests."""
        limits, atomic = self.application.batch, self.atomic_batch_size
        if not atomic:
            atomic, _ = requested_split(
                self.submission.batch_size, self.submission.replicas, limits
            )
        return memory_part(atomic, float(limits.atomic_maximum))

    def measure_use(self) -> GpuUse:
        """Return its load on its GPUs, and note their busy part."""
        batch = self.atomic_batch_size, self.accumulation_steps
        use = gpu_use(self.application, self.spread, *batch)
        self.busy = use.busy
        return use

    @property
    def most_explored(self) -> int:
        """Largest number of GPUs on which it has measurements, or similar jobs tell enough."""
        measured = self.measured.values()
        own = max((replicas for found in measured for _, replicas, _ in found.times), default=0)
        return max(own, *(found.reach for found in measured)) if measured else 0

    @property
    def chooses_batch_size(self) -> bool:
        """Whether its batch size follows from its model now."""
        return self.target_batch_size is None and bool(self.measured)

    def model(self) -> GoodputModel | None:
        """Return its prediction of its goodput where it runs, None before any measurement."""
        model = self.models().get(self.gpu_type)
        return bounded(model, self.pipeline, self.cores) if model and self.pipeline else model

    def modes(self) -> tuple[Mode, ...]:
        """Return its modes with predictions; none where only GPUs count."""
        return equip(self.equipment, self.models(), self.pipeline)

    def models(self) -> dict[str, GoodputModel]:
        """Return its predictions of its goodput on every type of GPU; none before it ran."""
        return predict(
            self._application,
            self.measured,
            self.gradient,
            self.equipment.gpu_types,
            self.predicted_batch_size,
            pooled=self.pooled,
        )

    def loss_run(self) -> LossRun:
        """Return its losses, drawn for its name; they do not influence its progress."""
        last = self.application.progress(self.application.epochs - 1)
        return losses_of(self.submission.name, self.application.name, last)

    def losses(self) -> LossHistory:
        """Return its losses so far."""
        return self.loss_run().history(self.progress)

    def batch_model(self) -> GoodputModel | None:
        """Return the model by which it chooses its batch size, None before any measurement."""
        model = self.model()
        return model.by_throughput() if model and self.batch_sizes == "throughput" else model

    def reallocate(self, placement: Placement, delay: float, mode: Mode | None = None) -> None:
        """Restart on `placement` after `delay` seconds, in `mode` if there is one; stop on none."""
        self.chosen_for = None
        self.mode = mode.name if mode else ""
        if mode:
            self.gpu_type, self.cores = mode.gpu_type, dict(mode.resources).get("cpu", 0.0)
        self.placement = placement
        self.spread = tuple(gpus for _, gpus in placement)
        self.replicas = sum(self.spread)
        if placement:
            self.delay = delay
            self.restarts = 0 if self.restarts is None else self.restarts + 1
        else:
            self.atomic_batch_size = self.accumulation_steps = 0

    def move(self, placement: Placement) -> None:
        """Continue on `placement`, with the same number of GPUs per node, without a restart."""
        if sorted(placement) != sorted(self.placement):
            self.placement, self.spread = placement, tuple(gpus for _, gpus in placement)

    def set_requested_batch(self) -> None:
        """Split the fixed batch size over the GPUs; the initial one before any measurement."""
        limits = self.application.batch
        batch = self.target_batch_size
        if batch is None:
            batch = int(max(limits.initial, limits.atomic_minimum * self.replicas))
        elif self.batch_sizes == "proportional":
            batch = batch * self.replicas // self.submission.replicas
            batch = int(min(max(batch, limits.initial), limits.maximum))
        self.set_batch(*requested_split(batch, self.replicas, limits))

    def set_batch(self, atomic_batch_size: int, accumulation_steps: int) -> None:
        """Set the batch size, in total at most that which the application allows."""
        most = int(self.application.batch.maximum / (self.replicas * (accumulation_steps + 1)))
        self.atomic_batch_size = min(atomic_batch_size, most)
        self.accumulation_steps = accumulation_steps

    def wait_for_restart(self, seconds: float) -> float:
        """Spend the remaining restart delay; return the remaining seconds."""
        delay = min(self.delay, seconds)
        self.delay -= delay
        self.attained_service += delay * self.replicas
        return seconds - delay

    def train(self, now: float, seconds: float, interference: float) -> float:
        """Train to the end of the epoch or of the interval; return the remaining seconds.

        Parameters
        ----------
        now
            The time at the start of this segment.
        seconds
            Seconds to the end of the interval.
        interference
            Share of the goodput lost to other distributed jobs.
        """
        if self.first_start is None:
            self.first_start = now
        rate = self._measure() * (1.0 - interference) * self.share
        end = self.application.progress(self.epoch)
        if self.progress + rate * seconds < end:
            self._note(seconds, rate * seconds)
            self.progress += rate * seconds
            self.attained_service += seconds * self.replicas
            return 0.0
        spent = float(round((end - self.progress) / rate))
        self._note(spent, end - self.progress)
        self.epoch += 1
        self.progress = end
        self.attained_service += spent * self.replicas
        if self.epoch == self.application.epochs:
            self.completion = now + spent
        return seconds - spent

    def _note(self, seconds: float, steps: float) -> None:
        """Add work to that of this interval."""
        useful = steps * float(self.application.batch.initial)
        gpu_seconds = seconds * self.replicas
        done = Interval(
            gpu_seconds, useful, useful / self.efficiency, gpu_seconds * self.efficiency
        )
        self.interval = total((self.interval, done))

    def _measure(self) -> float:
        """Return the true progress per second, and note step times and gradient statistics."""
        batch, passes = self.batch_size, self.accumulation_steps + 1
        step, synchronisation = self.application.step_times(self.spread, self.atomic_batch_size)
        forward_backward = step - synchronisation
        gradient = self.application.gradient_statistics(batch, self.epoch)
        name, noise = self.submission.name, self.noise
        error = noise.factor(noise.noise_scale, name, 1, self.epoch, batch)
        self.gradient = gradient._replace(variance=gradient.variance * error)
        self.first_gradient = self.first_gradient or self.gradient
        configuration = (len(self.spread), self.replicas, self.atomic_batch_size)
        measured_on = self.equipment.gpu_types[0] if self.pooled else self.gpu_type
        times = self.measured.setdefault(measured_on, Measured()).times
        if configuration not in times:
            error = noise.factor(noise.step_time, name, 2, *configuration)
            times[configuration] = (forward_backward * error, step * error)
        wait = 0.0
        if self.pipeline is not None:
            input_time = self.atomic_batch_size * self.pipeline.core_seconds / self.cores
            wait = max(input_time - (forward_backward - pass_time(self.application).fixed), 0.0)
        initial = float(self.application.batch.initial)
        gain = float(adascale_gain(gradient, initial, batch))
        self.efficiency = gain * initial / batch
        seconds = step + (passes - 1) * forward_backward + passes * wait
        self.rate = gain / (seconds * self.application.slowdown)
        return self.rate
