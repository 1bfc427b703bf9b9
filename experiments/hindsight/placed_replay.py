"""Schedules with hindsight that are planned on the nodes, and replayed to the second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.hindsight.attainable import Attainable
from goodalloc.experiments.hindsight.day_search import USUAL_SEARCH
from goodalloc.experiments.hindsight.known_batches import BestSplits, KnownBatchSimulator
from goodalloc.experiments.hindsight.known_replay import (
    HOLDS,
    SEARCH_SHARE,
    STEPS_A_REPLAYED,
    ReplayedSchedule,
)
from goodalloc.solvers.foresight.placed_schedule import PlacedScheduler, TrueWork
from goodalloc.solvers.foresight.worth_policy import PlannedWorths, WorthPolicy
from goodalloc.solvers.hindsight.schedule_search import (
    POWERS,
    SECONDS,
    best_worths,
    rule_of_thumb,
)
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from goodalloc.data.applications.application import Application
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.hindsight.day_search import DaySearch
    from goodalloc.experiments.replay.replay_conditions import Setting
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.hindsight.schedule_search import HindsightSchedule


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
    own, steps = planner.own, max(search.steps // STEPS_A_REPLAYED, 1)
    starts = [
        schedule.worth,
        *(rule_of_thumb(own, second, power) for second in SECONDS for power in POWERS),
    ]
    scheduler = planner.scheduler(HOLDS[len(HOLDS) // 2])
    start = min(starts, key=lambda start: own.total(scheduler.run(start)))
    scheduler = min(
        map(planner.scheduler, HOLDS), key=lambda scheduler: own.total(scheduler.run(start))
    )
    worths = best_worths(
        own,
        scheduler.run,
        [start],
        seed=search.seed,
        stop=Stop(iterations=steps),
        report=lambda step, _: report(SEARCH_SHARE * step / steps),
    )
    ends = planner.replayed(
        worths, scheduler.hold, lambda share: report(SEARCH_SHARE + (1.0 - SEARCH_SHARE) * share)
    )
    return ReplayedSchedule(problem.total(ends), ends, own.total(scheduler.run(worths)))


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
            splits.rate,
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
