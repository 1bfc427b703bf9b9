"""Deadlines of the jobs of a trace, and which schedules meet them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE
from goodalloc.models.support.validation import real_array, require_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float

    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.support.array_types import Flags, Floats


def require_due(problem: OfflineProblem, due: Float[Floats, " jobs"]) -> None:
    """Refuse deadlines that make no sense.

    Parameters
    ----------
    problem
        The problem.
    due
        Seconds by which every job is due, in the order of the problem.

    Raises
    ------
    ValueError
        If there is not one for every job, or one is not finite or before the release of its job.
    """
    real_array("Deadlines: due", due, (len(problem.jobs),))
    for job, seconds in zip(problem.jobs, due.tolist(), strict=True):
        require_number(f"Job '{job.name}': due", seconds, minimum=job.release)


def late_jobs(
    due: Float[Floats, " jobs"], completion: Sequence[float] | Float[Floats, " jobs"]
) -> Bool[Flags, " jobs"]:
    """Return which jobs end after they are due, but for rounding.

    Parameters
    ----------
    due, completion
        Seconds by which every job is due, and at which it ends.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import late_jobs
    >>> late_jobs(np.array([60.0, 60.0]), [60.0, 61.0]).tolist()
    [False, True]
    """
    return np.asarray(completion > due * (1.0 + RESOURCE_TOLERANCE))
