"""Costs of every number of GPUs of every job of a round in columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import power_cost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float

    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.columns.round_utilities import RoundUtilities

#: Jobs whose choices are computed at a time, few enough for the caches to help.
CHUNK = 16_384

#: Largest scaled term (u / r)^p; worse choices count as no worse than this.
LARGEST_TERM = 1e200


def chunks(jobs: int) -> Iterator[slice]:
    """Generate slices of at most `CHUNK` jobs that cover all.

    Examples
    --------
    >>> from goodalloc.solvers.columns.column_choices import CHUNK, chunks
    >>> [*chunks(CHUNK + 1)] == [slice(0, CHUNK), slice(CHUNK, CHUNK + 1)]
    True
    """
    for begin in range(0, jobs, CHUNK):
        yield slice(begin, min(begin + CHUNK, jobs))


def column_costs(
    utilities: RoundUtilities, reference: float, power: float, least: float = -math.inf
) -> Float[Floats, "jobs gpus"]:
    """Return the cost of every job on *K* GPUs, as in `formulations/gpu_rounds/knapsack.py`.

    Parameters
    ----------
    utilities
        Utilities of the round.
    reference
        Utility whose cost is 0; tightest near the best mean.
    power
        Power of the mean, finite.
    least
        Utility below which no job may be.

    Returns
    -------
    ndarray
        Shape (jobs, most GPUs + 1), infinite where not allowed.
    """
    jobs = utilities.columns.num_jobs
    lowest = reference * math.exp(math.log(LARGEST_TERM) / power) if power < 0 else 0.0
    cost = np.empty((jobs, utilities.width))
    for part in chunks(jobs):
        utility = utilities.best(part)
        allowed = np.isfinite(utility) & (utility >= least)
        clipped = np.maximum(np.where(allowed, utility, reference), lowest)
        cost[part] = np.where(allowed, power_cost(clipped, power, reference), np.inf)
    return cost
