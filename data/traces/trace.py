"""Trace of a cluster: what its jobs asked for, when, and how long they ran.

Traces have up to millions of jobs, so they are kept in columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import shown
from goodalloc.data.workloads.rigid_jobs import RigidJob

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from goodalloc.models.support.array_types import Flags, Floats

#: Columns of a trace, with their values where a source has none.
DEFAULTS = {
    "name": "",
    "submission": np.nan,
    "waited": np.nan,
    "seconds": np.nan,
    "gpus": np.nan,
    "workers": 1,
    "cores": np.nan,
    "gpu_type": "",
    "tenant": "",
    "kind": "",
    "state": "",
}


class JobState(StrEnum):
    """How a job ended."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True)
class Trace:
    """Jobs of a trace.

    Parameters
    ----------
    table
        A row a job, in order of submission. Columns: `name`; `submission`, seconds from that of the
        first job; `waited`, seconds until it first ran; `seconds` that it ran; `gpus` of all its
        workers, a fraction where it shares one; `workers`; `cores` of all workers; `gpu_type`,
        `tenant` (user group or virtual cluster) and `kind`; `state` (`JobState`). Numbers that the
        source does not tell are NaN, texts are empty.
    begin
        Time of the first submission, without a time zone; seconds of a source without dates count
        from 1970.
    left_out
        Number of the source's jobs that are not in the table, by the reason.
    """

    table: pd.DataFrame
    begin: pd.Timestamp
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.table)

    def rigid_jobs(self) -> tuple[RigidJob, ...]:
        """Return the jobs as rigid ones that make a step a second; GPUs are rounded up.

        Examples
        --------
        >>> from pathlib import Path
        >>> from goodalloc.data.traces import read_helios_jobs
        >>> _ = Path("cluster_log.csv").write_text(
        ...     "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,duration,queue\\n"
        ...     "7,u1,vcA,8,32,1,COMPLETED,2020-06-09 18:41:01,3600,20\\n"
        ... )
        >>> job = read_helios_jobs("cluster_log.csv").rigid_jobs()[0]
        >>> job.name, job.replicas, job.seconds
        ('7', 8, 3600.0)
        """
        table = self.table
        whole = np.ceil(table.gpus.to_numpy()).astype(np.int64).tolist()
        columns = zip(table.name, table.submission, whole, table.seconds, strict=True)
        return tuple(
            RigidJob(name, submission, gpus, seconds, steps=seconds)
            for name, submission, gpus, seconds in columns
        )


def unusable_jobs(gpus: Floats, submitted: pd.Series, seconds: Floats) -> dict[str, Flags]:
    """Return which jobs no trace has, by the reason; for `collect_jobs`.

    Parameters
    ----------
    gpus, submitted, seconds
        GPUs, time of submission and seconds of each job; NaN or NaT where unknown.
    """
    return {
        "have no GPU": ~(gpus > 0),
        "have no time of submission": submitted.isna().to_numpy(),
        "ran for no second": ~(seconds > 0),
    }


def collect_jobs(
    columns: Mapping[str, object],
    submitted: pd.Series,
    source: str | os.PathLike[str],
    left_out: Mapping[str, Flags],
) -> Trace:
    """Return the trace of these columns, sorted by submission.

    Parameters
    ----------
    columns
        Columns of the trace, but for `submission`, as arrays or values.
    submitted
        Time of each job's submission.
    source
        The file, for messages.
    left_out
        Rows to leave out, by the reason; the first reason counts.

    Raises
    ------
    ValueError
        If a name is there twice or no job is left.
    """
    table = pd.DataFrame({"submitted": submitted, **DEFAULTS} | dict(columns))
    counts: dict[str, int] = {}
    kept = np.ones(len(table), dtype=bool)
    for reason, rows in left_out.items():
        counted = int(np.count_nonzero(kept & rows))
        if counted:
            counts[reason] = counted
        kept &= ~np.asarray(rows)
    table = table[kept].sort_values("submitted", kind="stable")
    if table.empty:
        why = "; ".join(f"{count} {reason}" for reason, count in counts.items()) or "it has no rows"
        raise ValueError(f"File '{source}': no job is left ({why}); expected one.")
    for name in table.name[table.name.duplicated()][:1]:
        raise ValueError(f"File '{source}': job {shown(name)} is there twice; expected it once.")
    begin = table.submitted.iloc[0]
    table["submission"] = (table.submitted - begin).dt.total_seconds()
    return Trace(table[list(DEFAULTS)].reset_index(drop=True), begin, counts)


def write_job_list(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace as a list of jobs from which workloads can be drawn, atomically.

    The list has the columns of `goodalloc.data.workloads.read_philly`, ``timestamp``, ``duration``,
    ``num_gpus`` (rounded up) and ``gpu_time``, then those of the trace.

    Raises
    ------
    ValueError
        If the file cannot be written.
    """
    table = trace.table
    times = trace.begin + pd.to_timedelta(table.submission, unit="s")
    listed = pd.DataFrame(
        {
            "timestamp": times.dt.floor("s").dt.strftime("%Y-%m-%d %H:%M:%S"),
            "duration": table.seconds,
            "num_gpus": np.ceil(table.gpus).astype(np.int64),
            "gpu_time": table.seconds * table.gpus,
        }
    )
    write_atomically(path, pd.concat([listed, table], axis=1).to_csv(index=False))
