"""SenseTime's Helios, 2020, and Shanghai AI Lab's Acme, 2023: job logs of schedulers, as CSV.

Published with Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale
GPU Datacenters" (SC'21; `cluster_log.csv` of Earth, Saturn, Uranus and Venus) and "Characterization
of Large Language Model Development in the Datacenter" (NSDI'24; `trace_seren.csv` and
`trace_kalos.csv`). Nodes of both have eight GPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.traces.trace import JobState, collect_jobs, unusable_jobs
from goodalloc.data.traces.trace_columns import (
    LATEST,
    MOST_CORES,
    MOST_GPUS,
    MOST_WORKERS,
    read_trace_columns,
)
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.support.validation import did_you_mean, require_count

if TYPE_CHECKING:
    import os

    from goodalloc.data.traces.trace import Trace

COLUMNS = (
    "job_id",
    "gpu_num",
    "cpu_num",
    "node_num",
    "state",
    "submit_time",
    "duration",
    "queue",
)
STATES = {
    "COMPLETED": JobState.COMPLETED,
    "CANCELLED": JobState.CANCELLED,
    "FAILED": JobState.FAILED,
    "TIMEOUT": JobState.FAILED,
    "NODE_FAIL": JobState.FAILED,
}


def read_helios_jobs(path: str | os.PathLike[str]) -> Trace:
    """Read the GPU jobs of one of Helios's clusters; tenants are its virtual clusters.

    Parameters
    ----------
    path
        The file `cluster_log.csv` of a cluster.

    Raises
    ------
    ValueError
        If the file is unreadable, lacks a column or has a malformed cell.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.traces import read_helios_jobs
    >>> _ = Path("cluster_log.csv").write_text(
    ...     "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,duration,queue\\n"
    ...     "1,u1,vcA,1,4,1,COMPLETED,2020-06-09 18:41:01,36848,0\\n"
    ...     "2,u1,vcA,0,64,1,FAILED,2020-06-09 18:41:27,249,0\\n"
    ... )
    >>> trace = read_helios_jobs("cluster_log.csv")
    >>> len(trace), trace.left_out
    (1, {'have no GPU': 1})
    """
    return _read(path, tenant="vc")


def read_acme_jobs(path: str | os.PathLike[str]) -> Trace:
    """Read the GPU jobs of one of Acme's clusters; kinds are its workload types.

    Parameters
    ----------
    path
        The file `trace_seren.csv` or `trace_kalos.csv`.

    Raises
    ------
    ValueError
        If the file is unreadable, lacks a column or has a malformed cell.
    """
    return _read(path, tenant="user", kind="type")


def _read(path: str | os.PathLike[str], tenant: str, kind: str = "") -> Trace:
    """Read a log."""
    table = read_trace_columns(path, [*COLUMNS, tenant, *([kind] if kind else [])])
    seconds = table.numbers("duration", least=-np.inf, most=LATEST)
    gpus = table.numbers("gpu_num", most=MOST_GPUS)
    state, submitted = table.mapped("state", STATES), table.times("submit_time")
    workers = np.nan_to_num(table.numbers("node_num", most=MOST_WORKERS), nan=1.0)
    columns = {
        "name": table.texts("job_id"),
        "waited": np.maximum(table.numbers("queue", least=-np.inf, most=LATEST), 0.0),
        "seconds": seconds,
        "gpus": gpus,
        "workers": np.maximum(workers, 1.0).astype(np.int64),
        "cores": table.numbers("cpu_num", most=MOST_CORES),
        "tenant": table.texts(tenant),
        "kind": table.texts(kind) if kind else "",
        "state": state,
    }
    left_out = unusable_jobs(gpus, submitted, seconds)
    left_out["have another state"] = (state == "").to_numpy()
    return collect_jobs(columns, submitted, path, left_out)


def read_helios_cluster(
    path: str | os.PathLike[str], date: str, tenant: str = "total", gpus_per_node: int = 8
) -> Cluster:
    """Read the size of one of Helios's clusters, or of a virtual cluster, on a day.

    Parameters
    ----------
    path
        The file `cluster_gpu_number.csv` of the cluster.
    date
        The day, as ``2020-09-01``.
    tenant
        A virtual cluster, or ``total``.
    gpus_per_node
        GPUs of a node; a rest makes a smaller one.

    Raises
    ------
    ValueError
        If the file is unreadable or lacks the day or the virtual cluster, or that has no GPU.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.traces import read_helios_cluster
    >>> _ = Path("cluster_gpu_number.csv").write_text("date,vcA,total\\n2020-09-01,64,1144\\n")
    >>> read_helios_cluster("cluster_gpu_number.csv", "2020-09-01").num_nodes
    143
    """
    require_count("Cluster: GPUs of a node", gpus_per_node, minimum=1)
    table = read_trace_columns(path, ["date", tenant])
    dates = table.texts("date").tolist()
    if not dates:
        raise ValueError(f"File '{path}' has no rows; expected one for every day.")
    if date not in dates:
        raise ValueError(
            f"File '{path}': date '{date}' is not there{did_you_mean(date, dates)}; expected one "
            f"from {min(dates)} to {max(dates)}."
        )
    gpus = int(np.nan_to_num(table.numbers(tenant, most=MOST_GPUS, whole=True))[dates.index(date)])
    if not gpus:
        raise ValueError(f"File '{path}': '{tenant}' has no GPU on {date}; expected some.")
    full, rest = divmod(gpus, gpus_per_node)
    groups = [NodeGroup("node", full, gpus_per_node)] if full else []
    return Cluster((*groups, NodeGroup("rest", 1, rest)) if rest else tuple(groups))
