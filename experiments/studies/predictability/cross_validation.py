"""Cross-validation of a classifier of jobs, as a task that keeps its predictions in a folder."""

from __future__ import annotations

import importlib.metadata
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.traces_digest import traces_digest
from goodalloc.data.parameter_servers.aiturbo_jobs import read_aiturbo_jobs
from goodalloc.experiments.studies.predictability.classifiers import Learner
from goodalloc.experiments.support.extras import require_extra
from goodalloc.experiments.support.records import DESCRIPTION, check_description
from goodalloc.experiments.support.version import library_version
from goodalloc.models.support.validation import require_choice, require_count

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from goodalloc.data.parameter_servers.aiturbo_jobs import JobRecords
    from goodalloc.experiments.support.tasks import Report

#: Parts of the jobs, each predicted by a classifier trained on the others.
FOLDS = 5

#: How the jobs are parted: at random with the classes in proportion, or by the kind of the job, so
#: that those to predict are of kinds never seen before.
Validation = Literal["stratified", "unseen types"]

#: The file of the predictions.
PREDICTIONS = "predictions.csv"


def fold_numbers(
    records: JobRecords, validation: Validation = "stratified", seed: int = 0
) -> NDArray[np.intp]:
    """Return the fold of each job.

    Parameters
    ----------
    records
        The jobs.
    validation
        Way to draw the folds.
    seed
        Seed of random folds; folds by kind are fixed, and of about equal size.

    Raises
    ------
    ValueError
        If there are too few jobs of a class, or too few kinds, for `FOLDS` folds, or scikit-learn
        is not installed.
    """
    require_extra("predict", "Cross-validation")
    from sklearn.model_selection import GroupKFold, StratifiedKFold

    require_choice("Cross-validation: validation", validation, get_args(Validation))
    require_count("Cross-validation: seed", seed, 0)
    labels = records.unpredictable
    kinds = records.columns(["job_type"])[:, 0]
    counts = {
        "unpredictable jobs": int(labels.sum()),
        "predictable jobs": int((~labels).sum()),
        **({"job types": np.unique(kinds).size} if validation == "unseen types" else {}),
    }
    for name, count in counts.items():
        require_count(f"Cross-validation: number of {name}", count, FOLDS)
    if validation == "stratified":
        parting = StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(kinds, labels)
    else:
        parting = GroupKFold(FOLDS).split(kinds, labels, kinds)
    numbers = np.zeros(len(records), dtype=np.intp)
    for number, (_, tested) in enumerate(parting):
        numbers[tested] = number
    return numbers


def predict_unseen(
    records: JobRecords, learner: Learner, folds: NDArray[np.intp], report: Report = lambda _: None
) -> NDArray[np.float64]:
    """Return the probability that each job is unpredictable, learnt from the other folds.

    Parameters
    ----------
    records
        The jobs.
    learner
        Classifier that is trained for every fold.
    folds
        Shape (jobs,): to which fold each belongs.
    report
        Called with the fraction of the folds that are done.

    Raises
    ------
    ValueError
        If the jobs outside of a fold are all of one class.
    """
    values = records.columns(learner.features)
    probability = np.zeros(len(records))
    numbers = np.unique(folds)
    for done, number in enumerate(numbers, start=1):
        tested = folds == number
        probability[tested] = learner.fit(records, ~tested).unpredictable(values[tested])
        report(done / len(numbers))
    return probability


@dataclass(frozen=True)
class CrossValidation:
    """Task that cross-validates a classifier, as a whole or not at all.

    Parameters
    ----------
    folder
        Folder of the predictions.
    source
        Folder of the job records.
    learner
        The classifier.
    validation
        Way to draw the folds; random ones with the seed of the classifier.
    every
        Records from one that is used to the next.
    """

    folder: Path
    source: Path
    learner: Learner = field(default_factory=Learner)
    validation: Validation = "stratified"
    every: int = 1

    def description(self) -> dict[str, Any]:
        """Return all inputs that the predictions depend on."""
        return {
            "format": "goodalloc-cross-validation",
            "version": 1,
            "library": library_version(),
            "scikit_learn": importlib.metadata.version("scikit-learn"),
            "records": traces_digest(str(self.source)),
            "folds": FOLDS,
            "validation": self.validation,
            "every": self.every,
            **asdict(self.learner),
        }

    def records(self) -> JobRecords:
        """Return the records of the jobs.

        Raises
        ------
        ValueError
            As `read_aiturbo_jobs`.
        """
        return read_aiturbo_jobs(self.source).every(self.every)

    def run(self, report: Report = lambda _: None) -> None:
        """Train and predict, unless that is done.

        Raises
        ------
        ValueError
            As `fold_numbers` and `predict_unseen`, or if the folder holds something else.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        check_description(self.folder / DESCRIPTION, self.description())
        if (self.folder / PREDICTIONS).exists():
            return
        records = self.records()
        folds = fold_numbers(records, self.validation, self.learner.seed)
        probability = predict_unseen(records, self.learner, folds, report)
        lines = [f"{n},{p!r}" for n, p in zip(folds.tolist(), probability.tolist(), strict=True)]
        write_atomically(
            self.folder / PREDICTIONS, "\n".join(["fold,unpredictable", *lines]) + "\n"
        )

    def predictions(self, jobs: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return fold and probability of each job, once the task has run.

        Raises
        ------
        ValueError
            If the file is gone or is not what was written.
        """
        path = self.folder / PREDICTIONS
        try:
            table = pd.read_csv(path)
            folds = table["fold"].to_numpy(np.intp)
            probability = table["unpredictable"].to_numpy(float)
            if len(table) != jobs:
                raise ValueError(f"{len(table)} rows")
        except (OSError, LookupError, ValueError) as error:
            raise ValueError(
                f"File '{path}' cannot be read as predictions of {jobs} jobs; "
                "expected those that were written, or an empty folder."
            ) from error
        return folds, probability


def fold_slices(folds: NDArray[np.intp]) -> Sequence[NDArray[np.bool_]]:
    """Return the jobs of each fold, one fold after the other."""
    return [folds == number for number in np.unique(folds)]
