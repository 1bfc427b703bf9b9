"""Profiles as files: what is written is read, and what makes no sense is refused in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.files.measured_profile import (
    COLUMNS,
    NO_MEMORY,
    read_measured_profile,
    read_rows,
    rows_as_text,
)
from tests.support.profiles import FACTS, row, some_rows

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_written_is_read_and_written_again_alike(tmp_path: Path) -> None:
    """Rows, as text, and the arrays that stand for them."""
    path = tmp_path / "profile.csv"
    path.write_text(rows_as_text(some_rows()), encoding="utf-8")
    assert rows_as_text(read_rows(path)) == path.read_text(encoding="utf-8")
    profile = read_measured_profile(path)
    assert profile.facts == FACTS
    for name, column in (("replicas", profile.replicas), ("step_s", profile.step_time)):
        np.testing.assert_allclose(column, [one[name] for one in some_rows()], rtol=1e-6)


@given(
    passes=st.floats(1e-6, 1e3),
    update=st.floats(1e-6, 1e3),
    last=st.floats(1e-6, 1e3),
    accumulation=st.integers(0, 8),
)
def test_the_step_that_is_fitted_has_no_accumulated_passes(
    tmp_path_factory: pytest.TempPathFactory,
    passes: float,
    update: float,
    last: float,
    accumulation: int,
) -> None:
    """Passes share the update, and what they leave of the step is the one that synchronises."""
    path = tmp_path_factory.mktemp("profile") / "profile.csv"
    share = passes + update / (accumulation + 1)
    size = last + accumulation * share
    times = {"pass_s": passes, "update_s": update, "step_s": size}
    path.write_text(rows_as_text([row(1, 2, 4, accumulation, **times)]), encoding="utf-8")
    found = read_measured_profile(path).observations()
    assert np.shape(found.step_time) == (1, 1)
    assert np.asarray(found.step_time)[0, 0] == pytest.approx(last, rel=1e-6, abs=1e-5 * size)
    assert np.asarray(found.gradient_time)[0, 0] == pytest.approx(share, rel=1e-6)


def test_what_memory_does_not_hold_is_a_limit_and_no_measurement(tmp_path: Path) -> None:
    """The least of them; their times are empty."""
    lacking = {name: "" for name in COLUMNS if name.endswith(("_s", "error"))}
    rows = [row(1, 1, 4, 0)]
    rows += [row(1, 1, size, 0, outcome=NO_MEMORY, **lacking) for size in (16, 8)]
    path = tmp_path / "profile.csv"
    path.write_text(rows_as_text(rows), encoding="utf-8")
    profile = read_measured_profile(path)
    assert profile.out_of_memory == 8
    assert profile.atomic_batch_size.tolist() == [4.0]
    path.write_text(rows_as_text(rows[1:]), encoding="utf-8")
    with pytest.raises(ValueError, match="no configuration was measured"):
        read_measured_profile(path)


@pytest.mark.parametrize(
    ("quiet", "kept"), [((1.0, 0.0, 0.2), [4, 16]), ((0.0, 0.0, 0.0), [4, 8, 16])]
)
def test_what_was_disturbed_all_the_time_is_left_out_unless_all_was(
    tmp_path: Path, quiet: tuple[float, ...], kept: list[int]
) -> None:
    """And counted."""
    path = tmp_path / "profile.csv"
    rows = [row(1, 1, size, 0, quiet=q) for size, q in zip((4, 8, 16), quiet, strict=True)]
    path.write_text(rows_as_text(rows), encoding="utf-8")
    profile = read_measured_profile(path)
    assert profile.atomic_batch_size.tolist() == kept
    assert profile.left_out == 3 - len(kept)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"nodes": 0}, "row 3: nodes is '0'; expected a whole number from 1"),
        ({"nodes": 3}, "nodes is 3; expected at most its replicas, 2"),
        ({"replicas": "-1"}, "replicas is '-1'"),
        ({"replicas": "two"}, "replicas is 'two'"),
        ({"atomic_batch_size": 0}, "atomic_batch_size is '0'"),
        ({"atomic_batch_size": 1.5}, "atomic_batch_size is '1.5'"),
        ({"accumulation_steps": ""}, "accumulation_steps is ''; expected a whole number from 0"),
        ({"outcome": "failed"}, "outcome is 'failed'; expected one of measured, out of memory"),
        ({"pass_s": 0.0}, "pass_s is '0'; expected a finite number above 0"),
        ({"update_s": "nan"}, "update_s is 'nan'"),
        ({"step_s": ""}, "step_s is ''"),
        ({"step_s": "inf"}, "step_s is 'inf'"),
        ({"step_error": -0.1}, "step_error is '-0.1'; expected a finite number of at least 0"),
        ({"forward_s": "x"}, "forward_s is 'x'"),
        ({"clock_mhz": "fast"}, "clock_mhz is 'fast'"),
        ({"model": "resnet"}, "row 3: model is 'resnet'; expected 'perceptron' as before"),
        ({"torch": "1.0"}, "torch is '1.0'; expected '1' as before"),
        ({"replicas": 1}, "row 3: its configuration is given twice"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused(
    tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    """File, row, item, value, what was expected."""
    path = tmp_path / "profile.csv"
    rows = [row(1, 1, 4, 0), row(1, 2, 4, 0) | change]
    path.write_text(rows_as_text(rows), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"profile\.csv': .*{sentence}"):
        read_rows(path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "does not exist"),
        ("", "is empty"),
        ("a,b\n1,2\n", "column 'nodes' is missing"),
        (",".join(COLUMNS) + "\n1,2\n", r"row 2 has 2 cells; expected \d+"),
        (",".join(COLUMNS) + "\n", "no configuration was measured"),
        ("\0", "column 'nodes' is missing"),
    ],
)
def test_a_file_that_is_no_profile_is_refused(
    tmp_path: Path, text: str | None, sentence: str
) -> None:
    """One sentence that names it."""
    path = tmp_path / "profile.csv"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=sentence):
        read_measured_profile(path)


def test_every_column_is_documented(repository: Path) -> None:
    """In FORMAT.md."""
    text = (repository / "data" / "FORMAT.md").read_text(encoding="utf-8")
    assert not [name for name in COLUMNS if f"`{name}`" not in text]
