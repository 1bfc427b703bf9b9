"""True speed of simulated jobs: for an oracle of a policy, and where they share GPUs.

References
----------
Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters",
    EuroSys 2018. doi:10.1145/3190508.3190517
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from goodalloc.data.applications.application import packed
from goodalloc.experiments.replay.simulated_job import gpu_use, published_split, requested_split
from goodalloc.models.shared_gpus.shared_speed import FAIR

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goodalloc.experiments.replay.simulated_job import SimulatedJob
    from goodalloc.models.shared_gpus.shared_speed import GpuUse, Sharing
    from goodalloc.solvers.policies.policy import Oracle


class JobOracle:
    """Remaining steps and true step times of a job, as Optimus is given them.

    Parameters
    ----------
    job
        The job.
    sharing
        Rule by which jobs share GPUs.
    """

    def __init__(self, job: SimulatedJob, sharing: Sharing = FAIR) -> None:
        self._job, self._sharing = job, sharing
        self._seconds: dict[tuple[str, int, int], float] = {}

    def remaining_steps(self) -> float:
        """Return the steps at the requested batch size from the end of this epoch to the last."""
        job, last = self._job, self._job.application.epochs - 1
        if job.epoch >= last:
            return 1.0
        batch = job.submission.batch_size
        return job.application.steps(batch, last) - job.application.steps(batch, job.epoch)

    def seconds_per_step(self, replicas: int, gpus_per_node: int, gpu_type: str = "") -> float:
        """Return the true seconds of a step on packed nodes; one GPU always accumulates."""
        key = (gpu_type or self._job.gpu_type, replicas, gpus_per_node)
        if key not in self._seconds:
            self._seconds[key] = self._step(*key)
        return self._seconds[key]

    def beside(
        self, other: Oracle, replicas: int, gpus_per_node: int, gpu_type: str = ""
    ) -> tuple[float, float] | None:
        """Return the rates of this job as host and of `other` as guest at requested batch sizes.

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
