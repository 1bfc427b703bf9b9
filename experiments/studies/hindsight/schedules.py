r"""Ways to an ideal schedule with hindsight, one after the other, above the bound on all schedules.

Rules of thumb, the multipliers of the bound, and the alpha-points of the fractional solution that
stands behind it are worths by which a schedule is made; local search improves them, and windows of
what it finds are decided exactly. By the same worths a day is planned on the nodes, with rounds and
restarts, and replayed, but for windows: they are of one ideal schedule. Beside them: how much of
the fractional solution nodes of four GPUs could not hold, since no bound counts nodes. There a job
on *k* GPUs has a piece of :math:`k \bmod 4` GPUs besides its whole nodes; pieces of three leave a
GPU each, which only pieces of one can take. With :math:`n_3` and :math:`n_1` of them,
:math:`\max(n_3 - n_1, 0)` GPUs are lost.
"""

from __future__ import annotations

import time
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.applications.truth import applications_of
from goodalloc.data.documents.traces_digest import traces_digest
from goodalloc.experiments.hindsight.bound_file import bound_document
from goodalloc.experiments.hindsight.day import require_feasible
from goodalloc.experiments.hindsight.placed_replay import HOLDS, Planner
from goodalloc.experiments.hindsight.problem_of_replay import replayed_problem
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.plots import COLOURS, figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.reproduction import EIGHT, Plan, Reproduction
from goodalloc.experiments.support.version import library_version
from goodalloc.solvers.hindsight.best_prices import STAGES, hindsight_bound
from goodalloc.solvers.hindsight.free_multipliers import with_free_multipliers
from goodalloc.solvers.hindsight.priced_schedule import WorthScheduler
from goodalloc.solvers.hindsight.schedule_search import (
    POWERS,
    SECONDS,
    HindsightSchedule,
    best_worths,
    find_schedule,
    rule_of_thumb,
)
from goodalloc.solvers.hindsight_schedules.alpha_points import alpha_point_worths, end_chances
from goodalloc.solvers.hindsight_schedules.exact_windows import (
    DecidedWindows,
    WindowSearch,
    decide_windows,
)
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.hindsight.offline_schedule import OfflineSchedule
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.hindsight.best_prices import HindsightBound
    from goodalloc.solvers.hindsight.schedule_search import Worths

#: Steps of the local search, and of a quick one.
STEPS, QUICK_STEPS = 1000, 100

#: Windows that are decided exactly, of many jobs or long, and seconds after which one is given up.
WINDOWS = (
    WindowSearch(seconds=120.0, step=30.0, jobs=4, most_columns=4000),
    WindowSearch(seconds=300.0, step=60.0, jobs=3, most_columns=4000),
    WindowSearch(seconds=900.0, step=90.0, jobs=3, most_columns=6000),
)
WINDOW_SECONDS = 20.0

#: Ways of the table.
RULES, MULTIPLIERS, ALPHA_POINTS = "rules of thumb", "multipliers of the bound", "alpha-points"
SEARCH, FROM_ALPHA, EXACT = "local search", "local search from alpha-points", "windows exactly"
WAYS = (RULES, MULTIPLIERS, ALPHA_POINTS, SEARCH, FROM_ALPHA, EXACT)

#: Parameter of the smoothed minimum behind the fractional solution, in seconds of a job, and
#: probability of a schedule that counts as none.
SMOOTHING, NEVER = 2.0, 1e-3

#: GPUs of a node.
PER_NODE = 4


class ScheduleRow(NamedTuple):
    """Schedule of one workload, made in one way.

    Attributes
    ----------
    workload, jobs
        Number of the workload, and of its jobs.
    way
        How the schedule was made, one of `WAYS`.
    average_completion_s, above_bound_percent
        Its average completion time, and by how much that is above the bound.
    replayed_s
        Average completion time of the replay by the same worths; None of windows.
    seconds
        Processor seconds of this way, on top of those before it that it needs.
    solved, unsolved, improved
        Numbers of windows that were solved to optimality, that were not within the limits, and that
        made the schedule better; 0 where none is decided.
    lost_to_nodes_percent
        GPU-hours of the fractional solution that nodes could not hold, in those that it uses.
    """

    workload: int
    jobs: int
    way: str
    average_completion_s: float
    above_bound_percent: float
    replayed_s: float | None
    seconds: float
    solved: int
    unsolved: int
    improved: int
    lost_to_nodes_percent: float


