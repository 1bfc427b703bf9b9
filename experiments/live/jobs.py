"""Real jobs in the folder of a cluster (`cluster_folder.py`), as their scheduler finds them.

A job is present while its launcher holds the lock of its folder, until its agent reports it as
finished. It has two files: its submission and, once it ran, its state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.files.job_state import read_job_state
from goodalloc.data.files.job_submission import read_job_submission
from goodalloc.experiments.agent.cluster_folder import JOBS, STATE, SUBMISSION
from goodalloc.experiments.support.folder_lock import is_locked
from goodalloc.models.goodput.model import BatchLimits
from goodalloc.solvers.policies.policy import ActiveJob

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from goodalloc.data.files.job_state import JobState
    from goodalloc.data.files.job_submission import JobSubmission
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.solvers.policies.policy import Oracle

#: Batch limits of a job that never ran, which allow one replica at first.
_UNKNOWN = BatchLimits(1, 1, 1, 1)


class LiveJob(NamedTuple):
    """Present job: its submission, and its state once it ran."""

    submission: JobSubmission
    state: JobState | None

    def active(self, now: float, placement: Placement) -> ActiveJob:
        """Return the job as a policy sees it.

        Parameters
        ----------
        now
            Time in seconds since 1970.
        placement
            Its present (node, GPUs) pairs.
        """
        submission, state = self
        batch = _UNKNOWN if state is None else state.batch
        return ActiveJob(
            name=submission.name,
            application="",
            submission=int(submission.submitted),
            age=max(
                int(now - submission.submitted), 1
            ),  # at 0 the restart penalty would leave no gain of a start
            placement=placement,
            restarts=0 if state is None else state.restarts,
            attained_service=0.0 if state is None else state.attained_service,
            replicas=submission.replicas,
            batch_size=int(batch.initial),
            batch=batch,
            fixed_replicas=None,
            most_explored=0 if state is None else state.most_replicas,
            model=lambda: None if state is None else state.model,
            oracle=NoOracle(submission.name),
        )


class NoOracle(NamedTuple):
    """Oracle of a real job, which refuses every question."""

    job: str

    def remaining_steps(self) -> float:
        """Raise an error, as the remaining steps of a real job are unknown.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(f"Job '{self.job}' is real: how many steps are left is not known.")

    def seconds_per_step(self, replicas: int, gpus_per_node: int, gpu_type: str = "") -> float:
        """Raise an error, as the true seconds of a step are unknown.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(f"Job '{self.job}' is real: its true seconds of a step are not known.")

    def beside(
        self, other: Oracle, replicas: int, gpus_per_node: int, gpu_type: str = ""
    ) -> tuple[float, float] | None:
        """Raise an error, as the rates beside other jobs are unknown.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(f"Job '{self.job}' is real: what it makes beside others is not known.")


class LiveJobs(NamedTuple):
    """Jobs that a scheduler finds.

    Attributes
    ----------
    jobs
        Present jobs in order of submission.
    unreadable
        Error messages of jobs with a malformed file, by name.
    """

    jobs: tuple[LiveJob, ...]
    unreadable: Mapping[str, str]

    @property
    def names(self) -> frozenset[str]:
        """Names of all jobs."""
        return frozenset({*self.unreadable, *(job.submission.name for job in self.jobs)})


def find_jobs(cluster: Path) -> LiveJobs:
    """Return the jobs that are present now.

    Parameters
    ----------
    cluster
        Folder of the cluster.
    """
    found: list[LiveJob] = []
    unreadable: dict[str, str] = {}
    folders = sorted((cluster / JOBS).iterdir()) if (cluster / JOBS).is_dir() else []
    for folder in folders:
        if not folder.is_dir() or not is_locked(folder):
            continue
        try:
            job = _read(folder)
        except ValueError as error:
            unreadable[folder.name] = str(error)
            continue
        if job is not None and not (job.state is not None and job.state.finished):
            found.append(job)
    found.sort(key=lambda job: (job.submission.submitted, job.submission.name))
    return LiveJobs(tuple(found), unreadable)


def _read(folder: Path) -> LiveJob | None:
    """Return the job of a folder; None if its launcher has not written a file yet."""
    if not (folder / SUBMISSION).exists():
        return None
    submission = read_job_submission(folder / SUBMISSION)
    state = read_job_state(folder / STATE) if (folder / STATE).exists() else None
    for file, found in ((SUBMISSION, submission), (STATE, state)):
        if found is not None and found.name != folder.name:
            raise ValueError(
                f"File '{folder / file}' is of job '{found.name}'; expected '{folder.name}'."
            )
    return LiveJob(submission, state)


def fitting(placements: Mapping[str, Mapping[str, int]], cluster: Cluster) -> dict[str, Placement]:
    """Return the placements, in their order, for which the cluster has room.

    Parameters
    ----------
    placements
        GPUs by name of node, by job.
    cluster
        The nodes.
    """
    free, index = cluster.node_gpus.tolist(), cluster.node_index
    found: dict[str, Placement] = {}
    for name, nodes in placements.items():
        if all(node in index and gpus <= free[index[node]] for node, gpus in nodes.items()):
            found[name] = tuple(sorted((index[node], gpus) for node, gpus in nodes.items()))
            for node, gpus in found[name]:
                free[node] -= gpus
    return found
