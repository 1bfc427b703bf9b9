"""Jobs that choose execution plans: Arena beside Sia, Gavel and exact decisions.

Arena's traces (EuroSys'26) are replayed on its simulated cluster of 1,280 GPUs by the measured
times of its table, or drawn workloads by the shipped model on as many GPUs of three types. Every
policy knows the fastest plan of every configuration. On *equal* terms a restart costs everybody
what it costs Arena (10 s a GPU, at most 40), and steps count as they are made. On *published* terms
it costs the others 150 s a GPU and at most 600, as in the published simulator, whose rule for
progress counts then, too (`plan_simulator.py`). Sia is there twice: as published, deciding all jobs
every round, and as Arena runs it, admitting one job after the other.

References
----------
Xue et al., "Arena: Efficiently Training Large Models via Dynamic Scheduling and Adaptive
    Parallelism Co-Design", EuroSys 2026. arXiv:2403.16125
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.plans.plan_tables import FOLDER, MEASURED, read_measured_times
from goodalloc.data.plans.plan_traces import NODES, TRACES, read_plan_trace
from goodalloc.data.plans.plan_workload import draw_plan_jobs
from goodalloc.data.plans.shipped_plans import shipped_plan_times
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.plans.arena_report import (
    EQUAL,
    PUBLISHED,
    ArenaRow,
    plot_arena,
    summarise_arena,
)
from goodalloc.experiments.studies.plans.plan_simulator import PlanSimulator
from goodalloc.experiments.support.version import library_version
from goodalloc.models.plans.plan_job import PlanRestarts
from goodalloc.solvers.plans.arena_search import ArenaPlans
from goodalloc.solvers.plans.exact_plans import ExactPlans, solve_plans
from goodalloc.solvers.plans.first_come import FirstComePlans
from goodalloc.solvers.plans.one_by_one import OneByOne
from goodalloc.solvers.plans.rubick_search import RubickPlans

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.plans.arena_report import Terms
    from goodalloc.experiments.studies.plans.plan_simulator import Credit
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.plans.execution_plan import Configuration
    from goodalloc.models.plans.plan_job import PlanJob, PlanRound
    from goodalloc.models.plans.plan_times import PlanTimes
    from goodalloc.solvers.plans.plan_policy import PlanPolicy

#: Restarts of Arena, which prunes the search for a plan, and of the others on published terms.
PRUNED, WHOLE = PlanRestarts(10.0, 40.0), PlanRestarts(150.0, 600.0)

#: How much faster the artifact takes a model to be than the next larger one.
FASTER = 1.8

#: Types of the shipped model, of which drawn workloads run, and jobs and jobs an hour of these.
DRAWN_TYPES, DRAWN_JOBS, QUICK_JOBS, JOBS_PER_HOUR = ("a100", "a40", "a10"), 400, 60, 80.0

#: Nodes of the cluster of a quick run for one of the whole one.
QUICK_SHARE = 8

#: Rounds from one that is judged to the next.
EVERY = 20

#: Floor of speeds for the largest sum of examples a second, which jobs without GPUs do not have.
NO_FLOOR = 1e-9

#: Speed of a job without GPUs in Sia's objective: 1.1 in its artifact's, of power -1/2.
SIA_IDLE = 1.1**-2.0

#: Policies by name, each made by the restart costs that it believes.
POLICIES: Mapping[str, Callable[[PlanRestarts], PlanPolicy]] = {
    "first come": lambda _: FirstComePlans(),
    "gavel one by one": lambda restarts: OneByOne(False, 3, restarts),
    "sia one by one": lambda restarts: OneByOne(True, 5, restarts),
    "sia": lambda restarts: ExactPlans(-0.5, SIA_IDLE, "least", restarts),
    "arena": lambda _: ArenaPlans(),
    "rubick": lambda _: RubickPlans(),
    "exact rubick": lambda restarts: ExactPlans(1.0, restarts=restarts, guaranteed=True),
    "exact examples": lambda restarts: ExactPlans(1.0, NO_FLOOR, "examples", restarts),
    "exact speeds": lambda restarts: ExactPlans(1.0, restarts=restarts),
    "exact harmonic": lambda restarts: ExactPlans(-1.0, restarts=restarts),
    "exact remaining": lambda restarts: ExactPlans(1.0, restarts=restarts, remaining=True),
}

#: Policies of the published comparison.
COMPARED = ("first come", "gavel one by one", "sia one by one", "arena")


class PlanCluster(NamedTuple):
    """GPUs of each type, and of a node of each."""

    capacity: dict[str, int]
    node_gpus: dict[str, int]


@dataclass(frozen=True)
class ArenaTask(RecordedTask):
    """One replay, done as a whole or not at all.

    Parameters
    ----------
    workload
        Number of a trace, from 1, or seed of a drawn workload.
    policy
        Key in `POLICIES`.
    terms
        Terms of restarts and progress.
    artifact
        Folder of Arena's tables; None for drawn workloads.
    quick
        Whether on fewer GPUs, with as many fewer jobs.
    """

    workload: int
    policy: str
    terms: Terms
    artifact: Path | None
    quick: bool

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        return {
            "format": "goodalloc-arena-replay",
            "version": 1,
            "library": library_version(),
            "workload": self.workload,
            "policy": self.policy,
            "terms": self.terms,
            "table": self.artifact is not None,
            "quick": self.quick,
        }

    def inputs(self) -> tuple[PlanTimes, PlanCluster, tuple[PlanJob, ...]]:
        """Return the times of plans, the cluster, and the jobs."""
        share = QUICK_SHARE if self.quick else 1
        if self.artifact is None:
            cluster = cluster_of(DRAWN_TYPES, share)
            times, count = shipped_plan_times(), QUICK_JOBS if self.quick else DRAWN_JOBS
            rate = JOBS_PER_HOUR / share
            jobs = draw_plan_jobs(
                self.workload, count, times, cluster.node_gpus, jobs_per_hour=rate
            )
            return times, cluster, jobs
        times = read_measured_times(self.artifact).with_smaller_models(FASTER)
        jobs = read_plan_trace(self.artifact / TRACES[trace_name(self.workload)])
        return times, cluster_of(tuple(NODES), share), jobs[::share]

    def work(self, report: Report) -> dict[str, Any]:
        """Replay."""
        times, cluster, jobs = self.inputs()
        costs = PRUNED if self.terms == EQUAL or "arena" in self.policy else WHOLE
        policy = POLICIES[self.policy](costs)
        below: list[float] = []

        def judge(round_: PlanRound, decision: Mapping[str, Configuration]) -> None:
            if self.policy == "arena" and round_.time / 300.0 % EVERY == 0:
                below.append(below_optimum(round_, decision))

        credit: Credit = "made" if self.terms == EQUAL else "published"
        simulator = PlanSimulator(
            jobs, times, cluster.capacity, cluster.node_gpus, policy, costs, credit, judge
        )
        done = simulator.run(report)
        last = max(job.submission for job in jobs)
        hours = np.array([one.completion - one.submission for one in done]) / HOUR
        early = np.array([one.completion for one in done]) <= last
        gaps = [one.gap for one in policy.answers] if isinstance(policy, ExactPlans) else [0.0]
        seconds = np.array(simulator.decision_seconds)
        return {
            "jobs": len(done),
            "average_jct_hours": _six(hours.mean()),
            "median_jct_hours": _six(np.median(hours)),
            "in_time": int(early.sum()),
            "in_time_jct_hours": _six(hours[early].mean()) if early.any() else None,
            "makespan_hours": _six(max(one.completion for one in done) / HOUR),
            "restarts_per_job": _six(np.mean([one.restarts for one in done])),
            "gpu_hours": _six(sum(one.gpu_seconds for one in done) / HOUR),
            "below_optimum_percent": _six(100.0 * np.mean(below)) if below else None,
            "worst_gap": _six(max(gaps)),
            "decision_ms": _six(1e3 * seconds.mean()),
            "worst_decision_ms": _six(1e3 * seconds.max()),
        }


def _six(value: float | np.floating) -> float:
    return rounded(float(value), 6)


def below_optimum(round_: PlanRound, decision: Mapping[str, Configuration]) -> float:
    """Return by what share the examples a second of a decision are below the greatest possible.

    Parameters
    ----------
    round_, decision
        The round, and what its jobs are to hold.
    """
    reached = sum(
        state.speeds[decision[state.job.name]] * state.job.training.global_batch
        for state in round_.jobs
        if state.job.name in decision
    )
    best = solve_plans(round_, power=1.0, floor=NO_FLOOR, unit="examples")
    return max(1.0 - reached / (best.bound * len(round_.jobs)), 0.0)


def cluster_of(types: tuple[str, ...], share: int) -> PlanCluster:
    """Return the nodes of these types of Arena's cluster, or one of `share` of them."""
    nodes = {kind: (max(NODES[kind][0] // share, 1), NODES[kind][1]) for kind in types}
    capacity = {kind: count * gpus for kind, (count, gpus) in nodes.items()}
    return PlanCluster(capacity, {kind: gpus for kind, (_, gpus) in nodes.items()})


def trace_name(number: int) -> str:
    """Return the name of a trace by its number.

    Raises
    ------
    ValueError
        If there is none of that number.
    """
    names = tuple(TRACES)
    if not 1 <= number <= len(names):
        raise ValueError(f"Workload {number}: expected a trace from 1 to {len(names)}.")
    return names[number - 1]


def require_arena_tables(plan: Plan) -> None:
    """Refuse a folder without Arena's tables, and numbers of traces that are not there."""
    if plan.artifact is None:
        return
    if not (plan.artifact / MEASURED).is_file():
        raise ValueError(
            f"Artifact '{plan.artifact}': it has no file '{MEASURED}'; expected the tables of "
            "Arena's artifact (github.com/sjtu-epcc/arena, branch ae-eurosys), as CSV."
        )
    for number in plan.workloads:
        trace_name(number)


def _ways(plan: Plan) -> Sequence[tuple[int, str, Terms]]:
    """Return workload, policy and terms of every replay."""
    compared: dict[Terms, tuple[str, ...]] = {EQUAL: tuple(POLICIES), PUBLISHED: COMPARED}
    return [
        (number, policy, terms)
        for terms, policies in compared.items()
        for number in plan.workloads
        for policy in policies
    ]


def _task(plan: Plan, number: int, policy: str, terms: Terms) -> ArenaTask:
    task = ArenaTask(plan.folder, number, policy, terms, plan.artifact, plan.quick)
    return task.among(plan.folder, "arena")


def _tasks(plan: Plan) -> list[ArenaTask]:
    return [_task(plan, *way) for way in _ways(plan)]


def _rows(plan: Plan) -> list[ArenaRow]:
    rows = []
    for number, policy, terms in _ways(plan):
        name = f"drawn {number}" if plan.artifact is None else trace_name(number)
        record = _task(plan, number, policy, terms).record()
        rows.append(ArenaRow(name, policy, terms, **record))
    return rows


ARENA = Reproduction(
    "Jobs that choose execution plans: Arena beside Sia, Gavel and exact decisions",
    _tasks,
    _rows,
    lambda _, rows: plot_arena(rows),
    require=require_arena_tables,
    shown=summarise_arena,
    ignores=("pollux", "seeds", "gaps"),
    workloads=(1, 2, 3),
    quick_workloads=(1,),
    lists=FOLDER,
)
