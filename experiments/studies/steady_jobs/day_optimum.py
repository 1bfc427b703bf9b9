"""Task that decides small days: the optimum by a program, bounds, a schedule, and all policies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from goodalloc.experiments.hindsight import DaySearch, plan_without_nodes
from goodalloc.experiments.replay_bound import best_replay_bound
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.steady_jobs.small_days import (
    RESTART,
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

#: Policies whose names begin so serve one of so many days, as they take longest.
VARIANTS, SELDOM = "pollux-", 8

#: Names of the rows that are no policies.
CLOSED_FORM, ON_SCHEDULES, ON_REPLAYS = "closed form", "bound on schedules", "bound on replays"
BOUNDS, HINDSIGHT = (CLOSED_FORM, ON_SCHEDULES, ON_REPLAYS), "schedule with hindsight"

#: What solvers may round, as a part of the optimum.
ROUNDING = 1e-6

#: Seconds of constant prices, and steps of the search of a schedule.
SEARCH = DaySearch(interval=float(ROUND), steps=100)

#: Limit of the program of a day, in seconds, and the gap to which it is solved.
LIMIT, GAP = 600.0, 1e-7


class Optimum(NamedTuple):
    """The best schedule of a day that changes when rounds or jobs begin, and only then.

    Attributes
    ----------
    average
        Its average completion time, in seconds.
    proved
        Average in seconds below which no such schedule is, by the solver.
    """

    average: float
    proved: float


def edges_before(problem: OfflineProblem, average: float) -> np.ndarray:
    """Return the beginnings of rounds and jobs up to the last at which an optimum may end.

    No job *j* ends before :math:`a_j`, its end alone. So in a schedule whose average is at most
    `average` the differences :math:`C_j - a_j`, none below 0, have a sum of at most the sum of
    ``average - (a_j - r_j)``, and no job ends later than the greatest :math:`a_j` and that sum.

    Parameters
    ----------
    problem
        The problem, with jobs of equal weights of sum 1.
    average
        Average completion time in seconds that some schedule has; restarts make none shorter.

    Returns
    -------
    ndarray
        Times in seconds, in ascending order; shape (edges,).
    """
    jobs, rounds = problem.jobs, float(ROUND)
    alone = [job.begin + problem.training(job.training).least_seconds for job in jobs]
    waits = sum(average - (end - job.release) for job, end in zip(jobs, alone, strict=True))
    last = math.ceil((max(alone) + max(waits, 0.0)) / rounds + 1e-9)
    return np.union1d(rounds * np.arange(last + 1), [job.begin for job in jobs])


def optimum_of(problem: OfflineProblem, average: float) -> Optimum:
    """Return the optimum of the time-indexed program with an edge at every round and begin.

    Parameters
    ----------
    problem, average
        As in `edges_before`.

    Raises
    ------
    RuntimeError
        If the solver proves no optimum, or finds a schedule that is none.
    """
    grid = time_indexed_program(problem, edges_before(problem, average))
    outcome = run_mixed_integer(grid.program, Watch(Stop(seconds=LIMIT)), gap=GAP)
    if outcome.values is None:
        raise RuntimeError(f"Program of a day: HiGHS found no schedule within {LIMIT:g} s.")
    schedule = decode_schedule(problem, grid, outcome.values)
    wrong = schedule_violations(problem, schedule)
    if wrong:
        raise RuntimeError(f"Program of a day: {wrong[0]}")
    found = problem.total(completion_times(problem, schedule))
    for name, value in (("objective", outcome.objective), ("bound", outcome.bound)):
        if not math.isclose(found, value, rel_tol=ROUNDING):
            raise RuntimeError(
                f"Program of a day: the {name} is {value:g} s; expected {found:g} s, the average "
                "of its schedule."
            )
    return Optimum(found, outcome.bound)


@cache
def policies_alone() -> tuple[str, ...]:
    """Return the names of the policies that rent no nodes and give a GPU to one job at a time."""
    return tuple(
        name
        for name in POLICIES
        if name not in RENTING and getattr(make_policy(name), "sharing", None) is None
    )


def policies_for(kind: Kind, seed: int = 0) -> list[str]:
    """Return the names of the policies that replay a day.

    Parameters
    ----------
    kind, seed
        Kind and seed of the day.
    """
    able = [
        name for name in policies_alone() if seed % SELDOM == 0 or not name.startswith(VARIANTS)
    ]
    if kind == "gangs":
        return [name for name in able if POLICIES[name].rigid]
    return [name for name in able if kind == "malleable" or POLICIES[name].gpu_types]


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
    """Return the record of a day.

    Parameters
    ----------
    day
        The day.
    policies
        Names of policies, one or more.

    Returns
    -------
    dict
        ``optimum`` and ``proved``, those of `Optimum`; ``averages``, average completion times and
        bounds on them in seconds by the name of policy, schedule or bound; ``unsound``, names of
        those on the wrong side: bounds above what they bound, others below the optimum.
    """
    problem = day.problem
    averages = {name: day.average(name) for name in policies}
    if isinstance(day, MalleableDay) and problem.supply.gpus.shape[1] == 1:
        phases = day.by_epochs()
        ideal = find_schedule(phases, stop=Stop(iterations=SEARCH.steps))
        averages[HINDSIGHT] = plan_without_nodes(
            phases, ideal, day.applications, day.setting, SEARCH
        )
    best = optimum_of(problem, min(averages.values()))
    bound = with_free_multipliers(problem, hindsight_bound(problem, stages_to(SEARCH.interval)))
    on_replays = float(best_replay_bound(problem, bound, day.rounds)["bound"])
    bounds = {ON_SCHEDULES: bound.value, ON_REPLAYS: on_replays}
    closed = best_closed_form(problem)
    if closed is not None:
        bounds[CLOSED_FORM] = closed.value
    # A bound on replays counts restarts, for which the optimum pays nothing.
    counts = any(day.rounds.lost(training.name) > 0.0 for training in problem.trainings)
    above = {name: best.average for name in bounds}
    above[ON_REPLAYS] = min(averages.values()) if counts else best.average
    wrong = [name for name, value in bounds.items() if value > above[name] * (1.0 + ROUNDING)]
    wrong += [name for name, value in averages.items() if value < best.proved * (1.0 - ROUNDING)]
    return {
        "optimum": best.average,
        "proved": best.proved,
        "averages": bounds | averages,
        "unsound": wrong,
    }


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
            "restart": RESTART if self.restarts else 0.0,
            "round": ROUND,
            "days": self.days,
            "policies": policies_for(self.kind),
            "seldom": SELDOM,
            "interval": SEARCH.interval,
            "steps": SEARCH.steps,
        }

    def work(self, report: Report) -> list[dict[str, Any]]:
        """Decide all days; return their records (`day_beside_optimum`)."""
        found = []
        for seed in range(self.days):
            day = day_of(self.kind, seed, self.jobs, restarts=self.restarts)
            found.append(day_beside_optimum(day, policies_for(self.kind, seed)))
            report((seed + 1) / self.days)
        return found
