"""Rows as CSV."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def csv_text(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> str:
    """Return rows as CSV with a header; floats by their shortest exact decimal.

    Parameters
    ----------
    rows
        Cells by column; a cell that is missing is empty, other ones are left out.
    columns
        Names of the columns in their order.

    Examples
    --------
    >>> from goodalloc.data.documents import csv_text
    >>> csv_text([{"solver": "greedy", "seed": 1}], ("solver", "seed")).splitlines()
    ['solver,seed', 'greedy,1']
    """
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n", restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()
