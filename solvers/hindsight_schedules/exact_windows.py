"""Windows of a schedule, decided anew and exactly.

A window is a time in which some of the jobs are free: how they share the GPUs that the others leave
them is decided by the program of `formulations/hindsight/time_indexed.py`. The edges of its grid
are regular, and at all moments at which anything changes in the schedule, so that the schedule is
one of those of the program. A job that ends in the window is to end soon, one that goes on is to do
there what it does now, and behind the window everything stays. So no window makes the objective
worse, and one that is solved to optimality and changes nothing proves that nothing can be gained
there on the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.hindsight.time_indexed import decode_schedule, time_indexed_program
from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)
from goodalloc.models.hindsight.offline_schedule import completion_times
from goodalloc.models.support.validation import require_count, require_number
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_schedule import OfflineSchedule, Segment
    from goodalloc.models.support.array_types import Floats

#: Seconds between moments that count as one, and units of work, relative to that of a phase, that
#: count as none.
ROUNDING = 1e-6

#: Weight of a job that goes on behind its window, in its own: it has only to do its work there.
GOING_ON = 1e-3

#: Numbers of GPUs of a job in a window, besides those that it has there now.
COUNTS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64)

#: Gap, in seconds of a job of mean weight, and nodes of branch and bound, at which a window ends.
GAP, MOST_BRANCHES = 0.1, 2000


@dataclass(frozen=True)
class WindowSearch:
    """Which windows are decided anew.

    Parameters
    ----------
    seconds
        Length of a window.
    step
        Seconds between edges of its grid, besides those at which anything changes now.
    jobs
        Most jobs that are free in a window.
    windows
        Number of windows.
    most_columns
        Columns of a program above which its window is passed over.
    seed
        Seed of the windows and their jobs.

    Raises
    ------
    ValueError
        If one of them is out of range.
    """

    seconds: float = 300.0
    step: float = 30.0
    jobs: int = 4
    windows: int = 20
    most_columns: int = 3000
    seed: int = 0

    def __post_init__(self) -> None:
        require_number("Windows: seconds", self.seconds, minimum=0.0, strict=True)
        require_number("Windows: step", self.step, minimum=0.0, strict=True)
        require_count("Windows: jobs", self.jobs, 1)
        require_count("Windows: windows", self.windows, 1)
        require_count("Windows: most_columns", self.most_columns, 1)
        require_count("Windows: seed", self.seed, 0)


USUAL_WINDOWS, NO_LIMIT = WindowSearch(), Stop()


class DecidedWindows(NamedTuple):
    """Schedule after its windows were decided anew.

    Attributes
    ----------
    segments
        GPUs of every job over time.
    completion
        Completion times, in the order of the jobs.
    solved, unsolved
        Numbers of windows that were solved to the gap, and of those that were not within the
        limits; the others were too large.
    improved
        Number of windows that made the objective less.
    """

    segments: OfflineSchedule
    completion: Float[Floats, " jobs"]
    solved: int
    unsolved: int
    improved: int


def decide_windows(
    problem: OfflineProblem,
    segments: OfflineSchedule,
    search: WindowSearch = USUAL_WINDOWS,
    *,
    stop: Stop = NO_LIMIT,
    report: Callable[[float], None] = lambda _share: None,
) -> DecidedWindows:
    """Return a schedule whose windows are decided exactly, one after the other.

    Each window ends when a job does that is drawn at random; further jobs of it are drawn from
    those that train in it.

    Parameters
    ----------
    problem
        The problem.
    segments
        A feasible schedule of it.
    search
        Which windows are decided.
    stop
        Limits of a window; without one of seconds the same schedule comes out again.
    report
        Callback for the share of the windows that is done.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Segment, Supply, Training
    >>> from goodalloc.solvers.hindsight_schedules import WindowSearch, decide_windows
    >>> trainings = tuple(
    ...     Training(name, np.array([work]), np.array([1.0]), np.array([[[1.0]]]))
    ...     for name, work in (("long", 600.0), ("short", 60.0))
    ... )
    >>> jobs = tuple(OfflineJob(one.name, one.name, 0.0, 0.0) for one in trainings)
    >>> problem = OfflineProblem(trainings, jobs, Supply.constant({"t4": 1.0}))
    >>> longest_first = {
    ...     "long": (Segment(0.0, 600.0, 0, 1.0),),
    ...     "short": (Segment(600.0, 660.0, 0, 1.0),),
    ... }
    >>> search = WindowSearch(seconds=660.0, step=60.0, windows=2)
    >>> decide_windows(problem, longest_first, search).completion.tolist()
    [660.0, 60.0]
    """
    random = np.random.default_rng(search.seed)
    gap = GAP * float(np.mean([job.weight for job in problem.jobs]))
    found = DecidedWindows(segments, completion_times(problem, segments), 0, 0, 0)
    for index in range(search.windows):
        window = _draw_window(problem, found, search, random)
        if window is not None:
            found = _decided(problem, found, window, Watch(stop), gap)
        report((index + 1) / search.windows)
    return found


class _Window(NamedTuple):
    """Jobs that are free in a window.

    Attributes
    ----------
    problem
        The problem of the window, whose seconds begin with it.
    edges
        Seconds of its grid, in the whole problem.
    """

    problem: OfflineProblem
    edges: Float[Floats, " edges"]


def _draw_window(
    problem: OfflineProblem,
    found: DecidedWindows,
    search: WindowSearch,
    random: np.random.Generator,
) -> _Window | None:
    """Return a window that ends when a job does; None if nothing or too much is to be decided."""
    last = int(random.integers(len(problem.jobs)))
    end = float(found.completion[last])
    start = max(end - search.seconds, 0.0)
    trains = [
        row
        for row, job in enumerate(problem.jobs)
        if _done(problem, job, found.segments, start, end).any()
    ]
    if last not in trains:
        return None
    others = random.permutation([row for row in trains if row != last])
    rows = [last, *others[: search.jobs - 1].tolist()]
    regular = np.arange(start, end, search.step)
    edges = _edges(problem, found.segments, rows, regular, end)
    free = _free(problem, found.segments, rows, edges)
    trainings, jobs = [], []
    for row in rows:
        job = problem.jobs[row]
        training = _part_of(problem, job, found.segments, edges, free.max())
        begin = float(edges[np.searchsorted(edges, max(job.begin, edges[0]))] - edges[0])
        ends = found.completion[row] <= end + ROUNDING
        trainings.append(training)
        weight = job.weight * (1.0 if ends else GOING_ON)
        jobs.append(OfflineJob(job.name, job.name, begin, begin, weight))
    intervals = edges.size - 1
    columns = sum(intervals * one.rates[:, 0].size * (1 + one.num_phases) for one in trainings)
    if columns > search.most_columns or not (free[-1] > 0).all():
        return None
    supply = Supply(problem.supply.types, edges[:-1] - edges[0], free)
    return _Window(OfflineProblem(tuple(trainings), tuple(jobs), supply), edges)


def _edges(
    problem: OfflineProblem,
    segments: OfflineSchedule,
    rows: Sequence[int],
    regular: Float[Floats, " some"],
    end: float,
) -> Float[Floats, " edges"]:
    """Return regular moments, and those at which anything changes; of such that touch the last."""
    start = float(regular[0])
    moments = {end, *problem.supply.times.tolist(), *(problem.jobs[row].begin for row in rows)}
    moments |= {moment for own in segments.values() for one in own for moment in one[:2]}
    within = np.unique([*regular, *(one for one in moments if start < one <= end)])
    return within[np.diff(within, append=np.inf) > ROUNDING]


def _free(
    problem: OfflineProblem,
    segments: OfflineSchedule,
    rows: Sequence[int],
    edges: Float[Floats, " edges"],
) -> Float[Floats, "intervals types"]:
    """Return the GPUs that other jobs leave in every interval."""
    middle, free = (edges[:-1] + edges[1:]) / 2, problem.supply.mean(edges)
    names = {problem.jobs[row].name for row in rows}
    for name, own in segments.items():
        if name in names:
            continue
        for one in own:
            free[(one.start < middle) & (middle < one.end), one.row] -= one.gpus
    return np.asarray(np.maximum(free, 0.0))


def _part_of(
    problem: OfflineProblem,
    job: OfflineJob,
    segments: OfflineSchedule,
    edges: Float[Floats, " edges"],
    free: float,
) -> Training:
    """Return what a job does in a window, on numbers of GPUs that it may have there."""
    training, start, end = problem.training(job.training), float(edges[0]), float(edges[-1])
    done = _done(problem, job, segments, start, end)
    used = {one.gpus for one in segments[job.name] if one.start < end and one.end > start}
    counts = (training.gpus <= free) & np.isin(training.gpus, [*COUNTS, *used])
    rates = training.rates[:, done > 0][:, :, counts]
    return Training(job.name, done[done > 0], training.gpus[counts], rates)


def _done(
    problem: OfflineProblem, job: OfflineJob, segments: OfflineSchedule, start: float, end: float
) -> Float[Floats, " phases"]:
    """Return the work that a job does between two times, 0 where it is within rounding."""
    training, held = problem.training(job.training), segments[job.name]
    if not held or held[0].start >= end or held[-1].end <= start:
        return np.zeros(training.num_phases)
    work = _work_by(training, held, end) - _work_by(training, held, start)
    return np.where(work > ROUNDING * training.work, work, 0.0)


def _work_by(training: Training, held: Sequence[Segment], time: float) -> Float[Floats, " phases"]:
    """Return the work of every phase that is done by a time."""
    done, phase = np.zeros(training.num_phases), 0
    for one in held:
        left = min(one.end, time) - one.start
        rates = training.rates[one.row, :, int(np.searchsorted(training.gpus, one.gpus))]
        while left > 0 and phase < done.size:
            rate, missing = float(rates[phase]), float(training.work[phase] - done[phase])
            if missing > rate * left:
                done[phase] += rate * left
                break
            done[phase] += missing
            phase, left = phase + 1, left - missing / rate
    return done


def _decided(
    problem: OfflineProblem, found: DecidedWindows, window: _Window, watch: Watch, gap: float
) -> DecidedWindows:
    """Return the schedule with a window that is decided anew, if that makes the objective less."""
    grid = time_indexed_program(window.problem, window.edges - window.edges[0])
    outcome = run_mixed_integer(grid.program, watch, gap=gap, most_branches=MOST_BRANCHES)
    found = (
        found._replace(solved=found.solved + 1)
        if outcome.finished
        else found._replace(unsolved=found.unsolved + 1)
    )
    if outcome.values is None:
        return found
    start, end = float(window.edges[0]), float(window.edges[-1])
    segments = dict(found.segments)
    for name, own in decode_schedule(window.problem, grid, outcome.values).items():
        segments[name] = (
            *_between(segments[name], 0.0, start),
            *(one._replace(start=one.start + start, end=one.end + start) for one in own),
            *_between(segments[name], end, np.inf),
        )
    completion = completion_times(problem, segments)
    if not problem.total(completion) < problem.total(found.completion) - gap:
        return found
    for job, last in zip(problem.jobs, completion.tolist(), strict=True):
        segments[job.name] = _between(segments[job.name], 0.0, last)
    return found._replace(segments=segments, completion=completion, improved=found.improved + 1)


def _between(held: Sequence[Segment], start: float, end: float) -> tuple[Segment, ...]:
    """Return the parts of segments between two times."""
    parts = (one._replace(start=max(one.start, start), end=min(one.end, end)) for one in held)
    return tuple(one for one in parts if one.end - one.start > ROUNDING)
