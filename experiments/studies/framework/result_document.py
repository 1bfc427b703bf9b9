r"""Tables and numbers of Markdown documents, written from stored results.

A comment before a table tells the study and, in TOML, which of its rows and columns the table
shows::

    <!-- results hesrpt
    rows = ["jobs", "power"]
    where = { power = [0.3, 0.5] }
    [columns]
    "jobs, p" = "{jobs}, {power}"
    "equal (%)" = "{equal_above_percent:.3g}"
    -->
    | jobs, p | equal (%) |
    | --- | --- |
    | 16, 0.3 | 1.02 |
    <!-- /results -->

Rows of a table have different values of ``rows``, in the order of the stored rows. A column is a
template, or a table with the template as ``cell`` and further conditions, so that a table can show
several stored rows in one line.

A table may end with rows of another study, such as a bound on all that it shows. ``last`` tells the
study, and what a table tells of its own rows; without ``rows`` it is one. Its columns are some of
those of the table, and the others stay blank::

    [last]
    study = "hindsight"
    where = { load = 1, policy = "bound" }
    [last.columns]
    "policy" = "bound on any schedule"
    "average (h)" = "{average_jct_hours.mean:.2f} ± {average_jct_hours.half_width:.2f}"

They are refused if their study had other workloads than the table's, or other conditions (`TERMS`).
Last rows that differ in the column ``workload`` only are compared together. A summary has no such
columns: the rows of its study tell them. ``despite = ["quick"]`` lets a condition (`TERMS`) differ,
and the document says why that does no harm.

A number in a sentence stands between two comments, with its study, conditions and template::

    <!-- value hesrpt: jobs=16; power=0.3: {equal_above_percent:.3g} % -->1.02 %<!-- /value -->

The study ``origins`` has a row for every stored result, with the processor time that it took.

`cell_template.py` describes templates.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.documents.json_file import check_keys, check_list, check_text, shown
from goodalloc.experiments.studies.framework.cell_template import (
    Cells,
    cell_of,
    check_unit,
    filled,
)
from goodalloc.experiments.studies.framework.stored_result import SUMMARY
from goodalloc.models.support.validation import did_you_mean, literal, require_choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Function that returns the rows of a stored result by its name.
Source = Callable[[str], Sequence[Cells]]

#: Columns of stored rows that tell the conditions of their study, beside its workloads.
TERMS = ("truth", "quick")

_TABLE = re.compile(
    r"<!-- results (?P<study>[\w-]+)\n(?P<told>.*?)-->\n(?P<body>.*?)(?=<!-- /results -->)",
    flags=re.DOTALL,
)
_VALUE = re.compile(
    r"<!-- value (?P<study>[\w-]+): (?P<where>[^:]*): (?P<cell>.*?) -->(?P<body>.*?)"
    r"(?=<!-- /value -->)",
    flags=re.DOTALL,
)
_CODE = re.compile(r"(^```.*?^```$)", flags=re.DOTALL | re.MULTILINE)
_MARK = re.compile(r"<!-- (/?)(results|value)\b")
_NUMBER = re.compile(r"[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")


class Difference(NamedTuple):
    """Place where a document and a stored result differ.

    Attributes
    ----------
    study
        Name of the stored result.
    written, expected
        What the document says, and what the result says.

    Examples
    --------
    >>> from goodalloc.experiments.studies.framework import Difference
    >>> Difference("mine", "2.6 %", "2.5 %").expected
    '2.5 %'
    """

    study: str
    written: str
    expected: str


class Renewed(NamedTuple):
    """Document written anew from stored results.

    Attributes
    ----------
    text
        Its new text.
    differences
        Where numbers, units or words of the old text differ; a number of the old text agrees with
        a stored one that rounds to it.

    Examples
    --------
    >>> from goodalloc.experiments.studies.framework import Renewed
    >>> Renewed("No results.", ()).differences
    ()
    """

    text: str
    differences: tuple[Difference, ...]


def renewed(text: str, source: Source) -> Renewed:
    """Return a document with all tables and values written anew from stored results.

    Raises
    ------
    ValueError
        If a comment is malformed, or names a study, column or condition that does not exist.

    Examples
    --------
    >>> from goodalloc.experiments.studies.framework import renewed
    >>> mine = [{"policy": "fifo", "gap_percent": "-2.51"}]
    >>> text = "<!-- value mine: policy=fifo: {gap_percent:.1f} % -->2.6 %<!-- /value -->"
    >>> found = renewed(text, {"mine": mine}.__getitem__)
    >>> found.text
    '<!-- value mine: policy=fifo: {gap_percent:.1f} % -->−2.5 %<!-- /value -->'
    >>> found.differences
    (Difference(study='mine', written='2.6 %', expected='−2.5 %'),)
    """
    found: list[Difference] = []

    def with_body(match: re.Match[str], body: str) -> str:
        found.extend(_differences(match, body))
        whole, start = match.group(), match.start("body") - match.start()
        return whole[:start] + body

    parts = _CODE.split(text)  # with the blocks of code, which stay, at odd places
    for index in range(0, len(parts), 2):
        _check_marks(parts[index])
        part = _TABLE.sub(lambda match: with_body(match, _table(match, source)), parts[index])
        parts[index] = _VALUE.sub(lambda match: with_body(match, _value(match, source)), part)
    return Renewed("".join(parts), tuple(found))


def _differences(match: re.Match[str], body: str) -> list[Difference]:
    """Return the lines of what a comment encloses that differ from `body`."""
    pairs = zip_longest(match["body"].splitlines(), body.splitlines(), fillvalue="")
    return [
        Difference(match["study"], written.strip(), expected.strip())
        for written, expected in pairs
        if not _agree(written, expected)
    ]


def unsourced_tables(text: str) -> list[str]:
    """Return the headings of tables with numbers that no comment of a source precedes.

    A table is sourced inside ``<!-- results … -->``, or after ``<!-- no results: WHY -->``.

    Examples
    --------
    >>> from goodalloc.experiments.studies.framework import unsourced_tables
    >>> unsourced_tables("| policy | hours |\\n| --- | --- |\\n| fifo | 2.5 |\\n")
    ['| policy | hours |']
    """
    blanked = _TABLE.sub("", _without_code(text))
    found, lines = [], [line.strip() for line in blanked.splitlines()]
    for index, line in enumerate(lines):
        if not line.startswith("|") or (index and lines[index - 1].startswith("|")):
            continue
        before = next((other for other in reversed(lines[:index]) if other), "")
        rows = [row for row in _rows_from(lines, index)[2:] if re.search(r"\d", row)]
        if rows and not before.startswith("<!-- no results: "):
            found.append(line)
    return found


def studies_in(text: str) -> tuple[str, ...]:
    """Return the names of the stored results that a document shows, each once.

    Examples
    --------
    >>> from goodalloc.experiments.studies.framework import studies_in
    >>> studies_in("<!-- value mine: p=-1: {gap_percent} % -->0.2 %<!-- /value -->")
    ('mine',)
    """
    text, found = _without_code(text), list[str]()
    for match in _TABLE.finditer(text):
        last = tomllib.loads(match["told"]).get("last", {})
        found += [name for name in (match["study"], last.get("study")) if name]
    found += [match["study"] for match in _VALUE.finditer(text)]
    return tuple(dict.fromkeys(found))


def _without_code(text: str) -> str:
    return "".join(_CODE.split(text)[::2])


def _rows_from(lines: Sequence[str], index: int) -> list[str]:
    """Return the lines of the table that begins at `index`."""
    end = index
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    return list(lines[index:end])


def _check_marks(text: str) -> None:
    """Refuse comments that are opened and not closed, or that are not of the form."""
    opened = sum(not match[1] for match in _MARK.finditer(text))
    closed = sum(bool(match[1]) for match in _MARK.finditer(text))
    read = len(_TABLE.findall(text)) + len(_VALUE.findall(text))
    if not opened == closed == read:
        raise ValueError(
            f"Document: of {opened} comments `<!-- results` or `<!-- value`, {closed} are closed "
            f"and {read} have the form of `result_document.py`; expected all."
        )


def _agree(written: str, expected: str) -> bool:
    """Return whether two lines have the same words, and numbers that agree as far as written."""
    if _NUMBER.sub("#", written) != _NUMBER.sub("#", expected):
        return False
    pairs = zip(_NUMBER.findall(written), _NUMBER.findall(expected), strict=True)
    return all(_number(one) == _number(other) for one, other in pairs)


def _number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


class _Column(NamedTuple):
    """Column of a table: its heading, its template, and conditions on the stored row."""

    heading: str
    cell: str
    where: Mapping[str, Any]


def _table(match: re.Match[str], source: Source) -> str:
    """Return the table of a comment."""
    name = match["study"]
    try:
        told = tomllib.loads(match["told"])
        check_keys("Table", told, ("rows", "columns"), ("where", "last"))
        columns = _columns(told)
        headings = [column.heading for column in columns]
        rows = _met(source(name), told)
        lines = [headings, ["---"] * len(headings)]
        for some in _grouped(rows, told["rows"]):
            lines.append([_one(some, column) for column in columns])
        if "last" in told:
            with_terms = source(name.removesuffix(SUMMARY)) if name.endswith(SUMMARY) else rows
            lines += _last(told["last"], headings, with_terms, source)
    except ValueError as error:
        raise ValueError(f"Table of '{name}': {error}") from error
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _last(
    told: object, headings: Sequence[str], shown_rows: Sequence[Cells], source: Source
) -> list[list[str]]:
    """Return the last rows of a table, of another study than those that it shows above."""
    last = check_keys("last", told, ("study", "columns"), ("rows", "where", "despite"))
    columns = {column.heading: column for column in _columns(last)}
    for heading in columns:
        if heading not in headings:
            raise ValueError(
                f"last: the table has no column {literal(heading)}"
                f"{did_you_mean(heading, headings)}; expected one of {', '.join(headings)}."
            )
    rows = _met(source(check_text("last: study", last["study"])), last)
    if not rows:
        raise ValueError(f"last: no row has {shown(last.get('where', {}))}; expected one at least.")
    keys, despite = last.get("rows", ()), check_list("last: despite", last.get("despite", []))
    for term in despite:
        require_choice("last: despite", term, TERMS)
    for some in _grouped(rows, [key for key in keys if key != "workload"]):
        _check_terms(some, shown_rows, despite)
    return [
        [_one(some, columns[one]) if one in columns else "" for one in headings]
        for some in _grouped(rows, keys)
    ]


def _check_terms(
    rows: Sequence[Cells], shown_rows: Sequence[Cells], despite: Sequence[str]
) -> None:
    """Refuse last rows on other terms than the rows that a table shows, despite some."""
    own, wanted = _terms(rows), _terms(shown_rows)
    for term, values in own.items():
        if values != wanted[term] and term not in despite:
            raise ValueError(
                f"last: {term} of its rows: {', '.join(sorted(values)) or 'none'}; expected those "
                f"of the table: {', '.join(sorted(wanted[term])) or 'none'}."
            )


def _terms(rows: Sequence[Cells]) -> dict[str, set[str]]:
    """Return the conditions of rows, and the workloads that they are of: one, or all of a study."""
    workloads = (row.get("workload", row.get("workload_numbers", "")) for row in rows)
    found = {term: {row.get(term, "") for row in rows} - {""} for term in TERMS}
    return {"workloads": {one for some in workloads for one in some.split()}, **found}


def _value(match: re.Match[str], source: Source) -> str:
    """Return the value of a comment."""
    try:
        pairs = [told.partition("=") for told in match["where"].split(";") if told.strip()]
        where = {key.strip(): value.strip() for key, _, value in pairs}
        rows = [row for row in source(match["study"]) if _meets(row, where)]
        if not rows:
            raise ValueError(f"no row has {literal(match['where'])}; expected one at least.")
        check_unit(match["cell"], match["cell"])
        if not (text := filled(match["cell"], rows)):
            raise ValueError(f"template {literal(match['cell'])} is blank; expected values.")
        return text
    except ValueError as error:
        raise ValueError(f"Value of '{match['study']}': {error}") from error


def _columns(told: Mapping[str, Any]) -> list[_Column]:
    """Return the columns that are told of some rows."""
    return [_column(heading, value) for heading, value in told["columns"].items()]


def _met(rows: Iterable[Cells], told: Mapping[str, Any]) -> list[Cells]:
    """Return the stored rows that meet the conditions that are told."""
    return [row for row in rows if _meets(row, told.get("where", {}))]


def _grouped(rows: Iterable[Cells], keys: Iterable[str]) -> Iterable[list[Cells]]:
    """Return the stored rows of each row of a table, in which the keys have the same values."""
    found: dict[tuple[str, ...], list[Cells]] = {}
    for row in rows:
        found.setdefault(tuple(cell_of(row, key) for key in keys), []).append(row)
    return found.values()


def _column(heading: str, value: Any) -> _Column:
    """Return a column as told."""
    if isinstance(value, str):
        value = {"cell": value}
    if not isinstance(value, dict) or not isinstance(value.get("cell"), str):
        raise ValueError(
            f"column '{heading}' is {shown(value)}; expected a template, or a table with `cell`."
        )
    check_unit(f"{heading} {value['cell']}", value["cell"])
    where = {key: wanted for key, wanted in value.items() if key != "cell"}
    return _Column(heading, value["cell"], where)


def _one(rows: Sequence[Cells], column: _Column) -> str:
    """Return the cell of a column in the row of a table that shows these stored rows."""
    fitting = [row for row in rows if _meets(row, column.where)]
    return filled(column.cell, fitting) if fitting else ""


def _meets(row: Cells, where: Mapping[str, Any]) -> bool:
    """Return whether a stored row meets conditions: values, or lists of them."""
    return all(
        any(
            _same(cell_of(row, key), one)
            for one in (wanted if isinstance(wanted, list) else [wanted])
        )
        for key, wanted in where.items()
    )


def _same(text: str, wanted: Any) -> bool:
    """Return whether a cell has a value: the same text, or the same number."""
    if text == str(wanted):
        return True
    try:
        return float(text) == float(wanted)
    except (TypeError, ValueError):
        return False
