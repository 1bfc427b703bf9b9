"""Correlation of each feature with predictability, its importance, and its best threshold.

AITurbo (HPDC'21) selects its indicators by the correlations of Pearson, Kendall and Spearman and by
importance; how is not known. Here all are measured, and beside them how many jobs one threshold
tells apart: where that alone is near 1, a feature gives the label away rather than predicts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.experiments.studies.predictability.classifiers import Learner

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from goodalloc.data.parameter_servers.aiturbo_jobs import JobRecords
    from goodalloc.models.support.array_types import Floats


class Threshold(NamedTuple):
    """One feature as a classifier: jobs below a value are of one class, the others of the other.

    Attributes
    ----------
    value
        Threshold of the feature; infinite if all jobs are below it.
    below
        Whether the unpredictable jobs are those below it.
    accuracy
        Share of rightly classified jobs.
    """

    value: float
    below: bool
    accuracy: float


class Correlations(NamedTuple):
    """With the label, 1 for unpredictable; NaN where a feature is the same for all jobs."""

    pearson: float
    kendall: float
    spearman: float


def best_threshold(values: ArrayLike, unpredictable: ArrayLike) -> Threshold:
    """Return the threshold that classifies the most of these jobs correctly, found exactly.

    Every value that occurs, and one above all, is tried in both directions. Of equally good ones it
    is the least, with the unpredictable jobs below it if both directions are as good.

    Parameters
    ----------
    values, unpredictable
        Shape (jobs,): the feature and the label.

    Raises
    ------
    ValueError
        If there are no jobs, shapes differ, or a value is not finite.
    """
    feature, truth = _checked(values, unpredictable)
    distinct, place = np.unique(feature, return_inverse=True)
    inside = np.bincount(place, truth)
    outside = np.bincount(place) - inside
    below = np.concatenate([[0.0], np.cumsum(inside)])  # unpredictable jobs below each value
    above = outside.sum() - np.concatenate([[0.0], np.cumsum(outside)])  # predictable ones not
    right = below + above
    rights = np.stack([right, truth.size - right], axis=1)
    best, direction = divmod(int(np.argmax(rights)), 2)
    return Threshold(
        float([*distinct, np.inf][best]), direction == 0, float(rights.max() / truth.size)
    )


def correlations(values: ArrayLike, unpredictable: ArrayLike) -> Correlations:
    """Return the correlations of a feature with the label.

    Parameters
    ----------
    values, unpredictable
        Arguments of `best_threshold`.

    Raises
    ------
    ValueError
        As `best_threshold`.
    """
    from scipy.stats import kendalltau, pearsonr, spearmanr

    feature, truth = _checked(values, unpredictable)
    if np.ptp(feature) == 0.0 or truth.all() or not truth.any():
        return Correlations(np.nan, np.nan, np.nan)
    label = truth.astype(float)
    return Correlations(
        *(float(measure(feature, label)[0]) for measure in (pearsonr, kendalltau, spearmanr))
    )


def importance(records: JobRecords, seed: int = 0, trees: int = 300) -> Floats:
    """Share of every feature in the decrease of impurity in a forest that sees all of them.

    Parameters
    ----------
    records
        All are learnt from.
    seed, trees
        Number of trees of the forest.

    Returns
    -------
    ndarray
        Shape (features,), in the order of `FEATURES`; the sum is 1.
    """
    learner = Learner("forest", "afterwards", seed=seed, trees=trees)
    return np.asarray(learner.fit(records).estimator[-1].feature_importances_, dtype=float)


def _checked(values: ArrayLike, unpredictable: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    feature = np.asarray(values, dtype=float)
    truth = np.asarray(unpredictable, dtype=bool)
    if feature.shape != truth.shape or feature.ndim != 1 or not feature.size:
        raise ValueError(
            f"Indicator: {feature.shape} values and {truth.shape} labels; "
            "expected one of each for at least one job."
        )
    if not np.isfinite(feature).all():
        raise ValueError(
            f"Indicator: a value is {feature[~np.isfinite(feature)][0]}; expected finite numbers."
        )
    return feature, truth
