"""What a job earns under prices if it may do some of its phases only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineJob, Training
    from goodalloc.models.support.array_types import Floats


#: A job is looked at until its wait alone costs so many times its bound.
FAR = 1.5


def intervals_that_count(
    job: OfflineJob, edges: Float[Floats, " edges"], far: float
) -> tuple[int, int, float]:
    """Return the first interval of a job, that behind the last, and the least cost of ending there.

    Parameters
    ----------
    job
        The job.
    edges
        Seconds between intervals.
    far
        Seconds after its release behind which intervals do not count.
    """
    first = int(np.searchsorted(edges, job.begin, side="right")) - 1
    stop = min(int(np.searchsorted(edges, job.release + far)), edges.size - 1)
    return first, stop, job.weight * max(float(edges[stop]) - job.release, 0.0)


def phase_earnings(
    training: Training,
    multipliers: Float[Floats, "patterns phases"],
    prices: Float[Floats, "intervals types"],
    phases: slice,
) -> Float[Floats, "patterns intervals"]:
    """Return h of (2) in `formulations/hindsight/price_bound.py` over some phases, without chords.

    Parameters
    ----------
    training
        Work and rates.
    multipliers
        Worth of a unit of progress in all its phases.
    prices
        Prices of a GPU-second.
    phases
        The phases that the job may do.
    """
    earned = np.zeros((len(multipliers), len(prices)))
    for row, rates in enumerate(training.rates):
        best = (multipliers[:, phases, None] * rates[phases]).max(axis=1)
        for column, gpus in enumerate(training.gpus.tolist()):
            np.maximum(earned, best[:, column, None] - gpus * prices[:, row], out=earned)
    return earned
