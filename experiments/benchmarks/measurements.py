"""Command line, tables and reference optima of benchmarks."""

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
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.interface.result import Result

#: Row of a table.
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
    """Return the peak memory of this process so far, in GiB."""
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kibibytes / (2**30 if sys.platform == "darwin" else 2**20)


def best_allocation(instance: Instance, seconds: float) -> tuple[Result, Allocation]:
    """Return the result of a proof by HiGHS with a time limit, and its allocation.

    Raises
    ------
    SolveError
        If no allocation was found.
    """
    from goodalloc.solvers.certificates.solve import solve  # not needed by most benchmarks
    from goodalloc.solvers.interface.result import SolveError

    found = solve(instance, "highs", stop=Stop(seconds=seconds))
    if found.allocation is None:
        raise SolveError(f"{found.solver} found no allocation of {instance.name}: {found.message}")
    return found, found.allocation


def measurement_parser(name: str, about: str | None) -> argparse.ArgumentParser:
    """Return a parser with the option `--out`.

    Parameters
    ----------
    name
        Name of the benchmark.
    about
        Its docstring, shown up to the first semicolon.
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
        Names of the columns.
    rows
        Tuples in the order of the columns.
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
    """CSV file that is written row by row.

    Parameters
    ----------
    path
        The file.
    columns
        Names of the columns.

    Attributes
    ----------
    rows
        The rows so far.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.rows: list[Row] = []
        self._path = path
        path.write_text(",".join(columns) + "\n", encoding="utf-8")

    def add(self, row: Row) -> None:
        """Add a row and write it at once, numbers to six digits."""
        self.rows.append(row)
        cells = [f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row]
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(cells)
        append_lines(self._path, line.getvalue())
