"""Task that decides small days: the optimum by a program, bounds, a schedule, and all policies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from goodalloc.experiments.hindsight import DaySearch, plan_without_nodes
from goodalloc.experiments.replay_bound import replay_bound_document
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.steady_jobs.small_days import (
    ROUND,
    MalleableDay,
    gang_day,
    malleable_day,
)
from goodalloc.experiments.support.version import library_version
from goodalloc.formulations.hindsight import (
    best_closed_form,
    decode_schedule,
    time_indexed_program,
)
from goodalloc.models.hindsight import completion_times, schedule_violations
from goodalloc.solvers import POLICIES, Stop, make_policy
from goodalloc.solvers.hindsight import (
    find_schedule,
    hindsight_bound,
    stages_to,
    with_free_multipliers,
)
from goodalloc.solvers.interface import Watch
from goodalloc.solvers.milp import run_mixed_integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.experiments.studies.steady_jobs.small_days import SmallDay
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.hindsight import OfflineProblem

Kind = Literal["gangs", "malleable", "two types"]

KINDS: tuple[Kind, ...] = ("gangs", "malleable", "two types")

#: Policies that rent nodes beyond those of the day.
RENTING = ("autoscaling-goodput", "autoscaling-throughput")

#: Policy whose decisions take seconds, and of how many days it serves one.
LONG, OF_DAYS = "pollux-genetic", 8

#: Names of the rows that are no policies.
CLOSED, ON_SCHEDULES, ON_REPLAYS = "closed form", "bound on schedules", "bound on replays"
BOUNDS, PLANNED = (CLOSED, ON_SCHEDULES, ON_REPLAYS), "schedule in rounds"

#: Seconds of constant prices, and steps of the search of a schedule.
SEARCH = DaySearch(interval=float(ROUND), steps=100)

#: Limit of the program of a day, in seconds.
LIMIT = 600.0


class Optimum(NamedTuple):
    """The best schedule of a day that changes at rounds.

    Attributes
    ----------
    average
        Its average completion time, in seconds.
    bound
        What the solver proved of the least one.
    """

    average: float
    bound: float


def edges_before(problem: OfflineProblem, average: float) -> np.ndarray:
    """Return all rounds and begins up to which an optimum no greater than an average has ended.

    No job is faster than alone, and what all are slower together is no more than in the average.
    So the program to this horizon either has the optimum without any, or nothing up to the average.

    Parameters
    ----------
    problem
        The problem, with jobs of equal weights of sum 1.
    average
        Average completion time that some schedule has.
    """
    jobs, rounds = problem.jobs, float(ROUND)
    alone = [job.begin + problem.training(job.training).least_seconds for job in jobs]
    waits = sum(average - (end - job.release) for job, end in zip(jobs, alone, strict=True))
    last = math.ceil((max(alone) + waits) / rounds + 1e-9)
    return np.union1d(rounds * np.arange(last + 1), [job.begin for job in jobs])


def optimum_of(problem: OfflineProblem, average: float) -> Optimum:
    """Return the optimum of the time-indexed program with an edge at every round.

    Parameters
    ----------
    problem, average
        As in `edges_before`.

    Raises
    ------
    RuntimeError
        If the solver finds no schedule, or one that is none.
    """
    grid = time_indexed_program(problem, edges_before(problem, average))
    outcome = run_mixed_integer(grid.program, Watch(Stop(seconds=LIMIT)), gap=1e-7)
    if outcome.values is None:
        raise RuntimeError(f"Program of a day: HiGHS found no schedule within {LIMIT:g} s.")
    schedule = decode_schedule(problem, grid, outcome.values)
    wrong = schedule_violations(problem, schedule)
    if wrong:
        raise RuntimeError(f"Program of a day: {wrong[0]}")
    return Optimum(problem.total(completion_times(problem, schedule)), outcome.bound)


def policies_for(kind: Kind, seed: int = 0) -> list[str]:
    """Return the names of the policies that replay a day of a kind, one job to a GPU.

    Parameters
    ----------
    kind, seed
        Kind and seed of the day.
    """
    able = {
        name: policy
        for name, policy in POLICIES.items()
        if name not in RENTING and getattr(make_policy(name), "sharing", None) is None
    }
    if seed % OF_DAYS:
        del able[LONG]
    if kind == "gangs":
        return [name for name, policy in able.items() if policy.rigid]
    return [name for name, policy in able.items() if kind == "malleable" or policy.gpu_types]


def day_of(kind: Kind, seed: int, jobs: int, *, restarts: bool) -> SmallDay:
    """Draw a day.

    Parameters
    ----------
    kind, seed, jobs, restarts
        Kind of the day, seed, number of jobs, and whether restarts cost time.
    """
    if kind == "gangs":
        return gang_day(seed, jobs, restarts=restarts)
    return malleable_day(seed, jobs, types=1 + (kind == "two types"), restarts=restarts)


def day_beside_optimum(day: SmallDay, policies: Sequence[str]) -> dict[str, Any]:
    """Return the optimum of a day, what was proved of it, and averages by name.

    Parameters
    ----------
    day
        The day.
    policies
        Names of policies, one or more.
    """
    problem = day.problem
    averages = {name: day.average(name) for name in policies}
    best = optimum_of(problem, min(averages.values()))
    bound = with_free_multipliers(problem, hindsight_bound(problem, stages_to(SEARCH.interval)))
    on_replays = replay_bound_document(problem, bound, day.rounds)["bound"]
    found = {ON_SCHEDULES: bound.value, ON_REPLAYS: max(float(on_replays), bound.value)}
    closed = best_closed_form(problem)
    if closed is not None:
        found[CLOSED] = closed.value
    if isinstance(day, MalleableDay) and problem.supply.gpus.shape[1] == 1:
        phases = day.by_epochs()
        ideal = find_schedule(phases, stop=Stop(iterations=SEARCH.steps))
        found[PLANNED] = plan_without_nodes(phases, ideal, day.applications, day.setting, SEARCH)
    return {"optimum": best.average, "proved": best.bound, "averages": found | averages}


@dataclass(frozen=True)
class DaysTask(RecordedTask):
    """Task that draws days of a kind and decides them.

    Parameters
    ----------
    kind, jobs, restarts
        Kind of the days, number of jobs of each, and whether restarts cost time.
    days
        Number of days; their seeds are 0, 1 and so on.
    """

    kind: Kind
    jobs: int
    restarts: bool
    days: int

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        return {
            "format": "goodalloc-small-days",
            "version": 1,
            "library": library_version(),
            "kind": self.kind,
            "jobs": self.jobs,
            "restarts": self.restarts,
            "days": self.days,
            "policies": policies_for(self.kind),
        }

    def work(self, report: Report) -> list[dict[str, Any]]:
        """Decide all days."""
        found = []
        for seed in range(self.days):
            day = day_of(self.kind, seed, self.jobs, restarts=self.restarts)
            found.append(day_beside_optimum(day, policies_for(self.kind, seed)))
            report((seed + 1) / self.days)
        return found
