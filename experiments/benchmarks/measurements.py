"""The command line and the rows of benchmarks that time one part, as CSV."""

from __future__ import annotations

import argparse
import csv
import io
import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from goodalloc.data.documents.append_lines import append_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Row = TypeVar("Row", bound=tuple[Any, ...])


def ended_by_control_c(main: Callable[[], int]) -> int:
    """Run a benchmark and return its exit code; on Ctrl-C end at once with one line and 130."""
    try:
        return main()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; rows that were written stay.\n")
        sys.stderr.flush()
        # a compilation of JAX may be running in a thread: it is not waited for, and the tracebacks
        # of its collection at the end of the interpreter are nobody's concern
        os._exit(130)


def peak_gib() -> float:
    """The most memory that this process has held so far, in GiB."""
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kibibytes / (2**30 if sys.platform == "darwin" else 2**20)


def measurement_parser(name: str, about: str | None) -> argparse.ArgumentParser:
    """A parser that knows `--out`.

    Parameters
    ----------
    name
        Of the benchmark.
    about
        Its docstring, told up to the first semicolon.
    """
    purpose, _, _ = (about or "").partition(";")
    parser = argparse.ArgumentParser(prog=name, description=f"{purpose}.")
    parser.add_argument("--out", type=Path, help="CSV file; standard output if not given")
    return parser


def write_measurements(
    fields: Sequence[str], rows: Sequence[tuple[Any, ...]], out: Path | None
) -> None:
    """Write rows as CSV, numbers to four digits.

    Parameters
    ----------
    fields
        The header.
    rows
        One tuple a row, in the order of the fields.
    out
        The file; standard output if None.
    """
    cells = [[f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row] for row in rows]
    if out is None:
        csv.writer(sys.stdout, lineterminator="\n").writerows([fields, *cells])
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([fields, *cells])


class Table(Generic[Row]):
    """A CSV file that is written row by row, and its rows."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.rows: list[Row] = []
        self._path = path
        path.write_text(",".join(columns) + "\n", encoding="utf-8")

    def add(self, row: Row) -> None:
        """Keep a row and write it at once, numbers to six digits."""
        self.rows.append(row)
        cells = [f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row]
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(cells)
        append_lines(self._path, line.getvalue())
