"""Writes the instances that ship and their best known values.

    python -m goodalloc.experiments.gap.make_benchmark_set [--instances-only] [--seconds 300]

A value is replaced only by a better one or by a tighter bound.
"""

from __future__ import annotations

import argparse
import logging
import math
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.files.instance import instance_text, read_instance
from goodalloc.data.rounds.benchmark_set import BENCHMARKS, BestKnown, parse_best_known
from goodalloc.data.rounds.generator import generate
from goodalloc.experiments.support.version import library_version
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.interface.result import refutes, relative_gap
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.solvers.interface.result import Result

logger = logging.getLogger(__name__)

#: Where the instances are kept in the source tree.
FOLDER = Path(__file__).resolve().parents[2] / "data" / "instances"

COLUMNS = tuple(field.name for field in fields(BestKnown))


def write_instances(folder: Path) -> None:
    """Generate and write every instance, and remove the best known values of changed ones."""
    folder.mkdir(parents=True, exist_ok=True)
    known = read_best_known(folder)
    for name, arguments in BENCHMARKS.items():
        path, text = folder / f"{name}.json", instance_text(generate(**arguments, name=name))
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        known.pop(name, None)
        write_atomically(path, text)
    keep_best_known(folder, known)


def write_best_known(folder: Path, solver: str, seconds: float) -> None:
    """Solve every instance, and keep the better of the old and the new values."""
    known = read_best_known(folder)
    for name in BENCHMARKS:
        instance = read_instance(folder / f"{name}.json")
        result = solve(instance, solver, stop=Stop(seconds=seconds))
        known[name] = better(known.get(name), result)
        keep_best_known(folder, known)
        logger.info("%s: %s, gap %.3g", name, result.status, known[name].gap)


def read_best_known(folder: Path) -> dict[str, BestKnown]:
    """Read the best known values in a folder; none without a table."""
    table = folder / "best_known.csv"
    return parse_best_known(table.read_text(encoding="utf-8")) if table.is_file() else {}


def keep_best_known(folder: Path, known: Mapping[str, BestKnown]) -> None:
    """Write the values, in the order of the instances."""
    rows = [asdict(known[name]) for name in BENCHMARKS if name in known]
    write_atomically(folder / "best_known.csv", csv_text(rows, COLUMNS))


def better(old: BestKnown | None, result: Result) -> BestKnown:
    """Return the greater fitness with the lesser bound that it does not refute."""
    new = BestKnown(
        result.instance, result.fitness, result.bound, result.gap, result.solver, library_version()
    )
    if old is None:
        return new
    keep = old if math.isnan(new.fitness) or old.fitness >= new.fitness else new
    standing = [b for b in (old.bound, new.bound) if not refutes(keep.fitness, b)]
    bound = min(standing, default=math.inf)
    gap = relative_gap(keep.fitness, bound)
    return BestKnown(keep.instance, keep.fitness, bound, gap, keep.solver, keep.version)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the instances, then the values."""
    parser = argparse.ArgumentParser(
        description="Write the instances that ship, then their values."
    )
    parser.add_argument("--instances-only", action="store_true", help="no values")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--solver", default="highs")
    parser.add_argument("--seconds", type=float, default=300.0, help="for each instance")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    write_instances(arguments.folder)
    if not arguments.instances_only:
        write_best_known(arguments.folder, arguments.solver, arguments.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
