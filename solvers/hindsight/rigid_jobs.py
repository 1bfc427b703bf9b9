"""Bound on the average completion time of jobs that run on given numbers of GPUs or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.hindsight.closed_forms import best_closed_form
from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)
from goodalloc.models.support.validation import require_number

if TYPE_CHECKING:
    from collections.abc import Sequence


def rigid_jobs_bound(
    submissions: Sequence[float],
    begins: Sequence[float],
    gangs: Sequence[int],
    seconds: Sequence[float],
    gpus: int,
) -> float:
    """Return seconds below which the average completion time of no schedule is.

    The GPUs are one machine that may be shared in any parts, on which a job takes its gang times
    its seconds; and no job ends before it would alone (`pooled_machine.py`).

    Parameters
    ----------
    submissions, begins
        When each job is submitted, and from when on it can run, in seconds; shape (jobs,).
    gangs, seconds
        GPUs of each job, all or none, and seconds that it takes on them; shape (jobs,).
    gpus
        GPUs of the cluster.

    Raises
    ------
    ValueError
        If the lengths differ, a job begins before it is submitted, a number is out of range, or a
        gang does not fit.

    Examples
    --------
    >>> from goodalloc.solvers.hindsight import rigid_jobs_bound
    >>> rigid_jobs_bound([0.0, 0.0], [0.0, 0.0], [4, 4], [60.0, 30.0], gpus=4)  # 30 and 90
    60.0
    """
    require_number("Bound: gpus", gpus, minimum=1.0)
    jobs, trainings = [], []
    columns = zip(submissions, begins, gangs, seconds, strict=True)
    for index, (submission, begin, gang, length) in enumerate(columns):
        name = f"job-{index}"
        work, counts, rates = np.array([length]), np.array([float(gang)]), np.ones((1, 1, 1))
        trainings.append(Training(name, work, counts, rates))
        jobs.append(OfflineJob(name, name, submission, begin, 1.0 / len(submissions)))
    problem = OfflineProblem(tuple(trainings), tuple(jobs), Supply.constant({"GPU": float(gpus)}))
    found = best_closed_form(problem)
    assert found is not None  # of equal weights there is one
    return found.value