class Made(NamedTuple):
    """Schedule that was made in one way, by worths but for windows; see `ScheduleRow`."""

    way: str
    value: float
    worths: Worths | None = None
    solved: int = 0
    unsolved: int = 0
    improved: int = 0


def schedules_by_way(
    problem: OfflineProblem, bound: HindsightBound, steps: int, windows: tuple[WindowSearch, ...]
) -> Iterator[Made]:
    """Yield a schedule for each of `WAYS`.

    Parameters
    ----------
    problem
        The problem.
    bound
        Bound on its schedules.
    steps
        Steps of each local search.
    windows
        Windows that are decided exactly, one search after the other.

    Raises
    ------
    ValueError
        If a schedule is not feasible.
    """
    scheduler = WorthScheduler(problem)

    def value(worths: Worths) -> float:
        segments: OfflineSchedule = {}
        completion = scheduler.run(worths, segments)
        return _checked(problem, segments, completion)

    def made(way: str, worths: Worths) -> Made:
        return Made(way, value(worths), worths)

    rules = (rule_of_thumb(problem, second, power) for second in SECONDS for power in POWERS)
    yield made(RULES, min(rules, key=value))
    own = [
        bound.multipliers[job.training].values[max(pattern, 0)]
        for job, pattern in zip(problem.jobs, bound.patterns, strict=True)
    ]
    yield made(MULTIPLIERS, own)
    points = alpha_point_worths(problem, bound)
    yield made(ALPHA_POINTS, points)
    stop = Stop(iterations=steps)
    found = find_schedule(problem, bound, stop=stop)
    yield made(SEARCH, found.worth)
    yield made(FROM_ALPHA, best_worths(problem, scheduler.run, [points], stop=stop))
    decided = [DecidedWindows(found.segments, found.completion, 0, 0, 0)]
    for search in windows:
        stop = Stop(seconds=WINDOW_SECONDS)
        decided.append(decide_windows(problem, decided[-1].segments, search, stop=stop))
    last = _checked(problem, decided[-1].segments, decided[-1].completion)
    solved, unsolved, improved = (sum(counts) for counts in list(zip(*decided, strict=True))[2:])
    yield Made(EXACT, last, None, solved, unsolved, improved)


def _checked(problem: OfflineProblem, segments: OfflineSchedule, completion: Floats) -> float:
    """Return the objective of a schedule that is feasible."""
    schedule = HindsightSchedule(problem.total(completion), completion, segments, (), ())
    require_feasible(problem, schedule)
    return schedule.value


def replayed_value(problem: OfflineProblem, planner: Planner, worths: Worths) -> float:
    """Return the objective of a replay by worths, whose allocations are expected to last the best.

    Parameters
    ----------
    problem
        The problem.
    planner
        Plans and replays of its workload.
    worths
        Worth of a unit of progress in each phase, for every job.
    """
    hold = min(HOLDS, key=lambda one: problem.total(planner.scheduler(one).run(worths)))
    return problem.total(planner.replayed(worths, hold, lambda _share: None))


def lost_to_nodes(problem: OfflineProblem, bound: HindsightBound) -> float:
    """Return the part of the GPU-hours of the fractional solution that nodes could not hold.

    Parameters
    ----------
    problem
        The problem, of one type of GPU.
    bound
        Bound on its schedules.
    """
    mean = float(np.mean([job.weight for job in problem.jobs]))
    prices, lengths = bound.prices[:, 0], np.diff(bound.edges)
    held = np.zeros((prices.size, int(problem.supply.gpus.max()) + 1))  # jobs by number of GPUs
    for job, found in zip(problem.jobs, end_chances(problem, bound, SMOOTHING * mean), strict=True):
        training = problem.training(job.training)
        first = min(int(np.searchsorted(bound.edges, job.begin, side="right")), prices.size) - 1
        for last in np.flatnonzero(found.chances > NEVER).tolist():
            multipliers = bound.multipliers[job.training].values[found.patterns[last]]
            earned = (multipliers[:, None] * training.rates[0]).max(axis=0)
            own = slice(first, first + last + 1)
            net = earned - prices[own, None] * training.gpus
            gpus = np.where(net.max(axis=1) > 0, training.gpus[net.argmax(axis=1)], 0.0)
            held[np.arange(own.start, own.stop), gpus.astype(int)] += found.chances[last]
    numbers = np.arange(held.shape[1])
    ones, threes = (held[:, numbers % PER_NODE == piece].sum(axis=1) for piece in (1, 3))
    lost = np.maximum(threes - ones, 0.0)
    return float(lost @ lengths / (held @ numbers @ lengths))


