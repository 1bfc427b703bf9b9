"""Optimus: a server and a worker for each job, then one at a time by marginal gain.

The remaining steps of every job are taken as true, predictable or not. Pods are as requested; their
numbers are decided by `marginal_gain.py`, and jobs are placed in increasing order of their dominant
shares.

References
----------
Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters", EuroSys
    2018. doi:10.1145/3190508.3190517
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from goodalloc.models.parameter_servers.job import service_table
from goodalloc.solvers.parameter_servers.marginal_gain import greedy_by_gain
from goodalloc.solvers.parameter_servers.policy import admit

if TYPE_CHECKING:
    from goodalloc.solvers.parameter_servers.policy import PsDecision, PsView


@dataclass(frozen=True)
class PsOptimus:
    """Policy of the greedy algorithm, round by round, which ignores the cost of restarts."""

    def decide(self, view: PsView) -> PsDecision:
        """Give one of each to as many jobs as fit, by submission; then add units by gain."""
        least = {index: [(0, 0, *job.asked[2:])] for index, job in enumerate(view.jobs)}
        begun = admit(view, range(len(view.jobs)), least)
        jobs = [job for job in view.jobs if job.name in begun]
        if not jobs:
            return {}
        tables = [
            service_table(replace(job.job, current=None, restart_seconds=0.0), "time")
            for job in jobs
        ]
        cells = greedy_by_gain(tables, [begun[job.name] for job in jobs], view.capacity)
        size = view.capacity

        def takes(pair: tuple[int, tuple[int, ...]]) -> float:
            return float((jobs[pair[0]].demand(pair[1]) / size).max())

        return {jobs[i].name: cell for i, cell in sorted(enumerate(cells), key=takes)}
