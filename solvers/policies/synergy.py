"""Synergy as a policy: a queue selects the jobs, TUNE their cores and nodes.

References
----------
Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI 2022.
    https://www.usenix.org/conference/osdi22/presentation/mohan
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.objective import mode_utilities
from goodalloc.models.round.synergy_objective import synergy_rules
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.pollux import decision_of
from goodalloc.solvers.policies.tiresias import Tiresias
from goodalloc.solvers.sia_and_synergy.synergy import solve_synergy_tune

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.round.job import Job
    from goodalloc.solvers.policies.policy import ActiveJob, Round


@dataclass
class SynergyTune(Tiresias):
    """Least attained service, as of `Tiresias`, with the cores divided by Synergy-TUNE.

    GPUs and batch size are as requested, but at most as many GPUs as there are of any type. Jobs
    that keep running stay on their nodes; TUNE places the others, queue by queue, and may give any
    of them other cores, which restarts it. Synergy knows one type of GPU; where there are several,
    a job goes to the type on which it is fastest, of those with as many free GPUs as it requests,
    and does not leave it while it runs.
    """

    def gpus(self, round_: Round, job: ActiveJob) -> int:
        """Return the requested GPUs, at most as many as there are of any type."""
        return min(job.replicas, max(round_.cluster.type_gpus.values()))

    def place(self, round_: Round) -> Decision:
        """Choose types for the jobs that are to run, then place them by TUNE."""
        names = [name for name in self._ordered() if name in self._running]
        whole = round_.by_throughput().instance(synergy_rules(round_.cluster.num_nodes))
        jobs = {job.name: job for job in round_.jobs}
        rows = {job.name: index for index, job in enumerate(whole.jobs)}
        rigid = []
        for name in names:
            gpus = self.gpus(round_, jobs[name])
            rigid.append(whole.jobs[rows[name]].replace(min_replicas=gpus, max_replicas=gpus))
        chosen = self._with_types(whole.replace(jobs=tuple(rigid))) if rigid else ()
        if not chosen:
            self._running = set()
            return Decision({})
        instance = whole.replace(jobs=chosen)
        tuned = solve_synergy_tune(instance, order="queue", keep=True)
        decision = decision_of(instance, tuned.require_allocation())
        self._running = {name for name, placement in decision.placements.items() if placement}
        return decision

    @staticmethod
    def _with_types(instance: Instance) -> tuple[Job, ...]:
        """Return the jobs that find enough GPUs of one type, with modes on that type only."""
        cluster, current = instance.cluster, instance.current
        left = np.bincount(cluster.node_type, cluster.node_gpus - current.node_replicas)
        free = dict(zip(cluster.gpu_types, left.tolist(), strict=True))
        moved = mode_utilities(instance).moved
        chosen = []
        for job, first in zip(instance.jobs, instance.first_mode.tolist(), strict=True):
            gpus = job.max_replicas
            if job.placement:
                kind = cluster.node_types[job.placement[0][0]]
            else:
                worth = {
                    mode.gpu_type: float(moved[first + index, :, gpus].max())
                    for index, mode in enumerate(job.all_modes)
                    if free.get(mode.gpu_type, 0) >= gpus
                }
                if not worth:
                    continue
                kind = max(worth, key=worth.__getitem__)
                free[kind] -= gpus
            modes = tuple(mode for mode in job.modes if mode.gpu_type == kind)
            chosen.append(job.replace(modes=modes))
        return tuple(chosen)
