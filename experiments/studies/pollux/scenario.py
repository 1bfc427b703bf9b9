"""Scenarios of the replays: load, cluster and disturbances beyond the published ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from goodalloc.data.workloads.generator import HOUR, draw_workload
from goodalloc.experiments.replay.replay_conditions import Outage, Setting
from goodalloc.models.round.cluster import Cluster

if TYPE_CHECKING:
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.studies.framework.reproduction import Plan


@dataclass(frozen=True)
class Scenario:
    """Load, cluster and disturbances of a replay.

    Parameters
    ----------
    label
        Label in tables and figures.
    load
        Load of the workload.
    parts
        Number of workloads of that load that are submitted together.
    burst
        Jobs of another workload that are submitted all at once after three hours.
    setting
        Cluster, outages and rules of the replay.
    """

    label: str
    load: float = 1.0
    parts: int = 1
    burst: int = 0
    setting: Setting = Setting()

    def workload(self, plan: Plan, number: int) -> tuple[Submission, ...]:
        """Return the jobs of all parts and of the burst, in order of submission."""
        jobs = list(plan.workload(number, load=self.load))
        for part in range(1, self.parts):
            more = draw_workload(1000 * part + number, load=self.load)
            jobs += [replace(job, name=f"{job.name}-part-{part}") for job in more]
        if self.burst:
            jobs += [
                replace(job, name=f"{job.name}-burst", time=3 * HOUR)
                for job in draw_workload(100_000 + number, jobs=self.burst)
            ]
        return tuple(sorted(jobs, key=lambda job: job.time))


PUBLISHED = Scenario("load 1")
LOADS = (Scenario("load 0.5", 0.5), PUBLISHED, Scenario("load 1.5", 1.5), Scenario("load 2", 2.0))
DISTURBED = (
    Scenario("half the nodes lost", setting=Setting(outages=(Outage(3 * HOUR, 4 * HOUR, 8),))),
    Scenario("burst of 80 jobs", burst=80),
)
LARGE = Scenario("4 x the cluster and the jobs", parts=4, setting=Setting(Cluster.uniform(64, 4)))
