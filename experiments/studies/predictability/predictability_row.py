"""Rows of the study of predictability."""

from __future__ import annotations

from typing import NamedTuple


class PredictabilityRow(NamedTuple):
    """Result of a classifier, or of the best threshold on one feature.

    A column is None where it does not apply.

    Attributes
    ----------
    known, job_type, validation
        Known features, encoding of the job's kind, and validation.
    earlier_accuracy, deviation_points
        Accuracy that the project measured first, and ours above it in percentage points.
    follow_on_accuracy
        Accuracy of the published follow-on.
    f1, auc, brier
        Means over the folds.
    calibration_error
        Expected calibration error of all jobs together.
    pearson, kendall, spearman, importance
        Correlations of the feature with the label, and its importance in a forest.
    jobs, incomplete_left_out
        Number of records, and of those left out for a missing value.
    """

    known: str
    job_type: str | None
    validation: str
    classifier: str
    feature: str | None
    threshold: str | None
    seed: int
    accuracy: float
    earlier_accuracy: float | None
    deviation_points: float | None
    follow_on_accuracy: float | None
    worst_fold_accuracy: float | None
    f1: float
    auc: float
    brier: float | None
    calibration_error: float | None
    pearson: float | None
    kendall: float | None
    spearman: float | None
    importance: float | None
    jobs: int
    incomplete_left_out: int
