"""Policies above the bounds of other objectives: slowdown, late jobs and makespan, day by day.

For every published day there is a bound on each objective below which no schedule is, whatever the
scheduler knows, and an ideal schedule that was made for it (`formulations/HINDSIGHT.md`). Beside
them stand policies that were made for other ends: their replays are judged by each objective.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from goodalloc.data.applications.truth import applications_of
from goodalloc.data.documents.traces_digest import traces_digest
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.reproduction import EIGHT, Plan, Reproduction
from goodalloc.experiments.studies.hindsight.beside_bound import BOUND, IDEAL, QUICK_STEPS
from goodalloc.experiments.support.version import library_version
from goodalloc.models.hindsight.deadlines import late_jobs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.support.tasks import Report, Task
    from goodalloc.models.support.array_types import Floats

#: Steps of the searches of ideal schedules.
STEPS = 300

#: Multiples of its time alone on the requested GPUs by which a job is due.
DUE = (1.2, 2.0)

SLOWDOWN, MAKESPAN = "average slowdown", "makespan (h)"

#: Policies that are judged, all with batch sizes by goodput; of a quick run the first two.
JUDGED = ("pollux", "tiresias", "srtf", "themis", "equal")
QUICK_JUDGED = 2


class ObjectiveRow(NamedTuple):
    """Policy, schedule or bound on one day by one objective.

    Attributes
    ----------
    workload
        Number of the workload.
    objective
        The objective.
    policy, knows
        Policy and what it knows; or the bound, or the schedule.
    value
        Its value.
    above_bound_percent
        By how much it is above the bound; None where that is 0.
    """

    workload: int
    objective: str
    policy: str
    knows: str
    value: float
    above_bound_percent: float | None


class Extremes(NamedTuple):
    """Bound, and value of the ideal schedule, by one objective."""

    bound: float
    ideal: float


def late_name(factor: float) -> str:
    """Return the name of the objective of late jobs that are due by a multiple.

    Examples
    --------
    >>> from goodalloc.experiments.studies.hindsight.other_objectives import late_name
    >>> late_name(1.2)
    'late jobs, due by 1.2'
    """
    return f"late jobs, due by {factor:g}"


@dataclass(frozen=True)
class ObjectivesTask(RecordedTask):
    """Bounds and ideal schedules of a day by every objective; see `RecordedTask`.

    Parameters
    ----------
    workload
        The submitted jobs.
    traces
        Folder of measurements of the true applications, None for the shipped profiles.
    steps
        Steps of the searches of ideal schedules.
    """

    workload: tuple[Submission, ...]
    traces: str | None
    steps: int

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        return {
            "format": "goodalloc-hindsight-objectives",
            "library": library_version(),
            "traces": traces_digest(self.traces),
            "steps": self.steps,
            "due": list(DUE),
            "workload": [list(asdict(job).values()) for job in self.workload],
        }

    def work(self, report: Report) -> dict[str, Any]:
        """Bound the day by every objective; the record also has every job's time alone."""
        from goodalloc.experiments.hindsight.day import look_back  # not needed to describe a day
        from goodalloc.experiments.hindsight.day_search import DaySearch
        from goodalloc.experiments.hindsight.deadline_day import look_back_at_deadlines
        from goodalloc.experiments.hindsight.objectives import (
            due_by,
            requested_seconds,
            with_slowdowns,
        )
        from goodalloc.experiments.hindsight.problem_of_replay import replayed_problem

        setting = Setting()
        problem = replayed_problem(self.workload, applications_of(self.traces), setting)
        report(0.1)
        clock, search = float(setting.interval), DaySearch(steps=self.steps)
        slow = look_back(with_slowdowns(problem, self.workload), search, clock=clock)
        found = {SLOWDOWN: Extremes(float(slow.certificate["bound"]), slow.schedule.value)}
        report(0.4)
        for index, factor in enumerate(DUE):
            due = due_by(problem, self.workload, factor)
            late = look_back_at_deadlines(problem, due, search, clock=clock)
            found[late_name(factor)] = Extremes(late.data["bound_late_jobs"], int(late.late.sum()))
            report(0.55 + 0.15 * index)
        last = look_back_at_deadlines(problem, None, search, clock=clock)
        ends = float(last.bound.due[0]), float(last.schedule.completion.max())
        found[MAKESPAN] = Extremes(ends[0] / HOUR, ends[1] / HOUR)
        return {
            "alone_s": requested_seconds(problem, self.workload).tolist(),
            "objectives": {name: list(pair) for name, pair in found.items()},
        }


def values_of(workload: tuple[Submission, ...], alone: Floats, ends: Floats) -> dict[str, float]:
    """Return every objective of completion times.

    Parameters
    ----------
    workload
        The jobs.
    alone
        Seconds of every job alone on the GPUs that it requested.
    ends
        Seconds at which every job ends.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.data.workloads import Submission
    >>> from goodalloc.experiments.studies.hindsight.other_objectives import values_of
    >>> job = Submission("a", time=0, application="ncf", replicas=1, batch_size=32768)
    >>> values = values_of((job,), np.array([1000.0]), np.array([1800.0]))
    >>> values["average slowdown"], values["late jobs, due by 1.2"], values["makespan (h)"]
    (1.8, 1, 0.5)
    """
    release = np.array([job.time for job in workload], dtype=float)
    late = {
        late_name(factor): int(late_jobs(release + factor * alone, ends).sum()) for factor in DUE
    }
    slowdown = float(((ends - release) / alone).mean())
    return {SLOWDOWN: slowdown, **late, MAKESPAN: float(ends.max()) / HOUR}


