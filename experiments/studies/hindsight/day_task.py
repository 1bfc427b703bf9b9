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

#: Parts of the progress of a day: its bound and ideal schedule, the schedule without nodes, and the
#: rest.
IDEAL_SHARE, WITHOUT_NODES_SHARE = 0.3, 0.2


class DayRecord(NamedTuple):
    """Average completion times of a day, in seconds.

    Attributes
    ----------
    bound
        No schedule is below it.
    ideal
        Of the best ideal schedule: no restarts, GPUs anywhere.
    bound_on_replays
        No replay in rounds with restarts is below it. This and all below is None on GPUs of several
        types, on which nothing is replayed with hindsight.
    without_nodes
        Of the best schedule in rounds with restarts, on nodes on which every number of GPUs fits.
    planned
        Of the best one on the nodes of the cluster.
    replayed
        Of its replay.
    """

    bound: float
    ideal: float
    bound_on_replays: float | None = None
    without_nodes: float | None = None
    planned: float | None = None
    replayed: float | None = None


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
            "version": 2,
            "library": library_version(),
            "traces": traces_digest(self.traces),
            "steps": self.steps,
            **asdict(self.setting),
            "workload": [list(asdict(job).values()) for job in self.workload],
        }

    def work(self, report: Report) -> dict[str, float | None]:
        """Bound the day, find schedules, and replay the one that is planned on the nodes."""
        from goodalloc.experiments.hindsight.day import look_back  # not needed to describe a day
        from goodalloc.experiments.hindsight.day_search import DaySearch
        from goodalloc.experiments.hindsight.placed_replay import plan_without_nodes, replay_placed
        from goodalloc.experiments.hindsight.problem_of_replay import replayed_problem
        from goodalloc.experiments.replay_bound.replay_bound import bound_replays

        applications, search = applications_of(self.traces), DaySearch(steps=self.steps)
        problem = replayed_problem(self.workload, applications, self.setting)
        whole = len(problem.supply.types) > 1  # nothing is replayed then
        day = look_back(
            problem,
            search,
            clock=float(self.setting.interval),
            report=lambda share: report((1.0 if whole else IDEAL_SHARE) * share),
        )
        found = DayRecord(float(day.certificate["bound"]), day.schedule.value)
        if whole:
            return found._asdict()
        done = IDEAL_SHARE + WITHOUT_NODES_SHARE
        without_nodes = plan_without_nodes(
            problem,
            day.schedule,
            applications,
            self.setting,
            search,
            report=lambda share: report(IDEAL_SHARE + WITHOUT_NODES_SHARE * share),
        )
        placed = replay_placed(
            problem,
            day.schedule,
            self.workload,
            applications,
            self.setting,
            search,
            report=lambda share: report(done + (1.0 - done) * share),
        )
        assert placed is not None  # GPUs of one type
        on_replays = bound_replays(day, self.setting, self.traces)
        return found._replace(
            bound_on_replays=float(on_replays.certificate["bound"]),
            without_nodes=without_nodes,
            planned=placed.planned,
            replayed=placed.value,
        )._asdict()

    def found(self) -> DayRecord:
        """Return the record of a day that was worked out."""
        return DayRecord(**self.record())
