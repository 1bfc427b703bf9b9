"""Replays of given jobs by given times of execution plans, and the bound on any schedule of them.

The policies are those of the study of Arena's traces (`arena_replay.py`), which restart at equal
costs here. Each replay is a record that is made at once or not at all, so a command that was
stopped goes on with the policies that are missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.plans.plan_jobs_file import read_plan_jobs, read_plan_times, timed_types
from goodalloc.data.plans.plan_workload import REQUESTS, draw_plan_jobs
from goodalloc.data.plans.shipped_plans import shipped_plan_times
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.framework.recorded_task import RECORD, RecordedTask
from goodalloc.experiments.studies.gavel.rate_simulator import Completed
from goodalloc.experiments.studies.hindsight.beside_bound import BOUND, above_percent
from goodalloc.experiments.studies.hindsight.steady_bound_task import SteadyBoundTask
from goodalloc.experiments.studies.plans.arena_above_bound import INTERVAL, steady_plan_jobs
from goodalloc.experiments.studies.plans.arena_replay import EVERY, PlanCluster, below_optimum
from goodalloc.experiments.studies.plans.plan_policies import CheckedPlans, make_plan_policy
from goodalloc.experiments.studies.plans.plan_simulator import PlanSimulator
from goodalloc.experiments.support.records import DESCRIPTION, digest
from goodalloc.experiments.support.version import library_version
from goodalloc.models.plans.plan_job import PlanRestarts
from goodalloc.models.plans.plan_times import PlanTimes
from goodalloc.solvers.plans.exact_plans import GAP as PROVED
from goodalloc.solvers.plans.exact_plans import ExactPlans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.hindsight.steady_jobs import SteadyJobs
    from goodalloc.models.plans.execution_plan import Configuration
    from goodalloc.models.plans.plan_job import PlanJob, PlanRound

#: Where the times are those of the plans that ship.
SHIPPED = "shipped"


class PlanNodes(NamedTuple):
    """Group of equal nodes.

    Attributes
    ----------
    name, nodes, gpus, gpu_type
        Its name, number of nodes, and the GPUs of each and their type.
    """

    name: str
    nodes: int
    gpus: int
    gpu_type: str


@dataclass(frozen=True)
class PlanReplay(RecordedTask):
    """Task that replays jobs with execution plans under one policy.

    Parameters
    ----------
    policy, source
        As in `make_plan_policy`, and a digest of its source if it is the user's own.
    jobs, times
        The jobs in order of submission, and the times of what they train.
    nodes
        Nodes of the cluster.
    restart_seconds
        Seconds without steps after a job got another configuration.
    gaps
        Whether every twentieth decision is compared with the most examples a second.
    """

    policy: str
    source: str
    jobs: tuple[PlanJob, ...]
    times: PlanTimes
    nodes: tuple[PlanNodes, ...]
    restart_seconds: float
    gaps: bool

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on, long tables by their digests."""
        jobs = [
            [job.name, *job.training, job.submission, job.steps, *job.request] for job in self.jobs
        ]
        times = [
            [*training, *shape, timed.seconds]
            for training, shapes in self.times.best.items()
            for shape, timed in shapes.items()
        ]
        return {
            "format": "goodalloc-plan-replay",
            "version": 1,
            "library": library_version(),
            "policy": self.policy,
            "source": self.source,
            "jobs": digest({"jobs": jobs}),
            "times": digest({"times": times}),
            "nodes": [list(group) for group in self.nodes],
            "restart_seconds": self.restart_seconds,
            "gaps": self.gaps,
        }

    def run(self, report: Report = lambda _: None) -> None:
        """Run the task as `RecordedTask.run`; a replay that failed is begun anew, as it may be.

        Raises
        ------
        ValueError
            If the folder holds the record of another task, or the policy fails.
        """
        if not (self.folder / RECORD).exists():  # nothing is lost
            (self.folder / DESCRIPTION).unlink(missing_ok=True)
        super().run(report)

    def work(self, report: Report) -> dict[str, Any]:
        """Replay all jobs; return their rows in order of completion, and what decisions were."""
        costs = PlanRestarts(self.restart_seconds, self.restart_seconds)
        policy = make_plan_policy(self.policy, self.restart_seconds)
        below: list[float] = []

        def judge(round_: PlanRound, decision: Mapping[str, Configuration]) -> None:
            if self.gaps and (len(simulator.decision_seconds) - 1) % EVERY == 0:
                below.append(below_optimum(round_, decision))

        cluster = cluster_of_nodes(self.nodes)
        checked = CheckedPlans(self.policy, policy)
        simulator = PlanSimulator(self.jobs, self.times, *cluster, checked, costs, judge=judge)
        done = [list(one) for one in simulator.run(report)]
        gaps = [one.gap for one in policy.answers] if isinstance(policy, ExactPlans) else None
        seconds = 1e3 * np.array(simulator.decision_seconds)
        told = {
            "worst_proven_gap": None if gaps is None else max(gaps),
            "below_most_examples_percent": _percent(float(np.mean(below))) if below else None,
            "decision_ms": float(seconds.mean()),
            "worst_decision_ms": float(seconds.max()),
        }
        told = {name: None if cell is None else rounded(cell, 4) for name, cell in told.items()}
        return {"completed": done, "decisions": told}

    def completed(self) -> list[Completed]:
        """Return the jobs of the record, in order of completion."""
        return [Completed(*row) for row in self.record()["completed"]]

    def decisions(self) -> dict[str, float | None]:
        """Return what is told of the decisions.

        Returns
        -------
        dict
            `worst_proven_gap`, of policies that decide exactly, by their own objective;
            `below_most_examples_percent`, how far the examples a second of judged decisions are
            below the greatest possible, on average; and the milliseconds of a decision.
        """
        found: dict[str, float | None] = self.record()["decisions"]
        return found


