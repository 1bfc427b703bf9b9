"""Optimus with an oracle: GPUs by marginal gain in time to completion.

References
----------
Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters", EuroSys
    2018. doi:10.1145/3190508.3190517

Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.spread_placement import place_changed

if TYPE_CHECKING:
    from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Round


@dataclass
class Optimus:
    """Optimus with exact remaining steps and step times ("Optimus+Oracle" in Pollux's evaluation).

    Every job gets one GPU in order of submission while they last. Then each further GPU goes to the
    job whose remaining time it shortens most, ``remaining steps × (T(K) - T(K + 1))``, while that
    is positive. Jobs whose number of GPUs does not change keep them; the others are placed in order
    of their number, on the emptiest nodes. The batch size is the user's.
    """

    batch_sizes: BatchSizes = field(default="requested", init=False)

    def decide(self, round_: Round) -> Decision:
        """Share the GPUs out, then place them."""
        return Decision(place_changed(round_, self._share(round_)))

    def _share(self, round_: Round) -> dict[str, int]:
        """Return the GPUs of every job."""
        total = left = round_.cluster.num_gpus
        per_node = int(round_.cluster.node_gpus.max())
        remaining = {job.name: job.oracle.remaining_steps() for job in round_.jobs}

        def gain(job: ActiveJob) -> float:
            held = replicas[job.name]
            if held + 1 > min(most_gpus(job), total):
                return 0.0
            now, then = (job.oracle.seconds_per_step(k, per_node) for k in (held, held + 1))
            return (now - then) * remaining[job.name]

        replicas: dict[str, int] = {}
        gains: dict[str, float] = {}
        jobs = {job.name: job for job in round_.jobs}
        for name, job in jobs.items():
            replicas[name] = int(left > 0)
            left -= replicas[name]
            gains[name] = gain(job) if replicas[name] and left > 0 else 0.0
        while left > 0:
            name = max(gains, key=gains.__getitem__)
            if gains[name] <= 0:
                break
            replicas[name] += 1
            left -= 1
            gains[name] = gain(jobs[name])
        return replicas


def most_gpus(job: ActiveJob) -> int:
    """Return the most GPUs over which the job's batch size can be split.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from goodalloc.solvers.policies import most_gpus
    >>> most_gpus(SimpleNamespace(fixed_replicas=None, splits=4))
    4
    """
    return job.splits if job.fixed_replicas is None else job.fixed_replicas
