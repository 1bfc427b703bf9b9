"""Reference policies: first come first served, shortest remaining time first, equal shares.

First come first served on GPUs of several types is the baseline of Gavel.

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
from goodalloc.solvers.policies.spread_placement import FreeGpus, place_changed

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Round


@dataclass
class FirstComeFirstServed:
    """Policy that runs jobs in order of submission on their requested GPUs, to their end.

    No job overtakes an earlier one that waits.
    """

    batch_sizes: BatchSizes = field(default="requested", init=False)

    def decide(self, round_: Round) -> Decision:
        """Keep what runs; start the jobs at the head of the queue while they fit."""
        placements = {job.name: job.placement for job in round_.jobs if job.placement}
        free = FreeGpus(round_.cluster, placements.values())
        for job in round_.jobs:
            if job.name in placements:
                continue
            if job.replicas > free.total:
                break
            placements[job.name] = free.take(job.replicas)
        return Decision(placements)


@dataclass
class ShortestRemainingTimeFirst:
    """Policy that runs the jobs that would end first on their requested GPUs; it preempts others.

    The remaining time is the oracle's: remaining steps × seconds per step.
    """

    batch_sizes: BatchSizes = field(default="requested", init=False)

    def decide(self, round_: Round) -> Decision:
        """Serve jobs by remaining time as long as GPUs last; smaller ones may overtake."""
        per_node = int(round_.cluster.node_gpus.max())

        def remaining(job: ActiveJob) -> float:
            steps = job.oracle.remaining_steps()
            return steps * job.oracle.seconds_per_step(job.replicas, per_node)

        left = round_.cluster.num_gpus
        replicas = {}
        for job in sorted(round_.jobs, key=remaining):
            replicas[job.name] = job.replicas if job.replicas <= left else 0
            left -= replicas[job.name]
        return Decision(place_changed(round_, replicas))


@dataclass
class EqualShare:
    """Policy of equally many GPUs for every job; spare ones go to those submitted first.

    No job gets more than the published limit on its exploration, nor than its batch size allows.
    """

    batch_sizes: BatchSizes = field(default="goodput", init=False)

    def decide(self, round_: Round) -> Decision:
        """Deal one GPU after the other in order of submission until none is free or wanted."""
        replicas = dict.fromkeys((job.name for job in round_.jobs), 0)
        left = round_.cluster.num_gpus
        wanting = list(round_.jobs)
        while wanting and left > 0:
            for job in wanting[:left]:
                replicas[job.name] += 1
            left -= min(left, len(wanting))
            wanting = [job for job in wanting if replicas[job.name] < job.max_replicas]
        return Decision(place_changed(round_, replicas))


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
