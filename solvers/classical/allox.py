"""AlloX as a policy: a matching decides which jobs start on which type of GPU.

References
----------
Le et al., "AlloX: Compute Allocation in Hybrid Clusters", EuroSys 2020. doi:10.1145/3342195.3387547
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.classical.unrelated_machines import UnrelatedMachines
from goodalloc.solvers.classical.matching import start_now
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.spread_placement import FreeGpus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Round


@dataclass
class AlloX:
    """Policy that starts jobs where the least total completion time has them first.

    Every GPU is a machine. Processing times are the oracle's, on every type of GPU, with the
    requested batch size and GPUs, at most as many as there are of any type. AlloX knows jobs of one
    GPU, for which this is AlloX. A job of *g* GPUs is work for one machine: *g* times its seconds
    and those from the first free GPU of the type to the *g*-th (a documented reading), so that its
    GPU time decides its place in the order. Of the jobs that are to start those with the least work
    are placed first; one for which too few GPUs are free waits, and others may overtake it. Running
    jobs stay to their end. On one type of GPU the result is shortest first.

    Parameters
    ----------
    alpha
        Only this share of the waiting jobs, those that waited longest, takes part: less than 1 for
        fairness.
    """

    alpha: float = 1.0
    batch_sizes: BatchSizes = field(default="requested", init=False)

    def decide(self, round_: Round) -> Decision:
        """Match the waiting jobs with machines; start those that are first on a free one."""
        cluster = round_.cluster
        running = [job for job in round_.jobs if job.placement]
        kept: dict[str, Placement] = {job.name: job.placement for job in running}
        modes = {job.name: job.mode for job in running if job.mode}
        waiting = [job for job in round_.jobs if not job.placement]
        if not waiting:
            return Decision(kept, modes=modes)
        machine_type, ready = _machines(cluster, running)
        free_in = [np.sort(ready[machine_type == code]) for code in range(len(cluster.gpu_types))]
        most = max(times.size for times in free_in)
        gpus = [min(job.replicas, most) for job in waiting]
        work = [
            _machine_seconds(job, wanted, cluster, free_in)
            for job, wanted in zip(waiting, gpus, strict=True)
        ]
        waited = np.array([float(job.age) for job in waiting])
        problem = UnrelatedMachines(np.array(work), machine_type, ready, waited)
        starts = start_now(problem, self.alpha)
        for index, machine in sorted(starts, key=lambda s: problem.machine_times[s]):
            kind = cluster.gpu_types[machine_type[machine]]
            free = FreeGpus(cluster, kept.values(), kind)
            if gpus[index] <= free.total:
                kept[waiting[index].name] = free.take(gpus[index])
        return Decision(kept, modes=modes)


def _machine_seconds(
    job: ActiveJob, gpus: int, cluster: Cluster, free_in: Sequence[NDArray[np.float64]]
) -> list[float]:
    """Return the GPU-seconds of a job on every type, infinite where there are too few GPUs.

    They include the time in which it holds its first GPUs until all are free.

    Parameters
    ----------
    job, gpus
        A waiting job, and its number of GPUs.
    cluster
        The nodes.
    free_in
        For every type the seconds until its GPUs are free, ascending.
    """
    found = []
    for kind, free in zip(cluster.gpu_types, free_in, strict=True):
        if gpus > free.size:
            found.append(np.inf)
            continue
        seconds = job.oracle.seconds_per_step(gpus, cluster.most_per_node[kind], kind)
        gathering = float(free[gpus - 1] - free[0])
        found.append(gpus * (job.oracle.remaining_steps() * seconds + gathering))
    return found


def _machines(
    cluster: Cluster, running: Sequence[ActiveJob]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the type of every GPU, and the seconds until it is free."""
    busy: list[list[float]] = [[] for _ in cluster.node_gpus]
    for job in running:
        per_node = int(max(cluster.node_gpus[node] for node, _ in job.placement))
        gpus = sum(count for _, count in job.placement)
        left = job.oracle.remaining_steps() * job.oracle.seconds_per_step(gpus, per_node)
        for node, count in job.placement:
            busy[node] += [left] * count
    ready = [
        seconds
        for held, gpus in zip(busy, cluster.node_gpus.tolist(), strict=True)
        for seconds in [*held, *[0.0] * (gpus - len(held))]
    ]
    return np.repeat(cluster.node_type, cluster.node_gpus), np.array(ready)
