"""Figures from stored results: rows are read back as they were, and all that can be drawn is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.experiments.cli.main import main
from goodalloc.experiments.reporting.estimates import NO_ESTIMATE, Estimate
from goodalloc.experiments.studies import stored_figures
from goodalloc.experiments.studies.documents import stored_names
from goodalloc.experiments.studies.framework.record_reading import read_record
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


def test_a_study_that_draws_more_than_its_rows_is_refused() -> None:
    """With those that can be drawn."""
    if not stored_names():
        pytest.skip("goodalloc is installed without stored results")
    with pytest.raises(ValueError, match="'fig5' draws more than its rows; expected one of artif"):
        stored_figure("fig5")
