"""Microsoft's Philly clusters, 2017: `cluster_job_log` and `cluster_machine_list`.

Published with Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training
Workloads" (ATC'19): 117,325 jobs with every attempt to run them, and the machines they ran on.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from goodalloc.data.documents.json_file import in_file, shown
from goodalloc.data.traces.trace import JobState, collect_jobs
from goodalloc.data.traces.trace_columns import open_text, read_trace_columns
from goodalloc.models.round.cluster import Cluster, NodeGroup

if TYPE_CHECKING:
    import os

    from goodalloc.data.traces.trace import Trace

KEYS = ("status", "vc", "jobid", "attempts", "submitted_time")
STATES = {"Pass": JobState.COMPLETED, "Killed": JobState.CANCELLED, "Failed": JobState.FAILED}
TIME_FORMAT = "%Y-%m-%d %H:%M:%S"


def read_philly_jobs(path: str | os.PathLike[str]) -> Trace:
    """Read the jobs of Philly's log.

    A job's GPUs and workers (machines) are those of its last attempt, its seconds those of all its
    attempts. Attempts without a start or an end do not count.

    Parameters
    ----------
    path
        The file `cluster_job_log`, JSON.

    Raises
    ------
    ValueError
        If the file is unreadable or malformed; the message names job, item and value.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.traces import read_philly_jobs
    >>> _ = Path("cluster_job_log").write_text('''[{"status": "Pass", "vc": "ee9e8c",
    ...     "jobid": "application_1", "submitted_time": "2017-10-07 01:11:39", "user": "ce2f4c",
    ...     "attempts": [{"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:09",
    ...                   "detail": [{"ip": "m47", "gpus": ["gpu0", "gpu1"]}]}]}]''')
    >>> read_philly_jobs("cluster_job_log").table[["gpus", "seconds", "waited"]].values.tolist()
    [[2.0, 60.0, 30.0]]
    """
    try:
        rows = [_job(index, entry) for index, entry in enumerate(_entries(path), start=1)]
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error
    table = pd.DataFrame(rows, columns=["name", "submitted", "tenant", "state", "attempts"])
    submitted = _times(path, table.name, "submitted_time", table.submitted)
    ran = _runs(path, table)
    columns = {
        "name": table.name,
        "waited": (ran.start - submitted).dt.total_seconds(),
        "seconds": ran.seconds,
        "gpus": ran.gpus.astype(float),
        "workers": ran.workers.fillna(0).astype(np.int64),
        "tenant": table.tenant,
        "state": table.state,
    }
    left_out = {
        "never ran": (table.attempts.str.len() == 0).to_numpy(),
        "have no time of an attempt": ran.seconds.isna().to_numpy(),
        "end before they start": ran.least.lt(0).to_numpy(),
        "ran for no second": ~(ran.seconds.to_numpy() > 0),
        "have no GPU": ~(ran.gpus.to_numpy(dtype=float) > 0),
    }
    return collect_jobs(columns, submitted, path, left_out)


def _runs(path: str | os.PathLike[str], table: pd.DataFrame) -> pd.DataFrame:
    """Return, by job, what its attempts with times come to; NaN for jobs without any.

    Columns are the `start` of the first, the `seconds` of all, the `least` seconds of one, and the
    `gpus` and `workers` of the last.
    """
    attempts = table.attempts.explode().dropna()
    ran = pd.DataFrame(
        attempts.tolist(), columns=["start", "end", "gpus", "workers"], index=attempts.index
    )
    names = table.name[ran.index]
    ran["start"] = _times(path, names, "start_time", ran.start)
    ran["end"] = _times(path, names, "end_time", ran.end)
    ran["seconds"] = (ran.end - ran.start).dt.total_seconds()
    by_job = ran[ran.seconds.notna()].groupby(level=0)
    found = by_job.agg(
        start=("start", "min"),
        seconds=("seconds", "sum"),
        least=("seconds", "min"),
        gpus=("gpus", "last"),
        workers=("workers", "last"),
    )
    return found.reindex(table.index)


def _entries(path: str | os.PathLike[str]) -> list[Any]:
    """Return the entries of the log."""
    try:
        with open_text(path) as file:
            found = json.load(file)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(
            f"it cannot be read ({getattr(error, 'strerror', None) or error})."
        ) from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"it is no readable JSON ({' '.join(str(error).split())}).") from error
    if not isinstance(found, list):
        raise ValueError(f"it is {shown(found)}; expected a list of jobs.")
    return found


def _job(
    index: int, entry: object
) -> tuple[str, object, str, str, list[tuple[object, object, int, int]]]:
    """Return name, submission, tenant, state and attempts of an entry, the first of which is 1."""
    if not isinstance(entry, dict):
        raise ValueError(f"entry {index} is {shown(entry)}; expected a job.")
    for key in KEYS:
        if key not in entry:
            named = f" (job {shown(entry['jobid'])})" if "jobid" in entry else ""
            raise ValueError(f"entry {index}{named}: {key} is missing.")
    name, status = entry["jobid"], entry["status"]
    if not isinstance(status, str) or status not in STATES:
        raise ValueError(
            f"job {shown(name)}: status is {shown(status)}; expected {', '.join(STATES)}."
        )
    tried = entry["attempts"] or []
    if not isinstance(tried, list):
        raise ValueError(f"job {shown(name)}: attempts is {shown(tried)}; expected a list.")
    attempts = [_attempt(str(name), attempt) for attempt in tried]
    return str(name), entry["submitted_time"], str(entry["vc"]), STATES[status], attempts


def _attempt(name: str, attempt: object) -> tuple[object, object, int, int]:
    """Return start, end, GPUs and machines of an attempt."""
    try:
        found = [(str(part["ip"]), part["gpus"]) for part in attempt["detail"]]  # type: ignore[index]
        if not all(isinstance(gpus, list) for _, gpus in found):
            raise TypeError("expected lists")
        held = sum(len(gpus) for _, gpus in found)
        return attempt["start_time"], attempt["end_time"], held, len(dict(found))  # type: ignore[index]
    except (TypeError, KeyError) as error:
        raise ValueError(
            f"job '{name}': an attempt is {shown(attempt)}; expected start_time, end_time and "
            "detail, a list of ip and gpus."
        ) from error


def _times(
    path: str | os.PathLike[str], names: pd.Series, item: str, texts: pd.Series
) -> pd.Series:
    """Return times; those that are not known become NaT."""
    unknown = texts.isna() | texts.isin(["None", ""])
    found = pd.to_datetime(texts.where(~unknown), format=TIME_FORMAT, errors="coerce")
    for row in np.flatnonzero(found.isna() & ~unknown)[:1].tolist():
        raise ValueError(
            f"File '{path}': job '{names.iloc[row]}': {item} is {shown(str(texts.iloc[row]))}; "
            "expected a time, as 2017-10-07 01:11:39."
        )
    return found


def read_philly_cluster(path: str | os.PathLike[str]) -> Cluster:
    """Read Philly's machines, equal ones as a group, in the order in which they first come.

    Parameters
    ----------
    path
        The file `cluster_machine_list`, CSV.

    Raises
    ------
    ValueError
        If the file is unreadable, a cell is malformed or no machine has a GPU.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.traces import read_philly_cluster
    >>> _ = Path("cluster_machine_list").write_text(
    ...     "machineId,number of GPUs,single GPU mem\\nm1,8,24GB\\nm2,2,12GB\\nm3,8,24GB\\n"
    ... )
    >>> [(group.nodes, group.gpus) for group in read_philly_cluster("cluster_machine_list").groups]
    [(2, 8), (1, 2)]
    """
    count, memory = "number of GPUs", "single GPU mem"
    table = read_trace_columns(path, ["machineId", count, memory])
    gpus = table.numbers(count, most=1024, whole=True, required=True)
    kinds = Counter(zip(gpus.astype(int).tolist(), table.texts(memory), strict=True))
    return Cluster(
        tuple(NodeGroup(f"{each}g-{size}", nodes, each) for (each, size), nodes in kinds.items())
    )
