"""Alibaba's cluster with spot jobs, 2026: `job_info_df.csv` and `node_info_df.csv`.

Published with Duan et al., "GFS: A Preemptive Scheduling Framework for GPU Clusters with Predictive
Spot Management" (ASPLOS'26): gangs of high priority and spot jobs on 4,278 nodes of six types.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from goodalloc.data.traces.trace import collect_jobs, unusable_jobs
from goodalloc.data.traces.trace_columns import (
    LATEST,
    MOST_CORES,
    MOST_GPUS,
    MOST_WORKERS,
    read_trace_columns,
)
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.mode import resources

if TYPE_CHECKING:
    import os

    from goodalloc.data.traces.trace import Trace

JOBS = (
    "job_name",
    "organization",
    "gpu_model",
    "cpu_request",
    "gpu_request",
    "worker_num",
    "submit_time",
    "duration",
    "job_type",
)
NODES = ("gpu_model", "gpu_capacity_num", "cpu_num", "node_name")


def read_spot_jobs(path: str | os.PathLike[str]) -> Trace:
    """Read the GPU jobs of Alibaba's cluster with spot jobs.

    Requests of GPUs and cores are taken for those of a worker; kinds are `HP` and `Spot`. Times are
    seconds from the first submission, so that the trace begins in 1970.

    Parameters
    ----------
    path
        The file `job_info_df.csv`.

    Raises
    ------
    ValueError
        If the file is unreadable, lacks a column or has a malformed cell.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.traces import read_spot_jobs
    >>> _ = Path("job_info_df.csv").write_text(
    ...     "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,"
    ...     "duration,job_type\\n437260,57,A100-SXM4-80GB,15,1,16,9589663,41060,Spot\\n"
    ... )
    >>> read_spot_jobs("job_info_df.csv").table[["gpus", "workers", "cores"]].values.tolist()
    [[16.0, 16.0, 240.0]]
    """
    table = read_trace_columns(path, JOBS)
    workers = np.nan_to_num(table.numbers("worker_num", most=MOST_WORKERS), nan=1.0)
    gpus = table.numbers("gpu_request", most=MOST_GPUS) * workers
    seconds = table.numbers("duration", most=LATEST)
    submitted = pd.to_datetime(pd.Series(table.numbers("submit_time", most=LATEST)), unit="s")
    columns = {
        "name": table.texts("job_name"),
        "seconds": seconds,
        "gpus": gpus,
        "workers": workers.astype(np.int64),
        "cores": table.numbers("cpu_request", most=MOST_CORES) * workers,
        "gpu_type": table.texts("gpu_model"),
        "tenant": table.texts("organization"),
        "kind": table.texts("job_type"),
    }
    return collect_jobs(columns, submitted, path, unusable_jobs(gpus, submitted, seconds))


def read_spot_cluster(path: str | os.PathLike[str]) -> Cluster:
    """Read the nodes of Alibaba's cluster with spot jobs, with their cores; equal ones are a group.

    Parameters
    ----------
    path
        The file `node_info_df.csv`.

    Raises
    ------
    ValueError
        If the file is unreadable, lacks a column or has a malformed cell.
    """
    table = read_trace_columns(path, NODES)
    gpus = np.nan_to_num(table.numbers("gpu_capacity_num", most=1024)).astype(int).tolist()
    cores = np.nan_to_num(table.numbers("cpu_num")).tolist()
    kinds = Counter(zip(table.texts("gpu_model"), gpus, cores, strict=True))
    return Cluster(
        tuple(
            NodeGroup(
                f"{model}-{each}g-{cpu:.12g}c",
                nodes,
                each,
                model if each else "",
                resources({"cpu": cpu}),
            )
            for (model, each, cpu), nodes in kinds.items()
        )
    )
