"""Typed rows of studies become tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goodalloc.experiments.reporting.estimates import NO_ESTIMATE, estimate_of
from goodalloc.experiments.studies.framework.records import columns_of, table_of

if TYPE_CHECKING:
    from goodalloc.experiments.reporting.estimates import Estimate


class Row(NamedTuple):
    """A row with every kind of value."""

    policy: str
    published_hours: float | None
    average_jct_hours: Estimate


def test_an_estimate_gives_two_columns_and_none_is_blank() -> None:
    """In the order of the fields."""
    row = Row("fifo", None, estimate_of([1.0, 3.0]))
    assert list(columns_of(row).items())[:3] == [
        ("policy", "fifo"),
        ("published_hours", ""),
        ("average_jct_hours", 2.0),
    ]
    assert columns_of(row)["average_jct_hours_half_width"] == row.average_jct_hours.half_width


def test_an_estimate_of_nothing_is_blank() -> None:
    """Both of its columns; a mapping is copied as it is."""
    columns = columns_of(Row("fifo", 1.0, NO_ESTIMATE))
    assert (columns["average_jct_hours"], columns["average_jct_hours_half_width"]) == ("", "")
    assert table_of([columns]) == [columns]
