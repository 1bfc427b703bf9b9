"""Programs of rounds in MPS and LP files."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.formulations.exported.round_program import (
    OF_TREES,
    build_program,
    build_tree_program,
)
from goodalloc.models.round.instance import Instance

if TYPE_CHECKING:
    from goodalloc.models.topology.topology_round import TopologyRound


class ExportedProgram(NamedTuple):
    """Mathematical program that was written to a file.

    Attributes
    ----------
    file, formulation
        Path of the file, and name of the formulation.
    columns, rows, entries
        Size of its matrix.
    reference
        Utility r of which the costs are relative; see `program_fitness` in
        `goodalloc.formulations.basics`.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.exported import export_program
    >>> export_program(load_benchmark("tiny-cold"), "tiny.lp").formulation
    'pattern'
    """

    file: str
    formulation: str
    columns: int
    rows: int
    entries: int
    reference: float


def export_program(
    instance: Instance | TopologyRound,
    path: str | os.PathLike[str],
    formulation: str | None = None,
) -> ExportedProgram:
    """Write an instance as a mathematical program that any solver reads.

    Parameters
    ----------
    instance
        Instance of the round, or a round on a tree.
    path
        File whose name ends in ``.mps`` or ``.lp``.
    formulation
        "pattern", "aggregate" or "node"; None for "pattern", or for "aggregate" if the
        instance has modes or types of GPU. On a tree "domains" (None) or "pieces". "node" and
        "pieces" are exact, the others bound the fitness.

    Raises
    ------
    ValueError
        If `path` has another suffix or cannot be written, `formulation` is "pattern" and the
        instance has modes or types of GPU, or is none of a tree's and there is one, replicas take a
        part of a GPU, a round on a tree does not avoid interference, or a cost exceeds 1e12.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> program = export_program(load_benchmark("tiny-cold"), "tiny.mps", "node")
    >>> program.formulation, program.columns > program.rows
    ('node', True)
    """
    target = Path(path)
    if target.suffix not in {".mps", ".lp"}:
        raise ValueError(f"File '{target}': expected a name that ends in .mps or .lp.")
    if isinstance(instance, Instance):
        formulation = formulation or ("pattern" if instance.plain else "aggregate")
        program, reference = build_program(instance, formulation)
    else:
        formulation = formulation or OF_TREES[0]
        program, reference = build_tree_program(instance, formulation)
    temporary = target.with_name(f".{secrets.token_hex(4)}{target.suffix}")
    try:
        program.write(temporary)
        os.replace(temporary, target)
    except OSError as error:
        raise ValueError(f"File '{target}' cannot be written ({error.strerror}).") from error
    except ValueError as error:
        raise ValueError(str(error).replace(str(temporary), str(target))) from error
    finally:
        temporary.unlink(missing_ok=True)
    return ExportedProgram(
        str(target),
        formulation,
        program.num_columns,
        program.num_rows,
        int(program.value.size),
        reference,
    )
