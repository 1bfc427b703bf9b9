"""Templates of the cells and sentences that show stored results.

A template is that of `str.format` with the columns of a study. Where several stored rows belong to
a cell, ``{column.mean}``, ``.half_width`` (of the 95 % interval of the mean, by Student's t),
``.median``, ``.least``, ``.greatest``, ``.total`` and ``.count`` are those of their values.
``.change``, of a column in per cent of something, is the mean less 100. ``.ratio``, of a column
that tells by how many per cent something is above another, is the other over it, row by row:
``{above_percent.ratio.mean}`` is the mean of these. Blank values do not count, and a cell without
other ones is blank.
"""

from __future__ import annotations

import math
import re
import statistics
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.models.support.validation import did_you_mean, literal

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Row of a stored result, its cells as text.
Cells = Mapping[str, str]

#: Units by the ending of a column, and how a heading or a cell may show them.
UNITS: Mapping[str, tuple[str, ...]] = {
    "percent": ("%", "per cent"),
    "%": ("%", "per cent"),
    "hours": ("h", "hours"),
    "minutes": ("min", "minutes"),
    "seconds": ("s", "seconds"),
    "milliseconds": ("ms", "milliseconds"),
    "ms": ("ms", "milliseconds"),
}


#: Cells of values that do not exist.
NO_VALUE = ("", "nan")


def check_unit(shown_text: str, cell: str) -> None:
    """Refuse a template whose column has a unit that nothing shows.

    Parameters
    ----------
    shown_text
        Heading and template, where the unit is looked for.
    cell
        The template.

    Raises
    ------
    ValueError
        If the name of a column ends in a unit of `UNITS` that is not there.
    """
    words = re.sub(r"{[^}]*}", " ", shown_text)
    for _, field, form, _ in string.Formatter().parse(cell):
        for unit, marks in UNITS.items():
            column = (field or "").partition(".")[0].removesuffix("_half_width")
            if column.endswith(f"_{unit}") and not (field or "").endswith(".count"):
                seen = any(re.search(rf"(?<!\w){re.escape(mark)}(?!\w)", words) for mark in marks)
                pure = "ratio" in (field or "").split(".")
                if not seen and not pure and not (form or "").endswith("%"):
                    raise ValueError(
                        f"column '{field}' is in {unit}, which nothing says; expected one of "
                        f"{', '.join(marks)} in its heading or template."
                    )


@dataclass(frozen=True)
class _Values:
    """Values of a column in the rows of a cell, as templates use them."""

    column: str
    values: Sequence[str | int | float]

    def __format__(self, form: str) -> str:
        first, *others = self.values
        if any(other != first for other in others):
            raise ValueError(
                f"column '{self.column}' has {len(self.values)} different values; expected one, by "
                "further conditions, or as {" + self.column + ".mean}."
            )
        return format(first, form)

    @property
    def numbers(self) -> list[float]:
        """All values, if they are numbers."""
        for value in self.values:
            if isinstance(value, str):
                raise ValueError(f"column '{self.column}' has {literal(value)}; expected a number.")
        return [float(value) for value in self.values]

    @property
    def mean(self) -> float:
        return estimate_of(self.numbers).mean

    @property
    def change(self) -> float:
        self._require_percent("a change")
        return self.mean - 100.0

    @property
    def ratio(self) -> _Values:
        self._require_percent("a ratio")
        if (least := min(self.numbers)) <= -100.0:
            raise ValueError(f"column '{self.column}' has {least:g}; expected more than -100 %.")
        return _Values(self.column, [100.0 / (100.0 + value) for value in self.numbers])

    def _require_percent(self, what: str) -> None:
        """Refuse a column that is no percentage."""
        if not self.column.endswith(("percent", "%")):
            raise ValueError(f"column '{self.column}' is no percentage; expected one for {what}.")

    @property
    def half_width(self) -> float:
        return estimate_of(self.numbers).half_width

    @property
    def median(self) -> float:
        return statistics.median(self.numbers)

    @property
    def least(self) -> float:
        return min(self.numbers)

    @property
    def greatest(self) -> float:
        return max(self.numbers)

    @property
    def total(self) -> float:
        return math.fsum(self.numbers)

    @property
    def count(self) -> int:
        return len(self.values)


def filled(cell: str, rows: Sequence[Cells]) -> str:
    """Return a template with the values of the rows; blank where a column has none.

    Raises
    ------
    ValueError
        If there is no such column, or a column has several values and the template expects one.
    """
    fields = [field for _, field, _, _ in string.Formatter().parse(cell) if field]
    values = {}
    for column in {field.partition(".")[0] for field in fields}:
        texts = [cell_of(row, column) for row in rows]
        found = [_typed(text) for text in texts if text not in NO_VALUE]
        if not found:
            return ""
        values[column] = _Values(column, found)
    try:
        text = cell.format(**values)
    except AttributeError as error:
        raise ValueError(f"template '{cell}': {error}.") from error
    text = re.sub(r"\d(?:\.\d+)?e\+\d+", lambda match: f"{float(match.group()):,.0f}", text)
    text = re.sub(r"(?<=\d)%", " %", text)
    text = re.sub(r"(?<![\w.])[-+](?=0(?:\.0*)?(?![\d.]))", "", text)
    return re.sub(r"(?<![\w.])-(?=\d)", "−", text)


def _typed(text: str) -> str | int | float:
    """Return a cell as a number if it is one, and a truth as yes or no."""
    if text in ("True", "False"):
        return "yes" if text == "True" else "no"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def cell_of(row: Cells, column: str) -> str:
    """Return a cell of a row.

    Raises
    ------
    ValueError
        If there is no such column.
    """
    if column not in row:
        raise ValueError(
            f"column '{column}' does not exist{did_you_mean(column, row)}; expected one of "
            f"{', '.join(row)}."
        )
    return row[column]
