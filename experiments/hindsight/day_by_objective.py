"""A day with hindsight by the objective that is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

from goodalloc.data.applications.best_levels import on_best_levels
from goodalloc.data.applications.truth import applications_of
from goodalloc.experiments.hindsight.day import look_back
from goodalloc.experiments.hindsight.day_search import USUAL_SEARCH
from goodalloc.experiments.hindsight.deadline_day import look_back_at_deadlines
from goodalloc.experiments.hindsight.job_weights import weighted, with_weights
from goodalloc.experiments.hindsight.objectives import (
    COMPLETION,
    SLOWDOWN,
    due_by,
    with_slowdowns,
)
from goodalloc.experiments.hindsight.placed_replay import replay_placed
from goodalloc.experiments.hindsight.problem_of_replay import replayed_problem
from goodalloc.models.support.validation import require_choice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.hindsight.day import Bounded, HindsightDay
    from goodalloc.experiments.hindsight.day_search import DaySearch
    from goodalloc.experiments.hindsight.deadline_day import DeadlineDay
    from goodalloc.experiments.replay.replay_conditions import Setting
    from goodalloc.models.topology.topology import Topology

#: Average completion time or slowdown, number of late jobs, or time until all jobs are done.
ObjectiveName = Literal["completion", "slowdown", "late-jobs", "makespan"]

#: Part of the progress of a day with a replay that its bound and ideal schedule count for.
IDEAL_SHARE = 0.3

#: Part of the time left that the search of an ideal schedule may take where one is replayed, too.
IDEAL_TIME = 0.3


def day_by(
    objective: ObjectiveName,
    workload: tuple[Submission, ...],
    setting: Setting,
    traces: str | None = None,
    search: DaySearch = USUAL_SEARCH,
    *,
    due: float | None = None,
    weights: Mapping[str, float] | None = None,
    topology: Topology | None = None,
    bounded: Bounded = lambda *_: None,
    report: Callable[[float], None] = lambda _share: None,
) -> HindsightDay | DeadlineDay:
    """Bound all schedules of a workload, and find one; for averages also one that is replayed.

    Parameters
    ----------
    objective
        What is to be least.
    workload, setting
        The submitted jobs, and the conditions of the replay.
    traces
        Folder of measurements of the true applications, None for the shipped profiles.
    search
        Limits and seed of the searches.
    due
        Multiple of its time alone on the requested GPUs by which every job is due; for late jobs.
    weights
        Weights of jobs in the average, by their names; all others have the weight 1. None for a
        plain average.
    topology
        Tree of the nodes, None for none. On a tree all is bounded by the speeds of the lowest
        levels with room (`goodalloc.data.applications.on_best_levels`), and nothing is replayed.
    bounded
        As in `look_back`; not for late jobs and the makespan.
    report
        Callback for the share that is done.

    Raises
    ------
    ValueError
        If the objective or an application is unknown, late jobs have no `due` or others one, late
        jobs or the makespan have weights, a weight makes no sense (`with_weights`), or nothing is
        bounded (`replayed_problem`, `look_back`, `look_back_at_deadlines`).
    """
    require_choice("Hindsight: objective", objective, get_args(ObjectiveName))
    if (due is None) == (objective == "late-jobs"):
        raise ValueError(
            f"Hindsight: due is {due}; expected a number for late jobs, and for them only."
        )
    averaged = objective not in ("late-jobs", "makespan")
    if weights is not None and not averaged:
        raise ValueError(
            f"Hindsight: there are weights for the objective {objective}; expected none, as every "
            "job counts alike there."
        )
    applications, clock = applications_of(traces), float(setting.interval)
    for job in workload:
        if job.application not in applications:
            raise ValueError(
                f"Job '{job.name}': application '{job.application}' is unknown; expected one of "
                f"{', '.join(applications)}."
            )
    if topology is not None:
        applications = on_best_levels(applications, topology)
    problem = replayed_problem(workload, applications, setting)
    if not averaged:
        return look_back_at_deadlines(
            problem,
            None if due is None else due_by(problem, workload, due),
            search,
            clock=clock,
            report=report,
        )
    told = COMPLETION
    if objective == "slowdown":
        problem, told = with_slowdowns(problem, workload), SLOWDOWN
    if weights is not None:
        problem, told = with_weights(problem, weights), weighted(told)
    day = look_back(
        problem,
        search,
        objective=told,
        clock=clock,
        share=IDEAL_TIME if topology is None else 1.0,
        bounded=bounded,
        report=lambda share: report((IDEAL_SHARE if topology is None else 1.0) * share),
    )
    if topology is not None:
        return day
    replayed = replay_placed(
        problem,
        day.schedule,
        workload,
        applications,
        setting,
        search,
        report=lambda share: report(IDEAL_SHARE + (1.0 - IDEAL_SHARE) * share),
    )
    return replace(day, replayed=replayed)
