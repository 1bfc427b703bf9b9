"""Scores of probabilities and what features say: against brute force, scikit-learn and by laws."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, f1_score, roc_auc_score

from goodalloc.data.parameter_servers.aiturbo_jobs import FEATURES, read_aiturbo_jobs
from goodalloc.experiments.studies.predictability.classifier_scores import reliability, score
from goodalloc.experiments.studies.predictability.indicators import (
    best_threshold,
    correlations,
    importance,
)
from tests.support.job_records import made_up_records

if TYPE_CHECKING:
    from pathlib import Path

Pairs = list[tuple[float, bool]]

FEW = st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.booleans()), min_size=1)
MANY = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1)


def columns(pairs: Pairs) -> tuple[list[float], list[bool]]:
    """Values and labels."""
    return [value for value, _ in pairs], [label for _, label in pairs]


@given(FEW)
def test_the_threshold_is_the_best_there_is(pairs: Pairs) -> None:
    """Against all thresholds at and between the values, in both directions."""
    values, labels = columns(pairs)
    truth = np.array(labels)
    best = best_threshold(values, truth)
    tried = [
        ((np.array(values) < threshold) == below).tolist()
        for threshold, below in product(np.arange(-0.125, 1.2, 0.125), (True, False))
    ]
    assert best.accuracy == max(np.mean(np.array(told) == truth) for told in tried)
    assert np.mean(((np.array(values) < best.value) == best.below) == truth) == best.accuracy
    assert best.accuracy >= max(truth.mean(), (~truth).mean())


@given(MANY)
def test_the_threshold_does_not_depend_on_order_or_scale(pairs: Pairs) -> None:
    """Permuted jobs have the same, a stretched feature one that is as good."""
    values, labels = columns(pairs)
    best = best_threshold(values, labels)
    assert best_threshold(*columns(sorted(pairs))) == best
    exponents = np.unique(values, return_inverse=True)[1]
    stretched = best_threshold(2.0**exponents, labels)
    assert (stretched.accuracy, stretched.below) == (best.accuracy, best.below)


def test_a_feature_that_tells_all_is_found() -> None:
    """The threshold is the least value above; the other way round it points the other way."""
    found = best_threshold([0.1, 0.2, 0.7, 0.9], [True, True, False, False])
    assert found == (0.7, True, 1.0)
    assert best_threshold([0.1, 0.2, 0.7, 0.9], [False, False, True, True]) == (0.7, False, 1.0)
    assert best_threshold([3.0, 3.0, 3.0], [True, True, False]) == (3.0, False, 2 / 3)
    assert best_threshold([3.0, 3.0, 3.0], [False, True, False]) == (3.0, True, 2 / 3)


@given(MANY)
def test_scores_are_those_of_scikit_learn(pairs: Pairs) -> None:
    """F1, area under the curve and Brier score; accuracy by counting."""
    chance, labels = columns(pairs)
    truth = np.array(labels)
    told = np.array(chance) > 0.5
    found = score(truth, chance)
    assert found.accuracy == np.mean(told == truth)
    assert found.f1 == pytest.approx(f1_score(truth, told, zero_division=0.0))
    assert found.brier == pytest.approx(brier_score_loss(truth, chance, pos_label=True))
    if truth.all() or not truth.any():
        assert np.isnan(found.auc)
    else:
        assert found.auc == pytest.approx(roc_auc_score(truth, chance))
    assert 0.0 <= found.calibration_error <= 1.0


@given(MANY)
def test_scores_do_not_depend_on_the_order_of_jobs(pairs: Pairs) -> None:
    """Turned round they are the same."""
    chance, labels = columns(pairs)
    turned = score(labels[::-1], chance[::-1])
    assert turned == pytest.approx(score(labels, chance), nan_ok=True)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.75, 1.0]), st.booleans()), min_size=1))
def test_scores_do_not_depend_on_which_class_is_which(pairs: Pairs) -> None:
    """But for F1, which is about one of them; nobody is undecided here."""
    chance, labels = columns(pairs)
    one, other = score(labels, chance), score(~np.array(labels), 1.0 - np.array(chance))
    assert other._replace(f1=one.f1) == pytest.approx(one, nan_ok=True)


@given(MANY, st.integers(1, 20))
def test_a_reliability_curve_counts_every_job_once(pairs: Pairs, bins: int) -> None:
    """Means weighted by jobs are those of all jobs; bins come in order and none is empty."""
    chance, labels = columns(pairs)
    curve = reliability(labels, chance, bins)
    assert curve.jobs.sum() == len(chance)
    assert (curve.jobs > 0).all()
    assert (curve.predicted * curve.jobs).sum() == pytest.approx(sum(chance), abs=1e-9)
    assert (curve.observed * curve.jobs).sum() == pytest.approx(sum(labels))
    assert (np.diff(curve.predicted) >= 0).all()


def test_calibration_by_hand() -> None:
    """Two bins: said 0.1, one of four is; said 0.9, all two are. (4 × 0.15 + 2 × 0.1) / 6."""
    found = score([True, False, False, False, True, True], [0.1] * 4 + [0.9] * 2)
    assert found.calibration_error == pytest.approx(0.8 / 6)


@pytest.mark.parametrize(
    ("labels", "chance", "words"),
    [
        ([], [], "at least one job"),
        ([True], [0.5, 0.5], "expected one of each"),
        ([True], [1.5], "a probability is 1.5; expected 0 to 1"),
        ([True], [-0.1], "a probability is -0.1"),
        ([True], [np.nan], "a probability is nan"),
        ([[True]], [[0.5]], "expected one of each"),
    ],
)
def test_probabilities_that_make_no_sense_are_refused(
    labels: list[bool], chance: list[float], words: str
) -> None:
    """By the scores and by the curve."""
    for measure in (score, reliability):
        with pytest.raises(ValueError, match=words):
            measure(labels, chance)


@pytest.mark.parametrize("bins", [0, -1, 2.5])
def test_bins_are_counts(bins: int) -> None:
    """Of at least one."""
    with pytest.raises(ValueError, match="Reliability: bins"):
        reliability([True], [0.5], bins)


@pytest.mark.parametrize(
    ("values", "labels", "words"),
    [
        ([], [], "at least one job"),
        ([1.0], [True, False], "expected one of each"),
        ([1.0, np.nan], [True, False], "a value is nan; expected finite numbers"),
        ([1.0, np.inf], [True, False], "a value is inf"),
    ],
)
def test_features_that_make_no_sense_are_refused(
    values: list[float], labels: list[bool], words: str
) -> None:
    """By the threshold and by the correlations."""
    for measure in (best_threshold, correlations):
        with pytest.raises(ValueError, match=words):
            measure(values, labels)


def test_correlations_by_hand() -> None:
    """A feature that is the label has 1, its opposite -1, a constant none; labels flip the sign."""
    labels = [True, False, True, False, False]
    assert correlations(np.array(labels, dtype=float), labels) == pytest.approx((1.0, 1.0, 1.0))
    assert correlations(-np.array(labels, dtype=float), labels) == pytest.approx((-1, -1, -1))
    assert np.isnan(correlations([2.0] * 5, labels)).all()
    assert np.isnan(correlations(np.arange(5.0), [True] * 5)).all()
    one, other = (correlations([5.0, 1.0, 2.0, 2.0, 0.0], x) for x in (labels, ~np.array(labels)))
    assert one == pytest.approx([-value for value in other])


def test_importance_is_shared_among_the_features() -> None:
    """The planted one has most of it; shares sum to 1; the same seed gives the same."""
    records = made_up_records()
    shares = importance(records, trees=20)
    assert shares.sum() == pytest.approx(1.0)
    assert FEATURES[int(np.argmax(shares))].name == "accuracy"
    assert np.array_equal(shares, importance(records, trees=20))
    assert not np.array_equal(shares, importance(records, seed=1, trees=20))


def test_the_final_accuracy_gives_the_label_away(reference: Path) -> None:
    """Below 0.4277 lie 95.96 % rightly, no threshold is better; 0.449 classifies 95.9 %."""
    records = read_aiturbo_jobs(reference / "aiturbo-jobs")
    found = {
        feature.name: best_threshold(records.columns([feature.name])[:, 0], records.unpredictable)
        for feature in FEATURES
    }
    assert max(found, key=lambda name: found[name].accuracy) == "accuracy"
    assert found["accuracy"].below
    assert found["accuracy"].value == pytest.approx(0.4277)
    assert found["accuracy"].accuracy == pytest.approx(0.9596, abs=5e-5)
    below = records.columns(["accuracy"])[:, 0] < 0.449
    assert np.mean(below == records.unpredictable) == pytest.approx(0.959, abs=5e-4)
    submission = [
        found[feature.name].accuracy for feature in FEATURES if feature.known == "submission"
    ]
    assert max(submission) < 0.852  # nothing known at submission gives it away
    measured = correlations(records.columns(["accuracy"])[:, 0], records.unpredictable)
    assert measured == pytest.approx((-0.81, -0.49, -0.60), abs=5e-3)
