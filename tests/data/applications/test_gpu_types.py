"""Profiles on other types of GPU: what they hold, what is refused, how they are derived."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.applications.gpu_types import (
    CAPPED,
    SHIPPED,
    SUFFIXES,
    gpu_types,
    load_type_profile,
    parse_gpu_types,
)
from goodalloc.data.applications.measurements import APPLICATIONS, read_observations
from goodalloc.data.applications.profiles import application_names, load_profile
from goodalloc.data.derivation.fit_gpu_types import derive_gpu_types, main
from goodalloc.data.documents.shipped import read_shipped, write_document
from goodalloc.models.goodput.batch_size import best_batch_size
from goodalloc.models.goodput.throughput_model import gradient_time, step_time
from tests.support.replay.profile_tables import compare

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = [(kind, name) for kind in SUFFIXES for name in APPLICATIONS]


@pytest.fixture(scope="module")
def shipped() -> str:
    """The shipped file."""
    return read_shipped(SHIPPED)


def test_the_types_of_the_published_cluster_are_shipped() -> None:
    """T4 comes first: it is the type of the profiles that are there already."""
    assert gpu_types() == ("t4", "a100", "rtx2080ti")


@pytest.mark.parametrize("name", sorted(APPLICATIONS))
def test_on_the_first_type_a_profile_is_the_one_of_pollux(name: str) -> None:
    """The very same object: nothing is shipped twice."""
    assert load_type_profile(name, "t4") is load_profile(name)


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_only_speed_and_memory_depend_on_the_type(kind: str, name: str) -> None:
    """Gradient statistics and all batch limits but the largest atomic one are shared."""
    here, first = load_type_profile(name, kind), load_profile(name)
    assert here.throughput != first.throughput
    assert here.batch._replace(atomic_maximum=first.batch.atomic_maximum) == first.batch
    assert here.gradient_square is first.gradient_square
    assert here.progress is first.progress
    assert here.goodput_model(0.5).gradient == first.goodput_model(0.5).gradient


@pytest.mark.parametrize("name", sorted(APPLICATIONS))
def test_an_a100_is_the_fastest_type(name: str) -> None:
    """On one GPU, at its best batch size there, every application trains fastest on an A100."""
    rates = {
        kind: best_batch_size(load_type_profile(name, kind).goodput_model(0.5), 1, 1).goodput
        for kind in gpu_types()
    }
    assert max(rates, key=lambda kind: rates[kind]) == "a100"


def test_unknown_types_and_applications_are_refused() -> None:
    """The refusals list what there is."""
    with pytest.raises(ValueError, match=r"gpu_type is 'h100'; expected one of t4, a100, rtx"):
        load_type_profile("bert", "h100")
    with pytest.raises(ValueError, match="application is 'gpt'; expected one of bert"):
        load_type_profile("gpt", "a100")


def test_a_file_of_another_version_is_refused(shipped: str) -> None:
    """The sentence names both versions."""
    text = json.dumps(json.loads(shipped) | {"version": 2})
    with pytest.raises(ValueError, match="version is 2; expected 1"):
        parse_gpu_types(text)


def test_the_shipped_file_is_in_canonical_form(shipped: str) -> None:
    """Writing what was read gives the same bytes; every application is there on every type."""
    document = json.loads(shipped)
    assert write_document(document) + "\n" == shipped
    for table in document["gpu_types"].values():
        assert tuple(sorted(table)) == application_names()


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_recorded_errors_are_those_of_the_shipped_parameters(
    reference: Path, kind: str, name: str
) -> None:
    """The errors recorded for a type, measured again."""
    profile = load_type_profile(name, kind)
    limits = APPLICATIONS[name]._replace(atomic_maximum=int(profile.batch.atomic_maximum))
    table = read_observations(reference / "sia" / "traces" / name, limits, SUFFIXES[kind])
    nodes, replicas, atomic, gradient, step = table.T
    assert profile.fit_errors.observations == len(table)
    for errors, predicted, measured in (
        (profile.fit_errors.gradient_time, gradient_time(profile.throughput, atomic), gradient),
        (
            profile.fit_errors.step_time,
            step_time(profile.throughput, nodes, replicas, atomic, 0.0),
            step,
        ),
    ):
        error = np.abs(predicted / measured - 1.0)
        again = (np.median(error), np.percentile(error, 90), error.max())
        assert errors == pytest.approx(again, rel=1e-6)
    stated = CAPPED.get((name, kind), atomic.max())
    assert profile.batch.atomic_maximum == stated


@pytest.mark.parametrize("name", sorted(APPLICATIONS))
def test_the_measurements_on_t4_are_those_of_pollux(reference: Path, name: str) -> None:
    """Steps and gradient statistics, to the byte: so the profiles are shared."""
    ours, theirs = (reference / system / "traces" / name for system in ("sia", "pollux"))
    for table in ("placements", "scalability"):
        same = (ours / f"{table}-aws.csv").read_bytes() == (theirs / f"{table}.csv").read_bytes()
        assert same
    statistics = sorted(path.name for path in theirs.glob("validation-*.csv"))
    assert statistics == sorted(path.name for path in ours.glob("validation-*.csv"))
    for file in statistics:
        assert (ours / file).read_bytes() == (theirs / file).read_bytes()


@pytest.mark.slow
def test_deriving_the_types_again_gives_the_shipped_file(
    reference: Path, shipped: str, tmp_path: Path
) -> None:
    """The script reproduces what is shipped, within tolerance across platforms."""
    out = tmp_path / "gpu_types.json"
    main(["--reference", str(reference), "--out", str(out)])
    compare(json.loads(out.read_text(encoding="utf-8")), json.loads(shipped))


def test_a_missing_measurement_is_refused(tmp_path: Path) -> None:
    """A reference folder without the traces cannot be fitted."""
    with pytest.raises(ValueError, match="expected a folder that holds sia/traces"):
        derive_gpu_types(tmp_path)
