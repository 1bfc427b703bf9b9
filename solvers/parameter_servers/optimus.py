"""Optimus (EuroSys'18): a server and a worker each, then one at a time to who gains most.

Every job is believed, predictable or not. Pods are those that the user asks for; their numbers are
decided by `marginal_gain.py`, and jobs are placed in increasing order of what they take.
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
    """The greedy, round by round, with no thought of restarts."""

    def decide(self, view: PsView) -> PsDecision:
        """One of each for as many jobs as fit, in order of submission; then what gains most."""
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
