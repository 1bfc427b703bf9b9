"""Predictability of jobs: accuracy of classifiers by the features known at each time.

Classifiers are compared on the published job records by their features: those known when a job is
submitted, while it runs, or afterwards, when accuracy, loss and running time reveal the answer.
Folds are drawn at random with the classes in proportion, or by the kind of job: then the predicted
kinds are new and the feature of the kind is left out, as it also is once with random folds, to
separate the two effects. A single threshold on each feature, chosen and evaluated on the same jobs,
shows how much of the result that feature alone explains.

The paper's own accuracies are not known. Beside ours stand those that this project measured first,
by a script with the same settings, and those read from a plot of a follow-on, which states neither
its features nor the classifier of each number: they are in the order of AITurbo's slides, beside
the features known afterwards.

References
----------
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.parameter_servers.aiturbo_jobs import FEATURES, read_aiturbo_jobs
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.predictability.classifier_scores import area_under_curve, score
from goodalloc.experiments.studies.predictability.classifiers import CLASSIFIERS, Learner
from goodalloc.experiments.studies.predictability.cross_validation import (
    CrossValidation,
    fold_slices,
)
from goodalloc.experiments.studies.predictability.indicators import (
    best_threshold,
    correlations,
    importance,
)
from goodalloc.experiments.studies.predictability.plot import plot_predictability
from goodalloc.experiments.studies.predictability.predictability_row import PredictabilityRow
from goodalloc.experiments.support.extras import require_extra
from goodalloc.experiments.support.records import digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.data.parameter_servers.aiturbo_jobs import JobRecords, Known
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.predictability.classifiers import JobType
    from goodalloc.experiments.studies.predictability.cross_validation import Validation


class Case(NamedTuple):
    """Features of the classifiers, encoding of the job's kind, and validation."""

    known: Known
    job_type: JobType = "code"
    validation: Validation = "stratified"


SUBMISSION, AFTERWARDS = Case("submission"), Case("afterwards")
UNSEEN = Case("afterwards", "left_out", "unseen types")

CASES = (
    SUBMISSION,
    Case("submission", "one_hot"),
    Case("submission", "left_out"),
    Case("running"),
    AFTERWARDS,
    Case("submission", "left_out", "unseen types"),
    Case("running", "left_out", "unseen types"),
    UNSEEN,
)

#: Accuracies that the project measured first, with the same settings.
EARLIER: Mapping[Case, Mapping[str, float]] = {
    SUBMISSION: {
        "majority": 0.850,
        "knn": 0.902,
        "logistic": 0.860,
        "forest": 0.908,
        "svm": 0.866,
        "mlp": 0.899,
    },
    AFTERWARDS: {
        "majority": 0.850,
        "knn": 0.997,
        "logistic": 0.990,
        "forest": 0.999,
        "svm": 0.998,
        "mlp": 0.999,
    },
    UNSEEN: {
        "majority": 0.850,
        "knn": 0.966,
        "logistic": 0.971,
        "forest": 0.951,
        "svm": 0.953,
        "mlp": 0.961,
    },
}

#: Accuracy of the best threshold on the feature "accuracy", 0.449, as first measured.
EARLIER_THRESHOLD = 0.959

#: Accuracies read from the plot of a follow-on (github.com/MaoZzzzz/Aiturbo-vGPU, commit 11ab921).
FOLLOW_ON = {"knn": 0.95, "logistic": 0.97, "forest": 0.98, "svm": 0.94, "mlp": 0.95}

#: Quick: records from one that is used to the next, and sizes of forest and perceptron.
QUICK, QUICK_LEARNER = 2, {"trees": 50, "iterations": 60}


def _records(plan: Plan) -> JobRecords:
    return read_aiturbo_jobs(_source(plan)).every(QUICK if plan.quick else 1)


def _source(plan: Plan) -> Path:
    """Return the folder of the records.

    Raises
    ------
    ValueError
        If ``plan.artifact`` is None.
    """
    if plan.artifact is None:
        raise ValueError(
            "Predictability is learnt from records of jobs; expected their folder (--artifact)."
        )
    return plan.artifact


def _require(plan: Plan) -> None:
    """Refuse missing libraries and records before any task runs."""
    require_extra("predict", "Predictability")
    _records(plan)


def _task(plan: Plan, case: Case, classifier: str, seed: int) -> CrossValidation:
    """Return the cross-validation of a classifier in a case."""
    learner = Learner(
        classifier, case.known, case.job_type, seed, **(QUICK_LEARNER if plan.quick else {})
    )
    every = QUICK if plan.quick else 1
    task = CrossValidation(plan.folder, _source(plan), learner, case.validation, every)
    name = f"{classifier}-{digest(task.description())}"
    return replace(task, folder=plan.folder / "classifiers" / name)


def _tasks(plan: Plan) -> list[CrossValidation]:
    """Return the cross-validations, the fast ones first."""
    return [
        _task(plan, case, classifier, seed)
        for classifier in CLASSIFIERS
        for seed in plan.seeds
        for case in CASES
    ]


