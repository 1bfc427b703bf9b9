r"""Objectives of a day with hindsight that are weighted sums of completion times.

With :math:`w_j = 1 / n` the objective of the offline problem is the average completion time; with
:math:`w_j = 1 / (n A_j)` it is the average slowdown, where :math:`A_j` is the time of job *j* alone
on the GPUs that its user requested: a finish-time ratio as of Themis (NSDI'20, section 3) whose
share of the cluster is the request, so that it is the same under every scheduler. Deadlines are
multiples of the same time, as in ElasticFlow (ASPLOS'23).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.validation import require_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from goodalloc.data.workloads.workload import Submission
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.support.array_types import Floats


class Objective(NamedTuple):
    """Weighted sum of completion times, as it is called.

    Attributes
    ----------
    name
        Name of it.
    key
        Its name in JSON, with the unit.
    form
        Format of its value with the unit, for people.
    """

    name: str
    key: str
    form: str

    def text(self, value: float) -> str:
        """Return a value for people."""
        return self.form.format(value)


COMPLETION = Objective("average completion time", "average_completion_s", "{:,.0f} s")
SLOWDOWN = Objective("average slowdown", "average_slowdown", "{:.3f}")


def requested_seconds(
    problem: OfflineProblem, workload: Sequence[Submission]
) -> Float[Floats, " jobs"]:
    """Return the seconds of every job alone on the GPUs that it requested.

    Parameters
    ----------
    problem
        The offline problem of the workload.
    workload
        The submitted jobs.

    Raises
    ------
    ValueError
        If a job cannot run on so few GPUs.
    """
    return np.array(
        [problem.training(job.application).seconds_on(job.replicas) for job in workload]
    )


def due_by(
    problem: OfflineProblem, workload: Sequence[Submission], factor: float
) -> Float[Floats, " jobs"]:
    """Return when jobs are due that have a multiple of their time on the requested GPUs.

    Parameters
    ----------
    problem, workload
        As in `requested_seconds`.
    factor
        The multiple, above 0.

    Raises
    ------
    ValueError
        If the factor is not above 0.
    """
    require_number("Deadlines: factor", factor, minimum=0.0, strict=True)
    release = np.array([job.release for job in problem.jobs])
    return np.asarray(release + factor * requested_seconds(problem, workload))


def with_slowdowns(problem: OfflineProblem, workload: Sequence[Submission]) -> OfflineProblem:
    """Return the problem with the average slowdown for its objective.

    Parameters
    ----------
    problem, workload
        As in `requested_seconds`.
    """
    weights = 1.0 / (len(workload) * requested_seconds(problem, workload))
    jobs = tuple(
        replace(job, weight=weight)
        for job, weight in zip(problem.jobs, weights.tolist(), strict=True)
    )
    return replace(problem, jobs=jobs)
