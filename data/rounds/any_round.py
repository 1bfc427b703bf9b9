"""A round of whatever a path names: an instance, a shipped one, or a round in columns."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.rounds.benchmark_set import find_instance
from goodalloc.data.rounds.column_file import read_columns

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance

#: End of the names of files of rounds in columns.
PARQUET = ".parquet"


def read_round(source: str | os.PathLike[str]) -> Instance:
    """Return a round with an object for every job.

    Parameters
    ----------
    source
        Instance file, name of an instance that ships, or Parquet file of a round in columns, whose
        jobs are then called ``job-0``, ``job-1``, …

    Raises
    ------
    ValueError
        If there is none, or the file is malformed.

    Examples
    --------
    >>> from goodalloc.data.rounds import read_round, generate_columns, write_columns
    >>> write_columns(generate_columns(seed=0, jobs=8, nodes=2), "round.parquet")
    >>> read_round("round.parquet").name
    'round'
    >>> read_round("tiny-cold").name
    'tiny-cold'
    """
    path = os.fspath(source)
    if path.endswith(PARQUET):
        return read_columns(path).instance(name=Path(path).stem)
    return find_instance(path)
