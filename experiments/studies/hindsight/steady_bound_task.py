"""Bound on any schedule of jobs with steady rates, as a task of a study."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask

if TYPE_CHECKING:
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.hindsight.steady_jobs import SteadyJobs

#: Digits of a recorded bound, no more than those of the averages that stand above it.
DIGITS = 6

#: By how much a round may begin early, as a share of its time: clocks of replays add up seconds.
EARLY = 1e-9


@dataclass(frozen=True)
class SteadyBoundTask(RecordedTask):
    """Bound on the average completion time; subclasses say of which jobs. See `RecordedTask`.

    Parameters
    ----------
    interval
        Seconds of constant prices.
    """

    interval: float

    def problem(self) -> SteadyJobs:
        """Return the offline problem, with weights of sum 1."""
        raise NotImplementedError

    def work(self, report: Report) -> dict[str, float]:
        """Bound the average completion time, rounded down."""
        from goodalloc.solvers.steady_jobs import steady_jobs_bound  # imports JAX

        found = steady_jobs_bound(self.problem(), self.interval, report=report)
        return {"bound_hours": rounded_down(found.value / HOUR, DIGITS)}

    def hours(self) -> float:
        """Return the recorded bound."""
        return float(self.record()["bound_hours"])


def rounded_down(value: float, digits: int) -> float:
    """Return the greatest number of some significant digits that is not above a positive one.

    Parameters
    ----------
    value
        Number above 0.
    digits
        Significant digits.

    Examples
    --------
    >>> from goodalloc.experiments.studies.hindsight.steady_bound_task import rounded_down
    >>> rounded_down(0.123999, 3), rounded_down(45.6, 3), rounded_down(45.67, 3)
    (0.123, 45.6, 45.6)
    """
    nearest = rounded(value, digits)
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return nearest if nearest <= value else rounded(nearest - unit, digits)


def first_round(seconds: float, interval: float) -> float:
    """Return when the first round begins at some seconds or after, or a trifle before that.

    Parameters
    ----------
    seconds
        When a job is there.
    interval
        Seconds of a round.

    Examples
    --------
    >>> from goodalloc.experiments.studies.hindsight.steady_bound_task import first_round
    >>> [round(first_round(seconds, 300.0)) for seconds in (0.0, 1.0, 300.0, 301.0)]
    [0, 300, 300, 600]
    """
    begins = math.ceil(seconds / interval * (1.0 - EARLY)) * interval
    return max(seconds, begins * (1.0 - EARLY))
