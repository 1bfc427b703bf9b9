"""Documents written from stored results: what is renewed, and what is found to be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.studies.framework.result_document import (
    renewed,
    studies_in,
    unsourced_tables,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MINE = [
    {
        "load": "1",
        "against": "genetic",
        "change_percent": "-0.14",
        "change_percent_half_width": "1",
    },
    {"load": "1", "against": "ties", "change_percent": "0.3", "change_percent_half_width": ""},
    {"load": "2", "against": "genetic", "change_percent": "-0.6", "change_percent_half_width": "2"},
]

TABLE = """Before.

<!-- results mine
rows = ["load"]
[columns]
"load" = "{load}"
[columns."genetic (%)"]
against = "genetic"
cell = "{change_percent:+.1f} ± {change_percent_half_width:.0f}"
[columns."ties (%)"]
against = "ties"
cell = "{change_percent:+.1f}"
-->
| load | genetic (%) | ties (%) |
| --- | --- | --- |
| 1 | −0.1 ± 1 | +0.3 |
| 2 | −0.6 ± 2 |  |
<!-- /results -->

It changes by
<!-- value mine: load=2; against=genetic: {change_percent:.1f} % -->−0.6 %<!-- /value -->.
"""


def source(name: str) -> Sequence[Mapping[str, str]]:
    """One stored result."""
    if name != "mine":
        raise ValueError(f"Study '{name}' has no stored result.")
    return MINE


def test_a_table_joins_stored_rows_by_its_conditions() -> None:
    """A row that a column lacks leaves a blank; what is written is found to agree."""
    assert renewed(TABLE, source) == (TABLE, ())
    emptied = TABLE.replace("| 1 | −0.1 ± 1 | +0.3 |\n| 2 | −0.6 ± 2 |  |\n", "")
    assert renewed(emptied.replace("−0.6 %", ""), source).text == TABLE


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("| −0.1 ± 1 |", "| −0.2 ± 1 |"),
        ("| −0.1 ± 1 |", "| −0.1 ± 2 |"),
        ("| −0.1 ± 1 |", "| 0.1 ± 1 |"),
        ("genetic (%) | ties", "genetic (h) | ties"),
        ("| 2 | −0.6 ± 2 |  |\n", ""),
        ("| +0.3 |\n", "| +0.3 |\n| 1.5 | 0 | 0 |\n"),
        ("-->−0.6 %", "-->−0.6"),
        ("-->−0.6 %", "-->−0.5 %"),
    ],
)
def test_a_planted_error_is_found_and_corrected(right: str, wrong: str) -> None:
    """Of a mean, an interval, a sign, a unit, a row too few or too many."""
    planted = TABLE.replace(right, wrong)
    assert planted != TABLE
    found = renewed(planted, source)
    assert found.text == TABLE
    assert len(found.differences) >= 1


def test_the_same_number_in_another_script_agrees() -> None:
    """A minus as a hyphen, and zeros at the end."""
    written = TABLE.replace("| −0.1 ± 1 |", "| -0.10 ± 1.0 |")
    assert renewed(written, source).differences == ()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("results mine", "results yours", "Table of 'yours': Study 'yours' has no stored result"),
        ("value mine", "value yours", "Value of 'yours': Study 'yours' has no stored result"),
        ("load=2;", "load=3;", "no row has 'load=3; against=genetic'"),
        (
            "load=2; against=genetic: {change_percent:",
            "against=ties: {change_percent_half_width:",
            "blank",
        ),
        ('rows = ["load"]', 'rows = ["loads"]', r"column 'loads' does not exist \(did you mean"),
        ('rows = ["load"]\n', "", "key 'rows' is missing"),
        ('rows = ["load"]', "rows = load", "Invalid value"),
        ('against = "ties"\n', "", "has 2 different values"),
        ('"load" = "{load}"', '"load" = 3', "column 'load' is 3; expected a template"),
        ("<!-- /results -->", "", "1 are closed and 1 have the form"),
        ("<!-- results mine\n", "<!-- results mine, yours\n", "have the form of"),
        ('"genetic (%)"', '"genetic"', "is in percent, which nothing says"),
    ],
)
def test_a_comment_that_makes_no_sense_is_refused(old: str, new: str, words: str) -> None:
    """In one sentence; nothing is written."""
    with pytest.raises(ValueError, match=words):
        renewed(TABLE.replace(old, new), source)


def test_a_table_without_a_source_is_found() -> None:
    """If it has numbers, and no comment tells why it needs none."""
    plain = "| policy | hours |\n| --- | --- |\n| fifo | 2.5 |\n"
    assert unsourced_tables(TABLE) == []
    assert unsourced_tables(f"{TABLE}\n{plain}\n{plain}") == ["| policy | hours |"] * 2
    assert unsourced_tables(plain.replace("2.5", "many")) == []
    assert unsourced_tables(f"<!-- no results: definitions -->\n\n{plain}") == []
    assert unsourced_tables(f"```text\n{plain}```\n") == []


def test_comments_in_blocks_of_code_are_examples() -> None:
    """They are neither written nor checked, and tell no study."""
    example = f"```markdown\n{TABLE.replace('mine', 'yours')}```\n"
    assert renewed(example + TABLE, source) == (example + TABLE, ())
    assert studies_in(example) == ()


def test_a_document_tells_which_studies_it_shows() -> None:
    """Each once."""
    assert studies_in(TABLE) == ("mine",)
    assert studies_in("Nothing.") == ()


RUNS = [
    {"policy": policy, "hours": hours, "truth": "artifact", "workload_numbers": "1 2", "quick": ""}
    for policy, hours in (("fifo", "3.5"), ("srtf", "2.5"))
]
BOUNDS = [
    {"load": load, "workload": workload, "least_hours": hours, "truth": "artifact", "quick": ""}
    for load, workload, hours in (
        ("1", "1", "1"),
        ("1", "2", "3"),
        ("1", "3", "8"),
        ("2", "1", "9"),
    )
]

BOUNDED = """<!-- results runs
rows = ["policy"]
[columns]
"policy" = "{policy}"
"load" = "any"
"average (h)" = "{hours:.1f}"
[last]
study = "bounds"
where = { load = 1, workload = [1, 2] }
[last.columns]
"policy" = "bound, load {load}"
"average (h)" = "{least_hours.mean:.1f}"
-->
| policy | load | average (h) |
| --- | --- | --- |
| fifo | any | 3.5 |
| srtf | any | 2.5 |
| bound, load 1 |  | 2.0 |
<!-- /results -->
"""


def two_sources(name: str) -> Sequence[Mapping[str, str]]:
    """Two stored results."""
    found = {"runs": RUNS, "bounds": BOUNDS}
    if name not in found:
        raise ValueError(f"Study '{name}' does not exist.")
    return found[name]


def test_a_table_ends_with_rows_of_another_study() -> None:
    """What its columns do not tell is blank; the document shows both studies."""
    assert renewed(BOUNDED, two_sources) == (BOUNDED, ())
    assert studies_in(BOUNDED) == ("runs", "bounds")


@pytest.mark.parametrize(
    "wrong", ["", "| bound, load 1 |  | 2.1 |\n", "| bound, load 1 | any | 2.0 |\n"]
)
def test_a_planted_error_of_a_last_row_is_found_and_corrected(wrong: str) -> None:
    """Of its number, of a cell that is blank, or the whole row missing."""
    found = renewed(BOUNDED.replace("| bound, load 1 |  | 2.0 |\n", wrong), two_sources)
    assert found.text == BOUNDED
    assert [one.study for one in found.differences] == ["runs"]


def test_several_last_rows_have_different_values_of_their_keys() -> None:
    """In the order of their study."""
    bounds = [{**row, "load": load} for load in ("1", "2") for row in BOUNDS[:2]]
    several = BOUNDED.replace('"bounds"\nwhere', '"bounds"\nrows = ["load"]\nwhere')
    found = renewed(several.replace("load = 1, ", ""), {"runs": RUNS, "bounds": bounds}.__getitem__)
    assert "| bound, load 1 |  | 2.0 |\n| bound, load 2 |  | 2.0 |\n<!--" in found.text


def by_workload(text: str) -> str:
    """The same table with a last row for every workload."""
    text = text.replace('"bounds"\nwhere', '"bounds"\nrows = ["load", "workload"]\nwhere')
    return text.replace('"bound, load {load}"', '"bound, workload {workload}"')


def test_last_rows_by_workload_are_compared_together() -> None:
    """All workloads of the table have one, at every load; one that is missing is told."""
    found = renewed(by_workload(BOUNDED), two_sources)
    assert "| bound, workload 1 |  | 1.0 |\n| bound, workload 2 |  | 3.0 |\n<!--" in found.text
    twice = by_workload(BOUNDED).replace("load = 1, workload", "workload")
    with pytest.raises(ValueError, match="workloads of its rows: 1; expected those of the table"):
        renewed(twice, two_sources)


def test_a_summary_is_on_the_terms_of_the_rows_of_its_study() -> None:
    """It has no columns of its own that tell them."""
    summary = [{key: row[key] for key in ("policy", "hours")} for row in RUNS]
    sources = {"runs": RUNS, "runs-summary": summary, "bounds": BOUNDS}
    table = BOUNDED.replace("results runs", "results runs-summary", 1)
    assert renewed(table, sources.__getitem__) == (table, ())
    with pytest.raises(ValueError, match="workloads of its rows: 1, 3; expected those of the"):
        renewed(table.replace("[1, 2]", "[1, 3]"), sources.__getitem__)


def test_a_document_may_state_that_a_condition_does_no_harm() -> None:
    """Only that one, and never the workloads."""
    runs = [{**row, "quick": "True"} for row in RUNS]
    sources = {"runs": runs, "bounds": BOUNDS}
    stated = BOUNDED.replace('"bounds"\n', '"bounds"\ndespite = ["quick"]\n')
    assert renewed(stated, sources.__getitem__) == (stated, ())
    with pytest.raises(ValueError, match="last: quick of its rows: none; expected"):
        renewed(stated.replace('["quick"]', '["truth"]'), sources.__getitem__)
    with pytest.raises(ValueError, match="last: despite is 'workloads'; expected one of truth"):
        renewed(stated.replace('["quick"]', '["workloads"]'), sources.__getitem__)
    with pytest.raises(ValueError, match="last: despite is 'quick'; expected a list"):
        renewed(stated.replace('["quick"]', '"quick"'), sources.__getitem__)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"bounds"', '"bound"', "Table of 'runs': Study 'bound' does not exist"),
        ('"bounds"', "7", "last: study: name is 7; expected"),
        ('study = "bounds"\n', "", "last: key 'study' is missing"),
        ("{least_hours.mean:.1f}", "{best_hours.mean:.1f}", "column 'best_hours' does not exist"),
        ("load = 1, workload", "loads = 1, workload", "column 'loads' does not exist"),
        ('"average (h)" = "{least', '"averag (h)" = "{least', r"'averag \(h\)' \(did you mean"),
        ("load = 1", "load = 3", "last: no row has .*; expected one at least"),
        ("[1, 2]", "[1, 3]", "workloads of its rows: 1, 3; expected those of the table: 1, 2"),
        (", workload = [1, 2]", "", "workloads of its rows: 1, 2, 3; expected those of the table"),
    ],
)
def test_last_rows_that_make_no_sense_are_refused(old: str, new: str, words: str) -> None:
    """In one sentence; a mean over other workloads than the table's is never shown."""
    with pytest.raises(ValueError, match=words):
        renewed(BOUNDED.replace(old, new), two_sources)


@pytest.mark.parametrize("term", ["truth", "quick"])
def test_last_rows_on_other_terms_than_the_table_are_refused(term: str) -> None:
    """Other rates of the jobs, or half of the jobs."""
    runs = [{**row, term: "other"} for row in RUNS]
    with pytest.raises(ValueError, match=f"last: {term} of its rows: .*; expected those"):
        renewed(BOUNDED, {"runs": runs, "bounds": BOUNDS}.__getitem__)
