"""Reference policies: first come first served, shortest remaining time first, equal shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.spread_placement import FreeGpus, place_changed

if TYPE_CHECKING:
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
