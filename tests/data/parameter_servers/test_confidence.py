"""How sure the classifier is: the quantiles that ship."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.documents.shipped import read_shipped
from goodalloc.data.parameter_servers.confidence import SHIPPED, confidence_at, parse_confidence
from goodalloc.experiments.studies.predictability.fit_confidence import derive_confidence, main
from tests.support.documents import changed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.documents import Place


def test_confidence_rises_with_the_quantile_and_tells_the_kinds_apart() -> None:
    """Who is predictable is believed to be."""
    places = np.linspace(0.0, 1.0, 57)
    known, unknown = (
        [confidence_at(place, predictable=kind) for place in places] for kind in (True, False)
    )
    assert known == sorted(known)
    assert unknown == sorted(unknown)
    assert all(a >= b for a, b in zip(known, unknown, strict=True))
    assert known[28] > 0.95 > 0.5 > unknown[28]


def test_between_quantiles_confidence_is_a_straight_line() -> None:
    """By hand."""
    values = parse_confidence(read_shipped(SHIPPED))["unpredictable"]
    assert len(values) == 101
    assert confidence_at(0.205, predictable=False) == pytest.approx((values[20] + values[21]) / 2)


@pytest.mark.slow
def test_what_ships_is_what_the_records_give(reference: Path, tmp_path: Path) -> None:
    """To the last digit, by the command that the documentation names."""
    pytest.importorskip("sklearn", reason="needs the extra `predict`")
    records, out = reference / "aiturbo-jobs", tmp_path / "confidence.json"
    if not records.is_dir():
        pytest.skip("the job records of AITurbo are not there")
    main(["--reference", str(records), "--out", str(out)])
    assert json.loads(out.read_text("utf-8")) == json.loads(read_shipped(SHIPPED))


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    """With the name of the file."""
    pytest.importorskip("sklearn", reason="needs the extra `predict`")
    with pytest.raises(ValueError, match=str(tmp_path)):
        derive_confidence(tmp_path)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("format",), "goodalloc-profiles", "format is 'goodalloc-profiles'"),
        (("version",), 2, "version is 2; expected 1"),
        (("quantiles",), ..., "quantiles"),
        (("quantiles", "predictable"), ..., "predictable"),
        (("quantiles", "predictable"), [], "predictable is .*at least two"),
        (("quantiles", "predictable"), 0.5, "predictable is 0.5"),
        (("quantiles", "predictable"), [0.5, 0.4], "predictable does not ascend"),
        (("quantiles", "unpredictable"), [0.0, 1.5], "unpredictable is 1.5"),
        (("quantiles", "unpredictable"), [-0.1, 0.5], "unpredictable is -0.1"),
        (("quantiles", "unpredictable"), [0.1, "much"], "unpredictable is 'much'"),
        (("quantiles", "unpredictable"), [0.1, float("nan")], "NaN"),
    ],
)
def test_bad_quantiles_are_refused(place: Place, value: Any, message: str) -> None:
    """With the kind and the value."""
    good = json.loads(read_shipped(SHIPPED))
    with pytest.raises(ValueError, match=message):
        parse_confidence(json.dumps(changed(good, place, value)))


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan")])
def test_a_quantile_that_is_none_is_refused(bad: float) -> None:
    """By its value."""
    with pytest.raises(ValueError, match="Confidence: quantile is"):
        confidence_at(bad, predictable=True)