def _rows(plan: Plan) -> list[PredictabilityRow]:
    """Return a row for every case, classifier and seed, then one for every feature alone."""
    records = _records(plan)
    rows = [
        _classifier_row(plan, records, case, classifier, seed)
        for case in CASES
        for classifier in CLASSIFIERS
        for seed in plan.seeds
    ]
    return rows + _indicator_rows(plan, records)


def _row(
    records: JobRecords, accuracy: float, earlier: float | None, **found: Any
) -> PredictabilityRow:
    """Return a row of the values `found`, numbers to four decimals, other columns None."""
    values = {
        **dict.fromkeys(PredictabilityRow._fields),
        "accuracy": accuracy,
        "jobs": len(records),
        "incomplete_left_out": records.incomplete,
        **found,
    }
    if earlier is not None:
        values["earlier_accuracy"] = earlier
        values["deviation_points"] = 100.0 * (accuracy - earlier)
    rounded: dict[str, Any] = {
        name: round(v, 4) if isinstance(v, float) else v for name, v in values.items()
    }
    return PredictabilityRow(**rounded)


def _classifier_row(
    plan: Plan, records: JobRecords, case: Case, classifier: str, seed: int
) -> PredictabilityRow:
    """Return means over the folds; the calibration is that of all jobs together."""
    folds, probability = _task(plan, case, classifier, seed).predictions(len(records))
    scores = [score(records.unpredictable[fold], probability[fold]) for fold in fold_slices(folds)]
    means = {name: _mean([getattr(one, name) for one in scores]) for name in ("f1", "auc", "brier")}
    together = score(records.unpredictable, probability)
    accuracies = [one.accuracy for one in scores]
    known = {} if plan.quick else EARLIER.get(case, {})
    return _row(
        records,
        float(np.mean(accuracies)),
        known.get(classifier),
        **case._asdict(),
        classifier=classifier,
        seed=seed,
        **means,
        worst_fold_accuracy=min(accuracies),
        calibration_error=together.calibration_error,
        follow_on_accuracy=FOLLOW_ON.get(classifier) if case == AFTERWARDS else None,
    )


def _mean(values: Sequence[float]) -> float:
    """Return the mean without NaN: a fold of one class has no area under the curve."""
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def _indicator_rows(plan: Plan, records: JobRecords) -> list[PredictabilityRow]:
    """Return the best threshold on every feature, and its correlations with the label."""
    seed = plan.seeds[0]
    trees = QUICK_LEARNER["trees"] if plan.quick else Learner().trees
    shares = importance(records, seed, trees)
    truth = records.unpredictable
    rows = []
    for feature, share in zip(FEATURES, shares.tolist(), strict=True):
        values = records.columns([feature.name])[:, 0]
        best = best_threshold(values, truth)
        told = (values < best.value) == best.below
        threshold = f"{'<' if best.below else '>='} {best.value:g}" if told.any() else "(none)"
        area = area_under_curve(truth, values)
        earlier = None if plan.quick or feature.name != "accuracy" else EARLIER_THRESHOLD
        rows.append(
            _row(
                records,
                best.accuracy,
                earlier,
                known=feature.known,
                validation="in sample",
                classifier="threshold",
                feature=feature.name,
                threshold=threshold,
                seed=seed,
                f1=score(truth, told.astype(float)).f1,
                auc=max(area, 1.0 - area),
                importance=share,
                **correlations(values, truth)._asdict(),
            )
        )
    return rows


def _shown(rows: list[PredictabilityRow]) -> Rows:
    """Return the columns that fit on a screen, with the case in one column."""
    names = (
        "seed",
        "accuracy",
        "earlier_accuracy",
        "deviation_points",
        "follow_on_accuracy",
        "f1",
        "auc",
        "calibration_error",
        "pearson",
        "kendall",
        "spearman",
        "importance",
    )
    return [
        {
            "known": _case_name(row),
            "classifier": f"{row.feature} {row.threshold}" if row.feature else row.classifier,
            **{name: columns[name] for name in names},
        }
        for row, columns in zip(rows, table_of(rows), strict=True)
    ]


def _case_name(row: PredictabilityRow) -> str:
    """Return the known features, with the validation or the encoding if it is unusual."""
    parts = [row.known]
    names = {"one_hot": "one column a type", "left_out": "without type"}
    if row.validation != SUBMISSION.validation:
        parts.append(row.validation)
    elif row.job_type in names:
        parts.append(names[row.job_type])
    return ", ".join(parts)


def _plot(plan: Plan, rows: list[PredictabilityRow]) -> Figure:
    """Draw the table, and the calibration of the features known at submission."""
    records = _records(plan)
    probabilities = {
        name: _task(plan, SUBMISSION, name, plan.seeds[0]).predictions(len(records))[1]
        for name in CLASSIFIERS
    }
    return plot_predictability(rows, records.unpredictable, probabilities)


PREDICTABILITY = Reproduction(
    "AITurbo (HPDC'21): predictable and unpredictable jobs told apart, by what is known when",
    _tasks,
    _rows,
    _plot,
    _require,
    shown=_shown,
    ignores=("workloads", "pollux", "gaps"),
    lists="aiturbo-jobs",
)
