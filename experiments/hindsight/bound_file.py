"""Files of an offline problem and of a bound on all its schedules, for the stand-alone checker."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.verification import verify_hindsight

if TYPE_CHECKING:
    from goodalloc.data.documents.json_file import Document
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.hindsight.offline_schedule import OfflineSchedule
    from goodalloc.solvers.hindsight.best_prices import HindsightBound
    from goodalloc.solvers.hindsight.late_jobs import LateBound

PROBLEM_FORMAT = "goodalloc-offline-problem"
SCHEDULE_FORMAT = "goodalloc-offline-schedule"
BOUND_FORMAT = "goodalloc-hindsight-bound"
LATE_FORMAT = "goodalloc-late-bound"


def problem_document(problem: OfflineProblem) -> Document:
    """Return an offline problem in terms of JSON."""
    return {
        "format": PROBLEM_FORMAT,
        "version": 1,
        "types": list(problem.supply.types),
        "times": problem.supply.times.tolist(),
        "gpus": problem.supply.gpus.tolist(),
        "trainings": [
            {
                "name": training.name,
                "work": training.work.tolist(),
                "gpus": training.gpus.tolist(),
                "rates": training.rates.tolist(),
            }
            for training in problem.trainings
        ],
        "jobs": [vars(job) for job in problem.jobs],
    }


def schedule_document(schedule: OfflineSchedule | None) -> Document:
    """Return a schedule in terms of JSON: for every job start, end, type and number of GPUs.

    Parameters
    ----------
    schedule
        The schedule; None where there is none.
    """
    told = None
    if schedule is not None:
        told = {name: [list(segment) for segment in own] for name, own in schedule.items()}
    return {"format": SCHEDULE_FORMAT, "version": 1, "segments": told}


def bound_document(problem: OfflineProblem, bound: HindsightBound) -> Document:
    """Return a bound in terms of JSON: what the checker proves by its prices and multipliers.

    Parameters
    ----------
    problem
        The problem.
    bound
        Bound on its schedules.

    Raises
    ------
    ValueError
        If the checker proves nothing by them.
    """
    return _proved(problem, bound, {"format": BOUND_FORMAT})


def late_document(problem: OfflineProblem, bound: LateBound) -> Document:
    """Return a bound on late jobs in terms of JSON: what the checker proves by its prices.

    Parameters
    ----------
    problem
        The problem.
    bound
        Bound on the late jobs of its schedules.

    Raises
    ------
    ValueError
        If the checker proves nothing by them.
    """
    names = [job.name for job in problem.jobs]
    due = dict(zip(names, bound.due.tolist(), strict=True))
    return _proved(problem, bound, {"format": LATE_FORMAT, "due": due})


def _proved(
    problem: OfflineProblem, bound: HindsightBound | LateBound, own: dict[str, Any]
) -> Document:
    """Return a certificate with the bound that the checker proves by it."""
    told = problem_document(problem)
    document: dict[str, Any] = own | {
        "version": 1,
        "digest": verify_hindsight.digest(told),
        "bound": 0.0,
        "edges": bound.edges.tolist(),
        "prices": bound.prices.tolist(),
        "multipliers": {
            name: multipliers.values.tolist() for name, multipliers in bound.multipliers.items()
        },
    }
    proved = verify_hindsight.verify(told, schedule_document(None), document).proved
    if not math.isfinite(proved):
        raise ValueError("Hindsight: the prices prove no bound; expected finite prices.")
    return document | {"bound": proved}
