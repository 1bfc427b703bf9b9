"""The shipped application profiles: what they hold, what is refused, how they are derived."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.applications.measurements import APPLICATIONS, read_observations
from goodalloc.data.applications.profiles import (
    FORMAT,
    SHIPPED,
    application_names,
    load_profile,
    parse_profiles,
)
from goodalloc.data.derivation.fit_profiles import derive_profiles, main
from goodalloc.data.documents.shipped import read_shipped, write_document
from goodalloc.models.goodput.model import goodput
from goodalloc.models.goodput.throughput_model import gradient_time, step_time
from tests.support.documents import changed
from tests.support.replay.profile_tables import compare

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")

# Published: jobs in 1,280, epochs, training in steps at the initial batch size.
PUBLISHED = {
    "bert": (86, 2, 14774.0),
    "cifar10": (495, 100, 39062.9),
    "deepspeech2": (111, 80, 28536.0),
    "imagenet": (26, 90, 576525.6),
    "ncf": (503, 10, 194174.0),
    "yolov3": (59, 50, 103444.0),
}


@pytest.fixture(scope="module")
def shipped() -> str:
    """The shipped file."""
    return read_shipped(SHIPPED)


def test_the_six_applications_are_shipped() -> None:
    """Names are in alphabetical order."""
    assert application_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_agrees_with_what_was_published(name: str) -> None:
    """Share of the jobs, length of the training, first batch size."""
    jobs, epochs, total = PUBLISHED[name]
    profile = load_profile(name)
    assert profile.share == pytest.approx(jobs / 1280, rel=1e-12)
    assert profile.epochs == epochs
    assert profile.total_progress == pytest.approx(total, abs=0.06)
    assert profile.batch_sizes[[0, -1]].tolist() == [profile.batch.initial, profile.batch.maximum]
    assert profile.batch.accumulation is True


def test_shares_add_up_to_one() -> None:
    """The applications make up the whole published mix."""
    assert sum(load_profile(name).share for name in NAMES) == pytest.approx(1.0, rel=1e-12)


def test_only_ncf_is_restricted() -> None:
    """Pollux runs it on one GPU with a fixed batch."""
    restrictions = {name: load_profile(name).restriction for name in NAMES}
    assert restrictions.pop("ncf") == (32768, 1)
    assert set(restrictions.values()) == {None}


@pytest.mark.parametrize("name", NAMES)
def test_the_goodput_model_is_constant_within_an_epoch(name: str) -> None:
    """Statistics change exactly at the ends of epochs, and are those at the initial batch size."""
    profile = load_profile(name)
    begins = np.concatenate([[0.0], profile.progress[:-1]])
    last = profile.goodput_model(0.0)
    for epoch, (begin, end) in enumerate(zip(begins, profile.progress, strict=True)):
        first, last = profile.goodput_model(begin), profile.goodput_model(np.nextafter(end, 0.0))
        assert first == last
        assert first.gradient.square == profile.gradient_square[0, epoch]
        assert first.gradient.variance == profile.gradient_variance[0, epoch]
    assert profile.goodput_model(1.0) == last


@pytest.mark.parametrize("name", NAMES)
def test_goodput_of_every_stage_is_positive(name: str) -> None:
    """Every model can be evaluated, also where the true gradient vanishes."""
    profile = load_profile(name)
    for progress in np.linspace(0.0, 1.0, 40):
        model = profile.goodput_model(progress)
        rate = goodput(model, 2, 4, profile.batch.atomic_maximum, 0)
        assert np.isfinite(rate)
        assert rate > 0.0


def test_statistics_are_interpolated_between_batch_sizes() -> None:
    """Linear between neighbours, constant beyond the ends, exact at what was measured."""
    profile = load_profile("cifar10")
    square = profile.gradient_square[:, 0]
    assert profile.gradient_statistics(0.0, 192.0).square == pytest.approx(square[:2].mean())
    for size, expected in zip(profile.batch_sizes, square, strict=True):
        assert profile.gradient_statistics(0.0, size).square == expected
    assert profile.gradient_statistics(0.0, 1e6).square == square[-1]
    assert profile.gradient_statistics(0.3) == profile.gradient_statistics(0.3, 128.0)


def test_a_profile_cannot_be_changed() -> None:
    """Neither its fields nor its arrays."""
    profile = load_profile("bert")
    with pytest.raises(FrozenInstanceError):
        profile.share = 1.0  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        profile.progress[0] = 0.0


def test_an_unknown_application_is_refused() -> None:
    """The refusal lists what there is."""
    with pytest.raises(ValueError, match=r"application is 'gpt'; expected one of bert, .*yolov3\."):
        load_profile("gpt")


@pytest.mark.parametrize("progress", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_progress_out_of_range_is_refused(progress: float) -> None:
    """A fraction lies between 0 and 1."""
    with pytest.raises(ValueError, match=r"profile 'bert': progress is .*; expected a fraction"):
        load_profile("bert").goodput_model(progress)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("version", 2, "version is 2; expected 1"),
        ("format", "other", "format is 'other'; expected 'goodalloc-profiles'"),
        ("applications.bert.batch", ..., "profile 'bert' lacks the field 'batch'"),
        ("applications.bert.gradient.progress", [0.5, 0.9], "profile 'bert': progress ends at 0.9"),
        ("applications.bert.gradient.progress", [1.0], r"'bert': progress has shape \(1,\)"),
        ("applications.bert.throughput.gamma", 0.5, "profile 'bert': gamma is 0.5"),
        ("applications.bert.batch.initial", 24, "profile 'bert': batch_sizes start at 12"),
        ("applications.bert.epochs", 0, "profile 'bert': epochs is 0"),
        ("applications.bert.share", -0.1, "profile 'bert': share is -0.1"),
    ],
)
def test_a_corrupt_file_is_refused(shipped: str, path: str, value: Any, message: str) -> None:
    """One sentence names the profile, the field and what was expected."""
    document = changed(json.loads(shipped), tuple(path.split(".")), value)
    with pytest.raises(ValueError, match=message):
        parse_profiles(json.dumps(document))


def test_the_shipped_file_is_in_canonical_form(shipped: str) -> None:
    """Writing what was read gives the same bytes."""
    document = json.loads(shipped)
    assert document["format"] == FORMAT
    assert write_document(document) + "\n" == shipped


@pytest.mark.parametrize("name", NAMES)
def test_recorded_errors_are_those_of_the_shipped_parameters(reference: Path, name: str) -> None:
    """The errors recorded in the profile, measured again."""
    profile = load_profile(name)
    table = read_observations(reference / "pollux" / "traces" / name, APPLICATIONS[name])
    nodes, replicas, atomic, gradient, step = table.T
    parameters, recorded = profile.throughput, profile.fit_errors
    assert recorded.observations == len(table)
    for errors, predicted, measured in (
        (recorded.gradient_time, gradient_time(parameters, atomic), gradient),
        (recorded.step_time, step_time(parameters, nodes, replicas, atomic, 0.0), step),
    ):
        error = np.abs(predicted / measured - 1.0)
        again = (np.median(error), np.percentile(error, 90), error.max())
        assert errors == pytest.approx(again, rel=1e-6)


@pytest.mark.slow
def test_deriving_the_profiles_again_gives_the_shipped_file(
    reference: Path, shipped: str, tmp_path: Path
) -> None:
    """The script reproduces what is shipped, within tolerance across platforms."""
    out = tmp_path / "applications.json"
    main(["--reference", str(reference), "--out", str(out)])
    compare(json.loads(out.read_text(encoding="utf-8")), json.loads(shipped))


def test_a_missing_measurement_is_refused(tmp_path: Path) -> None:
    """A reference folder without the traces cannot be fitted."""
    with pytest.raises(ValueError, match="expected a folder that holds pollux/traces"):
        derive_profiles(tmp_path)
