"""Reproduction of a published result: its tasks, its table and its figure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from goodalloc.data.applications.truth import applications_of
from goodalloc.data.workloads.generator import draw_workload
from goodalloc.data.workloads.workload import read_workload
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.support.records import digest
from goodalloc.experiments.support.version import library_version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.data.applications.application import Application
    from goodalloc.data.workloads.generator import Requests
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.studies.framework.records import Record, Rows
    from goodalloc.experiments.support.tasks import Task

#: Name that stands for each of the policies that a plan selects for Pollux (`Plan.pollux`).
EACH_POLLUX = "pollux"

#: Numbers of the workloads that Pollux's paper averages over.
EIGHT = tuple(range(1, 9))

#: Type of the rows of a study.
RowT = TypeVar("RowT", bound="Record | Mapping[str, Any]")


@dataclass(frozen=True)
class Plan:
    """Options of a reproduction.

    Parameters
    ----------
    folder
        Folder of all results; replays that several reproductions need are shared.
    workloads
        Numbers of the published workloads, or seeds of drawn ones; none for those of the
        reproduction (`Reproduction.own`).
    pollux
        Names of the policies that stand for Pollux.
    seeds
        Seeds of the genetic algorithm.
    artifact
        The artifact's folder ``simulator``, with its ``traces`` and ``workloads``; None to draw.
    gaps
        Whether every decision is judged.
    quick
        Half the jobs; searches of 30 trials.
    """

    folder: Path
    workloads: tuple[int, ...] = (6,)
    pollux: tuple[str, ...] = ("pollux",)
    seeds: tuple[int, ...] = (0,)
    artifact: Path | None = None
    gaps: bool = False
    quick: bool = False

    @property
    def traces(self) -> str | None:
        """Folder of the measurements; None for the shipped profiles."""
        return None if self.artifact is None else str(self.artifact / "traces")

    @property
    def applications(self) -> Mapping[str, Application]:
        """True behaviour of the applications."""
        return applications_of(self.traces)

    def workload(
        self, number: int, requests: Requests = "tuned", load: float = 1.0
    ) -> tuple[Submission, ...]:
        """Return a published workload, or a drawn one.

        Raises
        ------
        ValueError
            If the workload is unreadable, or `artifact` is another one.
        """
        if self.artifact is not None:
            name = "workloads" if requests == "tuned" else "workloads-realistic"
            name += "" if load == 1.0 else f"-{load}"
            if not (self.artifact / name).is_dir():
                raise ValueError(
                    f"Artifact '{self.artifact}': it has no folder '{name}'; expected the folder "
                    "simulator of Pollux's artifact (github.com/petuum/adaptdl, branch "
                    "osdi21-artifact)."
                )
            jobs = read_workload(self.artifact / name / f"workload-{number}.csv")
            return jobs[::2] if self.quick else jobs
        return draw_workload(number, load=load / 2 if self.quick else load, requests=requests)

    def policies_of(self, policy: str) -> tuple[str, ...]:
        """Return `policy`, or the policies that `EACH_POLLUX` stands for."""
        return self.pollux if policy == EACH_POLLUX else (policy,)

    def seeds_of(self, policy: str) -> tuple[int, ...]:
        """Return the seeds to replay `policy` with; the first alone unless it is random."""
        from goodalloc.experiments.replay.replay_task import is_seeded

        return self.seeds if is_seeded(policy) else self.seeds[:1]

    def replay(self, policy: str, workload: tuple[Submission, ...], **options: Any) -> ReplayTask:
        """Return a replay in a folder named for its inputs, which equal replays share.

        Parameters
        ----------
        policy, workload
            Name of the policy, and submitted jobs.
        options
            Further fields of `ReplayTask`.
        """
        from goodalloc.experiments.replay.replay_task import ReplayTask

        task = ReplayTask(
            self.folder, policy, workload, traces=self.traces, gaps=self.gaps, **options
        )
        name = f"{policy}-{digest(task.description())}"
        return replace(task, folder=self.folder / "replays" / name)


@dataclass(frozen=True)
class Reproduction(Generic[RowT]):
    """Study that repeats a published table or figure, or goes beyond it.

    Parameters
    ----------
    title
        One line for people.
    tasks
        All work that has to be done first.
    rows
        Rows of the table, from the records of that work: named tuples of one type.
    plot
        The picture of the table, or of the records.
    shown
        The table as people read it.
    require
        Raises a `ValueError` where something that it needs is not there.
    ignores
        Fields of the plan that make no difference to it.
    workloads, quick_workloads
        Default workloads; and with `Plan.quick`, where these differ.
    lists
        Name of the folder of measurements that it needs, in a folder of several.
    measures
        Whether what it tells is measured on this machine.
    trains
        Whether what it tells comes of real training.
    times
        Whether solvers are timed in it.
    note
        Explanation printed under the table.
    """

    title: str
    tasks: Callable[[Plan], Sequence[Task]]
    rows: Callable[[Plan], list[RowT]]
    plot: Callable[[Plan, list[RowT]], Figure]
    require: Callable[[Plan], object] = lambda _: None
    shown: Callable[[list[RowT]], Rows] = table_of
    ignores: tuple[str, ...] = ()
    workloads: tuple[int, ...] = Plan.workloads
    quick_workloads: tuple[int, ...] = ()
    lists: str = ""
    measures: bool = False
    trains: bool = False
    times: bool = False
    note: str = ""

    @property
    def parallel(self) -> bool:
        """Whether its tasks may run side by side: where seconds count, they would disturb them."""
        return not (self.measures or self.times)

    def own(self, plan: Plan) -> Plan:
        """Return the part of a plan for several reproductions that concerns this one.

        Options without effect have their defaults; workloads default to those of the reproduction;
        and the folder of measurements is its own if there are several.
        """
        usual = (plan.quick and self.quick_workloads) or self.workloads
        plan = replace(plan, workloads=plan.workloads or usual)
        found = replace(plan, **{name: getattr(Plan, name) for name in self.ignores})
        if found.artifact is None or not self.lists:
            return found
        lists = found.artifact / self.lists
        return replace(found, artifact=lists) if lists.is_dir() else found

    def refuse_ignored(self, plan: Plan) -> None:
        """Refuse options that have no effect on this reproduction.

        Raises
        ------
        ValueError
            If an option without effect differs from its default; the message names it.
        """
        for name in self.ignores:
            asked, usual = getattr(plan, name), getattr(Plan, name)
            if asked and asked != usual:
                shown = " ".join(map(str, asked)) if isinstance(asked, tuple) else asked
                raise ValueError(
                    f"{self.title}: {'policies' if name == 'pollux' else name} is {shown}; "
                    "it makes no difference there, so expected none."
                )

    def source(self, plan: Plan) -> dict[str, object]:
        """Return the source of the rows, for the CSV; blank where it has no effect."""

        def told(name: str, value: object) -> object:
            return "" if name in self.ignores else value

        truth = "profiles" if plan.artifact is None else "artifact"
        if self.measures or self.trains:
            truth = "machine" if self.measures else "training"
        return {
            "truth": truth,
            "workload_numbers": told("workloads", " ".join(map(str, plan.workloads))),
            "quick": told("quick", plan.quick),
            "version": library_version(),
        }
