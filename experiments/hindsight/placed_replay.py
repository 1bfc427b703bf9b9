"""Schedules with hindsight, with restarts: planned on the nodes, and replayed to the second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.experiments.hindsight.attainable import Attainable
from goodalloc.experiments.hindsight.day_search import USUAL_SEARCH, StepCount
from goodalloc.experiments.hindsight.known_batches import BestSplits, KnownBatchSimulator
from goodalloc.solvers.foresight.placed_schedule import PlacedScheduler, TrueWork
from goodalloc.solvers.foresight.restarting_schedule import RestartingScheduler
from goodalloc.solvers.foresight.worth_policy import PlannedWorths, WorthPolicy
from goodalloc.solvers.hindsight.schedule_search import (
    POWERS,
    SECONDS,
    best_worths,
    rule_of_thumb,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jaxtyping import Float

    from goodalloc.data.applications.application import Application
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.hindsight.day_search import DaySearch
    from goodalloc.experiments.replay.replay_conditions import Setting
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.hindsight.schedule_search import HindsightSchedule, Worths


#: Seconds that an allocation is expected to last, of which the best is taken.
HOLDS = (100.0, 150.0, 200.0, 300.0, 450.0)

#: Part of the progress that the search counts for.
SEARCH_SHARE = 0.6


@dataclass(frozen=True)
class ReplayedSchedule:
    """Schedule with hindsight that the simulator replayed.

    Parameters
    ----------
    value
        Objective of the offline problem.
    completion
        Completion times, in the order of the problem.
    planned
        Objective of the plan.
    steps
        Steps of its search.
    """

    value: float
    completion: Float[Floats, " jobs"]
    planned: float
    steps: int


class _Plan(NamedTuple):
    """Schedule in rounds with restarts.

    Attributes
    ----------
    worths
        Worths by which it is built.
    hold
        Seconds that its allocations are expected to last.
    value
        Its objective.
    steps
        Steps of its search.
    """

    worths: Worths
    hold: float
    value: float
    steps: int


def _best_plan(
    problem: OfflineProblem,
    scheduler: Callable[[float], RestartingScheduler | PlacedScheduler],
    schedule: HindsightSchedule,
    search: DaySearch,
    report: Callable[[float], None],
) -> _Plan:
    """Search worths that are good with restarts.

    Parameters
    ----------
    problem
        The problem with rates that jobs reach.
    scheduler
        Function that returns a builder of schedules whose allocations last so many seconds.
    schedule
        A schedule of the problem, whose worths the search improves.
    search
        Limits and seed of the search of an ideal schedule; this one takes a share of the steps.
    report
        Callback for the share that is done.
    """
    steps = search.replayed_steps
    starts = [
        schedule.worth,
        *(rule_of_thumb(problem, second, power) for second in SECONDS for power in POWERS),
    ]
    usual = scheduler(HOLDS[len(HOLDS) // 2])
    start = min(starts, key=lambda start: problem.total(usual.run(start)))
    best = min(map(scheduler, HOLDS), key=lambda one: problem.total(one.run(start)))
    count = StepCount(steps, report)
    worths = best_worths(
        problem,
        best.run,
        [start],
        seed=search.seed,
        stop=search.stop(steps),
        report=count,
    )
    return _Plan(worths, best.hold, problem.total(best.run(worths)), count.taken)


def plan_without_nodes(
    problem: OfflineProblem,
    schedule: HindsightSchedule,
    applications: Mapping[str, Application],
    setting: Setting,
    search: DaySearch = USUAL_SEARCH,
    *,
    report: Callable[[float], None] = lambda _share: None,
) -> float:
    """Return the objective of a schedule in rounds with restarts, on nodes that hold everything.

    On these nodes every number of GPUs fits, so that the distance to `replay_placed` tells what
    nodes cost.

    Parameters
    ----------
    problem, schedule, applications, setting, search, report
        As in `replay_placed`.

    Raises
    ------
    ValueError
        If there are GPUs of several types.
    """
    own = Attainable(applications, setting.cluster).problem(problem)

    def scheduler(hold: float) -> RestartingScheduler:
        return RestartingScheduler(own, float(setting.interval), setting.restart_delay, hold)

    return _best_plan(own, scheduler, schedule, search, report).value


def replay_placed(
    problem: OfflineProblem,
    schedule: HindsightSchedule,
    workload: Sequence[Submission],
    applications: Mapping[str, Application],
    setting: Setting,
    search: DaySearch = USUAL_SEARCH,
    *,
    report: Callable[[float], None] = lambda _share: None,
) -> ReplayedSchedule | None:
    """Search worths that are good on the nodes, and replay by them.

    None on GPUs of several types, where nothing is replayed. The plan ends every job at the second
    at which the replay does, unless distributed jobs lose speed to each other.

    Parameters
    ----------
    problem, schedule
        The offline problem of the replay, and a schedule of it, whose worths the search improves.
    workload, applications, setting
        The submitted jobs, the true applications, and the conditions of the replay.
    search
        Limits and seed of the search of an ideal schedule; this one takes a share of the steps.
    report
        Callback for the share that is done.
    """
    if len(problem.supply.types) > 1:
        return None
    planner = Planner(problem, workload, applications, setting)
    plan = _best_plan(
        planner.own,
        planner.scheduler,
        schedule,
        search,
        lambda share: report(SEARCH_SHARE * share),
    )
    ends = planner.replayed(
        plan.worths,
        plan.hold,
        lambda share: report(SEARCH_SHARE + (1.0 - SEARCH_SHARE) * share),
    )
    return ReplayedSchedule(problem.total(ends), ends, plan.value, plan.steps)


def plan_and_replay(
    problem: OfflineProblem,
    workload: Sequence[Submission],
    applications: Mapping[str, Application],
    setting: Setting,
    worths: Sequence[Floats],
    hold: float,
) -> tuple[Floats, Floats]:
    """Return the completion times of a plan by given worths, and of its replay.

    Parameters
    ----------
    problem, workload, applications, setting
        As in `replay_placed`.
    worths
        Worth of a unit of progress in each phase, for every job of the problem.
    hold
        Seconds that an allocation is expected to last.
    """
    planner = Planner(problem, workload, applications, setting)
    planned = planner.scheduler(hold).run(worths)
    return planned, planner.replayed(worths, hold, lambda _share: None)


class Planner:
    """Plans and replays of a workload by worths.

    Parameters
    ----------
    problem, workload, applications, setting
        As in `replay_placed`.
    """

    def __init__(
        self,
        problem: OfflineProblem,
        workload: Sequence[Submission],
        applications: Mapping[str, Application],
        setting: Setting,
    ) -> None:
        self._workload, self._applications, self._setting = workload, applications, setting
        self._attainable = Attainable(applications, setting.cluster)
        self.own = self._attainable.problem(problem)
        (gpu_type,) = setting.cluster.gpu_types
        names = {job.application for job in workload}
        self._splits = {
            name: BestSplits(applications[name], setting.cluster, gpu_type) for name in names
        }

    def scheduler(self, hold: float) -> PlacedScheduler:
        """Return a builder of schedules whose allocations are expected to last so long."""
        simulator = self._simulator({job.name: np.ones(1) for job in self.own.jobs}, hold)
        seen = {job.name: job for job in simulator.observe(simulator.jobs).jobs}
        return PlacedScheduler(
            self.own,
            [seen[job.name] for job in self.own.jobs],
            {name: self._work(name) for name in self._splits},
            self._cluster_at,
            self._setting.interval,
            self._setting.restart_delay,
            hold,
        )

    def _work(self, name: str) -> TrueWork:
        """Return the true work of an application."""
        application, splits = self._applications[name], self._splits[name]
        delay = application.restart_delay
        return TrueWork(
            [application.progress(epoch) for epoch in range(application.epochs)],
            splits.rates,
            lambda gpus: self._attainable.spreads(name, gpus),
            self._setting.restart_delay if delay is None else delay,
        )

    def _cluster_at(self, time: int) -> Cluster:
        """Return the nodes that are there."""
        lost = [
            outage.nodes for outage in self._setting.outages if outage.start <= time < outage.end
        ]
        cluster = self._setting.cluster
        return cluster.resized(cluster.num_nodes - max(lost)) if lost else cluster

    def _simulator(self, worths: Mapping[str, Floats], hold: float) -> KnownBatchSimulator:
        """Return the replay by planned worths."""
        policy = WorthPolicy(
            {training.name: training for training in self.own.trainings},
            PlannedWorths(worths),
            self._attainable.spreads,
            self._setting.restart_delay,
            hold,
        )
        return KnownBatchSimulator(
            self._workload, self._applications, policy, self._setting, splits=self._splits
        )

    def replayed(
        self, worths: Sequence[Floats], hold: float, report: Callable[[float], None]
    ) -> Floats:
        """Return the completion times of the replay, in the order of the problem."""
        by_job = {job.name: worth for job, worth in zip(self.own.jobs, worths, strict=True)}
        simulator = self._simulator(by_job, hold)
        while not simulator.finished:
            simulator.step()
            report(simulator.share_done)
        ends = {job.submission.name: job.completion for job in simulator.jobs}
        return np.array([ends[job.name] for job in self.own.jobs], dtype=float)
