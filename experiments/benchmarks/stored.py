"""Benchmark whose rows are kept in the repository, with their origin.

Run as ``python -m goodalloc.experiments.benchmarks.stored NAME [OPTIONS]``, or ``make bench STORE=1
BENCH=NAME OPTIONS=...``, from a clone whose code is committed. The benchmark is run with its
options, and each CSV file that it writes becomes a stored result ``bench-NAME``, or
``bench-NAME-FILE`` where there are several, from which `goodalloc report` writes tables. With
``--called OTHER``, as on a machine with a GPU, OTHER stands in place of NAME. Seconds are only
worth keeping if the machine does nothing else.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.documents.json_file import read_text
from goodalloc.experiments.benchmarks.measurements import ended_by_control_c
from goodalloc.experiments.cli.report import commit_of_code, store_benchmark
from goodalloc.models.support.validation import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Benchmarks that write CSV files: those that write one, and those that write a folder of them.
FILES = (
    "agent",
    "back_ends",
    "day",
    "fitting",
    "goodput",
    "nodes",
    "noise_scale",
    "round",
    "scale",
    "sia",
    "start_up",
)
FOLDERS = ("genetic", "original")

#: This module, as a command names it.
MODULE = "goodalloc.experiments.benchmarks.stored"


def run_and_store(name: str, options: Sequence[str], called: str | None = None) -> tuple[str, ...]:
    """Run a benchmark, store its rows, and return the names of the results.

    Parameters
    ----------
    name, options
        Name of the benchmark, and its command line without ``--out``.
    called
        Name in the results; that of the benchmark if None.

    Raises
    ------
    ValueError
        If the benchmark is unknown or writes no rows, ``--out`` is among the options, or the code
        differs from the last commit.
    """
    if name not in (*FILES, *FOLDERS):
        raise ValueError(
            f"Benchmark '{name}' does not exist or writes no table"
            f"{did_you_mean(name, (*FILES, *FOLDERS))}; expected one of "
            f"{', '.join(sorted((*FILES, *FOLDERS)))}."
        )
    if any(word.split("=")[0] == "--out" for word in options):
        raise ValueError("Option --out: rows are stored in the repository; expected none.")
    commit_of_code()  # refuses other code before anything is measured
    words = _without_paths(options)
    command = f"make bench BENCH={name}"
    if called is not None:
        command = shlex.join(["python", "-m", MODULE, name, "--called", called, *words])
    elif words:
        command += f" OPTIONS={shlex.quote(' '.join(words))}"
    out = Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
    sys.stderr.write(f"rows are in {out} until they are stored\n")
    begin = os.times()
    module = importlib.import_module(f"goodalloc.experiments.benchmarks.{name}")
    path = out / f"{name}.csv" if name in FILES else out
    if module.main([*options, "--out", str(path)]) != 0:
        raise ValueError(f"Benchmark '{name}' failed; expected exit code 0.")
    seconds = sum(now - then for now, then in zip(os.times()[:4], begin[:4], strict=True))
    tables = {file.stem: _rows(file) for file in sorted(out.glob("*.csv"))}
    tables = {stem: rows for stem, rows in tables.items() if rows}
    if not tables:
        raise ValueError(f"Benchmark '{name}' wrote no rows; expected some.")
    own = called or name
    named = {own if name in FILES else f"{own}-{stem}": rows for stem, rows in tables.items()}
    stored = store_benchmark(named, command, seconds)
    shutil.rmtree(out)  # not after an error or an interrupt: rows took minutes
    return stored


def _without_paths(options: Sequence[str]) -> list[str]:
    """Return options with their names in place of the folders and files of this machine."""
    words, before = [], ""
    for word in options:
        name, equals, value = word.rpartition("=")
        if Path(value).is_absolute():
            value = (name if equals else before).lstrip("-").upper()
        words.append(name + equals + value)
        before = word
    return words


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(read_text(path, "CSV").splitlines()))


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line.

    Parameters
    ----------
    argv
        Name of the benchmark and its options; arguments of the process if None.
    """
    parser = argparse.ArgumentParser(description=__doc__, prog="bench_stored")
    parser.add_argument("name", help="name of the benchmark; further options are passed to it")
    parser.add_argument("--called", help="name in the results, in place of the benchmark's")
    given, options = parser.parse_known_args(argv)
    try:
        stored = run_and_store(given.name, options, given.called)
    except ValueError as error:
        sys.stderr.write(f"bench_stored: error: {error}\n")
        return 2
    sys.stdout.write(f"stored: {', '.join(stored)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
