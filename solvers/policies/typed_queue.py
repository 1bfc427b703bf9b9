"""First come, first served on GPUs of several types: the baseline of Gavel.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.spread_placement import FreeGpus

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.policies.policy import BatchSizes, Round


@dataclass
class TypedQueue:
    """Policy that runs jobs in order of submission to their end, each on GPUs of one type.

    No job overtakes an earlier one that waits.

    Parameters
    ----------
    blind
        Whether a job goes to the type with the most free GPUs instead of the one on which it is
        fastest.
    """

    blind: bool = False
    batch_sizes: BatchSizes = field(default="requested", init=False)

    def decide(self, round_: Round) -> Decision:
        """Keep running jobs; start the jobs at the head of the queue while they fit."""
        cluster = round_.cluster
        kept: dict[str, Placement] = {
            job.name: job.placement for job in round_.jobs if job.placement
        }
        modes = {job.name: job.mode for job in round_.jobs if job.placement and job.mode}
        for job in round_.jobs:
            if job.name in kept:
                continue
            free = {kind: FreeGpus(cluster, kept.values(), kind) for kind in cluster.gpu_types}
            seconds = {
                kind: job.oracle.seconds_per_step(job.replicas, cluster.most_per_node[kind], kind)
                for kind, left in free.items()
                if left.total >= job.replicas
            }
            fits = [kind for kind, found in seconds.items() if math.isfinite(found)]
            if not fits:
                break
            if self.blind:
                kind = max(fits, key=lambda kind: free[kind].total)
            else:
                kind = min(fits, key=seconds.__getitem__)
            kept[job.name] = free[kind].take(job.replicas)
        return Decision(kept, modes=modes)
