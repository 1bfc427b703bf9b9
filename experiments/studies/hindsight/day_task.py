"""Day with hindsight as a task: bound, ideal schedule and replayed schedule, in one record."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.applications.truth import applications_of
from goodalloc.data.documents.traces_digest import traces_digest
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.support.version import library_version

if TYPE_CHECKING:
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.replay.replay_conditions import Setting
    from goodalloc.experiments.support.tasks import Report

#: Part of the progress of a day that its bound and ideal schedule count for.
IDEAL_SHARE = 0.4


class DayRecord(NamedTuple):
    """Average completion times of a day, in seconds; None where nothing is replayed.

    On GPUs of several types no schedule is replayed with hindsight.

    Attributes
    ----------
    bound
        No schedule is below it.
    ideal
        Of the best ideal schedule.
    planned
        Of the best one in rounds with restarts, on nodes on which every number of GPUs fits.
    replayed
        Of its replay.
    """

    bound: float
    ideal: float
    planned: float | None
    replayed: float | None


@dataclass(frozen=True)
class DayTask(RecordedTask):
    """Day with hindsight; see `RecordedTask`.

    Parameters
    ----------
    workload
        The submitted jobs.
    setting
        Conditions of the replay.
    traces
        Folder of measurements of the true applications, None for the shipped profiles.
    steps
        Steps of the search of an ideal schedule.
    """

    workload: tuple[Submission, ...]
    setting: Setting
    traces: str | None
    steps: int

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        return {
            "format": "goodalloc-hindsight-day",
            "library": library_version(),
            "traces": traces_digest(self.traces),
            "steps": self.steps,
            **asdict(self.setting),
            "workload": [list(asdict(job).values()) for job in self.workload],
        }

    def work(self, report: Report) -> dict[str, float | None]:
        """Bound the day, find a schedule, and replay it."""
        from goodalloc.experiments.hindsight.day import look_back  # not needed to describe a day
        from goodalloc.experiments.hindsight.day_search import DaySearch
        from goodalloc.experiments.hindsight.known_replay import replay_schedule
        from goodalloc.experiments.hindsight.problem_of_replay import replayed_problem

        applications = applications_of(self.traces)
        problem = replayed_problem(self.workload, applications, self.setting)
        whole = len(problem.supply.types) > 1  # nothing is replayed then
        search = DaySearch(steps=self.steps)
        day = look_back(
            problem,
            search,
            clock=float(self.setting.interval),
            report=lambda share: report((1.0 if whole else IDEAL_SHARE) * share),
        )
        found = replay_schedule(
            problem,
            day.schedule,
            self.workload,
            applications,
            self.setting,
            search,
            report=lambda share: report(IDEAL_SHARE + (1.0 - IDEAL_SHARE) * share),
        )
        planned, replayed = (found.planned, found.value) if found else (None, None)
        bound = float(day.certificate["bound"])
        return DayRecord(bound, day.schedule.value, planned, replayed)._asdict()

    def found(self) -> DayRecord:
        """Return the record of a day that was worked out."""
        return DayRecord(**self.record())
