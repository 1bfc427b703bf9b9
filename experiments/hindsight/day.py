"""A day with hindsight: a bound on every schedule, a schedule, and what is written of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.workloads.generator import HOUR
from goodalloc.experiments.hindsight.bound_file import bound_document
from goodalloc.experiments.hindsight.day_files import write_day
from goodalloc.experiments.hindsight.day_search import USUAL_SEARCH, StepCount
from goodalloc.experiments.hindsight.delays import delays_of
from goodalloc.experiments.hindsight.objectives import COMPLETION
from goodalloc.formulations.hindsight.closed_forms import best_closed_form
from goodalloc.models.hindsight.offline_schedule import completion_times, schedule_violations
from goodalloc.solvers.hindsight.best_prices import hindsight_bound, stages_to
from goodalloc.solvers.hindsight.free_multipliers import with_free_multipliers
from goodalloc.solvers.hindsight.schedule_search import find_schedule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goodalloc.data.documents.json_file import Document
    from goodalloc.experiments.hindsight.day_search import DaySearch
    from goodalloc.experiments.hindsight.delays import Delays
    from goodalloc.experiments.hindsight.objectives import Objective
    from goodalloc.experiments.hindsight.placed_replay import ReplayedSchedule
    from goodalloc.formulations.hindsight.closed_forms import ClosedForm
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.solvers.hindsight.best_prices import HindsightBound
    from goodalloc.solvers.hindsight.schedule_search import HindsightSchedule

#: Callback for a problem, a bound on all its schedules, and the value that was proved by it.
Bounded: TypeAlias = "Callable[[OfflineProblem, HindsightBound, float], None]"

#: Most jobs each of which gets multipliers of its own, as every job is priced with those of all.
MOST_FREE = 1000

#: Part of the time left that the search of the bound may take, if there is a limit.
BOUND_TIME = 0.5

#: Share of the progress that the search of the bound counts for.
BOUND_SHARE = 0.3

#: Jobs that delayed others most of which the text tells, and least seconds of a delay in a file.
MOST_TOLD, LEAST_DELAY = 3, 1.0


@dataclass(frozen=True)
class HindsightDay:
    """Outcome of a day with hindsight.

    Parameters
    ----------
    problem
        The offline problem.
    bound
        Bound on all its schedules.
    certificate
        The bound as the stand-alone checker proves it.
    schedule
        The best ideal schedule that was found.
    replayed
        A schedule that the simulator replayed; None where there was no replay.
    objective
        What the objective of the problem is called.
    search
        Limits of the searches.
    steps
        Steps of that of the ideal schedule.
    """

    problem: OfflineProblem
    bound: HindsightBound
    certificate: Document
    schedule: HindsightSchedule
    replayed: ReplayedSchedule | None = None
    objective: Objective = COMPLETION
    search: DaySearch = USUAL_SEARCH
    steps: int = 0

    @cached_property
    def closed_form(self) -> ClosedForm | None:
        """The best bound in closed form; None unless it is greater than the certified one."""
        found = best_closed_form(self.problem)
        return found if found and found.value > float(self.certificate["bound"]) else None

    @cached_property
    def delays(self) -> Delays:
        """Who is delayed by whom in the ideal schedule."""
        return delays_of(self.problem, self.schedule.segments)

    @property
    def data(self) -> dict[str, Any]:
        """Outcome in terms of JSON."""
        proved, found = float(self.certificate["bound"]), self.schedule.value
        replayed = None if self.replayed is None else self.replayed.value
        closed, key = self.closed_form, self.objective.key
        return {
            "jobs": len(self.problem.jobs),
            f"bound_{key}": proved,
            f"schedule_{key}": found,
            f"replayable_{key}": replayed,
            "bound_over_schedule": proved / found,
            "bound_over_replayable": None if replayed is None else proved / replayed,
            "schedule_steps": self.steps,
            "replayable_steps": None if self.replayed is None else self.replayed.steps,
            "greater_closed_form": None if closed is None else closed._asdict(),
            "most_delaying": [
                {"job": name, "application": training, "seconds": seconds}
                for name, training, seconds in self._most_delaying()
            ],
        }

    def _most_delaying(self) -> list[tuple[str, str, float]]:
        """Return the jobs that delay others most in the ideal schedule, and for how long."""
        caused = self.delays.caused
        most = np.argsort(-caused, kind="stable")[:MOST_TOLD].tolist()
        jobs = self.problem.jobs
        return [(jobs[i].name, jobs[i].training, float(caused[i])) for i in most if caused[i] > 0]

    @property
    def text(self) -> str:
        """Outcome for people."""
        told, name, key = self.data, self.objective.name, self.objective.key
        tell = self.objective.text
        article = "an" if name[0] in "aeiou" else "a"
        lines = [
            f"No schedule of these {told['jobs']} jobs has {article} {name} below "
            f"{tell(told[f'bound_{key}'])},",
            "whatever it knows: proved by prices of the GPUs, and checked.",
            "One that knows everything, and pays for no restarts, has "
            f"{tell(told[f'schedule_{key}'])};",
            f"the bound is {told['bound_over_schedule']:.1%} of it.",
        ]
        if (closed := told["greater_closed_form"]) is not None:
            lines.append(f"In closed form it is {tell(closed['value'])} ({closed['name']}).")
        if self.replayed is not None:
            lines += [
                "Replayed with restarts, rounds and nodes, it has "
                f"{tell(told[f'replayable_{key}'])};",
                f"the bound is {told['bound_over_replayable']:.1%} of that.",
            ]
        replayed = None if self.replayed is None else self.replayed.steps
        if limited := self.search.text(self.steps, replayed):
            lines.append(limited)
        whole = float(self.delays.total.sum())
        shares = [f"{job} {seconds / whole:.0%}" for job, _, seconds in self._most_delaying()]
        if shares:
            lines.append(
                f"In the one without restarts jobs lose {whole / HOUR:,.1f} h to each other, most "
                f"of it to {', '.join(shares)}."
            )
        return "\n".join(lines)

    def write(self, folder: Path, pictures: str) -> tuple[str, ...]:
        """Write problem, certificate, prices, jobs, delays and picture; return the files' names.

        Parameters
        ----------
        folder
            Folder of the files.
        pictures
            Format of the picture.
        """
        from goodalloc.experiments.hindsight.figure import plot_hindsight

        names = self.problem.supply.types
        prices = [
            {"start_s": start, **dict(zip(names, row, strict=True))}
            for start, row in zip(
                self.bound.edges[:-1].tolist(), self.bound.prices.tolist(), strict=True
            )
        ]
        tables = {
            "prices.csv": csv_text(prices, tuple(prices[0])),
            "jobs.csv": csv_text(jobs := self._jobs(), tuple(jobs[0])),
            "delays.csv": csv_text(self._delays(), ("job", "delayed_by", "seconds")),
        }
        figure = plot_hindsight(self.problem, self.bound, self.schedule)
        return write_day(folder, self, tables, figure, pictures)

    def _jobs(self) -> list[dict[str, Any]]:
        """Return a row for every job."""
        replayed = np.full(len(self.problem.jobs), np.nan)
        if self.replayed is not None:
            replayed = self.replayed.completion
        return [
            {
                "job": job.name,
                "application": job.training,
                "submission_s": job.release,
                "completion_s": end - job.release,
                "replayed_completion_s": again - job.release,
                "completion_in_the_plan_of_the_bound_s": planned - job.release,
                "alone_s": job.begin
                - job.release
                + self.problem.training(job.training).least_seconds,
                "delayed_by_others_s": delayed,
                "delays_others_s": caused,
            }
            for job, end, again, planned, delayed, caused in zip(
                self.problem.jobs,
                self.schedule.completion.tolist(),
                replayed.tolist(),
                self.bound.ends.tolist(),
                np.asarray(self.delays.by.sum(axis=1)).tolist(),
                self.delays.caused.tolist(),
                strict=True,
            )
        ]

    def _delays(self) -> list[dict[str, Any]]:
        """Return a row for every job and one that delays it, the longest delays first."""
        pairs, jobs = self.delays.by.tocoo(), self.problem.jobs
        found = [
            {"job": jobs[row].name, "delayed_by": jobs[column].name, "seconds": seconds}
            for row, column, seconds in zip(*pairs.coords, pairs.data.tolist(), strict=True)
            if seconds >= LEAST_DELAY
        ]
        return sorted(found, key=lambda row: -row["seconds"])


def look_back(
    problem: OfflineProblem,
    search: DaySearch = USUAL_SEARCH,
    *,
    objective: Objective = COMPLETION,
    clock: float = 60.0,
    share: float = 1.0,
    bounded: Bounded = lambda *_: None,
    report: Callable[[float], None] = lambda _share: None,
) -> HindsightDay:
    """Bound all schedules of a problem, and find one.

    Parameters
    ----------
    problem
        The problem.
    search
        Limits and seed of the searches.
    objective
        What its objective is called.
    clock
        Seconds between decisions of the schedule, besides those when a job begins or ends.
    share
        Part of the time left that the search of the schedule may take, if there is a limit.
    bounded
        Callback for the bound, before a schedule is searched.
    report
        Callback for the share that is done.

    Raises
    ------
    ValueError
        If the schedule is not feasible or below the bound, so that nothing of it is reported.
    """
    bound = hindsight_bound(
        problem,
        stages_to(search.interval),
        stop=search.stop(share=BOUND_TIME),
        report=lambda done, _: report(BOUND_SHARE * done),
    )
    if len(problem.jobs) <= MOST_FREE:
        bound = with_free_multipliers(problem, bound)
    certificate = bound_document(problem, bound)
    proved = float(certificate["bound"])
    bounded(problem, bound, proved)
    count = StepCount(search.steps, lambda done: report(BOUND_SHARE + (1 - BOUND_SHARE) * done))
    schedule = find_schedule(
        problem,
        bound,
        clock=clock,
        seed=search.seed,
        stop=search.stop(search.steps, share),
        report=count,
    )
    require_sound(problem, schedule, proved)
    return HindsightDay(problem, bound, certificate, schedule, None, objective, search, count.taken)


def require_sound(problem: OfflineProblem, schedule: HindsightSchedule, proved: float) -> None:
    """Refuse a schedule that is not feasible, or below the bound.

    Parameters
    ----------
    problem, schedule
        The problem, and a schedule of it.
    proved
        Bound on all schedules.

    Raises
    ------
    ValueError
        If it is.
    """
    require_feasible(problem, schedule)
    ends = completion_times(problem, schedule.segments)
    if problem.total(ends) < proved:
        raise ValueError("Schedule with hindsight: it is below the bound of every schedule.")


def require_feasible(problem: OfflineProblem, schedule: HindsightSchedule) -> None:
    """Refuse a schedule that is not feasible.

    Parameters
    ----------
    problem, schedule
        The problem, and a schedule of it.

    Raises
    ------
    ValueError
        If it is not.
    """
    if found := schedule_violations(problem, schedule.segments):
        raise ValueError(f"Schedule with hindsight: {found[0]}")
