"""Alibaba's Platform for Artificial Intelligence, 2020: `pai_task_table` and `pai_job_table`.

Published with Weng et al., "MLaaS in the Wild" (NSDI'22): jobs of tasks, each of several instances,
that request parts of GPUs and of cores in per cent.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from goodalloc.data.traces.trace import JobState, collect_jobs
from goodalloc.data.traces.trace_columns import (
    LATEST,
    MOST_CORES,
    MOST_GPUS,
    MOST_WORKERS,
    read_trace_columns,
)

if TYPE_CHECKING:
    import os

    from goodalloc.data.traces.trace import Trace

TASKS = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)
JOBS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
STATES = {"Terminated": JobState.COMPLETED, "Failed": JobState.FAILED}
PER_CENT = 100.0

#: What joins the types of a job whose tasks have several.
JOINED = "|"


def read_pai_jobs(folder: str | os.PathLike[str]) -> Trace:
    """Read the GPU jobs of Alibaba's PAI.

    A job's workers are the instances of its tasks that request GPUs, its cores those of all tasks,
    its seconds those from the first start to the last end of a task. Times are seconds from an
    unknown day, so that the trace begins in 1970.

    Parameters
    ----------
    folder
        Folder that holds `pai_task_table.csv` and `pai_job_table.csv`, without a heading as
        published.

    Raises
    ------
    ValueError
        If a file is unreadable or has a malformed cell.
    """
    tasks_path, jobs_path = (Path(folder) / f"pai_{name}_table.csv" for name in ("task", "job"))
    tasks = _tasks_by_job(tasks_path)
    jobs = read_trace_columns(jobs_path, JOBS, heading=False)
    names = jobs.texts("job_name")
    strays = int((~tasks.index.isin(names)).sum())
    found = tasks.reindex(names)
    submitted = jobs.numbers("start_time", most=LATEST)
    seconds = (found.end - found.start).to_numpy()
    state = jobs.mapped("status", STATES)
    columns = {
        "name": names,
        "waited": np.maximum(found.start.to_numpy() - submitted, 0.0),
        "seconds": seconds,
        "gpus": found.gpus.to_numpy(),
        "workers": found.workers.fillna(0).to_numpy().astype(np.int64),
        "cores": found.cores.to_numpy(),
        "gpu_type": found.gpu_type.fillna("").to_numpy(),
        "tenant": jobs.texts("user"),
        "state": state,
    }
    left_out = {
        "have no GPU": ~(found.gpus.to_numpy() > 0),
        "did not end": (state == "").to_numpy(),
        "have no time of submission": np.isnan(submitted),
        "have a task without times": ~(found.ended.to_numpy() == found.tasks.to_numpy()),
        "ran for no second": ~(seconds > 0),
    }
    trace = collect_jobs(columns, pd.to_datetime(pd.Series(submitted), unit="s"), folder, left_out)
    more = {"are in the table of tasks only": strays} if strays else {}
    return replace(trace, left_out={**trace.left_out, **more})


def _tasks_by_job(path: Path) -> pd.DataFrame:
    """Return what the tasks of every job come to, by its name.

    Columns are `gpus`, `workers`, `cores` and `tasks`, their sums and number; the first `start` and
    the last `end`; `ended`, how many have an end; and `gpu_type`, NaN without GPUs.
    """
    tasks = read_trace_columns(path, TASKS, heading=False)
    instances = np.nan_to_num(tasks.numbers("inst_num", most=MOST_WORKERS))
    gpus = np.nan_to_num(tasks.numbers("plan_gpu", most=MOST_GPUS)) / PER_CENT
    cores = np.nan_to_num(tasks.numbers("plan_cpu", most=MOST_CORES)) / PER_CENT
    table = pd.DataFrame(
        {
            "job": tasks.texts("job_name"),
            "gpus": gpus * instances,
            "workers": np.where(gpus > 0, instances, 0.0),
            "cores": cores * instances,
            "start": tasks.numbers("start_time", most=LATEST),
            "end": tasks.numbers("end_time", most=LATEST),
            "gpu_type": tasks.texts("gpu_type").where(gpus > 0, ""),
        }
    )
    found = table.groupby("job", sort=False).agg(
        gpus=("gpus", "sum"),
        workers=("workers", "sum"),
        cores=("cores", "sum"),
        start=("start", "min"),
        end=("end", "max"),
        ended=("end", "count"),
        tasks=("gpus", "size"),
    )
    types = table[table.gpu_type != ""].drop_duplicates(["job", "gpu_type"])
    kinds = types.groupby("job").gpu_type.agg(lambda several: JOINED.join(sorted(several)))
    return found.join(kinds)
