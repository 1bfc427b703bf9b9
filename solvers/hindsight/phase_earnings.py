"""What a job earns under prices if it may do some of its phases only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import Training
    from goodalloc.models.support.array_types import Floats


def least_phase_seconds(training: Training) -> Float[Floats, " phases"]:
    """Return the seconds that each phase takes if it advances as fast as it can.

    Parameters
    ----------
    training
        Work and rates.
    """
    return np.asarray(training.work / training.rates.max(axis=(0, 2)))


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
