"""Rounds in columns as Parquet files: a row a job, typed, small, and quickly read.

The columns are `age`, `restarts` and `max_replicas`; the numbers of the goodput model by their
names, empty for a job that never ran; and `nodes` and `gpus`, lists of the nodes of its present
placement, by index, and of its GPUs there. Where jobs have modes, there is a model for each, its
numbers named `MODE.NUMBER`, and `mode` names the present one, empty for a job that does not run.
The file's metadata (`goodalloc` in the schema) has cluster, rules and modes, as an instance with a
job called none. Jobs with equal models become one kind.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.atomic_write import write_bytes_atomically
from goodalloc.data.documents.json_file import in_file
from goodalloc.data.files.instance import instance_from_dict, instance_to_dict
from goodalloc.models.columns.mode_columns import ModeColumns
from goodalloc.models.columns.round_columns import NEVER_RAN, RoundColumns, stacked_model
from goodalloc.models.goodput.model import BatchLimits
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.support.namespace import leaves

if TYPE_CHECKING:
    import os

    import pandas as pd

    from goodalloc.models.goodput.model import GoodputModel
    from goodalloc.models.round.mode import Mode
    from goodalloc.models.support.array_types import Indices

#: Key of the metadata.
KEY = b"goodalloc"

#: Columns of the goodput model, in the order of its numbers.
MODEL = (*ThroughputParameters._fields, *GradientStatistics._fields, *BatchLimits._fields)

#: Other columns.
NUMBERS, LISTS = ("age", "restarts", "max_replicas"), ("nodes", "gpus")


def write_columns(columns: RoundColumns, path: str | os.PathLike[str]) -> None:
    """Write a round, atomically; equal rounds give equal bytes.

    Raises
    ------
    ValueError
        If the file cannot be written.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_columns, read_columns, write_columns
    >>> write_columns(generate_columns(seed=0, jobs=8, nodes=2), "round.parquet")
    >>> read_columns("round.parquet").num_jobs
    8
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    ran, current = columns.kind != NEVER_RAN, columns.current
    modes = columns.modes if isinstance(columns, ModeColumns) else ()
    data = {name: pa.array(getattr(columns, name)) for name in NUMBERS}
    prefixes = _prefixes(modes)
    for place, prefix in enumerate(prefixes):
        for name, leaf in zip(MODEL, leaves(columns.models), strict=True):
            values = np.zeros(columns.num_jobs, dtype=np.asarray(leaf).dtype)
            values[ran] = np.asarray(leaf)[columns.kind[ran] * len(prefixes) + place]
            data[prefix + name] = pa.array(values, mask=~ran)
    if modes:
        names = np.array([mode.name for mode in modes])
        data["mode"] = pa.array(names[current.mode], mask=current.job_replicas == 0)
    offsets = np.searchsorted(current.job, np.arange(columns.num_jobs + 1)).astype(np.int32)
    for name, values in zip(LISTS, (current.node, current.replicas), strict=True):
        data[name] = pa.ListArray.from_arrays(offsets, values)
    example = Instance(columns.cluster, (Job("none", modes=modes),), columns.rules)
    document = json.dumps(instance_to_dict(example))
    table = pa.table(data).replace_schema_metadata({KEY: document})
    stream = io.BytesIO()
    pq.write_table(table, stream, compression="zstd")
    write_bytes_atomically(Path(path), stream.getvalue())


