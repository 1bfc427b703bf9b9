"""Scores of predicted probabilities of one of two classes: accuracy, ranking and calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.validation import require_count

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from goodalloc.models.support.array_types import Flags, Floats


#: Bins of equal width in which probabilities are compared with shares.
BINS = 10


class Scores(NamedTuple):
    """Scores of predicted probabilities.

    Attributes
    ----------
    accuracy
        Share of rightly classified jobs, unpredictable being those of a probability above 0.5.
    f1
        Harmonic mean of precision and recall of the unpredictable class; 0 if none is found.
    auc
        Area under the receiver operating characteristic, NaN if there is only one class.
    brier
        Mean squared difference of probability and class [1]_.
    calibration_error
        Expected calibration error [2]_: over the bins of a `reliability` curve, weighted by their
        jobs, the mean absolute difference of probability and share.

    References
    ----------
    .. [1] G. W. Brier, Verification of forecasts expressed in terms of probability, Monthly Weather
       Review 78, 1950.
    .. [2] M. P. Naeini, G. F. Cooper, M. Hauskrecht, Obtaining well calibrated probabilities using
       Bayesian binning, AAAI 2015.
    """

    accuracy: float
    f1: float
    auc: float
    brier: float
    calibration_error: float


class Reliability(NamedTuple):
    """Bins with at least one job: mean probability, share of the class, and jobs."""

    predicted: Floats
    observed: Floats
    jobs: Floats


def score(unpredictable: ArrayLike, probability: ArrayLike) -> Scores:
    """Compare probabilities with what the jobs are.

    Parameters
    ----------
    unpredictable
        Shape (jobs,): the class.
    probability
        Shape (jobs,): how likely each was said to be unpredictable.

    Raises
    ------
    ValueError
        If there are no jobs, shapes differ, or a probability is not from 0 to 1.
    """
    truth, chance = _checked(unpredictable, probability)
    told = chance > 0.5
    found = int((told & truth).sum())
    curve = reliability(truth, chance)
    difference = np.abs(curve.predicted - curve.observed)
    return Scores(
        accuracy=float((told == truth).mean()),
        f1=2.0 * found / max(int(told.sum() + truth.sum()), 1),
        auc=area_under_curve(truth, chance),
        brier=float(((chance - truth) ** 2).mean()),
        calibration_error=float((curve.jobs * difference).sum() / truth.size),
    )


def area_under_curve(truth: Flags, ranking: Floats) -> float:
    """Return the probability that a random job of the class ranks above another; ties half."""
    from scipy.stats import rankdata

    inside = int(truth.sum())
    outside = truth.size - inside
    if not inside or not outside:
        return float("nan")
    above = rankdata(ranking)[truth].sum() - inside * (inside + 1) / 2
    return float(above / (inside * outside))


def reliability(unpredictable: ArrayLike, probability: ArrayLike, bins: int = BINS) -> Reliability:
    """Return observed and predicted probabilities in bins of equal width, without empty bins.

    Parameters
    ----------
    unpredictable, probability
        Arguments of `score`.
    bins
        Number of bins; a probability on an edge belongs to the upper one.

    Raises
    ------
    ValueError
        As `score`, or if there are no bins.
    """
    require_count("Reliability: bins", bins, 1)
    truth, chance = _checked(unpredictable, probability)
    place = np.minimum((chance * bins).astype(int), bins - 1)
    jobs = np.bincount(place, minlength=bins).astype(float)
    filled = jobs > 0
    sums = [np.bincount(place, weights, minlength=bins)[filled] for weights in (chance, truth)]
    return Reliability(sums[0] / jobs[filled], sums[1] / jobs[filled], jobs[filled])


def _checked(unpredictable: ArrayLike, probability: ArrayLike) -> tuple[Flags, Floats]:
    truth = np.asarray(unpredictable, dtype=bool)
    chance = np.asarray(probability, dtype=float)
    if truth.shape != chance.shape or truth.ndim != 1 or not truth.size:
        raise ValueError(
            f"Scores: {truth.shape} classes and {chance.shape} probabilities; "
            "expected one of each for at least one job."
        )
    bad = ~((chance >= 0.0) & (chance <= 1.0))
    if bad.any():
        raise ValueError(f"Scores: a probability is {chance[bad][0]}; expected 0 to 1.")
    return truth, chance
