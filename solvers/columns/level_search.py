"""Highest level that all jobs of a round in columns reach with the GPUs of the cluster (p = -inf).

The knapsack of equation (1) of `formulations/gpu_rounds/knapsack.py` for the minimum: a level can
be reached if the fewest GPUs with which every job reaches it fit into the cluster.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.solvers.columns.column_choices import chunks

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.columns.round_utilities import RoundUtilities


class BestLevel(NamedTuple):
    """Best level found.

    Attributes
    ----------
    bound
        Level that no allocation exceeds.
    replicas
        Fewest GPUs with which every job reaches the best level, shape (jobs,).
    """

    bound: float
    replicas: Int[Indices, " jobs"]


def search_level(utilities: RoundUtilities) -> BestLevel:
    """Return the highest level, by bisection between neighbouring numbers.

    Parameters
    ----------
    utilities
        Utilities of the round.
    """
    columns = utilities.columns
    gpus = columns.cluster.num_gpus
    attainable = np.empty((columns.num_jobs, utilities.width))
    for part in chunks(columns.num_jobs):
        np.maximum.accumulate(utilities.best(part), axis=1, out=attainable[part])
    low, high = columns.rules.idle, float(attainable[:, -1].min())
    replicas = _fewest(attainable, high)
    if replicas.sum() <= gpus:
        return BestLevel(high, replicas)
    while math.nextafter(low, math.inf) < high:
        middle = low + 0.5 * (high - low)
        middle = min(max(middle, math.nextafter(low, math.inf)), math.nextafter(high, -math.inf))
        if _fewest(attainable, middle).sum() <= gpus:
            low = middle
        else:
            high = middle
    return BestLevel(low, _fewest(attainable, low))


def _fewest(attainable: Float[Floats, "jobs gpus"], level: float) -> Indices:
    """Return the fewest GPUs with which every job reaches a level, shape (jobs,)."""
    found = np.empty(len(attainable), dtype=np.int64)
    for part in chunks(len(attainable)):
        found[part] = np.argmax(attainable[part] >= level, axis=1)
    return found
