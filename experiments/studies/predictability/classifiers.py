"""Classifiers of predictable and unpredictable jobs: AITurbo's candidates behind one interface.

The slides of AITurbo (HPDC'21) name k nearest neighbours, logistic regression, a random forest, a
support vector machine and a multi-layer perceptron; their settings are not known, and ours are
those of scikit-learn but for what stands here. Each gives the probability that a job is
unpredictable. That of the support vector machine, which has none, is Platt's logistic function of
its margin, fitted by cross-validation within the training jobs; a job counts as unpredictable above
a half of that too, not by the sign of the margin.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from goodalloc.data.parameter_servers.aiturbo_jobs import features_known
from goodalloc.experiments.support.extras import require_extra
from goodalloc.models.support.validation import require_choice, require_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike

    from goodalloc.data.parameter_servers.aiturbo_jobs import JobRecords, Known
    from goodalloc.models.support.array_types import Floats


#: Neighbours asked; hidden units of the perceptron; iterations of the logistic regression.
NEIGHBOURS, UNITS, LOGISTIC_ITERATIONS = 5, (64, 32), 2000

#: How a classifier sees the kind of a job: as the number that it has, as one column for every kind,
#: or not at all.
JobType = Literal["code", "one_hot", "left_out"]


def _majority(_: Learner) -> Any:
    from sklearn.dummy import DummyClassifier

    return DummyClassifier(strategy="prior")


def _knn(_: Learner) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(NEIGHBOURS)


def _logistic(_: Learner) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=LOGISTIC_ITERATIONS)


def _forest(learner: Learner) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(learner.trees, random_state=learner.seed)


def _svm(_: Learner) -> Any:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.svm import SVC

    return CalibratedClassifierCV(SVC(), ensemble=False)


def _mlp(learner: Learner) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(UNITS, max_iter=learner.iterations, random_state=learner.seed)


#: What learns, by name; the first knows only how many jobs are unpredictable.
CLASSIFIERS: Mapping[str, Callable[[Learner], Any]] = {
    "majority": _majority,
    "knn": _knn,
    "logistic": _logistic,
    "forest": _forest,
    "svm": _svm,
    "mlp": _mlp,
}

#: Those whose features stay as they are; the others get them standardised.
UNSCALED = ("majority", "forest")


@dataclass(frozen=True)
class Learner:
    """Untrained classifier and its features.

    Parameters
    ----------
    classifier
        One of `CLASSIFIERS`.
    known
        Time of the prediction, which decides the known features.
    job_type
        Encoding of the kind of a job.
    seed
        Seed of the forest and of the perceptron; the others are deterministic.
    trees
        Number of trees of the forest.
    iterations
        Most iterations of the perceptron.

    Raises
    ------
    ValueError
        If `classifier`, `known` or `job_type` is unknown, `seed` < 0, `trees` or `iterations` < 1,
        or scikit-learn is not installed.
    """

    classifier: str = "forest"
    known: Known = "submission"
    job_type: JobType = "code"
    seed: int = 0
    trees: int = 300
    iterations: int = 600

    def __post_init__(self) -> None:
        require_choice("Learner: classifier", self.classifier, tuple(CLASSIFIERS))
        require_choice("Learner: job_type", self.job_type, get_args(JobType))
        require_count("Learner: seed", self.seed, 0)
        require_count("Learner: trees", self.trees, 1)
        require_count("Learner: iterations", self.iterations, 1)
        features_known(self.known)
        require_extra("predict", "Predictability")

    @property
    def features(self) -> tuple[str, ...]:
        """Names of its features."""
        return features_known(self.known, job_type=self.job_type != "left_out")

    def fit(self, records: JobRecords, chosen: ArrayLike | None = None) -> Predictor:
        """Train on records, by a single thread, so that the same seed gives the same numbers.

        Parameters
        ----------
        records
            Jobs and their labels.
        chosen
            Shape (jobs,): which of them to learn from; all if None.

        Raises
        ------
        ValueError
            If the jobs are not of both classes.
        """
        from sklearn.exceptions import ConvergenceWarning
        from threadpoolctl import threadpool_limits

        some = slice(None) if chosen is None else np.asarray(chosen, dtype=bool)
        labels = records.unpredictable[some]
        if labels.all() or not labels.any():
            raise ValueError(
                f"Training: {labels.sum()} of {labels.size} jobs are unpredictable; "
                "expected jobs of both classes."
            )
        estimator = self._pipeline()
        # The published iterations are the limit, whether or not training has converged by then.
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            estimator.fit(records.columns(self.features)[some], labels)
        return Predictor(self.features, estimator)

    def _pipeline(self) -> Any:
        """Return the classifier after the preprocessing of its features."""
        from sklearn.compose import make_column_transformer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        columns = "passthrough" if self.classifier in UNSCALED else StandardScaler()
        if self.job_type == "one_hot":
            kinds = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
            place = [self.features.index("job_type")]
            columns = make_column_transformer((kinds, place), remainder=columns)
        return make_pipeline(columns, CLASSIFIERS[self.classifier](self))


@dataclass(frozen=True)
class Predictor:
    """Trained classifier, which can be pickled.

    Parameters
    ----------
    features
        Names of what it sees, in order.
    estimator
        Scikit-learn's.
    """

    features: tuple[str, ...]
    estimator: Any

    def unpredictable(self, values: ArrayLike) -> Floats:
        """Return the probability that each job is unpredictable, shape (jobs,).

        Parameters
        ----------
        values
            Shape (jobs, features): what is known of the jobs, in the order of `features`.

        Raises
        ------
        ValueError
            If `records` has another shape or values that are not finite.
        """
        from threadpoolctl import threadpool_limits

        table = np.asarray(values, dtype=float)
        if table.ndim != 2 or table.shape[1] != len(self.features):
            raise ValueError(
                f"Prediction: values have shape {table.shape}; expected jobs by "
                f"{len(self.features)} features ({', '.join(self.features)})."
            )
        if not np.isfinite(table).all():
            job, feature = np.argwhere(~np.isfinite(table))[0]
            raise ValueError(
                f"Prediction: {self.features[feature]} of job {job} is {table[job, feature]}; "
                "expected a finite number."
            )
        if not len(table):
            return np.zeros(0)
        with threadpool_limits(1):
            return np.asarray(self.estimator.predict_proba(table)[:, 1], dtype=float)

    def confidence(self, values: ArrayLike) -> Floats:
        """Return the probability that each job is predictable, as `is_predictable` takes it."""
        return 1.0 - self.unpredictable(values)
