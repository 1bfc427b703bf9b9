"""Predictability of jobs: the classifiers, their cross-validation and the command."""

from __future__ import annotations

import importlib.util
import math
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from goodalloc.data.parameter_servers.aiturbo_jobs import JobRecords, read_aiturbo_jobs
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.predictability import study as predictability
from goodalloc.experiments.studies.predictability.classifier_scores import score
from goodalloc.experiments.studies.predictability.classifiers import CLASSIFIERS, Learner
from goodalloc.experiments.studies.predictability.cross_validation import (
    FOLDS,
    PREDICTIONS,
    CrossValidation,
    fold_numbers,
    fold_slices,
    predict_unseen,
)
from goodalloc.experiments.studies.predictability.study import PREDICTABILITY
from tests.support.job_records import made_up_records, write_records

if TYPE_CHECKING:
    from pathlib import Path


def small(classifier: str = "forest", **options: Any) -> Learner:
    """A learner that takes no time."""
    return Learner(classifier, **{"trees": 10, "iterations": 20, **options})


@pytest.mark.parametrize("job_type", ["code", "one_hot", "left_out"])
@pytest.mark.parametrize("classifier", list(CLASSIFIERS))
def test_every_classifier_gives_probabilities(classifier: str, job_type: Any) -> None:
    """From 0 to 1, the same for the same seed, and after pickling; of unseen kinds of job too."""
    records = made_up_records()
    learner = small(classifier, job_type=job_type)
    predictor = learner.fit(records)
    values = made_up_records(20, seed=1, kinds=20).columns(predictor.features)
    found = predictor.unpredictable(values)
    assert found.shape == (20,)
    assert ((found >= 0.0) & (found <= 1.0)).all()
    assert np.array_equal(found, learner.fit(records).unpredictable(values))
    assert np.array_equal(found, pickle.loads(pickle.dumps(predictor)).unpredictable(values))
    assert np.array_equal(predictor.confidence(values), 1.0 - found)
    assert predictor.unpredictable(values[:0]).shape == (0,)


def test_each_job_is_judged_for_itself() -> None:
    """The confidence of a job does not depend on which jobs are asked for with it."""
    records = made_up_records()
    predictor = small().fit(records)
    values = records.columns(predictor.features)[:30]
    together = predictor.unpredictable(values)
    order = np.random.default_rng(0).permutation(30)
    assert np.array_equal(predictor.unpredictable(values[order]), together[order])
    assert predictor.unpredictable(values[7:8])[0] == together[7]


def test_a_planted_signal_is_learnt_and_permuted_labels_are_not() -> None:
    """Afterwards nearly all is right, at submission nine in ten; without a signal there is none."""
    records = made_up_records(400)
    folds = fold_numbers(records)
    for known, least in (("afterwards", 0.99), ("submission", 0.8)):
        learner = small("forest", known=known, trees=50)
        assert score(records.unpredictable, predict_unseen(records, learner, folds)).auc > least
    shuffled = np.random.default_rng(0).permutation(records.unpredictable)
    nonsense = JobRecords(records.values.copy(), shuffled)
    found = predict_unseen(nonsense, small(known="afterwards"), fold_numbers(nonsense))
    assert score(shuffled, found).auc == pytest.approx(0.5, abs=0.1)


def test_folds_part_the_jobs() -> None:
    """Stratified: of one size and with the classes in proportion, others for another seed."""
    records = made_up_records(200)
    folds = fold_numbers(records)
    assert np.bincount(folds).tolist() == [40] * FOLDS
    assert np.bincount(folds[records.unpredictable]).tolist() == [10] * FOLDS
    assert np.array_equal(folds, fold_numbers(records, seed=0))
    assert not np.array_equal(folds, fold_numbers(records, seed=1))
    assert np.sum(fold_slices(folds), axis=0).tolist() == [1] * 200


