"""What every relaxation of the bound on a whole trace costs, at the prices of the bound.

Prices are searched as `goodalloc hindsight` does. At these prices the jobs' bounds are made
tighter, one relaxation lifted at a time; the total is a bound whatever the prices are. And each job
gets a schedule of its own that is as cheap as we find: no relaxation of the jobs' schedules that is
lifted can add more, at these prices. A mixture of such schedules that has room on the GPUs tells
the same of any prices of these intervals, and what nodes of four GPUs would add to it. What is left
of the distance to the schedules that are found is due to a job's one schedule in place of a
mixture, and to their search.
"""

from __future__ import annotations

import time
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.applications.truth import applications_of
from goodalloc.data.documents.traces_digest import traces_digest
from goodalloc.experiments.hindsight.bound_file import bound_document
from goodalloc.experiments.hindsight.problem_of_replay import replayed_problem
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay_bound.replay_certificate import replay_bound_document
from goodalloc.experiments.replay_bound.replay_rounds import rounds_of_replay
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.support.version import library_version
from goodalloc.solvers.hindsight.best_prices import STAGES, Stage, hindsight_bound
from goodalloc.solvers.hindsight.free_multipliers import with_free_multipliers
from goodalloc.solvers.hindsight.lone_schedules import lone_job_costs
from goodalloc.solvers.hindsight.order_of_phases import ordered_job_bounds
from goodalloc.solvers.hindsight.phase_windows import windowed_job_bounds
from goodalloc.solvers.hindsight.round_prices import round_prices
from goodalloc.solvers.hindsight.rounds_with_restarts import round_job_bounds
from goodalloc.solvers.hindsight_schedules.mixtures import STEPS, cheapest_mixture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.hindsight.rounds import Rounds
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.hindsight.best_prices import HindsightBound

#: A quick search of prices, a further stage with finer intervals, and lines of the table.
QUICK_SEARCH = (Stage(1200.0, (200.0, 60.0), 15), Stage(300.0, (40.0, 10.0), 15))
FINER, LINES = Stage(150.0, (2.0,), 40), 15

#: Steps of a quick search of mixtures, parts of a round after which schedules may change that could
#: do so at any time, and GPUs of a node.
QUICK_STEPS, SHORTER, PER_NODE = 15, 2, 4

#: What vouches for a value: the stand-alone checker, which proves it; that it is computed, a bound
#: to rounding; a schedule of every job alone, so that no bound at these prices is greater; or a
#: mixture of schedules, so that no bound at any prices of the intervals is.
CHECKED, COMPUTED, LIMIT, MIXTURE = "checker", "computed", "limit", "mixture"


class RelaxationRow(NamedTuple):
    """Bound on one workload with a relaxation lifted.

    Attributes
    ----------
    workload, jobs
        Number of the workload, and of its jobs.
    lifted
        The relaxation, or relaxations.
    vouched
        What vouches for it: `CHECKED`, `COMPUTED`, `LIMIT` or `MIXTURE`.
    bound_average_completion_s
        The bound; with `LIMIT` what no bound at these prices exceeds, with `MIXTURE` none at any.
    gain_percent
        What it adds to the bound of the search, in per cent.
    seconds
        Seconds that it takes on top of the search; of a whole search where none is lifted, or
        the intervals are finer.
    """

    workload: int
    jobs: int
    lifted: str
    vouched: str
    bound_average_completion_s: float
    gain_percent: float
    seconds: float


def lifted_bounds(
    problem: OfflineProblem,
    rounds: Rounds,
    search: tuple[Stage, ...],
    finer: Stage,
    steps: int = STEPS,
) -> Iterator[tuple[str, str, float, float]]:
    """Yield what is lifted, what vouches for it, the bound and its seconds.

    Parameters
    ----------
    problem
        The problem; the weights of its jobs have the sum 1.
    rounds
        Rounds of its replays, with restarts.
    search
        Stages of the search of prices.
    finer
        A further stage, with finer intervals.
    steps
        Most steps of the search of a mixture.
    """
    clock = _Clock()
    bound = hindsight_bound(problem, search)
    usual = clock.seconds()
    yield "none", CHECKED, _proved(problem, bound), usual
    clock.seconds()
    free = with_free_multipliers(problem, bound)
    freed = clock.seconds()
    yield "family of multipliers", CHECKED, _proved(problem, free), freed
    clock.seconds()
    found = _proved(problem, hindsight_bound(problem, (*search, finer)))
    yield f"intervals of {search[-1].interval:g} s", CHECKED, found, clock.seconds()
    for name, way, start, before in (
        ("windows of phases", windowed_job_bounds, bound, 0.0),
        ("order of phases", ordered_job_bounds, bound, 0.0),
        ("order of phases, family of multipliers", ordered_job_bounds, free, freed),
    ):
        value = _total(bound, way(problem, start))
        yield name, COMPUTED, value, before + clock.seconds()
    free_changes = replace(rounds, restart=dict.fromkeys(rounds.restart, 0.0))
    value = _total(bound, round_job_bounds(problem, free, free_changes))
    yield "order, whole GPUs, rounds, first start", COMPUTED, value, freed + clock.seconds()
    value = float(replay_bound_document(problem, free, rounds)["bound"])
    yield "order, whole GPUs, rounds, all starts", CHECKED, value, freed + clock.seconds()
    prices = round_prices(problem, free, rounds)
    value = float(replay_bound_document(problem, free, rounds, prices)["bound"])
    yield "the same, by prices of its own", CHECKED, value, freed + clock.seconds()
    for name, kept in (
        ("all but rounds and restarts", {}),
        ("all but restarts", {"clock": rounds.seconds}),
        ("all", {"clock": rounds.seconds, "delay": max(rounds.restart.values())}),
    ):
        value = _total(bound, lone_job_costs(problem, free, **kept))
        yield name, LIMIT, value, clock.seconds()
    short = replace(free_changes, seconds=rounds.seconds / SHORTER)
    for name, own, first, per_node in (
        ("all but rounds and restarts, any prices", short, free.prices, None),
        ("all, any prices", rounds, prices, None),
        ("all and nodes, any prices", rounds, prices, PER_NODE),
    ):
        mixture = cheapest_mixture(problem, own, free.edges, first, per_node=per_node, steps=steps)
        yield name, MIXTURE, mixture.value, clock.seconds()