@dataclass(frozen=True)
class ScheduleTask(RecordedTask):
    """Task that makes schedules of one workload in every way.

    Parameters
    ----------
    workload
        The submitted jobs.
    traces
        Folder of measurements; None for the shipped profiles.
    quick
        Whether the searches are short ones.
    """

    workload: tuple[Submission, ...]
    traces: str | None
    quick: bool

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        return {
            "format": "goodalloc-hindsight-schedules",
            "version": 3,
            "library": library_version(),
            "workload": [list(astuple(job)) for job in self.workload],
            "traces": traces_digest(self.traces),
            "quick": self.quick,
        }

    def work(self, report: Report) -> Rows:
        """Bound the workload, and make its schedules."""
        setting, applications = Setting(), applications_of(self.traces)
        problem = replayed_problem(self.workload, applications, setting)
        planner = Planner(problem, self.workload, applications, setting)
        bound = hindsight_bound(problem, STAGES[:1] if self.quick else STAGES)
        # multipliers of each job's own prove more, and are worse worths
        proved = float(bound_document(problem, with_free_multipliers(problem, bound))["bound"])
        lost = lost_to_nodes(problem, bound)
        steps, windows = (QUICK_STEPS, WINDOWS[:1]) if self.quick else (STEPS, WINDOWS)
        rows: Rows = []
        begin = time.process_time()
        for made in schedules_by_way(problem, bound, steps, windows):
            spent = time.process_time() - begin
            worths = made.worths
            replayed = None if worths is None else replayed_value(problem, planner, worths)
            rows.append(
                {
                    "way": made.way,
                    "average_completion_s": rounded(made.value, 8),
                    "above_bound_percent": round(100.0 * (made.value / proved - 1.0), 4),
                    "replayed_s": None if replayed is None else rounded(replayed, 8),
                    "seconds": round(spent, 2),
                    "solved": made.solved,
                    "unsolved": made.unsolved,
                    "improved": made.improved,
                    "lost_to_nodes_percent": round(100.0 * lost, 4),
                }
            )
            report(len(rows) / len(WAYS))
            begin = time.process_time()
        return rows


def _task(plan: Plan, number: int) -> ScheduleTask:
    """Return the task of one workload."""
    task = ScheduleTask(plan.folder, plan.workload(number), plan.traces, plan.quick)
    return task.among(plan.folder, "hindsight-schedules")


def _rows(plan: Plan) -> list[ScheduleRow]:
    """Return a row for every workload and way."""
    return [
        ScheduleRow(workload=number, jobs=len(plan.workload(number)), **row)
        for number in plan.workloads
        for row in _task(plan, number).record()
    ]


def plot_schedules(rows: list[ScheduleRow]) -> Figure:
    """Draw how far the schedules of every workload are above its bound, a line for each."""
    ax = new_axes(7.0, 3.6)
    for index, number in enumerate(dict.fromkeys(row.workload for row in rows)):
        own = [row.above_bound_percent for row in rows if row.workload == number]
        ax.plot(own, range(len(own)), "o-", color=COLOURS[index], label=f"workload {number}")
    ax.set_yticks(range(len(WAYS)), WAYS)
    ax.invert_yaxis()
    ax.set_xlim(left=0.0)
    ax.set_xlabel("average completion time above the bound on every schedule (%)")
    ax.legend(frameon=False, fontsize="small")
    open_axes(ax)
    return figure_of(ax)


SCHEDULES = Reproduction(
    "hindsight-schedules: ways to an ideal schedule, from rules of thumb to exact windows",
    lambda plan: [_task(plan, number) for number in plan.workloads],
    _rows,
    lambda _, rows: plot_schedules(rows),
    ignores=("pollux", "seeds", "gaps"),
    workloads=EIGHT,
    quick_workloads=Plan.workloads,
    times=True,
)
