"""Schedules of an offline problem, and a checker that shares nothing with what makes them."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from goodalloc.models.hindsight.offline_problem import OfflineProblem, Training
    from goodalloc.models.support.array_types import Floats


class Segment(NamedTuple):
    """Time in which a job holds always the same GPUs.

    Attributes
    ----------
    start, end
        Seconds.
    row
        Index of the type of GPU.
    gpus
        Number of GPUs, one of those on which it can run.
    """

    start: float
    end: float
    row: int
    gpus: float


#: Segments of every job in order of time, by the name of the job.
OfflineSchedule = dict[str, tuple[Segment, ...]]


def completion_times(problem: OfflineProblem, schedule: Mapping[str, Sequence[Segment]]) -> Floats:
    """Return when every job has done its last phase, infinity if it never does; shape (jobs,).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Segment, Supply
    >>> from goodalloc.models.hindsight import Training, completion_times
    >>> training = Training("one", np.array([60.0]), np.array([1.0, 2.0]), np.array([[[1.0, 1.5]]]))
    >>> job = OfflineJob("a", "one", 0.0, 30.0)
    >>> problem = OfflineProblem((training,), (job,), Supply.constant({"t4": 2.0}))
    >>> completion_times(problem, {"a": (Segment(30.0, 45.0, 0, 1.0), Segment(45.0, 90.0, 0, 2.0))})
    array([75.])
    """
    return np.array(
        [
            _completion(problem.training(job.training), schedule.get(job.name, ()))
            for job in problem.jobs
        ]
    )


def _completion(training: Training, segments: Sequence[Segment]) -> float:
    """Return when a job has done its last phase."""
    phase, left = 0, float(training.work[0])
    for segment in segments:
        now = segment.start
        column = int(np.searchsorted(training.gpus, segment.gpus))
        while now < segment.end:
            rate = float(training.rates[segment.row, phase, column])
            needed = left / rate if rate else math.inf
            # a phase that rounding leaves a trace of at the end of a segment is done
            if now + needed > segment.end + RESOURCE_TOLERANCE * max(segment.end, 1.0):
                left -= rate * (segment.end - now)
                break
            now, phase = now + needed, phase + 1
            if phase == training.num_phases:
                return now
            left = float(training.work[phase])
    return math.inf


def schedule_violations(
    problem: OfflineProblem, schedule: Mapping[str, Sequence[Segment]]
) -> list[str]:
    """Return what a schedule violates, in sentences; nothing if it is feasible.

    Parameters
    ----------
    problem
        The problem.
    schedule
        Segments of every job, by its name.
    """
    known, impossible = {job.name: job for job in problem.jobs}, False
    found = [f"Job '{name}' is unknown." for name in schedule if name not in known]
    held: list[defaultdict[float, float]] = [defaultdict(float) for _ in problem.supply.types]
    for name, job in known.items():
        training, last = problem.training(job.training), job.begin
        for segment in schedule.get(name, ()):
            place = f"Job '{name}' at {segment.start:g} s"
            if not (last <= segment.start < segment.end < math.inf):
                found.append(
                    f"{place}: the segment ends at {segment.end:g} s; expected it from "
                    f"{last:g} s on, after what goes before."
                )
            last = segment.end
            if not 0 <= segment.row < len(held) or segment.gpus not in training.gpus:
                found.append(
                    f"{place}: it runs on {segment.gpus:g} GPUs of type {segment.row}; expected a "
                    "number and a type on which it can."
                )
                impossible = True
                continue
            held[segment.row][segment.start] += segment.gpus
            held[segment.row][segment.end] -= segment.gpus
    for row, changes in enumerate(held):
        found += _overused(problem, row, changes)
    if impossible:
        return found
    ends = completion_times(problem, {**dict.fromkeys(known, ()), **schedule})
    found += [
        f"Job '{name}' is never complete."
        for name, end in zip(known, ends.tolist(), strict=True)
        if math.isinf(end)
    ]
    return found


def _overused(problem: OfflineProblem, row: int, changes: Mapping[float, float]) -> Iterator[str]:
    """Yield a sentence for every moment in which more GPUs are held than there are."""
    supply, used, number = problem.supply, 0.0, 0
    for time in sorted({*changes, *supply.times.tolist()}):
        used += changes.get(time, 0.0)
        number = int(np.searchsorted(supply.times, time, side="right")) - 1
        there = float(supply.gpus[number, row])
        if used > there + RESOURCE_TOLERANCE * max(there, 1.0):
            yield (
                f"From {time:g} s on {used:g} GPUs of type '{supply.types[row]}' are held; "
                f"expected at most {there:g}."
            )