def test_no_kind_of_job_is_in_two_folds() -> None:
    """So that kinds to predict are new; the order of the jobs makes no difference to the parts."""
    records = made_up_records(200, kinds=13)
    kinds = records.columns(["job_type"])[:, 0]
    folds = fold_numbers(records, "unseen types")
    assert set(folds) == set(range(FOLDS))
    assert all(np.unique(folds[kinds == kind]).size == 1 for kind in np.unique(kinds))
    back = JobRecords(records.values[::-1].copy(), records.unpredictable[::-1].copy())
    assert np.array_equal(fold_numbers(back, "unseen types")[::-1], folds)


@pytest.mark.parametrize(
    ("jobs", "kinds", "validation", "words"),
    [
        (16, 8, "stratified", "number of unpredictable jobs is 4"),
        (40, 4, "unseen types", "number of job types is 4"),
        (40, 8, "leave one out", "validation is 'leave one out'"),
    ],
)
def test_too_few_jobs_for_the_folds_are_refused(
    jobs: int, kinds: int, validation: Any, words: str
) -> None:
    """One of each class and of each kind for every fold, at least."""
    with pytest.raises(ValueError, match=words):
        fold_numbers(made_up_records(jobs, kinds=kinds), validation)


def test_jobs_of_one_class_teach_nothing() -> None:
    """All of them predictable, or all that are chosen."""
    records = made_up_records(40)
    with pytest.raises(ValueError, match="10 of 10 jobs are unpredictable"):
        small().fit(records, records.unpredictable)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"classifier": "tree"}, "classifier is 'tree'; expected one of majority, knn"),
        ({"known": "later"}, "known is 'later'"),
        ({"job_type": "name"}, "job_type is 'name'; expected one of code, one_hot, left_out"),
        ({"seed": -1}, "seed is -1"),
        ({"trees": 0}, "trees is 0"),
        ({"trees": 1.5}, "trees is 1.5"),
        ({"iterations": 0}, "iterations is 0"),
    ],
)
def test_learners_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    """Before anything is learnt."""
    with pytest.raises(ValueError, match=f"^(Learner|Features): {words}"):
        Learner(**options)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1.0] * 9, r"shape \(9,\); expected jobs by 9 features"),
        ([[1.0] * 8], r"shape \(1, 8\)"),
        ([[1.0] * 8 + [math.nan]], "resubmit of job 0 is nan; expected a finite number"),
        ([[1.0] * 9, [math.inf] + [1.0] * 8], "job_type of job 1 is inf"),
    ],
)
def test_jobs_that_make_no_sense_are_not_judged(values: Any, words: str) -> None:
    """The sentence names the job and the feature."""
    with pytest.raises(ValueError, match=words):
        small().fit(made_up_records(40)).unpredictable(values)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    """In another folder; another seed gives others. What is done is not done again."""
    write_records(made_up_records(), tmp_path)
    task = CrossValidation(tmp_path / "a", tmp_path, small("mlp"))
    told: list[float] = []
    task.run(told.append)
    assert told == [0.2, 0.4, 0.6, 0.8, 1.0]
    replace(task, folder=tmp_path / "b").run()
    replace(task, folder=tmp_path / "c", learner=small("mlp", seed=1)).run()
    first, same, other = ((tmp_path / name / PREDICTIONS).read_bytes() for name in "abc")
    assert first == same != other
    task.run(told.append)
    assert len(told) == FOLDS
    with pytest.raises(ValueError, match="seed in its"):
        replace(task, folder=tmp_path / "c").run()


