r"""Weights of jobs in the average of a day with hindsight.

With weights :math:`v_j` the objective is the weighted mean :math:`\sum_j v_j x_j / \sum_j v_j` of
the completion times or slowdowns :math:`x_j`, instead of their mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from goodalloc.data.documents.csv_table import read_table
from goodalloc.models.support.validation import did_you_mean, literal, require_number

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from goodalloc.experiments.hindsight.objectives import Objective
    from goodalloc.models.hindsight.offline_problem import OfflineProblem

#: Columns of a file of weights.
COLUMNS = ("job", "weight")


def read_weights(path: str | os.PathLike[str]) -> dict[str, float]:
    """Read the weights of jobs: CSV with the columns `COLUMNS`, a row for a job.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    dict
        Weights by the names of the jobs.

    Raises
    ------
    ValueError
        If the file cannot be read, has no rows or lacks a column, a weight is no finite number
        above 0, or a job is there twice.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.experiments.hindsight import read_weights
    >>> _ = Path("weights.csv").write_text("job,weight\\nfirst,2.5\\n")
    >>> read_weights("weights.csv")
    {'first': 2.5}
    """
    table = read_table(path, COLUMNS)
    jobs, weights = table.columns["job"], table.numbers("weight", 0.0, strict=True).tolist()
    found: dict[str, float] = {}
    for row, (job, weight) in enumerate(zip(jobs, weights, strict=True)):
        if job in found:
            raise table.refusal(row, "job", "every job once")
        found[job] = weight
    return found


def with_weights(problem: OfflineProblem, weights: Mapping[str, float]) -> OfflineProblem:
    """Return the problem with the weighted mean for its objective.

    Parameters
    ----------
    problem
        The problem, whose objective is a mean over the jobs.
    weights
        Weights by the names of jobs, above 0; all other jobs have the weight 1.

    Raises
    ------
    ValueError
        If the problem has no job of a name, or a weight is no finite number above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.experiments.hindsight import with_weights
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> training = Training("one", np.array([60.0]), np.array([1.0]), np.array([[[1.0]]]))
    >>> jobs = tuple(OfflineJob(name, "one", 0.0, 0.0, 0.5) for name in "ab")
    >>> problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 1.0}))
    >>> [job.weight for job in with_weights(problem, {"a": 3.0}).jobs]
    [0.75, 0.25]
    """
    names = [job.name for job in problem.jobs]
    for name, weight in weights.items():
        if name not in names:
            raise ValueError(
                f"Weights: job {literal(name)} is none of the workload{did_you_mean(name, names)}; "
                "expected the names of its jobs."
            )
        require_number(f"Weights: job '{name}': weight", weight, minimum=0.0, strict=True)
    own = [float(weights.get(name, 1.0)) for name in names]
    scale = len(own) / sum(own)
    jobs = tuple(
        replace(job, weight=job.weight * weight * scale)
        for job, weight in zip(problem.jobs, own, strict=True)
    )
    return replace(problem, jobs=jobs)


def weighted(objective: Objective) -> Objective:
    """Return the weighted mean in place of a mean, as it is called.

    Parameters
    ----------
    objective
        The mean.

    Examples
    --------
    >>> from goodalloc.experiments.hindsight.job_weights import weighted
    >>> from goodalloc.experiments.hindsight.objectives import COMPLETION
    >>> weighted(COMPLETION).key
    'weighted_average_completion_s'
    """
    return objective._replace(name=f"weighted {objective.name}", key=f"weighted_{objective.key}")