@dataclass(frozen=True)
class GivenPlanBound(SteadyBoundTask):
    """Bound on the average completion time under any schedule; see `SteadyBoundTask`.

    Parameters
    ----------
    replay
        Any replay of these jobs.
    """

    replay: PlanReplay

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on, long tables by their digests."""
        told = self.replay.description()
        names = ("library", "jobs", "times", "nodes", "restart_seconds")
        return {
            "format": "goodalloc-given-plan-bound",
            "version": 1,
            "interval": self.interval,
            **{name: told[name] for name in names},
        }

    def problem(self) -> SteadyJobs:
        """Return the offline problem: a job waits for one restart, and starts in a round."""
        given = self.replay
        found = steady_plan_jobs(given.times, cluster_of_nodes(given.nodes), given.jobs)
        kinds = tuple(replace(one, delays=given.restart_seconds) for one in found.kinds)
        return replace(found, kinds=kinds)

    def beside(
        self, rows: Sequence[dict[str, Any]], done: Mapping[str, Sequence[Completed]]
    ) -> list[dict[str, Any]]:
        """Return rows of policies with how far they are above the bound, whose row is the last.

        Parameters
        ----------
        rows, done
            Row of every policy, and the jobs that it completed, by its name.
        """
        bound, column, found = self.hours(), "above_bound_percent", []
        for row in rows:
            hours = float(np.mean([job.jct for job in done[row["policy"]]])) / HOUR
            found.append({**row, column: rounded(above_percent(hours, bound), 4)})
        last = dict.fromkeys(found[0]) | {"policy": BOUND, "jobs": len(self.replay.jobs)}
        return [*found, last | {"average_jct_hours": rounded(bound, 4), column: 0.0}]


def _percent(share: float) -> float:
    """Return a share in per cent, 0 where it is within the gap to which decisions are proved."""
    return 0.0 if share <= PROVED else 100.0 * share


def bound_beside(replay: PlanReplay) -> GivenPlanBound:
    """Return the bound on every schedule of the jobs of a replay, in a folder beside its own."""
    return GivenPlanBound(replay.folder.parent / BOUND, INTERVAL, replay)


def cluster_of_nodes(nodes: Sequence[PlanNodes]) -> PlanCluster:
    """Return the GPUs of each type on all nodes, and of a node of each."""
    capacity = dict.fromkeys((group.gpu_type for group in nodes), 0)
    for group in nodes:
        capacity[group.gpu_type] += group.nodes * group.gpus
    return PlanCluster(capacity, {group.gpu_type: group.gpus for group in nodes})


def planned_jobs(
    workload: str | None, plans: str, nodes: Sequence[PlanNodes], *, seed: int, drawn: int
) -> tuple[tuple[PlanJob, ...], PlanTimes]:
    """Read jobs and the times of the plans of what they train, or draw the jobs.

    Parameters
    ----------
    workload
        File of the jobs (`goodalloc.data.plans.read_plan_jobs`); None for drawn ones.
    plans
        Folder of the measured times (`goodalloc.data.plans.read_plan_times`), or ``"shipped"``.
    nodes
        Nodes that are to run them.
    seed, drawn
        Seed and number of drawn jobs.

    Raises
    ------
    ValueError
        If a table is malformed, as `require_nodes` and `require_possible`, or no plan fits on the
        nodes.
    """
    times = shipped_plan_times() if plans == SHIPPED else read_plan_times(plans)
    require_nodes(times, nodes)
    cluster = cluster_of_nodes(nodes)
    if workload is not None:
        jobs = read_plan_jobs(workload, times)
        require_possible(times, jobs, cluster)
        return jobs, times
    possible = times_within(times, cluster, tuple(REQUESTS))
    if not possible.best:
        raise ValueError(
            f"Cluster: its nodes have {_sizes(cluster)}; expected GPUs for which some training has "
            "a plan."
        )
    return draw_plan_jobs(seed, drawn, possible, cluster.node_gpus), times


def times_within(times: PlanTimes, cluster: PlanCluster, gpus: Sequence[int]) -> PlanTimes:
    """Return the times on no more GPUs than a cluster has, of the trainings that run there.

    Parameters
    ----------
    times, cluster
        Times, and GPUs of each type and of a node of each.
    gpus
        Numbers of GPUs.
    """
    found = {
        training: {
            shape: timed
            for shape, timed in shapes.items()
            if shape.gpus in gpus and shape.gpus <= cluster.capacity.get(shape.gpu_type, 0)
        }
        for training, shapes in times.best.items()
    }
    fewer = PlanTimes(found)
    run = {training for training in found if fewer.speeds(training, cluster.node_gpus)}
    return PlanTimes({training: found[training] for training in times.best if training in run})


def require_nodes(times: PlanTimes, nodes: Sequence[PlanNodes]) -> None:
    """Refuse nodes for which the times cannot stand.

    Raises
    ------
    ValueError
        If GPUs have no type or one without times, nodes of a type differ in size, or have a number
        of GPUs that is no power of two.
    """
    known = timed_types(times)
    sizes: dict[str, int] = {}
    for group in nodes:
        if not group.gpu_type:
            raise ValueError(
                "Cluster: its GPUs have no type; expected groups of nodes with one, as --group "
                f"NAME:NODES:GPUS:TYPE on the command line, of {', '.join(known)}."
            )
        if group.gpu_type not in known:
            raise ValueError(
                f"Node group '{group.name}' has GPUs of type '{group.gpu_type}'; expected one of "
                f"the types with plans, {', '.join(known)}."
            )
        size = sizes.setdefault(group.gpu_type, group.gpus)
        if group.gpus != size or size & (size - 1):
            raise ValueError(
                f"Node group '{group.name}' has nodes of {group.gpus} GPUs '{group.gpu_type}'; "
                "expected a power of two, the same on all nodes of a type."
            )


def require_possible(times: PlanTimes, jobs: Sequence[PlanJob], cluster: PlanCluster) -> None:
    """Refuse jobs that run nowhere on a cluster, or not as requested.

    Raises
    ------
    ValueError
        With the first such job.
    """
    for job in jobs:
        speeds = times.speeds(job.training, cluster.node_gpus)
        able = [one for one in sorted(speeds) if one.gpus <= cluster.capacity[one.gpu_type]]
        if not able:
            raise ValueError(
                f"Job '{job.name}' trains {' '.join(map(str, job.training))}; expected a plan that "
                f"fits on the cluster, whose nodes have {_sizes(cluster)}."
            )
        if job.request not in able:
            raise ValueError(
                f"Job '{job.name}' asks for {job.request.gpus} GPUs '{job.request.gpu_type}'; "
                "expected what it has a plan for on this cluster: "
                f"{', '.join(f'{one.gpus} {one.gpu_type}' for one in able)}."
            )


def _sizes(cluster: PlanCluster) -> str:
    """Return the GPUs of the nodes of each type, for a sentence."""
    return ", ".join(f"{gpus} GPUs '{kind}'" for kind, gpus in cluster.node_gpus.items())