def read_columns(path: str | os.PathLike[str]) -> RoundColumns:
    """Read a round.

    Raises
    ------
    ValueError
        If the file is unreadable or malformed, or a value is out of range; the message names the
        file, the item, its value and what was expected.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_columns, read_columns, write_columns
    >>> write_columns(generate_columns(seed=0, jobs=8, nodes=2), "round.parquet")
    >>> read_columns("round.parquet").cluster.num_gpus
    8
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"File '{path}' cannot be read as Parquet ({reason}).") from error
    try:
        return _columns(table)
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error


def _columns(table: Any) -> RoundColumns:
    """Return the round of a table.

    Raises
    ------
    ValueError
        If the table is malformed.
    """
    metadata = table.schema.metadata or {}
    if KEY not in metadata:
        raise ValueError("Metadata: key 'goodalloc' is missing; expected a round in columns.")
    example = instance_from_dict(json.loads(metadata[KEY]))
    modes = example.jobs[0].modes
    if example.jobs != (Job(example.jobs[0].name, modes=modes),):
        raise ValueError("Metadata: expected one job, with modes alone, as an example of all.")
    models = [prefix + name for prefix in _prefixes(modes) for name in MODEL]
    for name in (*NUMBERS, *models, *LISTS, *(["mode"] if modes else [])):
        if name not in table.column_names:
            raise ValueError(f"Column '{name}' is missing; expected one.")
    for name in (*NUMBERS, *LISTS):
        if table[name].null_count:
            raise ValueError(f"Column '{name}' is empty in {table[name].null_count} rows.")
    _require_types(table)
    stacked, kind = _kinds(table.select(models).to_pandas())
    nodes, gpus = (table[name].combine_chunks() for name in LISTS)
    lengths = np.diff(np.asarray(nodes.offsets, dtype=np.int64)).astype(np.int64)
    differ = lengths != np.diff(np.asarray(gpus.offsets, dtype=np.int64))
    if differ.any():
        job = int(np.argmax(differ))
        raise ValueError(f"Job {job}: nodes and gpus differ in length; expected pairs.")
    entries = np.repeat(np.arange(table.num_rows), lengths)
    current = Allocation.from_entries(
        entries,
        np.asarray(nodes.flatten()),
        np.asarray(gpus.flatten()),
        table.num_rows,
        example.cluster.num_nodes,
        _modes_of_jobs(table["mode"].to_pylist(), modes) if modes else None,
    )
    if current.job.size < entries.size:
        held = np.bincount(current.job, minlength=table.num_rows)
        job = int(np.argmax(held < lengths))
        raise ValueError(f"Job {job}: expected each of its nodes once, with GPUs.")
    given = (
        example.cluster,
        stacked,
        kind,
        np.asarray(table["age"], dtype=float),
        np.asarray(table["restarts"], dtype=np.int64),
        np.asarray(table["max_replicas"], dtype=np.int64),
        current,
        example.rules,
    )
    if modes:
        running = current.job_replicas > 0
        absent = np.flatnonzero(running & np.asarray(table["mode"].is_null()))
        if absent.size:
            raise ValueError(f"Job {absent[0]}: mode is empty; expected one, as it runs.")
    return ModeColumns(*given, modes) if modes else RoundColumns(*given)


def _require_types(table: Any) -> None:
    """Refuse numbers that would be cut off, and lists that are none.

    Raises
    ------
    ValueError
        If a column has another type.
    """
    import pyarrow.types as kinds

    for name in NUMBERS[1:]:
        if kinds.is_integer(table[name].type):
            continue
        numbers = np.asarray(table[name], dtype=float)
        if (cut := np.flatnonzero(numbers % 1 != 0)).size:
            raise ValueError(
                f"Job {cut[0]}: {name} is {numbers[cut[0]]:g}; expected a whole number."
            )
    for name in LISTS:
        kind = table[name].type
        listed = kinds.is_list(kind) or kinds.is_large_list(kind)
        # of lists that are all empty Arrow knows no type
        if not listed or not (kinds.is_integer(kind.value_type) or kinds.is_null(kind.value_type)):
            raise ValueError(f"Column '{name}' is of {kind}; expected lists of whole numbers.")
        if table[name].combine_chunks().flatten().null_count:
            raise ValueError(f"Column '{name}': a list has an empty item; expected whole numbers.")


def _prefixes(modes: tuple[Mode, ...]) -> list[str]:
    """Return what the names of the numbers of a model begin with, for every mode."""
    return [f"{mode.name}." for mode in modes] or [""]


def _modes_of_jobs(names: list[str | None], modes: tuple[Mode, ...]) -> Indices:
    """Return the index of the present mode of every job, 0 for jobs that do not run."""
    index = {mode.name: place for place, mode in enumerate(modes)}
    for job, name in enumerate(names):
        if name is not None and name not in index:
            known = ", ".join(f"'{one}'" for one in index)
            raise ValueError(f"Job {job}: mode is '{name}'; expected one of {known}.")
    return np.array([0 if name is None else index[name] for name in names], dtype=np.int64)


def _kinds(rows: pd.DataFrame) -> tuple[GoodputModel, Any]:
    """Return the different models of a table, stacked, and the kind of every job."""
    empty = rows.isna()
    partly = (empty.any(axis=1) & ~empty.all(axis=1)).to_numpy()
    if partly.any():
        job = int(np.argmax(partly))
        raise ValueError(f"Job {job}: a part of its model is empty; expected all of it or none.")
    ran = ~empty.any(axis=1).to_numpy()
    found = rows[ran]
    kind = np.full(len(rows), NEVER_RAN)
    names = list(rows.columns)
    kind[ran] = found.groupby(names, sort=True).ngroup().to_numpy()
    kinds = found.drop_duplicates().sort_values(names).to_numpy(dtype=float)
    numbers = kinds.reshape(-1, len(MODEL)).T  # the modes of a kind one after the other
    return stacked_model(list(numbers)), kind.astype(np.int64)
