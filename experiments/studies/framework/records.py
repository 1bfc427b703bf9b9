"""Rows of a study as typed records, and the conversion of such rows to a table.

A study declares its rows as a `typing.NamedTuple`, whose field names end in their unit
(``average_jct_hours``, ``missed_percent``) and are the columns of the CSV file. A field that holds
a named tuple itself gives a column for each of its parts: the first under the field's own name, the
others as ``FIELD_PART``. An `Estimate` thus gives its mean and ``FIELD_half_width``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Lines of a table, each a mapping from column to value.
Rows = list[dict[str, Any]]


class Record(Protocol):
    """Protocol of the rows of a study, which every `typing.NamedTuple` meets."""

    def _asdict(self) -> dict[str, Any]: ...


def columns_of(row: Record | Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `row` by column.

    None is blank, and so are all parts of a nested tuple that begins with NaN.

    Parameters
    ----------
    row
        Record of a study, or a mapping, which is copied as it is.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from goodalloc.experiments.reporting import Estimate
    >>> from goodalloc.experiments.studies.framework import columns_of
    >>> class Row(NamedTuple):
    ...     policy: str
    ...     hours: Estimate
    ...     published_hours: float | None
    ...
    >>> columns_of(Row("fifo", Estimate(2.0, 0.5), None))
    {'policy': 'fifo', 'hours': 2.0, 'hours_half_width': 0.5, 'published_hours': ''}
    """
    if isinstance(row, Mapping):
        return dict(row)
    columns: dict[str, Any] = {}
    for name, value in row._asdict().items():
        if hasattr(value, "_asdict"):
            first, *parts = value._asdict().items()
            blank = math.isnan(first[1])
            columns[name] = "" if blank else first[1]
            columns |= {f"{name}_{part}": "" if blank else number for part, number in parts}
        else:
            columns[name] = "" if value is None else value
    return columns


def table_of(rows: Sequence[Record | Mapping[str, Any]]) -> Rows:
    """Return the table of `rows`, one mapping from column to value for each row.

    Examples
    --------
    >>> from goodalloc.experiments.studies.framework import table_of
    >>> table_of([{"policy": "fifo", "hours": 2.0}])
    [{'policy': 'fifo', 'hours': 2.0}]
    """
    return [columns_of(row) for row in rows]
