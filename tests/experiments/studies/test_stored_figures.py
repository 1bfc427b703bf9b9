"""Figures from stored results: rows are read back as they were, and all that can be drawn is."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.experiments.cli.main import main
from goodalloc.experiments.reporting.estimates import NO_ESTIMATE, Estimate
from goodalloc.experiments.studies import stored_figures
from goodalloc.experiments.studies.catalogue import ENTRIES
from goodalloc.experiments.studies.documents import stored_names
from goodalloc.experiments.studies.framework.record_reading import read_record, row_type
from goodalloc.experiments.studies.framework.records import columns_of
from goodalloc.experiments.studies.stored_figures import DRAWABLE, stored_figure

if TYPE_CHECKING:
    from pathlib import Path


class Row(NamedTuple):
    """A row with a column of every type that rows of studies have."""

    policy: str
    jobs: int
    same: bool
    hours: Estimate
    published_hours: float | None


@given(
    st.text(),
    st.integers(),
    st.booleans(),
    st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)),
    st.none() | st.floats(0, 1e6),
)
def test_a_row_is_read_back_as_it_was_written(
    policy: str, jobs: int, same: bool, hours: tuple[float, float], published: float | None
) -> None:
    """Floats are written by their shortest exact decimal."""
    row = Row(policy, jobs, same, Estimate(*hours), published)
    assert read_record(Row, {name: str(cell) for name, cell in columns_of(row).items()}) == row


def test_a_column_that_is_missing_or_blank_has_no_value() -> None:
    """An older result may lack one."""
    found = read_record(Row, {"policy": "fifo", "jobs": "3", "same": "False", "hours": ""})
    assert (found.policy, found.jobs, found.same, found.published_hours) == ("fifo", 3, False, None)
    assert str(found.hours) == str(NO_ESTIMATE)
    with pytest.raises(ValueError, match="jobs is 'many'; expected a whole number"):
        read_record(Row, {"policy": "fifo", "jobs": "many"})


class Parting(NamedTuple):
    """A part of a row: how many jobs part, and which is the first."""

    jobs: float
    first: str


class RowWithParting(NamedTuple):
    """A row with a record of words and numbers in it."""

    policy: str
    parted: Parting = Parting(math.nan, "")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"parted": "3.0", "parted_first": "cifar10-1"}, Parting(3.0, "cifar10-1")),
        ({"parted": "", "parted_first": ""}, Parting(math.nan, "")),
    ],
)
def test_a_record_in_a_row_is_read_back_by_the_types_of_its_parts(
    cells: dict[str, str], expected: Parting
) -> None:
    """Numbers and words."""
    found = read_record(RowWithParting, {"policy": "sia", **cells})
    assert repr(found) == repr(RowWithParting("sia", expected))


def rows_of_a_system(system: str) -> list[Row]:
    """No rows, of a study of several systems."""
    assert system
    return []


def table_of_rows(rows: list[Row]) -> list[Row]:
    """A table of rows."""
    return rows


def test_the_rows_of_a_function_with_some_arguments_given_have_a_type() -> None:
    """As those of the function; those of a lambda are told by the function that shows them."""
    assert row_type(rows_of_a_system) is Row
    assert row_type(partial(rows_of_a_system, "mine")) is Row
    assert row_type(lambda _: [], table_of_rows) is Row


def test_figures_of_stored_results_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One file each, by the command line."""
    if not stored_names():
        pytest.skip("goodalloc is installed without stored results")
    monkeypatch.setattr(stored_figures, "DRAWABLE", ("hesrpt", "table2"))
    assert main(["report", "--figures", str(tmp_path)]) == 0
    assert "2 figures written" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hesrpt.png", "table2.png"]


@pytest.mark.parametrize("name", DRAWABLE)
def test_every_drawable_study_has_axes_with_content(name: str) -> None:
    """Of the quick result where one is stored, which is as good."""
    if name not in stored_names():
        pytest.skip(f"{name} has no stored result")
    figure = stored_figure(name)
    assert any(ax.has_data() for ax in figure.axes)


@pytest.mark.parametrize("name", [name for name in ENTRIES if name not in DRAWABLE])
def test_no_other_study_can_be_drawn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its rows alone; else it belongs into the list, too."""
    if name not in stored_names():
        pytest.skip(f"{name} has no stored result")
    monkeypatch.setattr(stored_figures, "DRAWABLE", (name,))
    with pytest.raises((KeyError, OSError, ValueError)):
        stored_figure(name)


def test_a_study_that_draws_more_than_its_rows_is_refused() -> None:
    """With those that can be drawn."""
    if not stored_names():
        pytest.skip("goodalloc is installed without stored results")
    with pytest.raises(ValueError, match="'fig5' draws more than its rows; expected one of artif"):
        stored_figure("fig5")
