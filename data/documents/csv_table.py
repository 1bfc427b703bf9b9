"""Tables that users bring, as CSV with a heading: read strictly, every refusal one sentence."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.documents.json_file import in_file, read_text, shown
from goodalloc.models.support.validation import LARGEST_COUNT

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from goodalloc.models.support.array_types import Floats


_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")


@dataclass(frozen=True)
class Table:
    """Rows of a file, as text.

    Parameters
    ----------
    path
        The file.
    lines
        Number of the last line of each row, from 1.
    columns
        Cells of each requested column, by its name.
    """

    path: str | os.PathLike[str]
    lines: tuple[int, ...]
    columns: Mapping[str, tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.lines)

    def only(self, rows: Iterable[int]) -> Table:
        """Return the table with only the rows of these indices."""
        kept = list(rows)
        columns = {name: tuple(cells[row] for row in kept) for name, cells in self.columns.items()}
        return Table(self.path, tuple(self.lines[row] for row in kept), columns)

    def numbers(
        self,
        column: str,
        least: float = -math.inf,
        most: float = math.inf,
        *,
        whole: bool = False,
        strict: bool = False,
    ) -> Floats:
        """Return a column as finite numbers.

        Parameters
        ----------
        column
            Its name.
        least, most
            Bounds; counts are at most `LARGEST_COUNT` where `most` is infinite.
        whole
            Whether they are whole.
        strict
            Whether they are above `least`.

        Returns
        -------
        ndarray
            Values, shape (rows,).

        Raises
        ------
        ValueError
            If a cell is something else; the sentence names file, line, column and cell.
        """
        cells = self.columns[column]
        values = np.array([float(c) if _NUMBER.fullmatch(c) else math.nan for c in cells])
        top = LARGEST_COUNT if whole and math.isinf(most) else most
        good = np.isfinite(values) & (values <= top)
        good &= values > least if strict else values >= least
        if whole:
            good &= np.where(good, values, 0.5) % 1 == 0
        for row in np.flatnonzero(~good)[:1].tolist():
            bounds = f" from {least:g} to {most:g}"
            if math.isinf(most):
                bounds = "" if math.isinf(least) else f" {'above' if strict else 'of at least'} "
                bounds += f"{least:g}" if bounds else ""
                bounds += f" and at most {top}" if whole and values[row] > top else ""
            kind = "a whole number" if whole else "a finite number"
            raise self.refusal(row, column, f"{kind}{bounds}")
        return values

    def counts(self, column: str, least: int = 1) -> list[int]:
        """Return a column as whole numbers from `minimum` to `LARGEST_COUNT`.

        Raises
        ------
        ValueError
            As `numbers`.
        """
        found: list[int] = self.numbers(column, least, whole=True).astype(np.int64).tolist()
        return found

    def refusal(self, row: int, column: str, expected: str) -> ValueError:
        """Return a sentence that names the cell and what was expected."""
        cell = shown(self.columns[column][row])
        complaint = f"line {self.lines[row]}: {column} is {cell}; expected {expected}."
        return ValueError(in_file(self.path, ValueError(complaint)))


def read_table(
    path: str | os.PathLike[str],
    columns: Sequence[str],
    optional: Sequence[str] = (),
    *,
    least: int = 1,
) -> Table:
    """Read these columns of a file; other columns, blank lines and blanks around cells are ignored.

    Parameters
    ----------
    path
        The file.
    columns
        Names of columns that must be there.
    optional
        Names of columns that may be there.
    least
        Fewest rows, 0 or 1.

    Raises
    ------
    ValueError
        If the file cannot be read or is no table, a column is missing or is there twice, there are
        too few rows, or one has more or fewer cells than the heading.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.documents import read_table
    >>> _ = Path("jobs.csv").write_text("name,gpus,note\\na,2,x\\nb,4,y\\n")
    >>> read_table("jobs.csv", ("name", "gpus")).counts("gpus", 1)
    [2, 4]
    """
    text = read_text(path, "CSV").removeprefix("\ufeff")
    try:
        found = _table(path, text, columns, optional)
        if len(found) < least:
            raise ValueError("it has no rows; expected at least one.")
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error
    return found


def _table(
    path: str | os.PathLike[str], text: str, columns: Sequence[str], optional: Sequence[str]
) -> Table:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        found = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num} is not CSV ({error}).") from error
    (_, heading), *rows = found
    for name in (*columns, *optional):
        if heading.count(name) > 1:
            raise ValueError(f"column '{name}' is there twice; expected it once.")
        if name not in heading and name in columns:
            raise ValueError(f"column '{name}' is missing.")
    for line, cells in rows:
        if len(cells) != len(heading):
            raise ValueError(f"line {line} has {len(cells)} cells; expected {len(heading)}.")
    wanted = [name for name in (*columns, *optional) if name in heading]
    return Table(
        path,
        tuple(line for line, _ in rows),
        {name: tuple(cells[heading.index(name)] for _, cells in rows) for name in wanted},
    )