def _task(plan: Plan, number: int) -> ObjectivesTask:
    steps = QUICK_STEPS if plan.quick else STEPS
    task = ObjectivesTask(plan.folder, plan.workload(number), plan.traces, steps)
    return task.among(plan.folder, "objectives")


def _replays(plan: Plan, number: int) -> dict[str, ReplayTask]:
    """Return the replays of one workload, by policy."""
    setting = Setting(batch_sizes="adaptive")
    judged = JUDGED[: QUICK_JUDGED if plan.quick else None]
    return {name: plan.replay(name, plan.workload(number), setting=setting) for name in judged}


def _tasks(plan: Plan) -> list[Task]:
    """Return all replays, and the bounds of every day."""
    found: list[Task] = []
    for number in plan.workloads:
        found += [*_replays(plan, number).values(), _task(plan, number)]
    return found


def _rows(plan: Plan) -> list[ObjectiveRow]:
    """Return a row for every day, objective and policy; schedule and bound last."""
    rows = []
    for number in plan.workloads:
        workload, record = plan.workload(number), _task(plan, number).record()
        alone = np.array(record["alone_s"])
        judged: dict[tuple[str, str], dict[str, float]] = {}
        for name, task in _replays(plan, number).items():
            jobs = pd.read_csv(task.folder / "jobs.csv").set_index("job").completion
            ends = jobs.loc[[job.name for job in workload]].to_numpy(float)
            judged[name, task.terms[0]] = values_of(workload, alone, ends)
        for objective, (bound, ideal) in record["objectives"].items():
            values = {key: own[objective] for key, own in judged.items()}
            values |= {(IDEAL, "all"): ideal, (BOUND, "all"): bound}
            rows += [
                ObjectiveRow(
                    number,
                    objective,
                    policy,
                    knows,
                    rounded(value, 6),
                    rounded(100.0 * (value / bound - 1.0), 6) if bound else None,
                )
                for (policy, knows), value in values.items()
            ]
    return rows


def _summary(rows: list[ObjectiveRow]) -> Rows:
    """Return means over the days with 95 % intervals, a row for every policy."""
    objectives = [*dict.fromkeys(row.objective for row in rows)]
    table = []
    for policy, knows in dict.fromkeys((row.policy, row.knows) for row in rows):
        own = [row for row in rows if (row.policy, row.knows) == (policy, knows)]
        line = {"policy": policy, "knows": knows}
        for name in objectives:
            values = [row.value for row in own if row.objective == name]
            line[name] = estimate_of(values).text(".1f" if "late" in name else ".2f")
        table.append(line)
    return table


def _plot(_: Plan, rows: list[ObjectiveRow]) -> Figure:
    """Draw the means of every policy, a picture for every objective, and the bound as a line."""
    from matplotlib.figure import Figure

    objectives = [*dict.fromkeys(row.objective for row in rows)]
    policies = [*dict.fromkeys(row.policy for row in rows if row.policy != BOUND)]
    figure = Figure(figsize=(3.0 * len(objectives) + 1.0, 3.2), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(objectives), sharey=True))
    for ax, objective in zip(panels, objectives, strict=True):
        for place, policy in enumerate(policies):
            own = [r.value for r in rows if (r.objective, r.policy) == (objective, policy)]
            found, colour = estimate_of(own), COLOURS[1 if policy == IDEAL else 0]
            half = np.nan_to_num(found.half_width)
            ax.barh(place, found.mean, xerr=half, color=colour, height=0.6, capsize=2)
        bound = [row.value for row in rows if (row.objective, row.policy) == (objective, BOUND)]
        ax.axvline(float(np.mean(bound)), color="0.2", linestyle="--", linewidth=1.0)
        ax.set_xlabel(objective, fontsize="small")
        open_axes(ax)
    panels[0].set_yticks(range(len(policies)), policies, fontsize="small")
    panels[0].invert_yaxis()
    figure.supxlabel("dashed: no schedule is below it", fontsize="small")
    return figure


NOTE = """\
slowdown: completion over the time of a job alone on the GPUs that it requested, at the best batch
sizes. due by: so many times that time after the submission. bound: no schedule is below it,
whatever it knows. ideal schedule: with hindsight, made for the objective; no restarts, GPUs
anywhere. All policies choose batch sizes by goodput."""


OBJECTIVES = Reproduction(
    "hindsight-objectives: policies above the bounds of slowdown, late jobs and makespan",
    _tasks,
    _rows,
    _plot,
    shown=_summary,
    ignores=("pollux", "seeds", "gaps"),
    workloads=EIGHT,
    quick_workloads=Plan.workloads,
    note=NOTE,
)
