"""What jobs of a replay have of their speed while they share GPUs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goodalloc.experiments.replay.simulated_job import SimulatedJob
    from goodalloc.models.shared_gpus.shared_speed import GpuUse, Sharing


def share_gpus(jobs: Iterable[SimulatedJob], sharing: Sharing) -> None:
    """Say what every job has of its speed in the interval that begins.

    A pair lasts to the end of the interval even if one of the two completes, or waits for its
    restart. (A guest whose host is gone afterwards is alone on its GPUs until the next decision,
    which is due at once.)

    Parameters
    ----------
    jobs
        All jobs.
    sharing
        How they share.
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
