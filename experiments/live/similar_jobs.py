"""Predictions for real jobs from finished ones of the same cluster that are similar."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from goodalloc.experiments.live.jobs import every_job
from goodalloc.models.goodput.job_similarity import traits_of
from goodalloc.models.goodput.similar_jobs import Experience, foresee, measured_regimes

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.live.jobs import LiveJob, LiveJobs
    from goodalloc.models.goodput.job_similarity import Traits
    from goodalloc.models.goodput.similar_jobs import Regimes


def find_experiences(cluster: Path) -> tuple[Experience, ...]:
    """Return the experience with every finished job that published a fit; malformed ones are not.

    Parameters
    ----------
    cluster
        Folder of the cluster.
    """
    found = []
    for job in every_job(cluster):
        state, traits = job.state, _traits(job)
        if state is not None and state.finished and state.measured and traits is not None:
            assert state.throughput is not None
            most = max(replicas for _, replicas in state.measured)
            found.append(Experience(traits, state.throughput, _regimes(job), most))
    return tuple(found)


def with_predictions(found: LiveJobs, experiences: tuple[Experience, ...]) -> LiveJobs:
    """Return the present jobs with what finished ones tell where they have not measured.

    Parameters
    ----------
    found
        The present jobs; those that never ran stay as they are.
    experiences
        Finished jobs.
    """
    return found._replace(jobs=tuple(_predicted(job, experiences) for job in found.jobs))


def _predicted(job: LiveJob, experiences: tuple[Experience, ...]) -> LiveJob:
    state, traits = job.state, _traits(job)
    if state is None or state.throughput is None or traits is None or not experiences:
        return job
    foresight = foresee(state.throughput, _regimes(job), traits, experiences)
    most = max(state.most_replicas, foresight.reach)
    changed = replace(state, throughput=foresight.parameters, most_replicas=most)
    return job._replace(state=changed)


def _traits(job: LiveJob) -> Traits | None:
    """Return the traits of a job; None before its first fit."""
    state = job.state
    if state is None or state.throughput is None:
        return None
    return traits_of(state.batch, state.throughput, family=job.submission.application)


def _regimes(job: LiveJob) -> Regimes:
    assert job.state is not None
    return measured_regimes((nodes, replicas, 1) for nodes, replicas in job.state.measured)