@pytest.mark.parametrize(
    "text", ["", "fold,unpredictable\n0,0.5\n", "fold\n", "fold,unpredictable\nx,y\n"]
)
def test_spoilt_predictions_are_refused(tmp_path: Path, text: str) -> None:
    """The sentence names the file."""
    task = CrossValidation(tmp_path, tmp_path, small())
    (tmp_path / PREDICTIONS).write_text(text)
    with pytest.raises(ValueError, match="cannot be read as predictions of 40 jobs"):
        task.predictions(40)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hundred records; learners that take no time."""
    monkeypatch.setattr(predictability, "QUICK_LEARNER", {"trees": 5, "iterations": 5})
    (tmp_path / "records").mkdir()
    write_records(made_up_records(200), tmp_path / "records")
    return tmp_path


def test_reproduce_goes_on_where_it_was_and_writes_table_and_picture(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Interrupted after some cells, it does the others; a row a cell, and one a feature."""
    shown = ("code", "stratified"), ("left_out", "unseen types")  # in the picture
    cases = [case for case in predictability.CASES if case[1:] in shown]
    monkeypatch.setattr(predictability, "CASES", cases)
    out = folder / "out"
    command = ["reproduce", "predictability", "--quick", "--artifact", str(folder / "records")]
    command += ["--out", str(out)]
    run = CrossValidation.run
    done: list[Path] = []

    def interrupted(task: CrossValidation, report: Any) -> None:
        if len(done) == 7:
            raise KeyboardInterrupt
        done.append(task.folder)
        run(task, report)

    monkeypatch.setattr(CrossValidation, "run", interrupted)
    assert main(command) == 130
    assert "goes on from the last checkpoint" in capsys.readouterr().err
    kept = {path: path.stat().st_mtime_ns for path in out.rglob(PREDICTIONS)}
    assert len(kept) == 7
    monkeypatch.setattr(CrossValidation, "run", run)
    assert main(command) == 0
    assert PREDICTABILITY.title in capsys.readouterr().out
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
    table = pd.read_csv(out / "predictability-quick.csv")
    assert len(table) == 6 * 6 + 15
    assert (table.jobs == 100).all()
    assert table.accuracy.between(0, 1).all()
    assert (table.worst_fold_accuracy.dropna() <= table.accuracy[: 6 * 6]).all()
    (leak,) = table[table.accuracy == 1.0].feature.dropna()
    assert leak == "accuracy"
    assert (out / "predictability-quick.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "expected their folder (--artifact)"),
        (["--artifact", "nowhere"], "'nowhere' is no folder"),
        (["--workloads", "1"], "workloads is 1; it makes no difference there"),
        (["--gaps"], "gaps is True; it makes no difference there"),
    ],
)
def test_reproduce_refuses_what_makes_no_sense(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """In one sentence, and nothing is left behind but the folder."""
    assert main(["reproduce", "predictability", "--out", str(tmp_path), *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_missing_library_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence that names the extra."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "sklearn" else find(name)
    )
    with pytest.raises(ValueError, match=r"goodalloc\[predict\]"):
        Learner()
    with pytest.raises(ValueError, match=r"goodalloc\[predict\]"):
        PREDICTABILITY.require(Plan(tmp_path))


@pytest.mark.slow
def test_the_forest_beats_the_majority_at_submission(reference: Path) -> None:
    """0.908 against 0.850, as first measured; on kinds of job never seen it does not."""
    records = read_aiturbo_jobs(reference / "aiturbo-jobs")
    folds = fold_numbers(records)
    found = score(records.unpredictable, predict_unseen(records, Learner(), folds))
    assert found.accuracy >= 0.905
    assert found.f1 == pytest.approx(0.676, abs=0.02)
    assert found.auc == pytest.approx(0.932, abs=0.01)
    majority = predict_unseen(records, Learner("majority"), folds)
    assert score(records.unpredictable, majority).accuracy == pytest.approx(0.850, abs=5e-4)
    new = fold_numbers(records, "unseen types")
    blind = predict_unseen(records, Learner(job_type="left_out"), new)
    assert score(records.unpredictable, blind).accuracy < 0.86


@pytest.mark.slow
@pytest.mark.parametrize("case", list(predictability.EARLIER))
@pytest.mark.parametrize("classifier", [name for name in CLASSIFIERS if name != "majority"])
def test_accuracies_are_those_first_measured(
    case: predictability.Case, classifier: str, reference: Path
) -> None:
    """To half a point, whatever the version of scikit-learn."""
    records = read_aiturbo_jobs(reference / "aiturbo-jobs")
    learner = Learner(classifier, case.known, case.job_type)
    folds = fold_numbers(records, case.validation)
    probability = predict_unseen(records, learner, folds)
    accuracies = [
        score(records.unpredictable[part], probability[part]).accuracy
        for part in fold_slices(folds)
    ]
    earlier = predictability.EARLIER[case][classifier]
    assert np.mean(accuracies) == pytest.approx(earlier, abs=0.005)
