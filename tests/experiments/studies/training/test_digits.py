"""Real training on digits: what its histories say, and the tables made of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.experiments.reporting.estimates import NO_ESTIMATE
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.training import adaptive_batch, digits_efficiency
from goodalloc.experiments.studies.training.adaptive_batch import ADAPTIVE_BATCH, Contender
from goodalloc.experiments.studies.training.digits_efficiency import (
    DIGITS_EFFICIENCY,
    Case,
    predicted,
)
from goodalloc.experiments.studies.training.digits_run import HISTORY, DigitsRun, measure_profile
from goodalloc.experiments.studies.training.digits_training import DigitsJob, Moment, train
from goodalloc.experiments.support.folder_lock import locked
from goodalloc.models.adaptation.batch_rules import AdaBatch, FixedBatch, GoodputBatch
from tests.support.few import few

if TYPE_CHECKING:
    from pathlib import Path

SHORT = DigitsJob(target=1.0)


@pytest.fixture(autouse=True)
def libraries() -> None:
    """Without them there is nothing to train."""
    pytest.importorskip("torch", reason="needs goodalloc[measure]")
    pytest.importorskip("sklearn", reason="needs goodalloc[predict]")


def moment(**known: Any) -> Moment:
    """One of a history."""
    usual = dict.fromkeys(Moment._fields, 1)
    return Moment(**usual | known)


def test_the_same_seed_gives_the_same_history(tmp_path: Path) -> None:
    """But for the seconds; another seed another one; the last loss is the first at the target."""
    histories = [
        train(SHORT._replace(seed=seed), tmp_path / str(place)).history
        for place, seed in enumerate((3, 3, 4))
    ]
    untimed = [
        [one._replace(seconds=0.0, processor_seconds=0.0) for one in history]
        for history in histories
    ]
    assert untimed[0] == untimed[1] != untimed[2]
    assert histories[0][-1].validation_loss <= 1.0 < histories[0][-2].validation_loss
    assert all(one.examples % 128 == 0 for one in histories[0])
    assert 0.0 < histories[0][0].seconds < histories[0][-1].seconds


def test_training_ends_after_its_epochs_or_its_seconds(tmp_path: Path) -> None:
    """Whether or not the target is reached."""
    one = SHORT._replace(target=0.0, epochs=1)
    assert train(one, tmp_path / "a").history[-1].examples == 1408  # of 1,438
    assert len(train(one, tmp_path / "b", most_seconds=0.0).history) == 1


def test_a_job_has_the_rule_that_it_names() -> None:
    """AdaBatch without a decay, for the rate has none."""
    assert SHORT._replace(total=64).rule == FixedBatch(64)
    assert SHORT._replace(batch_rule="adabatch", growth_epochs=3).rule == AdaBatch(3, decay=1.0)
    assert isinstance(SHORT._replace(batch_rule="goodput").rule, GoodputBatch)


def test_predicted_efficiency_is_the_harmonic_mean_over_the_training() -> None:
    """phi = 48 gives (48 + 16) / (48 + 32) = 0.8 at M = 32, phi = 16 gives 2 / 3."""
    quiet, noisy = moment(square=1.0, variance=1.0), moment(square=1.0, variance=3.0)
    assert predicted([noisy], 32) == pytest.approx(0.8)
    assert predicted([quiet, noisy], 32) == pytest.approx(2.0 / (1.5 + 1.25))
    assert predicted([quiet, noisy], 16) == 1.0


@pytest.mark.parametrize("seeds", few([(1,), (0, 1, 2)], 1))
def test_efficiency_is_predicted_within_a_tenth_over_eightfold_batches(
    tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    """And AdaScale's scale-invariant steps coincide; means over the seeds."""
    jobs = [DigitsJob(seed=seed, evaluate=64) for seed in seeds]
    ends: dict[int, list[list[Moment]]] = {}
    for total in (16, 128):
        ends[total] = [
            train(job._replace(total=total), tmp_path / f"{total}-{job.seed}").history
            for job in jobs
        ]
    pairs = list(zip(ends[16], ends[128], strict=True))
    measured = [before[-1].examples / run[-1].examples for before, run in pairs]
    guessed = [predicted(before, 128) for before, _ in pairs]
    assert sum(guessed) / sum(measured) == pytest.approx(1.0, abs=0.1)
    assert 0.4 < sum(measured) / len(seeds) < 0.6
    steps = [run[-1].scale_invariant_steps / before[-1].steps for before, run in pairs]
    assert sum(steps) / len(seeds) == pytest.approx(1.0, abs=0.05)