class _Clock:
    """Clock of which every reading starts it again."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()

    def seconds(self) -> float:
        """Return the seconds since the last reading."""
        begin, self._begin = self._begin, time.perf_counter()
        return self._begin - begin


def _proved(problem: OfflineProblem, bound: HindsightBound) -> float:
    """Return what the stand-alone checker proves."""
    return float(bound_document(problem, bound)["bound"])


def _total(bound: HindsightBound, job_bounds: Floats) -> float:
    """Return the bound with other bounds of the jobs, at the same prices."""
    return bound.value + float((job_bounds - bound.job_bounds).sum())


@dataclass(frozen=True)
class RelaxationTask(RecordedTask):
    """Task that bounds one workload with every relaxation lifted.

    Parameters
    ----------
    workload
        The submitted jobs.
    traces
        Folder of measurements; None for the shipped profiles.
    quick
        Whether the search of prices is a short one.
    """

    workload: tuple[Submission, ...]
    traces: str | None
    quick: bool

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        return {
            "format": "goodalloc-relaxations",
            "version": 4,
            "library": library_version(),
            "workload": [list(astuple(job)) for job in self.workload],
            "traces": traces_digest(self.traces),
            "quick": self.quick,
        }

    def work(self, report: Report) -> Rows:
        """Search prices, and bound the workload in every way."""
        base, setting, applications = 0.0, Setting(), applications_of(self.traces)
        rows: Rows = []
        problem = replayed_problem(self.workload, applications, setting)
        rounds = rounds_of_replay(problem, applications, setting)
        search, steps = (QUICK_SEARCH, QUICK_STEPS) if self.quick else (STAGES, STEPS)
        for name, vouched, value, seconds in lifted_bounds(problem, rounds, search, FINER, steps):
            base = base or value
            rows.append(
                {
                    "lifted": name,
                    "vouched": vouched,
                    "bound_average_completion_s": rounded(value, 8),
                    "gain_percent": round(100.0 * (value / base - 1.0), 4),
                    "seconds": round(seconds, 2),
                }
            )
            report(len(rows) / LINES)
        return rows


def _task(plan: Plan, number: int) -> RelaxationTask:
    """Return the task of one workload."""
    task = RelaxationTask(plan.folder, plan.workload(number), plan.traces, plan.quick)
    return task.among(plan.folder, "relaxations")


def _rows(plan: Plan) -> list[RelaxationRow]:
    """Return a row for every workload and relaxation."""
    return [
        RelaxationRow(workload=number, jobs=len(plan.workload(number)), **row)
        for number in plan.workloads
        for row in _task(plan, number).record()
    ]


def _plot(_: Plan, rows: list[RelaxationRow]) -> Figure:
    """Draw the gains, and the limits, of every workload."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    ax = figure.subplots()
    names, numbers = (
        [*dict.fromkeys(getattr(row, field) for row in rows)] for field in ("lifted", "workload")
    )
    height = 0.8 / len(numbers)
    for index, number in enumerate(numbers):
        own = [row for row in rows if row.workload == number]
        bars = ax.barh(
            [names.index(row.lifted) + height * (index - (len(numbers) - 1) / 2) for row in own],
            [row.gain_percent for row in own],
            height,
            color=COLOURS[index],
            label=f"workload {number}",
        )
        for bar, row in zip(bars, own, strict=True):
            bar.set_alpha(0.4 if row.vouched in (LIMIT, MIXTURE) else 1.0)
    ax.set_yticks(range(len(names)), names, fontsize="small")
    ax.invert_yaxis()
    ax.set_xlabel("gain over the bound of the search (%); pale: at most so much")
    ax.legend(frameon=False, fontsize="small")
    open_axes(ax)
    return figure


RELAXATIONS = Reproduction(
    "hindsight-relaxations: what each relaxation of the bound on every schedule costs",
    lambda plan: [_task(plan, number) for number in plan.workloads],
    _rows,
    _plot,
    ignores=("pollux", "seeds", "gaps"),
    workloads=(6, 1),
    quick_workloads=(6,),
    times=True,
)
