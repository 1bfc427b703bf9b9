"""Records of a replay as Parquet beside the CSV files: the same tables, typed and smaller.

A replay is resumed from, and compared by, its CSV files; those in Parquet are for analysis.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pandas as pd

from goodalloc.data.documents.atomic_write import write_bytes_atomically
from goodalloc.experiments.replay.round_record import GROWING, JobRow

if TYPE_CHECKING:
    from pathlib import Path

#: Columns of every table.
TABLES = {
    **{name: kind._fields for name, kind in GROWING.items()},
    "jobs.csv": JobRow._fields,
}

#: Columns of strings.
TEXTS = {"job", "application", "bound_source", "evidence"}
#: Columns of whole numbers.
COUNTS = {
    "active_jobs",
    "running_jobs",
    "nodes",
    "allocated_gpus",
    "restarts",
    "epoch",
    "gpus",
    "batch_size",
}


def write_parquet(folder: Path) -> None:
    """Write every table of a finished replay as Parquet; equal tables give equal bytes.

    Types do not depend on the values, so that tables of several replays can be concatenated.

    Raises
    ------
    ValueError
        If a table cannot be read or a file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.workloads import Submission
    >>> from goodalloc.experiments.replay import ReplayTask, write_parquet
    >>> workload = (Submission("a", time=0, application="ncf", replicas=1, batch_size=32768),)
    >>> task = ReplayTask(Path("fifo"), "fifo", workload, gaps=False)
    >>> task.run()
    >>> write_parquet(task.folder)
    >>> sorted(path.name for path in task.folder.glob("*.parquet"))
    ['jobs.parquet', 'rounds.parquet', 'samples.parquet', 'timing.parquet']
    """
    for name in TABLES:
        content = io.BytesIO()
        read_records(folder / name).to_parquet(content, engine="pyarrow", index=False)
        write_bytes_atomically((folder / name).with_suffix(".parquet"), content.getvalue())


def read_records(path: Path) -> pd.DataFrame:
    """Return a CSV file of a replay: names as strings even if numeric, blank numbers as NaN."""
    columns = TABLES[path.name]
    return pd.read_csv(
        path,
        dtype={column: _type(column) for column in columns},
        keep_default_na=False,
        na_values={column: ["", "nan"] for column in columns if column not in TEXTS},
    )


def _type(column: str) -> str:
    """Return the type of a column."""
    if column in TEXTS:
        return "str"
    return "int64" if column in COUNTS else "float64"
