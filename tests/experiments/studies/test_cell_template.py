"""Templates: the values of stored rows, their means and intervals, and their units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.studies.framework.cell_template import check_unit, filled

ROWS = [
    {"policy": "fifo", "hours": "1.5", "note": ""},
    {"policy": "fifo", "hours": "2.5", "note": ""},
    {"policy": "fifo", "hours": "", "note": ""},
    {"policy": "fifo", "hours": "nan", "note": "nan"},
]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("{policy}", "fifo"),
        ("{hours.mean:.2f} h", "2.00 h"),
        ("{hours.least} to {hours.greatest}", "1.5 to 2.5"),
        ("{hours.median:.1f}", "2.0"),
        ("{hours.total:.0f}", "4"),
        ("{hours.count} of them", "2 of them"),
        ("{hours.mean:.1f} ± {hours.half_width:.1f}", "2.0 ± 6.4"),
        ("{note}", ""),
        ("about {note}", ""),
        ("nothing", "nothing"),
    ],
)
def test_a_cell_shows_the_values_of_its_rows(cell: str, text: str) -> None:
    """Blank values and NaN do not count, and without others the cell is blank."""
    assert filled(cell, ROWS) == text


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        ("-0.123", ":+.1f", "−0.1"),
        ("0.0213", ":.1%", "2.1 %"),
        ("1262.7", ":.3g", "1,260"),
        ("-4300", ":.2g", "−4,300"),
        ("p = -1", "", "p = −1"),
        ("-4.35e-07", ":.1f", "0.0"),
        ("-0.04", ":.1f", "0.0"),
        ("0.04", ":+.1f", "0.0"),
        ("0.04", ":+.2f", "+0.04"),
        ("-0.04", ":.2f", "−0.04"),
        ("pollux-genetic", "", "pollux-genetic"),
        ("True", "", "yes"),
        ("False", "", "no"),
        ("a-1", "", "a-1"),
        ("3", ":d", "3"),
    ],
)
def test_numbers_are_set_as_in_print(value: str, form: str, text: str) -> None:
    """No sign before zero, else a minus, a space before the per cent, no power of ten."""
    assert filled("{x" + form + "}", [{"x": value}]) == text


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9))
def test_means_and_intervals_are_those_of_estimates(values: list[float]) -> None:
    """Whatever the values are."""
    rows = [{"x": repr(value)} for value in values]
    text = filled("{x.mean:.9f} {x.half_width:.9f}", rows).replace("−", "-")
    assert [*map(float, text.split())] == pytest.approx([*estimate_of(values)], abs=1e-8)


def test_what_is_in_per_cent_of_something_can_be_shown_as_a_change_of_it() -> None:
    """The mean less 100; its interval is that of the values."""
    rows = [{"of_mine_percent": "90"}, {"of_mine_percent": "92"}]
    assert filled("{of_mine_percent.change:+.1f}", rows) == "−9.0"


def test_per_cent_above_something_can_be_shown_as_its_ratio() -> None:
    """Row by row, so that the mean is that of the ratios; blank values do not count."""
    rows = [{"above_percent": value} for value in ("25", "100", "")]
    cell = "{above_percent.ratio.mean:.2f}, {above_percent.ratio.least:.1f}"
    assert filled(cell, rows) == "0.65, 0.5"
    assert filled("{above_percent.ratio:.1f}", rows[:1]) == "0.8"
    with pytest.raises(ValueError, match="has -100; expected more than -100 %"):
        filled("{above_percent.ratio:.1f}", [{"above_percent": "-100"}])


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("{hours}", "column 'hours' has 2 different values; expected one"),
        ("{hour}", "column 'hour' does not exist (did you mean hours?); expected one of policy"),
        ("{policy.mean}", "column 'policy' has 'fifo'; expected a number"),
        ("{hours.change}", "column 'hours' is no percentage; expected one for a change"),
        ("{hours.ratio.mean}", "column 'hours' is no percentage; expected one for a ratio"),
        ("{hours.average}", "has no attribute 'average'"),
        ("{policy:.1f}", "Unknown format code"),
    ],
)
def test_templates_that_do_not_suit_are_refused(cell: str, words: str) -> None:
    """With the column, and what was expected."""
    with pytest.raises(ValueError, match=words.replace("(", r"\(").replace("?)", r"\?\)")):
        filled(cell, ROWS)


@pytest.mark.parametrize(
    ("shown", "cell", "unit"),
    [
        ("average", "{average_hours:.1f}", "hours"),
        ("average", "{average_hours_half_width:.1f}", "hours"),
        ("gap", "{gap_percent.mean:.1f}", "percent"),
        ("hold", "{wait_seconds}", "seconds"),
        ("time in ms", "{wait_seconds}", "seconds"),
    ],
)
def test_a_unit_that_nothing_shows_is_missed(shown: str, cell: str, unit: str) -> None:
    """A word that only contains its letters does not show it."""
    with pytest.raises(ValueError, match=f"is in {unit}, which nothing says"):
        check_unit(f"{shown} {cell}", cell)


def test_units_may_stand_in_heading_or_cell() -> None:
    """And a number of values has none, nor has a ratio."""
    check_unit("average (h) {average_hours:.1f}", "{average_hours:.1f}")
    check_unit("{average_hours:.1f} h", "{average_hours:.1f} h")
    check_unit("gap {gap_percent:.1%}", "{gap_percent:.1%}")
    check_unit("jobs {average_hours.count}", "{average_hours.count}")
    check_unit("over it {above_percent.ratio.mean:.2f}", "{above_percent.ratio.mean:.2f}")
