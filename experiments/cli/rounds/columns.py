"""Rounds in columns at the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.rounds.any_round import PARQUET, read_round
from goodalloc.experiments.cli.output import Output, check_distinct, check_target, counted
from goodalloc.experiments.support.extras import require_extra
from goodalloc.models.support.tolerances import DEFAULT_GAP

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.round.mode import Mode
    from goodalloc.solvers.mode_columns.solver import ModeColumnAnswer

#: Most jobs of a round in columns on which solvers are compared.
MOST_COMPARED = 20_000

#: What the rule between equally good allocations (`solvers/exact/ties.py`) came to.
NO_RULE = "not applied: a round in columns"


def require_reader(path: str) -> None:
    """Refuse a round in columns where the extra that reads it is not installed.

    Raises
    ------
    ValueError
        If it is not; the message says how to install it.
    """
    if path.endswith(PARQUET):
        require_extra("parquet", f"File '{path}'")


def comparable_round(path: str) -> Instance:
    """Return the round on which solvers are compared, with an object for every job.

    Raises
    ------
    ValueError
        If it is a round in columns of more than `MOST_COMPARED` jobs, for which most solvers take
        hours, or the extra that reads it is not installed, or as `read_round`.
    """
    require_reader(path)
    if not path.endswith(PARQUET):
        return read_round(path)
    from goodalloc.data.rounds.column_file import read_columns

    columns = read_columns(path)
    if columns.num_jobs > MOST_COMPARED:
        raise ValueError(
            f"File '{path}' has {columns.num_jobs:,} jobs; expected at most {MOST_COMPARED:,} to "
            f"compare solvers. `goodalloc solve {path}` decides it."
        )
    return columns.instance(name=Path(path).stem)


#: Options that a round in columns has no use for, and what they are where they are not given.
UNUSED = {
    "start": None,
    "cross_check": None,
    "seconds": None,
    "leximin": False,
    "stages": False,
    "gap": DEFAULT_GAP,
    "seed": 0,
    "cross_check_seconds": None,
}


def solve_in_columns(arguments: argparse.Namespace) -> Output:
    """Solve a round in columns by its price, and write the placements as CSV."""
    from goodalloc.data.rounds.column_file import read_columns
    from goodalloc.models.columns.mode_columns import ModeColumns
    from goodalloc.solvers.certificates.column_certificate import (
        write_column_certificate,
        write_mode_column_certificate,
    )
    from goodalloc.solvers.columns.solver import ColumnAnswer, solve_columns
    from goodalloc.solvers.mode_columns.solver import ModeColumnAnswer, solve_mode_columns

    require_reader(arguments.file)
    for name, usual in UNUSED.items():
        if getattr(arguments, name) != usual:
            raise ValueError(
                f"argument --{name.replace('_', '-')}: expected none for a round in columns."
            )
    if arguments.solver != "highs":
        raise ValueError("argument --solver: expected none for a round in columns.")
    if arguments.out is not None and arguments.out.endswith(".json"):
        raise ValueError(
            f"argument --out: got '{arguments.out}'; expected a CSV file for a round in columns."
        )
    check_target(arguments.out)
    check_target(arguments.certificate)
    check_distinct(arguments.file, arguments.out, arguments.certificate)
    if not Path(arguments.file).exists():
        raise ValueError(f"File '{arguments.file}' does not exist.")
    columns = read_columns(arguments.file)
    answer: ColumnAnswer | ModeColumnAnswer
    if isinstance(columns, ModeColumns):
        answer, proof = solve_mode_columns(columns), "prices of GPUs and resources"
    else:
        answer = solve_columns(columns)
        proof = "the price of a GPU" if answer.slots is None else "prices of slots of nodes"
    cluster, allocation = columns.cluster, answer.allocation
    served = int((allocation.job_replicas > 0).sum())
    jobs, gpus = counted(columns.num_jobs, "job"), counted(cluster.num_gpus, "GPU")
    shape = f"{jobs}, {counted(cluster.num_nodes, 'node')}, {gpus}"
    lines = [
        ("round", f"{arguments.file}: {shape}"),
        ("fitness", f"{answer.fitness:.12g}"),
        ("bound", f"{answer.bound:.12g} (by {proof})"),
        ("gap", f"{answer.gap:.3g}"),
        ("ties", NO_RULE),
        ("served", f"{served} of {jobs}"),
        ("used", f"{int(allocation.replicas.sum())} of {gpus}"),
        ("seconds", ", ".join(f"{part} {took:.2f}" for part, took in answer.seconds.items())),
    ]
    text = "\n".join(f"{name:<12} {value}" for name, value in lines)
    if arguments.out is not None:
        modes = columns.modes if isinstance(columns, ModeColumns) else ()
        write_atomically(arguments.out, _placements(allocation, modes))
        text += f"\nwritten      {arguments.out}"
    if arguments.certificate is not None:
        if isinstance(answer, ColumnAnswer):
            write_column_certificate(answer, arguments.file, arguments.certificate)
        else:
            write_mode_column_certificate(
                answer.bound, answer.proof, arguments.file, arguments.certificate
            )
        text += f"\ncertificate  {arguments.certificate}"
    price: object = None
    if isinstance(answer, ModeColumnAnswer):
        price = answer.prices.tolist()
    else:
        price = answer.price if answer.slots is None else answer.slots.pairs()
    data = {
        "fitness": answer.fitness,
        "bound": answer.bound,
        "gap": answer.gap,
        "ties": NO_RULE,
        "price": price,
        "seconds": answer.seconds,
        "jobs": columns.num_jobs,
        "served": served,
    }
    return Output(text, data)


def _placements(allocation: Allocation, modes: Sequence[Mode]) -> str:
    """Return an allocation as CSV: a row for each job and node, with its mode if there are any."""
    columns = {
        "job": allocation.job.tolist(),
        "node": allocation.node.tolist(),
        "gpus": allocation.replicas.tolist(),
    }
    if modes:
        columns["mode"] = [modes[index].name for index in allocation.mode[allocation.job].tolist()]
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return csv_text(rows, tuple(columns))
