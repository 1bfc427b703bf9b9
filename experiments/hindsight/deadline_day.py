"""A day with hindsight whose jobs are due: bounds on late jobs or the makespan, and schedules."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.experiments.hindsight.bound_file import late_document
from goodalloc.experiments.hindsight.day import require_feasible
from goodalloc.experiments.hindsight.day_files import write_day
from goodalloc.experiments.hindsight.day_search import USUAL_SEARCH, StepCount
from goodalloc.models.hindsight.deadlines import late_jobs, require_due
from goodalloc.solvers.hindsight.best_prices import hindsight_bound
from goodalloc.solvers.hindsight.late_jobs import late_jobs_bound, makespan_bound
from goodalloc.solvers.hindsight.schedule_search import find_schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from jaxtyping import Bool, Float

    from goodalloc.data.documents.json_file import Document
    from goodalloc.experiments.hindsight.day_search import DaySearch
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.support.array_types import Flags, Floats
    from goodalloc.solvers.hindsight.late_jobs import LateBound
    from goodalloc.solvers.hindsight.schedule_search import HindsightSchedule

#: Worth of the mean lateness, in late jobs or seconds of the makespan, between equal schedules.
TIE = 1e-3

#: Parts of the time left that the search of first worths, and that of the schedule by these, may
#: take, if there is a limit.
BOUND_TIME, SCHEDULE_TIME = 0.3, 0.6

#: Late jobs by which rounding in the safe direction is below a whole number.
ROUNDING = 1e-6


@dataclass(frozen=True)
class DeadlineDay:
    """Outcome of a day whose jobs are due.

    Parameters
    ----------
    problem
        The offline problem; every job has the weight 1.
    bound
        Bound on the late jobs of all its schedules. For the makespan, all jobs are due at the
        latest time by which the bound proves that not all of them can end.
    certificate
        The bound as the stand-alone checker proves it.
    schedule
        The best ideal schedule that was found.
    makespan
        Whether the objective is the makespan.
    search
        Limits of the searches.
    steps
        Steps of that of the schedule.
    """

    problem: OfflineProblem
    bound: LateBound
    certificate: Document
    schedule: HindsightSchedule
    makespan: bool
    search: DaySearch = USUAL_SEARCH
    steps: int = 0

    @cached_property
    def late(self) -> Bool[Flags, " jobs"]:
        """Which jobs of the schedule are late."""
        return late_jobs(self.bound.due, self.schedule.completion)

    @property
    def data(self) -> dict[str, Any]:
        """Outcome in terms of JSON."""
        jobs = len(self.problem.jobs)
        if self.makespan:
            proved, found = float(self.bound.due[0]), float(self.schedule.completion.max())
            return {
                "jobs": jobs,
                "bound_makespan_s": proved,
                "schedule_makespan_s": found,
                "bound_over_schedule": proved / found,
                "schedule_steps": self.steps,
            }
        least = math.ceil(float(self.certificate["bound"]) - ROUNDING)
        return {
            "jobs": jobs,
            "bound_late_jobs": max(least, 0),
            "schedule_late_jobs": int(self.late.sum()),
            "schedule_steps": self.steps,
        }

    @property
    def text(self) -> str:
        """Outcome for people."""
        return f"{self._told}\n{self.search.text(self.steps)}".rstrip("\n")

    @property
    def _told(self) -> str:
        """Bound and schedule for people."""
        told = self.data
        if self.makespan:
            return (
                f"No schedule of these {told['jobs']} jobs ends all of them by "
                f"{told['bound_makespan_s']:,.0f} s,\n"
                "whatever it knows: proved by prices of the GPUs, and checked.\n"
                "One that knows everything, and pays for no restarts, does by "
                f"{told['schedule_makespan_s']:,.0f} s;\n"
                f"the bound is {told['bound_over_schedule']:.1%} of it."
            )
        return (
            f"In every schedule of these {told['jobs']} jobs at least {told['bound_late_jobs']} "
            "end after they are due,\n"
            "whatever it knows: proved by prices of the GPUs, and checked.\n"
            "In one that knows everything, and pays for no restarts, "
            f"{told['schedule_late_jobs']} do."
        )

    def write(self, folder: Path, pictures: str) -> tuple[str, ...]:
        """Write problem, schedule, certificate, jobs and picture; return the files' names.

        Parameters
        ----------
        folder
            Folder of the files.
        pictures
            Format of the picture.
        """
        from goodalloc.experiments.hindsight.figure import plot_deadlines

        jobs = [
            {
                "job": job.name,
                "application": job.training,
                "submission_s": job.release,
                "due_s": due,
                "end_s": end,
                "late": int(after),
            }
            for job, due, end, after in zip(
                self.problem.jobs,
                self.bound.due.tolist(),
                self.schedule.completion.tolist(),
                self.late.tolist(),
                strict=True,
            )
        ]
        drawn = plot_deadlines(self.problem, self.bound, self.schedule, makespan=self.makespan)
        tables = {"jobs.csv": csv_text(jobs, tuple(jobs[0]))}
        return write_day(folder, self, tables, drawn, pictures)


def look_back_at_deadlines(
    problem: OfflineProblem,
    due: Float[Floats, " jobs"] | None,
    search: DaySearch = USUAL_SEARCH,
    *,
    clock: float = 60.0,
    report: Callable[[float], None] = lambda _share: None,
) -> DeadlineDay:
    """Bound the late jobs, or the makespan, of all schedules of a problem, and find a schedule.

    Parameters
    ----------
    problem
        The problem; its weights are not used: every job counts alike.
    due
        Seconds by which every job is due, in the order of the problem; None for the makespan.
    search
        Limits and seed of the searches.
    clock
        Seconds between decisions of the schedule, besides those when a job begins or ends.
    report
        Callback for the share that is done.

    Raises
    ------
    ValueError
        If deadlines make no sense, or the schedule is not feasible or below the bound, so that
        nothing of it is reported.
    """
    counted = replace(problem, jobs=tuple(replace(job, weight=1.0) for job in problem.jobs))
    if due is not None:
        require_due(counted, due)
    count = StepCount(search.steps, lambda share: report(0.8 * share))
    schedule = _schedule(counted, due, search, clock, count)
    if due is None:
        most = float(schedule.completion.max())
        bound = makespan_bound(
            counted, most, interval=search.interval, report=lambda share: report(0.8 + 0.2 * share)
        )
    else:
        bound = late_jobs_bound(counted, due, interval=search.interval, stop=search.stop())
        report(1.0)
    certificate = late_document(counted, bound)
    day = DeadlineDay(counted, bound, certificate, schedule, due is None, search, count.taken)
    require_feasible(counted, schedule)
    if day.late.sum() < float(certificate["bound"]):
        raise ValueError("Schedule with hindsight: it is below the bound of every schedule.")
    return day


def _schedule(
    problem: OfflineProblem,
    due: Float[Floats, " jobs"] | None,
    search: DaySearch,
    clock: float,
    count: StepCount,
) -> HindsightSchedule:
    """Return a schedule with few late jobs, or a short makespan without deadlines.

    It starts from worths that are greater the less time a job has.
    """
    release = np.array([job.release for job in problem.jobs])
    time = np.ones(release.size) if due is None else np.maximum(due - release, 1.0)
    weighted = replace(
        problem,
        jobs=tuple(
            replace(job, weight=1.0 / seconds)
            for job, seconds in zip(problem.jobs, time.tolist(), strict=True)
        ),
    )

    def goal(completion: Sequence[float] | Floats) -> float:
        ends = np.asarray(completion)
        if due is None:
            return float(ends.max() + TIE * (ends - release).mean())
        lateness = np.maximum(ends - due, 0.0) / due
        return float(late_jobs(due, ends).sum() + TIE * np.minimum(lateness, 1.0).mean())

    return find_schedule(
        weighted,
        hindsight_bound(weighted, stop=search.stop(share=BOUND_TIME)),
        goal=goal,
        clock=clock,
        seed=search.seed,
        stop=search.stop(search.steps, SCHEDULE_TIME),
        report=count,
    )
