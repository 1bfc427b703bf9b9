"""Requests of users of published traces, in the terms of jobs with parameter servers.

Microsoft's traces know of a job how many GPUs it takes: as many workers with a GPU are requested,
at most as many as a job may have, and as many servers, each with some cores. AITurbo's records have
servers, workers, cores and GPUs: the cores are dealt evenly to all pods, a job without servers gets
one, and workers have a GPU if the job asks for any, since the records do not say what a GPU of a
worker is. All that is more than a job may have is cut to that.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.parameter_servers.aiturbo_jobs import read_aiturbo_jobs
from goodalloc.data.parameter_servers.workload import CHOICES, PsRequest
from goodalloc.models.parameter_servers.configuration import PsConfiguration
from goodalloc.models.support.validation import require_share

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

#: Cores of each server and worker where a trace does not know them.
POD_CORES = 2

#: List of Philly's jobs of Chronus (SC'21), of which about two hundred ask for no GPU.
PHILLY = "trace_job_Philly_SLO.csv"

#: Lists of Microsoft's ten clusters of ElasticFlow (ASPLOS'23).
ITP = "raw/cluster{:02d}.csv"
CLUSTERS = 10


def requests_of_gpus(gpus: Iterable[int], pod_cores: int = POD_CORES) -> tuple[PsRequest, ...]:
    """Return the requests of jobs that take so many GPUs, by how often they occur.

    Parameters
    ----------
    gpus
        GPUs of every job, at least one.
    pod_cores
        Cores of each server and of each worker.

    Examples
    --------
    >>> from goodalloc.data.parameter_servers import requests_of_gpus
    >>> [(found.configuration.workers, found.weight) for found in requests_of_gpus([1, 1, 16])]
    [(1, 2), (8, 1)]
    """
    found = Counter(min(number, max(CHOICES.workers)) for number in gpus)
    return tuple(
        PsRequest(PsConfiguration(pods, pods, pod_cores, pod_cores, 1.0), found[pods])
        for pods in sorted(found)
    )


def requests_without_gpus(
    share: float, most_workers: int = 4, pod_cores: int = POD_CORES
) -> tuple[PsRequest, ...]:
    """Return even requests of which a share is for workers without a GPU.

    Parameters
    ----------
    share
        Of all requests.
    most_workers, pod_cores
        As of `PsWorkloadOptions`.

    Raises
    ------
    ValueError
        If `share` is not from 0 to 1.

    Examples
    --------
    >>> from goodalloc.data.parameter_servers import requests_without_gpus
    >>> [(one.configuration.worker_gpus, one.weight) for one in requests_without_gpus(0.25, 1)]
    [(0.0, 0.25), (1.0, 0.75)]
    """
    require_share("Requests: share", share)
    return tuple(
        PsRequest(PsConfiguration(pods, pods, pod_cores, pod_cores, gpus), weight)
        for pods in range(1, most_workers + 1)
        for gpus, weight in ((0.0, share), (1.0, 1.0 - share))
        if weight > 0
    )


def read_philly_requests(folder: str | os.PathLike[str]) -> tuple[PsRequest, ...]:
    """Read the requests of Philly's jobs that ask for GPUs.

    Raises
    ------
    ValueError
        If the file is unreadable, or a number is out of range.
    """
    gpus = read_table(Path(folder) / PHILLY, ("num_gpu",)).counts("num_gpu", 0)
    return requests_of_gpus(number for number in gpus if number)


def read_itp_requests(folder: str | os.PathLike[str]) -> tuple[PsRequest, ...]:
    """Read the requests of the jobs of all ten clusters.

    Raises
    ------
    ValueError
        If a file is unreadable, or a number is out of range.
    """
    gpus: list[int] = []
    for cluster in range(1, CLUSTERS + 1):
        table = read_table(Path(folder) / ITP.format(cluster), ("num_gpu",))
        gpus += table.counts("num_gpu")
    return requests_of_gpus(gpus)


def read_aiturbo_requests(folder: str | os.PathLike[str]) -> tuple[PsRequest, ...]:
    """Read the requests of AITurbo's records.

    Raises
    ------
    ValueError
        If the file is unreadable, or a number is out of range.
    """
    values = read_aiturbo_jobs(folder).columns(("ps", "worker", "cpu", "gpu"))
    servers = np.clip(values[:, 0], 1, max(CHOICES.servers))
    workers = np.clip(values[:, 1], 1, max(CHOICES.workers))
    cores = np.clip(np.rint(values[:, 2] / (servers + workers)), 1, max(CHOICES.worker_cores))
    rows = np.stack([servers, workers, cores, values[:, 3] > 0], axis=1).astype(int)
    found = Counter(map(tuple, rows.tolist()))
    return tuple(
        PsRequest(PsConfiguration(p, w, c, c, float(gpu)), found[p, w, c, gpu])
        for p, w, c, gpu in sorted(found)
    )
