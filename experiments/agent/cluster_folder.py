"""Folder through which a scheduler and its jobs communicate; its files survive both.

::

    CLUSTER/allocation.json     decision of the scheduler (`goodalloc-allocation`)
    CLUSTER/decisions.jsonl     all decisions, one per line
    CLUSTER/gpus/HOST-NAME/     a GPU, locked by the job that has it
    CLUSTER/jobs/NAME/          folder of a job, locked by its launcher while that lives:
        submission.json         the job (`goodalloc-submission`), by the launcher
        request.json            what a replica takes beside its GPU, by the launcher
        state.json              its state (`goodalloc-job-state`), by its agent
        checkpoint.pt           its checkpoint, by its agent
        replicas.json           processes of the replicas, by the launcher
        replica-0.log           output of the first replica, and so on
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.files.job_submission import require_job_name

if TYPE_CHECKING:
    import os

#: Files and folders of a cluster.
ALLOCATION, DECISIONS, JOBS = "allocation.json", "decisions.jsonl", "jobs"

#: Files of a job's folder that its launcher writes.
SUBMISSION, REPLICAS = "submission.json", "replicas.json"

#: Environment variables of a replica, beside those of torchrun.
JOB_VARIABLE, CLUSTER_VARIABLE = "GOODALLOC_JOB", "GOODALLOC_CLUSTER"
LAUNCHER_VARIABLE = "GOODALLOC_LAUNCHER"

#: Environment variable with the type of a replica's GPU, where types are told apart.
TYPE_VARIABLE = "GOODALLOC_GPU_TYPE"


def job_folder(cluster: str | os.PathLike[str], name: str) -> Path:
    """Return the folder of the job `name`.

    Raises
    ------
    ValueError
        If `name` is not a valid name of a job.

    Examples
    --------
    >>> from goodalloc.experiments.agent import job_folder
    >>> job_folder("cluster", "digits").as_posix()
    'cluster/jobs/digits'
    """
    require_job_name(name)
    return Path(cluster) / JOBS / name


def allocation_file(cluster: str | os.PathLike[str]) -> Path:
    """Return the file of the decision of the scheduler.

    Examples
    --------
    >>> from goodalloc.experiments.agent import allocation_file
    >>> allocation_file("cluster").as_posix()
    'cluster/allocation.json'
    """
    return Path(cluster) / ALLOCATION


#: Files of a job's folder that its agent writes.
CHECKPOINT = "checkpoint.pt"
STATE = "state.json"
