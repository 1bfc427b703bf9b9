"""Real jobs in the folder of a cluster (`cluster_folder.py`), as their scheduler finds them.

A job is present while its launcher holds the lock of its folder, until its agent reports it as
finished. It has two files: its submission and, once it ran, its state.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.files.job_state import read_job_state
from goodalloc.data.files.job_submission import read_job_submission
from goodalloc.experiments.agent.cluster_folder import JOBS, STATE, SUBMISSION
from goodalloc.experiments.live.gpu_types import models_by_type
from goodalloc.experiments.live.resource_requests import read_request
from goodalloc.experiments.support.folder_lock import is_locked
from goodalloc.models.goodput.batch_size import best_batch_size
from goodalloc.models.goodput.model import BatchLimits
from goodalloc.models.round.mode import Mode, resources
from goodalloc.solvers.policies.policy import ActiveJob

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from goodalloc.data.files.job_state import JobState
    from goodalloc.data.files.job_submission import JobSubmission
    from goodalloc.models.goodput.model import GoodputModel
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.mode import Resources
    from goodalloc.solvers.policies.policy import Oracle

#: Name of the mode of a job on GPUs of a type without a name.
UNNAMED_TYPE = "replica"

#: Batch limits of a job that never ran, which allow one replica at first.
_UNKNOWN = BatchLimits(1, 1, 1, 1)


class LiveJob(NamedTuple):
    """Present job: its submission, its state once it ran, and what a replica takes beside a GPU."""

    submission: JobSubmission
    state: JobState | None
    request: Resources = ()

    @property
    def remaining_steps(self) -> float:
        """Predicted steps to the end at M0; without a prediction, as many as it has made."""
        made = 0.0 if self.state is None else self.state.scale_invariant_steps
        steps = self.submission.steps
        return max(made if steps is None else steps - made, 1.0)

    def takes(self, cluster: Cluster, least: Resources = ()) -> Resources:
        """Return what a replica takes of the resources that the nodes have.

        Parameters
        ----------
        cluster
            The nodes.
        least
            What every replica takes at least.
        """
        asked = dict(self.request)
        asked |= {name: max(amount, asked.get(name, 0.0)) for name, amount in least}
        return resources({name: asked[name] for name in asked if name in cluster.resource_names})

    def active(
        self,
        now: float,
        placement: Placement,
        cluster: Cluster,
        speeds: Mapping[str, float] = MappingProxyType({}),
        least: Resources = (),
    ) -> ActiveJob:
        """Return the job as a policy sees it.

        It has a mode for every type of GPU, if types have names or nodes have resources. The mode
        takes what the job requests of the resources that the nodes have.

        Parameters
        ----------
        now
            Time in seconds since 1970.
        placement
            Its present (node, GPUs) pairs.
        cluster
            The nodes.
        speeds
            Relative speeds of types of GPU (`relative_speeds`).
        least
            What every replica takes at least.
        """
        submission, state = self.submission, self.state
        batch = _UNKNOWN if state is None else state.batch
        named = any(cluster.gpu_types)
        models: dict[str, GoodputModel] = {}
        if named:
            models = models_by_type(state, cluster.gpu_types, speeds)
        elif state is not None and state.model is not None:
            models = {"": state.model}
        mode = cluster.node_types[placement[0][0]] if named and placement else ""
        takes = self.takes(cluster, least)
        modes = tuple(
            Mode(kind or UNNAMED_TYPE, models.get(kind), kind, takes)
            for kind in cluster.gpu_types
            if named or takes
        )
        own = models.get(mode) or next(iter(models.values()), None)
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
            model=lambda: own,
            oracle=FittedSpeed(submission.name, models, own, self.remaining_steps),
            modes=lambda: modes,
            mode=UNNAMED_TYPE if takes and placement and not named else mode,
        )


class FittedSpeed(NamedTuple):
    """Oracle of a real job: predictions from what its agent fitted and its user told.

    Attributes
    ----------
    job
        Name of the job.
    models
        Goodput models by type of GPU; empty before its first fit.
    own
        The model on the type that it runs on; None before the first fit.
    remaining
        Predicted steps to its end, in progress of steps at M0.
    """

    job: str
    models: Mapping[str, GoodputModel] = MappingProxyType({})
    own: GoodputModel | None = None
    remaining: float = 1.0

    def remaining_steps(self) -> float:
        """Return the predicted steps to the end."""
        return self.remaining

    def seconds_per_step(self, replicas: int, gpus_per_node: int, gpu_type: str = "") -> float:
        """Return M0 over the best predicted goodput; infinite where no batch can be shared.

        Before the first fit a step takes a second on one GPU of any type, and replicas cost
        nothing.
        """
        model = self.models.get(gpu_type, self.own)
        if model is None:
            return 1.0 / replicas
        if replicas * model.batch.atomic_minimum > model.batch.maximum:
            return math.inf
        best = float(best_batch_size(model, -(-replicas // gpus_per_node), replicas).goodput)
        return float(model.batch.initial) / best

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
    for folder in _folders(cluster):
        if not is_locked(folder):
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


def every_job(cluster: Path) -> Iterator[LiveJob]:
    """Generate all jobs of a cluster, present or gone, but for those with a malformed file.

    Parameters
    ----------
    cluster
        Folder of the cluster.
    """
    for folder in _folders(cluster):
        try:
            job = _read(folder)
        except ValueError:  # reported while the job was present
            continue
        if job is not None:
            yield job


def _folders(cluster: Path) -> list[Path]:
    """Return the folders of all jobs, in the order of their names."""
    jobs = cluster / JOBS
    return [one for one in sorted(jobs.iterdir()) if one.is_dir()] if jobs.is_dir() else []


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
    return LiveJob(submission, state, read_request(folder))


def too_large(found: LiveJobs, cluster: Cluster) -> list[str]:
    """Return a sentence for every job that waits until there are other nodes.

    Parameters
    ----------
    found
        The jobs.
    cluster
        The nodes.
    """
    sentences = list[str]()
    amounts = dict(zip(cluster.resource_names, cluster.node_resources.max(axis=0), strict=True))
    for job in found.jobs:
        name, wanted = job.submission.name, job.submission.replicas
        for resource, amount in job.request:
            if amount > amounts.get(resource, math.inf):
                sentences.append(
                    f"Job '{name}' requests {amount:g} of {resource} a replica, and no node has "
                    f"more than {amounts[resource]:g}: it waits."
                )
        if wanted > cluster.num_gpus:
            sentences.append(
                f"Job '{name}' requests {wanted} replicas, and there are {cluster.num_gpus} GPUs: "
                "where the policy keeps to requests, it waits, and jobs behind it may."
            )
    return sentences


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
