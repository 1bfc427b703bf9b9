"""Replays by the simulator's own rules under policies that know more than a scheduler can.

Each of them gives GPUs where they are worth most (`solvers/foresight/worth_policy.py`), by worths
from different knowledge. Their jobs know their own speed when they start, so that they choose their
batch sizes as well as their models tell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.data.workloads.generator import HOUR
from goodalloc.experiments.hindsight.attainable import Attainable
from goodalloc.experiments.hindsight.day_search import USUAL_SEARCH
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.models.support.validation import require_choice
from goodalloc.solvers.foresight.known_work import RemainingWorths
from goodalloc.solvers.foresight.restarting_schedule import RestartingScheduler
from goodalloc.solvers.foresight.rolling_plan import RollingWorths
from goodalloc.solvers.foresight.worth_policy import PlannedWorths, WorthPolicy
from goodalloc.solvers.hindsight.schedule_search import (
    POWERS,
    SECONDS,
    best_worths,
    rule_of_thumb,
)
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jaxtyping import Float

    from goodalloc.data.applications.application import Application
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.hindsight.day_search import DaySearch
    from goodalloc.experiments.replay.replay_conditions import Setting
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.foresight.worth_policy import Appraiser
    from goodalloc.solvers.hindsight.schedule_search import HindsightSchedule

#: Seconds that an allocation is expected to last, of which the best is taken.
HOLDS = (100.0, 150.0, 200.0, 300.0, 450.0)

#: Part of the progress that the search counts for.
SEARCH_SHARE = 0.6

#: Steps of the search of an ideal schedule for each of that of worths with restarts, which takes
#: several times as long.
STEPS_A_REPLAYED = 5

#: Knowledge of a policy: the true work that is left of the jobs that are there; that, in plans made
#: anew; and the arrivals of the next hour in these plans, too.
Foresight = Literal["remaining work", "plans", "arrivals of an hour"]


def foreseeing(
    foresight: Foresight,
    problem: OfflineProblem,
    applications: Mapping[str, Application],
    setting: Setting,
) -> WorthPolicy:
    """Return a policy with some knowledge of what is to come.

    Parameters
    ----------
    foresight
        What it knows.
    problem
        The offline problem of the replay.
    applications, setting
        The true applications, and the conditions of the replay.

    Raises
    ------
    ValueError
        If the knowledge is none of `Foresight`.
    """
    require_choice("Policy: foresight", foresight, get_args(Foresight))
    attainable = Attainable(applications, setting.cluster)
    own = attainable.problem(problem)
    trainings = {training.name: training for training in own.trainings}
    appraiser: Appraiser = RemainingWorths(trainings)
    if foresight != "remaining work":
        appraiser = RollingWorths(own, float(HOUR) if foresight == "arrivals of an hour" else 0.0)
    return WorthPolicy(trainings, appraiser, attainable.spreads, setting.restart_delay)


@dataclass(frozen=True)
class ReplayedSchedule:
    """Schedule with hindsight that the simulator replayed.

    Parameters
    ----------
    value
        Objective of the offline problem.
    completion
        Completion times, in the order of the problem.
    planned
        Objective in rounds with restarts, on nodes on which every number of GPUs fits.
    """

    value: float
    completion: Float[Floats, " jobs"]
    planned: float


def replay_schedule(
    problem: OfflineProblem,
    schedule: HindsightSchedule,
    workload: Sequence[Submission],
    applications: Mapping[str, Application],
    setting: Setting,
    search: DaySearch = USUAL_SEARCH,
    *,
    report: Callable[[float], None] = lambda _share: None,
) -> ReplayedSchedule | None:
    """Search worths that are good with restarts, and replay by them.

    None on GPUs of several types, where nothing is replayed.

    Parameters
    ----------
    problem, schedule
        The offline problem of the replay, and a schedule of it, whose worths the search improves.
    workload, applications, setting
        The submitted jobs, the true applications, and the conditions of the replay.
    search
        Limits and seed of the search of an ideal schedule; this one takes a share of the steps.
    report
        Callback for the share that is done.
    """
    if len(problem.supply.types) > 1:
        return None
    steps = max(search.steps // STEPS_A_REPLAYED, 1)
    attainable = Attainable(applications, setting.cluster)
    own = attainable.problem(problem)
    starts = [
        schedule.worth,
        *(rule_of_thumb(own, second, power) for second in SECONDS for power in POWERS),
    ]
    schedulers = [
        RestartingScheduler(own, float(setting.interval), setting.restart_delay, hold)
        for hold in HOLDS
    ]
    scheduler, start = min(
        product(schedulers, starts), key=lambda pair: own.total(pair[0].run(pair[1]))
    )
    worths = best_worths(
        own,
        scheduler.run,
        [start],
        seed=search.seed,
        stop=Stop(iterations=steps),
        report=lambda step, _: report(SEARCH_SHARE * step / steps),
    )
    by_job = {job.name: worth for job, worth in zip(own.jobs, worths, strict=True)}
    policy = WorthPolicy(
        {training.name: training for training in own.trainings},
        PlannedWorths(by_job),
        attainable.spreads,
        setting.restart_delay,
        scheduler.hold,
    )
    ends = completions(
        problem,
        workload,
        applications,
        setting,
        policy,
        lambda share: report(SEARCH_SHARE + (1.0 - SEARCH_SHARE) * share),
    )
    return ReplayedSchedule(problem.total(ends), ends, own.total(scheduler.run(worths)))


def completions(
    problem: OfflineProblem,
    workload: Sequence[Submission],
    applications: Mapping[str, Application],
    setting: Setting,
    policy: WorthPolicy,
    report: Callable[[float], None] = lambda _share: None,
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
    report
        Callback for the share that is done.
    """
    told = replace(setting, knowledge="profiled")
    simulator = Simulator(workload, applications, policy, told)
    while not simulator.finished:
        simulator.step()
        report(simulator.share_done)
    ends = {job.submission.name: job.completion for job in simulator.jobs}
    return np.array([ends[job.name] for job in problem.jobs], dtype=float)
