"""Replays by the simulator's own rules under policies that know more than a scheduler can.

Each of them gives GPUs where they are worth most (`solvers/hindsight/worth_policy.py`), by worths
from different knowledge. Their jobs know their own speed when they start, so that they choose their
batch sizes as well as their models tell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.models.support.validation import require_choice
from goodalloc.solvers.hindsight.known_work import RemainingWorths
from goodalloc.solvers.hindsight.rolling_plan import RollingWorths
from goodalloc.solvers.hindsight.worth_policy import PlannedWorths, WorthPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jaxtyping import Float

    from goodalloc.data.applications.application import Application
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.replay.replay_conditions import Setting
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.hindsight.schedule_search import HindsightSchedule
    from goodalloc.solvers.hindsight.worth_policy import Appraiser

#: Seconds that an allocation is expected to last, of which the best is taken.
HOLDS = (300.0, 600.0, 1200.0)

#: Knowledge of a policy: the true work that is left of the jobs that are there; that, in plans made
#: anew; and the arrivals of the next hour in these plans, too.
Foresight = Literal["remaining work", "plans", "arrivals of an hour"]

#: Seconds of arrivals that the last of these knows.
HOUR = 3600.0


def foreseeing(foresight: Foresight, problem: OfflineProblem, setting: Setting) -> WorthPolicy:
    """Return a policy with some knowledge of what is to come.

    Parameters
    ----------
    foresight
        What it knows.
    problem
        The offline problem of the replay.
    setting
        Conditions of the replay.

    Raises
    ------
    ValueError
        If the knowledge is none of `Foresight`.
    """
    require_choice("Policy: foresight", foresight, get_args(Foresight))
    trainings = {training.name: training for training in problem.trainings}
    appraiser: Appraiser = RemainingWorths(trainings)
    if foresight != "remaining work":
        appraiser = RollingWorths(problem, HOUR if foresight == "arrivals of an hour" else 0.0)
    return WorthPolicy(trainings, appraiser, setting.restart_delay)


@dataclass(frozen=True)
class ReplayedSchedule:
    """Schedule with hindsight that the simulator replayed.

    Parameters
    ----------
    value
        Objective of the offline problem.
    completion
        Completion times, in the order of the problem.
    hold
        Seconds that allocations were expected to last.
    """

    value: float
    completion: Float[Floats, " jobs"]
    hold: float


def replay_schedule(
    problem: OfflineProblem,
    schedule: HindsightSchedule,
    workload: Sequence[Submission],
    applications: Mapping[str, Application],
    setting: Setting,
    *,
    holds: Sequence[float] = HOLDS,
    report: Callable[[float], None] = lambda _share: None,
) -> ReplayedSchedule:
    """Return the best replay by the worths of an ideal schedule.

    Parameters
    ----------
    problem, schedule
        The offline problem of the replay, and a schedule of it.
    workload, applications, setting
        The submitted jobs, the true applications, and the conditions of the replay.
    holds
        Seconds that allocations are expected to last; each is tried.
    report
        Callback for the share that is done.
    """
    trainings = {training.name: training for training in problem.trainings}
    named = zip(problem.jobs, schedule.worth, strict=True)
    planned = PlannedWorths({job.name: worth for job, worth in named})
    best: ReplayedSchedule | None = None
    for number, hold in enumerate(holds, start=1):
        policy = WorthPolicy(trainings, planned, setting.restart_delay, hold)
        ends = completions(problem, workload, applications, setting, policy)
        value = problem.total(ends)
        if best is None or value < best.value:
            best = ReplayedSchedule(value, ends, hold)
        report(number / len(holds))
    assert best is not None
    return best


def completions(
    problem: OfflineProblem,
    workload: Sequence[Submission],
    applications: Mapping[str, Application],
    setting: Setting,
    policy: WorthPolicy,
) -> Float[Floats, " jobs"]:
    """Return the completion times of a replay, in the order of the problem.

    Parameters
    ----------
    problem
        The offline problem of the replay.
    workload, applications, setting
        The submitted jobs, the true applications, and the conditions of the replay.
    policy
        The policy; it is told the truth, and so are the jobs of their speed.
    """
    told = replace(setting, knowledge="profiled")
    simulator = Simulator(workload, applications, policy, told)
    while not simulator.finished:
        simulator.step()
    ends = {job.submission.name: job.completion for job in simulator.jobs}
    return np.array([ends[job.name] for job in problem.jobs], dtype=float)
