"""What parts of steps are worth: simulated profiles, draws, the shipped rows, bad folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.applications.profiles import load_profile
from goodalloc.data.files.measured_profile import rows_as_text
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.training.profile_parts import (
    PROFILE_PARTS,
    SIMULATED,
    TIME_NOISE,
    PartsTask,
    draw_configurations,
    simulated_profile,
)
from goodalloc.models.goodput.throughput_model import step_time
from tests.support.profiles import row

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("application", SIMULATED)
def test_a_simulated_profile_follows_its_application_but_for_random_errors(
    application: str,
) -> None:
    """Of the stated size; the same seed gives the same profile."""
    found, again = (simulated_profile(application, seed=1) for _ in range(2))
    truth = load_profile(application).throughput
    true = step_time(truth, found.nodes, found.replicas, found.atomic_batch_size, 0.0)
    errors = np.log(found.step_time / np.asarray(true))
    assert 0.5 * TIME_NOISE < errors.std() < 2.0 * TIME_NOISE
    assert (found.step_time == again.step_time).all()
    assert (found.overlap_time <= found.synchronisation_time).all()
    assert found.has_parts


@given(number=st.integers(2, 12), seed=st.integers(0, 10_000))
def test_draws_have_as_many_configurations_as_wanted_of_either_kind(number: int, seed: int) -> None:
    """One replica and several; the same seed draws the same."""
    profile = simulated_profile("cifar10", seed=0)
    mask = draw_configurations(profile, number, seed)
    assert mask.sum() == number
    assert {1.0} < set(profile.replicas[mask])
    assert (mask == draw_configurations(profile, number, seed)).all()


def test_parts_are_worth_something_where_the_formula_holds(tmp_path: Path) -> None:
    """Their fit to few configurations predicts the others better; the records are kept."""
    task = PartsTask(tmp_path / "task", "cifar10", "", numbers=(4,), draws=12)
    task.run()
    found = task.errors()["errors"]["4"]
    assert np.mean(found["parts"]) < 0.8 * np.mean(found["steps"])
    before = (tmp_path / "task" / "errors.json").stat().st_mtime_ns
    task.run()
    assert (tmp_path / "task" / "errors.json").stat().st_mtime_ns == before


def test_profiles_of_ones_own_take_the_place_of_those_that_ship(tmp_path: Path) -> None:
    """Every CSV file of the folder; those that nobody profiled have one fit."""
    rows = [row(1, replicas, 2**power, 0) for power in range(2, 9) for replicas in (1, 2)]
    (tmp_path / "mine.csv").write_text(rows_as_text(rows), encoding="utf-8")
    plan = Plan(tmp_path / "out", artifact=tmp_path, quick=True)
    for task in PROFILE_PARTS.tasks(plan):
        task.run(lambda _: None)
    found = PROFILE_PARTS.rows(plan)
    assert {line.profile for line in found} == {"mine"}
    assert {line.fit_to for line in found} == {"steps", "weighted steps"}
    assert PROFILE_PARTS.plot(plan, found).axes


def test_folders_and_profiles_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    """In one sentence."""
    with pytest.raises(ValueError, match="it has no CSV file"):
        PROFILE_PARTS.tasks(Plan(tmp_path, artifact=tmp_path))
    rows = [row(1, 1, 2**power, 0) for power in range(2, 9)]
    path = tmp_path / "alone.csv"
    path.write_text(rows_as_text(rows), encoding="utf-8")
    task = PartsTask(tmp_path / "task", "alone", str(path), numbers=(3,), draws=2)
    with pytest.raises(ValueError, match="all its configurations have one replica"):
        task.run()
    few = PartsTask(tmp_path / "few", "alone", str(path), numbers=(8, 9), draws=2)
    with pytest.raises(ValueError, match="it has 7 undisturbed configurations; expected more than"):
        few.run()
