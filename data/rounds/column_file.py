"""Rounds in columns as Parquet files: a row a job, typed, small, and quickly read.

The columns are `age`, `restarts` and `max_replicas`; the numbers of the goodput model by their
names, empty for a job that never ran; and `nodes` and `gpus`, lists of the nodes of its present
placement, by index, and of its GPUs there. The file's metadata (`goodalloc` in the schema) has
cluster and rules, as an instance with a job called none. Jobs with equal models become one kind.
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

    ran = columns.kind != NEVER_RAN
    data = {name: pa.array(getattr(columns, name)) for name in NUMBERS}
    for name, leaf in zip(MODEL, leaves(columns.models), strict=True):
        values = np.zeros(columns.num_jobs, dtype=np.asarray(leaf).dtype)
        values[ran] = np.asarray(leaf)[columns.kind[ran]]
        data[name] = pa.array(values, mask=~ran)
    current = columns.current
    offsets = np.searchsorted(current.job, np.arange(columns.num_jobs + 1)).astype(np.int32)
    for name, values in zip(LISTS, (current.node, current.replicas), strict=True):
        data[name] = pa.ListArray.from_arrays(offsets, values)
    example = Instance(columns.cluster, (Job("none"),), columns.rules)
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
    for name in (*NUMBERS, *MODEL, *LISTS):
        if name not in table.column_names:
            raise ValueError(f"Column '{name}' is missing; expected one.")
    example = instance_from_dict(json.loads(metadata[KEY]))
    for name in (*NUMBERS, *LISTS):
        if table[name].null_count:
            raise ValueError(f"Column '{name}' is empty in {table[name].null_count} rows.")
    models, kind = _kinds(table.select(MODEL).to_pandas())
    nodes, gpus = (table[name].combine_chunks() for name in LISTS)
    lengths = np.diff(np.asarray(nodes.offsets, dtype=np.int64)).astype(np.int64)
    differ = lengths != np.diff(np.asarray(gpus.offsets, dtype=np.int64))
    if differ.any():
        job = int(np.argmax(differ))
        raise ValueError(f"Job {job}: nodes and gpus differ in length; expected pairs.")
    current = Allocation.from_entries(
        np.repeat(np.arange(table.num_rows), lengths),
        np.asarray(nodes.flatten()),
        np.asarray(gpus.flatten()),
        table.num_rows,
        example.cluster.num_nodes,
    )
    return RoundColumns(
        example.cluster,
        models,
        kind,
        np.asarray(table["age"], dtype=float),
        np.asarray(table["restarts"], dtype=np.int64),
        np.asarray(table["max_replicas"], dtype=np.int64),
        current,
        example.rules,
    )


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
    kind[ran] = found.groupby(list(MODEL), sort=True).ngroup().to_numpy()
    kinds = found.drop_duplicates().sort_values(list(MODEL))
    columns = [kinds[name].to_numpy(dtype=float) for name in MODEL]
    return stacked_model(columns), kind.astype(np.int64)
