"""What an oracle tells a policy of a simulated job: the truth, which no scheduler has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.data.applications.application import packed
from goodalloc.experiments.replay.simulated_job import gpu_use, published_split, requested_split
from goodalloc.models.shared_gpus.shared_speed import FAIR

if TYPE_CHECKING:
    from goodalloc.experiments.replay.simulated_job import SimulatedJob
    from goodalloc.models.shared_gpus.shared_speed import GpuUse, Sharing
    from goodalloc.solvers.policies.policy import Oracle


class JobOracle:
    """What Optimus is told of a job: its remaining steps and true step times.

    Parameters
    ----------
    job
        The job.
    sharing
        How jobs share GPUs.
    """

    def __init__(self, job: SimulatedJob, sharing: Sharing = FAIR) -> None:
        self._job, self._sharing = job, sharing
        self._seconds: dict[tuple[str, int, int], float] = {}

    def remaining_steps(self) -> float:
        """Steps at the requested batch size from the end of this epoch to that of the last."""
        job, last = self._job, self._job.application.epochs - 1
        if job.epoch >= last:
            return 1.0
        batch = job.submission.batch_size
        return job.application.steps(batch, last) - job.application.steps(batch, job.epoch)

    def seconds_per_step(self, replicas: int, gpus_per_node: int, gpu_type: str = "") -> float:
        """True seconds of a step on packed nodes; one GPU always accumulates (as published)."""
        key = (gpu_type or self._job.gpu_type, replicas, gpus_per_node)
        if key not in self._seconds:
            self._seconds[key] = self._step(*key)
        return self._seconds[key]

    def beside(
        self, other: Oracle, replicas: int, gpus_per_node: int, gpu_type: str = ""
    ) -> tuple[float, float] | None:
        """Rates at the requested batch sizes, of the first as the host, in the way of this replay.

        None where the memory of a GPU is too small for both.
        """
        if not isinstance(other, JobOracle):
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
        """What it takes of each of so many GPUs at the requested batch size, rounded up."""
        application, batch = self._job.application_on(gpu_type), self._job.submission.batch_size
        split = requested_split(batch, replicas, application.batch)
        return gpu_use(application, packed(replicas, gpus_per_node), *split)

    def _step(self, gpu_type: str, replicas: int, gpus_per_node: int) -> float:
        application = self._job.application_on(gpu_type)
        limits = application.batch
        atomic, steps = published_split(
            self._job.submission.batch_size, replicas, limits, accumulates=replicas == 1
        )
        atomic = min(atomic, int(limits.maximum / (replicas * (steps + 1))))
        step, synchronisation = application.step_times(packed(replicas, gpus_per_node), atomic)
        return float(step + (step - synchronisation) * steps)