def test_a_training_is_done_once_and_what_it_left_is_checked(tmp_path: Path) -> None:
    """A timed one not beside another one; one sentence for what is damaged."""
    run = DigitsRun(tmp_path / "runs" / "one", SHORT, (16, 64), timed=True)
    (tmp_path / "runs").mkdir()
    with locked(tmp_path / "runs"), pytest.raises(ValueError, match="one after the other"):
        run.run()
    run.run()
    before = (run.folder / HISTORY).read_bytes()
    run.run()
    assert (run.folder / HISTORY).read_bytes() == before
    assert run.history()[-1].validation_loss <= 1.0
    found = run.profile()
    assert found is not None
    assert found.seconds > 0.0
    assert 0.0 < found.throughput.alpha_grad < 0.1
    differ = "cores, profiled in its replay.json differ; take another folder"
    with pytest.raises(ValueError, match=differ):
        DigitsRun(run.folder, SHORT).run()
    for text in ("", "steps\n1\n", before.decode().split("\n")[0], before.decode() + "1,2\n"):
        (run.folder / HISTORY).write_text(text)
        with pytest.raises(ValueError, match="cannot be read as the history of a training"):
            run.history()


def test_a_profile_knows_how_passes_grow() -> None:
    """Of more examples they take longer."""
    job = DigitsJob("wide perceptron")
    found = measure_profile(job, (16, 256)).throughput
    assert found.beta_grad > 0.0


def test_the_table_of_efficiencies_has_a_row_for_every_case_and_batch_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blank where a run never came; the picture has three panels."""
    case = Case("perceptron", "sgd", 0.1, "adascale")
    hopeless = case._replace(rate=0.001)
    monkeypatch.setattr(digits_efficiency, "QUICK", (case, hopeless))
    monkeypatch.setattr(digits_efficiency, "SCALES", (1, 2))
    monkeypatch.setattr(digits_efficiency, "QUICK_SEEDS", 1)
    monkeypatch.setattr(digits_efficiency, "EPOCHS", 5)
    monkeypatch.setattr(digits_efficiency, "DigitsJob", partial(DigitsJob, target=0.3))
    plan = Plan(tmp_path, quick=True)
    for task in DIGITS_EFFICIENCY.tasks(plan):
        task.run(lambda _: None)
    rows = DIGITS_EFFICIENCY.rows(plan)
    assert [(row.rate, row.batch_size) for row in rows] == [
        (0.1, 16),
        (0.1, 32),
        (0.001, 16),
        (0.001, 32),
    ]
    assert rows[0].measured.mean == rows[0].predicted.mean == 1.0
    assert 0.7 < rows[1].measured.mean < 1.0
    assert [row.reached for row in rows] == [1, 1, 0, 0]
    assert rows[3].measured is rows[3].error is NO_ESTIMATE
    shown = DIGITS_EFFICIENCY.shown(rows)
    assert [row["reached"] for row in shown] == ["1 of 1", "0 of 1"]
    assert len(DIGITS_EFFICIENCY.plot(plan, rows).axes) == 3
    assert DIGITS_EFFICIENCY.source(plan)["truth"] == "training"


def test_adaptive_batches_are_compared_with_the_best_and_the_median_fixed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each seed begins with another contender, and all are there."""
    contenders = (
        Contender("fixed 16", "fixed", "fixed", 16),
        Contender("fixed 256", "fixed", "fixed", 256),
        Contender("fixed 1024", "fixed", "fixed", 1024),
        Contender("goodput", "goodput", "goodput", profiled=True),
        Contender("CABS, c = 1", "CABS", "cabs"),
        Contender("CABS, c = 1e6", "CABS", "cabs", cabs_constant=1e6),
    )
    monkeypatch.setattr(adaptive_batch, "CONTENDERS", contenders)
    monkeypatch.setattr(adaptive_batch, "ADAPTIVE", ("goodput", "CABS"))
    monkeypatch.setattr(adaptive_batch, "PROFILED", (16, 256))
    monkeypatch.setattr(adaptive_batch, "JOB", adaptive_batch.JOB._replace(target=2.0))
    plan = Plan(tmp_path, quick=True)
    tasks = ADAPTIVE_BATCH.tasks(plan)
    assert [task.folder for task in tasks[:6]] != [task.folder for task in tasks[6:]]
    for task in tasks:
        task.run(lambda _: None)
    rows = {row.contender: row for row in ADAPTIVE_BATCH.rows(plan)}
    assert sorted(row.place for row in rows.values()) == ["", "", "", "best", "best", "median"]
    best = next(row for row in rows.values() if row.place == "best" and row.kind == "fixed")
    cabs = [row for row in rows.values() if row.kind == "CABS"]
    fastest = min(cabs, key=lambda row: row.seconds.mean)
    assert [row.place for row in cabs] == ["best" if row is fastest else "" for row in cabs]
    assert rows["CABS, c = 1e6"].last_batch_size.mean > rows["CABS, c = 1"].last_batch_size.mean
    assert best.over_best == (1.0, 0.0)
    assert rows["fixed 256"].last_batch_size.mean == 256
    assert (rows["goodput"].profile_seconds or 0.0) > 0.0
    assert rows["fixed 16"].profile_seconds is None
    assert all(row.reached == 2 for row in rows.values())
    assert len(ADAPTIVE_BATCH.plot(plan, list(rows.values())).axes) == 3
