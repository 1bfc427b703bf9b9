"""The folder by which a scheduler and its jobs know each other; either may die, the files stay.

::

    CLUSTER/allocation.json     what the scheduler decided (`goodalloc-allocation`)
    CLUSTER/decisions.jsonl     every decision, a line each
    CLUSTER/jobs/NAME/          one folder a job, locked by its launcher as long as that lives:
        submission.json         who it is (`goodalloc-submission`), by the launcher
        state.json              how far it is (`goodalloc-job-state`), by its agent
        checkpoint.pt           likewise
        replicas.json           processes of the replicas, by the launcher
        replica-0.log           what the first replica said, and so on
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.files.job_submission import require_job_name

if TYPE_CHECKING:
    import os

ALLOCATION, DECISIONS, JOBS = "allocation.json", "decisions.jsonl", "jobs"

#: Files of a job's folder that its launcher writes; those of its agent are in `agent_options`.
SUBMISSION, REPLICAS = "submission.json", "replicas.json"

#: Variables of the environment of a replica, beside those of torchrun.
JOB_VARIABLE, CLUSTER_VARIABLE = "GOODALLOC_JOB", "GOODALLOC_CLUSTER"
LAUNCHER_VARIABLE = "GOODALLOC_LAUNCHER"


def job_folder(cluster: str | os.PathLike[str], name: str) -> Path:
    """The folder of a job.

    Raises
    ------
    ValueError
        If no job can have that name.
    """
    require_job_name(name)
    return Path(cluster) / JOBS / name


def allocation_file(cluster: str | os.PathLike[str]) -> Path:
    """The file of what the scheduler decided."""
    return Path(cluster) / ALLOCATION


#: Files of a job's folder.
CHECKPOINT = "checkpoint.pt"
STATE = "state.json"
