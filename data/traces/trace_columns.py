"""Columns of large CSV files, read strictly: a bad cell is refused by file, line and column."""

from __future__ import annotations

import csv
import errno
import gzip
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import pandas as pd

from goodalloc.data.documents.json_file import in_file, shown

if TYPE_CHECKING:
    import os
    from _csv import Reader
    from collections.abc import Mapping, Sequence

    from goodalloc.models.support.array_types import Flags, Floats, Indices


#: Most machines, GPUs and cores of a job, and latest second of a submission, by which nonsense is
#: told.
MOST_WORKERS, MOST_GPUS, MOST_CORES, LATEST = 1_000_000, 10_000_000, 1e9, 4_000_000_000

#: Minutes or seconds of a clock, and the zone behind them.
ZONE = r"(?<=:)(\d\d(?:\.\d+)?)\s*(?:Z|[+-]\d\d(?::?\d\d)?)$"


@dataclass(frozen=True)
class TraceColumns:
    """Cells of some columns of a file, as text.

    Parameters
    ----------
    path
        The file.
    frame
        A row a line, blanks around cells removed.
    lines
        Number of the line of each row, from 1.
    """

    path: str | os.PathLike[str]
    frame: pd.DataFrame
    lines: Indices

    def texts(self, column: str) -> pd.Series:
        """Return a column as texts."""
        return self.frame[column]

    def numbers(
        self,
        column: str,
        least: float = 0.0,
        most: float = math.inf,
        *,
        whole: bool = False,
        required: bool = False,
    ) -> Floats:
        """Return a column as numbers, NaN where it is empty.

        Parameters
        ----------
        column
            The column.
        least, most
            Bounds of the numbers.
        whole
            Whether they are whole numbers.
        required
            Whether no cell may be empty.

        Raises
        ------
        ValueError
            If a cell is none of these.
        """
        found = np.asarray(pd.to_numeric(self.texts(column), errors="coerce"), dtype=float)
        good = np.isfinite(found) & (found >= least) & (found <= most)
        if whole:
            good &= found % 1 == 0
        bounds = f"of at least {least:g}" if math.isinf(most) else f"from {least:g} to {most:g}"
        kind = "whole" if whole else "finite"
        self._require(column, good, f"a {kind} number {bounds}", required=required)
        return found

    def times(self, column: str) -> pd.Series:
        """Return a column as times without a zone, as the clock showed them; NaT where empty.

        Raises
        ------
        ValueError
            If another cell is no time, as ``2020-06-09 18:41:01`` or with a zone.
        """
        clock = self.texts(column).str.replace(ZONE, r"\1", regex=True)
        found = pd.to_datetime(clock, format="ISO8601", errors="coerce")
        self._require(column, np.asarray(found.notna()), "a time, as 2020-06-09 18:41:01")
        return found

    def mapped(self, column: str, names: Mapping[str, str]) -> pd.Series:
        """Return a column under other names, empty where a cell is none of them."""
        return self.texts(column).map(names).fillna("")

    def _require(self, column: str, good: Flags, expected: str, *, required: bool = False) -> None:
        texts = self.texts(column)
        wrong = ~good if required else ~good & np.asarray(texts != "")
        for row in np.flatnonzero(wrong)[:1].tolist():
            cell = shown(texts.iloc[row])
            raise ValueError(
                f"File '{self.path}': line {self.lines[row]}: {column} is {cell}; expected "
                f"{expected}."
            )


def open_text(path: str | os.PathLike[str]) -> IO[str]:
    """Open a text file for reading, compressed by gzip if it ends in `.gz`.

    Raises
    ------
    OSError
        If it cannot be opened, or is a pipe or a device, which may have no end.
    """
    if Path(path).exists() and not Path(path).is_file():
        raise OSError(errno.EINVAL, "it is no regular file")
    if Path(path).suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return Path(path).open(encoding="utf-8-sig", newline="")


def read_trace_columns(
    path: str | os.PathLike[str], columns: Sequence[str], *, heading: bool = True
) -> TraceColumns:
    """Read columns of a CSV file of millions of lines; others, and blank lines, are ignored.

    Parameters
    ----------
    path
        The file, or one that gzip has compressed (`.gz`).
    columns
        Names of the columns.
    heading
        Whether the first line names the columns; otherwise `columns` are all columns, in order, and
        a first line that names them nevertheless is skipped.

    Raises
    ------
    ValueError
        If the file cannot be read, is no CSV, lacks a column, or a line has more or fewer cells
        than the first.
    """
    try:
        with open_text(path) as file:
            lines, cells = _cells(csv.reader(file, strict=True), list(columns), heading=heading)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        complaint = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ValueError(f"File '{path}' cannot be read ({complaint}).") from error
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error
    frame = pd.DataFrame(dict(zip(columns, cells, strict=True)), dtype=str)
    return TraceColumns(path, frame, np.array(lines, dtype=np.int64))


def _cells(
    reader: Reader, columns: list[str], *, heading: bool
) -> tuple[list[int], list[list[str]]]:
    """Return the numbers of the lines, and the cells of each column."""
    first = [cell.strip() for cell in next(reader, [])] if heading else columns
    if not first:
        raise ValueError("it is empty; expected a line that names the columns.")
    for name in columns:
        if name not in first:
            raise ValueError(f"column '{name}' is missing.")
        if first.count(name) > 1:
            raise ValueError(f"column '{name}' is there twice.")
    places = [first.index(name) for name in columns]
    lines: list[int] = []
    cells: list[list[str]] = [[] for _ in columns]
    for row in reader:
        if not row or (reader.line_num == 1 and row == columns):
            continue
        if len(row) != len(first):
            raise ValueError(f"line {reader.line_num} has {len(row)} cells; expected {len(first)}.")
        lines.append(reader.line_num)
        for column, place in zip(cells, places, strict=True):
            column.append(row[place].strip())
    return lines, cells
