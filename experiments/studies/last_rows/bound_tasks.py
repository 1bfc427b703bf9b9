"""Bounds on the averages of tables, as tasks that leave a record each.

A table counts some completion times, and a bound on it has weights on these jobs only: the others
take no GPUs in it, which makes it smaller.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from goodalloc.data.gavel import draw_gavel_jobs
from goodalloc.data.parameter_servers import ps_workload
from goodalloc.experiments.studies.framework import RecordedTask
from goodalloc.experiments.studies.gavel.replay import MIDDLE
from goodalloc.experiments.studies.hindsight.pods_above_bound import steady_pods_jobs
from goodalloc.experiments.studies.hindsight.steady_bound_task import DIGITS, rounded_down
from goodalloc.experiments.studies.parameter_servers.aiturbo_task import seconds_alone
from goodalloc.experiments.studies.steady_jobs.load_above_bound import steady_gavel_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from goodalloc.data.parameter_servers import PsSubmission
    from goodalloc.data.workloads import Submission
    from goodalloc.experiments.replay import ReplayTask
    from goodalloc.experiments.studies.gavel.replay import GavelTask
    from goodalloc.experiments.studies.parameter_servers.aiturbo_task import PsReplay
    from goodalloc.models.gavel import RateTable
    from goodalloc.models.hindsight import OfflineProblem, SteadyJobs

#: Jobs with parameter servers that an average is of.
Counted = Literal["all", "short", "long"]

#: Seconds of an hour.
HOUR = 3600.0

#: Share of the progress that the search of prices counts for.
PRICES_SHARE = 0.5


class TableBound(NamedTuple):
    """Record of a bound.

    Attributes
    ----------
    jobs
        Number of jobs whose completion times count.
    bound_hours
        No schedule has a smaller average completion time.
    alone_hours
        The average if every job were alone on the cluster, no greater than the bound.
    """

    jobs: int
    bound_hours: float
    alone_hours: float


def table_bound(jobs: int, bound: float, alone: float) -> TableBound:
    """Return the record of a bound in seconds, or of that by the jobs alone if it is greater.

    Parameters
    ----------
    jobs
        Number of jobs that count.
    bound, alone
        Bound on their average, and their average alone, which bounds it, too; in seconds.

    Examples
    --------
    >>> from goodalloc.experiments.studies.last_rows.bound_tasks import table_bound
    >>> table_bound(10, 3599.9999, 1800.0), table_bound(10, 1799.0, 1800.0).bound_hours
    (TableBound(jobs=10, bound_hours=0.999999, alone_hours=0.5), 0.5)
    """
    hours = rounded_down(max(bound, alone) / HOUR, DIGITS)
    return TableBound(jobs, hours, rounded_down(alone / HOUR, DIGITS))


@dataclass(frozen=True)
class TableTask(RecordedTask):
    """Bound on an average of a table; subclasses say of which jobs. See `RecordedTask`.

    Parameters
    ----------
    interval
        Seconds of constant prices.
    """

    interval: float

    def found(self) -> TableBound:
        """Return the record of a task that has run."""
        return TableBound(**self.record())


@dataclass(frozen=True)
class SteadyTableTask(TableTask):
    """Bound on an average of jobs whose rates stay the same; see `TableTask`."""

    def problem(self) -> SteadyJobs:
        """Return the offline problem of the jobs that count, with weights of sum 1."""
        raise NotImplementedError

    def work(self, report: Callable[[float], None]) -> dict[str, float]:
        """Bound the average completion time, and tell that of the jobs alone."""
        from goodalloc.solvers.steady_jobs import steady_jobs_bound  # imports JAX

        problem = self.problem()
        bound = steady_jobs_bound(problem, self.interval, report=report).value
        return table_bound(problem.work.size, bound, problem.lone_value)._asdict()


@dataclass(frozen=True)
class MiddleTask(SteadyTableTask):
    """Bound on the average of the study `gavel`: of the jobs in the middle.

    Parameters
    ----------
    replay
        Any replay of the workload.
    """

    replay: GavelTask

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        told = self.replay.description()
        return {
            "format": "goodalloc-gavel-middle-bound",
            "version": 1,
            "interval": self.interval,
            **{name: told[name] for name in ("library", "load", "jobs", "seed", "table", "nodes")},
        }

    def problem(self) -> SteadyJobs:
        """Return the offline problem of the jobs in the middle."""
        replay, rates = self.replay, self.replay.rates()
        jobs = draw_gavel_jobs(replay.seed, replay.jobs, rates, replay.workload())
        first, last = (int(part * replay.jobs) for part in MIDDLE)
        return steady_gavel_jobs(jobs[first:last], on_any_nodes(rates), 4 * replay.nodes)


def on_any_nodes(rates: RateTable) -> RateTable:
    """Return rates that no placement of a job's GPUs exceeds.

    Some configurations are faster on spread GPUs than on consolidated ones in the published table.
    A job on several types of GPU is as fast as on the slowest of them, no faster than if it had
    each type, alone, for the part of the time that its share of the GPUs is.

    Parameters
    ----------
    rates
        Rates by placement.
    """
    fastest = rates.alone.max(axis=-1, keepdims=True)
    return replace(rates, alone=np.broadcast_to(fastest, rates.alone.shape))


@dataclass(frozen=True)
class PodsTableTask(SteadyTableTask):
    """Bound on an average of the study `aiturbo-conditions`.

    Parameters
    ----------
    replay
        Any replay of the workload under the condition.
    counted
        Which jobs the average is of: all, those that need at most the median time with what they
        ask for, or the others.
    """

    replay: PsReplay
    counted: Counted

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        told = self.replay.description()
        return {
            "format": "goodalloc-pods-table-bound",
            "version": 1,
            "interval": self.interval,
            "counted": self.counted,
            **{name: told[name] for name in ("library", "seed", "workload", "setting")},
        }

    def problem(self) -> SteadyJobs:
        """Return the offline problem of the jobs that count."""
        jobs = ps_workload(self.replay.seed, self.replay.options)
        return steady_pods_jobs(counted_jobs(jobs, self.counted), self.replay.setting)


def counted_jobs(jobs: Sequence[PsSubmission], counted: Counted) -> list[PsSubmission]:
    """Return those of some jobs that an average of `PsOutcome` is of.

    Parameters
    ----------
    jobs
        The workload.
    counted
        As in `PodsTableTask`; where no job is long, the average of the long ones is that of all.
    """
    alone = np.array([seconds_alone(job) for job in jobs])
    short = alone <= np.median(alone)
    wanted = {"all": np.ones_like(short), "short": short, "long": ~short}[counted]
    kept = wanted if wanted.any() else np.ones_like(short)
    return [job for job, keep in zip(jobs, kept.tolist(), strict=True) if keep]


@dataclass(frozen=True)
class DayTableTask(TableTask):
    """Bound on the average of a whole day of Pollux's applications; see `TableTask`.

    Parameters
    ----------
    replay
        Any replay of the day. Cores of its nodes are left out: no job is faster for lack of them.
    groups
        Number of the group of every job, of which the day's average is: a group completes with its
        last job.
    """

    replay: ReplayTask
    groups: tuple[int, ...]

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        told = self.replay.description()
        mine = ("library", "traces", "workload", *vars(self.replay.setting))
        return {
            "format": "goodalloc-day-table-bound",
            "version": 1,
            "interval": self.interval,
            "groups": list(self.groups),
            **{name: told[name] for name in mine},
        }

    def problem(self) -> OfflineProblem:
        """Return the offline problem, with the weights of `weights_in_groups`."""
        from goodalloc.experiments.hindsight import replayed_problem

        replay, cluster = self.replay, self.replay.setting.cluster
        bare = tuple(replace(group, resources=()) for group in cluster.groups)
        setting = replace(replay.setting, cluster=replace(cluster, groups=bare))
        found = replayed_problem(replay.workload, replay.applications, setting)
        weights = weights_in_groups(self.groups)
        return replace(
            found,
            jobs=tuple(
                replace(job, weight=weight) for job, weight in zip(found.jobs, weights, strict=True)
            ),
        )

    def work(self, report: Callable[[float], None]) -> dict[str, float]:
        """Bound the average completion time, prove it, and tell that of the jobs alone."""
        from goodalloc.experiments.hindsight import bound_document
        from goodalloc.solvers.hindsight import hindsight_bound, stages_to, with_free_multipliers

        problem = self.problem()
        bound = hindsight_bound(
            problem,
            stages_to(self.interval),
            report=lambda share, _: report(PRICES_SHARE * share),
        )
        proof = bound_document(problem, with_free_multipliers(problem, bound))
        proved, alone = float(proof["bound"]), alone_seconds(problem)
        return table_bound(len(problem.jobs), proved, alone)._asdict()


def weights_in_groups(groups: Sequence[int]) -> list[float]:
    """Return weights of jobs under which their average is no greater than that of their groups.

    The mean of the completion times of a group is no greater than the last of them. As groups have
    equal weights, every job has 1 / (groups x jobs of its group).

    Parameters
    ----------
    groups
        Number of the group of every job.

    Examples
    --------
    >>> from goodalloc.experiments.studies.last_rows.bound_tasks import weights_in_groups
    >>> weights_in_groups([0, 1, 1])
    [0.5, 0.25, 0.25]
    """
    sizes: Mapping[int, int] = Counter(groups)
    return [1.0 / (len(sizes) * sizes[group]) for group in groups]


def alone_seconds(problem: OfflineProblem) -> float:
    """Return the weighted sum of completion times if every job were alone on the cluster.

    Parameters
    ----------
    problem
        The problem.
    """
    return sum(
        job.weight * (job.begin - job.release + problem.training(job.training).least_seconds)
        for job in problem.jobs
    )


def groups_of(jobs: Sequence[Submission], group: Callable[[str], str]) -> tuple[int, ...]:
    """Return the number of the group of every job, in the order of their first jobs.

    Parameters
    ----------
    jobs
        The jobs.
    group
        Function that returns the name of the group of a job of a name.
    """
    names = [group(job.name) for job in jobs]
    number = {name: index for index, name in enumerate(dict.fromkeys(names))}
    return tuple(number[name] for name in names)
