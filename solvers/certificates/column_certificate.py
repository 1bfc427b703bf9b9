"""Certificates of rounds in columns as versioned JSON files, documented in `data/FORMAT.md`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import dump, pack_number
from goodalloc.formulations.certificates.certificate import MARGIN
from goodalloc.formulations.certificates.prices import Prices, WeightedValues
from goodalloc.solvers.certificates.certificate_file import (
    CERTIFICATE_FORMAT,
    VERSION,
    prices_to_dict,
)

if TYPE_CHECKING:
    import os

    from goodalloc.data.documents.json_file import Document
    from goodalloc.formulations.mode_rounds.node_prices import PoolProof
    from goodalloc.solvers.columns.solver import ColumnAnswer


def write_column_certificate(
    answer: ColumnAnswer, round_file: str | os.PathLike[str], path: str | os.PathLike[str]
) -> None:
    """Write the prices from which the bound on a round in columns follows, atomically.

    They are those of slots where these prove it, else that of a GPU.

    Parameters
    ----------
    answer
        Answer with the bound.
    round_file
        Parquet file of the round, to which the certificate is tied by its digest.
    path
        File to write.

    Raises
    ------
    ValueError
        If the file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.rounds import generate_columns, write_columns
    >>> from goodalloc.solvers.certificates import write_column_certificate
    >>> from goodalloc.solvers.columns import solve_columns
    >>> columns = generate_columns(seed=0, jobs=8, nodes=2)
    >>> write_columns(columns, "round.parquet")
    >>> write_column_certificate(solve_columns(columns), "round.parquet", "proof.json")
    >>> '"kind": "columns"' in Path("proof.json").read_text()
    True
    """
    document = _stated("columns", max(answer.bound, answer.fitness), round_file) | {
        "reference": None if answer.price is None else pack_number(answer.reference),
    }
    if answer.slots is None:
        document["price"] = None if answer.price is None else pack_number(answer.price)
    else:
        document["slots"] = [list(pair) for pair in answer.slots.pairs()]
    write_atomically(path, dump(document) + "\n")


def write_mode_column_certificate(
    bound: float,
    proof: PoolProof,
    round_file: str | os.PathLike[str],
    path: str | os.PathLike[str],
) -> None:
    """Write the prices from which the bound on a round of modes in columns follows, atomically.

    Parameters
    ----------
    bound, proof
        The bound, and the prices that prove it.
    round_file, path
        As of `write_column_certificate`.

    Raises
    ------
    ValueError
        If the file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.rounds import generate_mode_columns, write_columns
    >>> from goodalloc.solvers.certificates import write_mode_column_certificate
    >>> from goodalloc.solvers.mode_columns import solve_mode_columns
    >>> columns = generate_mode_columns(seed=0, jobs=8)
    >>> write_columns(columns, "round.parquet")
    >>> answer = solve_mode_columns(columns)
    >>> write_mode_column_certificate(answer.bound, answer.proof, "round.parquet", "proof.json")
    >>> '"kind": "mode-columns"' in Path("proof.json").read_text()
    True
    """
    values = tuple(WeightedValues(*one) for one in proof.values)
    document = _stated("mode-columns", bound, round_file) | {
        "reference": pack_number(proof.reference),
        "units": proof.units.tolist(),
        "grid": proof.grid.tolist(),
        "prices": prices_to_dict(Prices(proof.resources, values)),
    }
    write_atomically(path, dump(document) + "\n")


def _stated(kind: str, bound: float, round_file: str | os.PathLike[str]) -> Document:
    """Return what certificates of both kinds state."""
    return {
        "format": CERTIFICATE_FORMAT,
        "version": VERSION,
        "kind": kind,
        "digest": hashlib.sha256(Path(round_file).read_bytes()).hexdigest(),
        "bound": pack_number(bound * (1 + MARGIN)),
    }
