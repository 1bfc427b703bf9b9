"""Agents of all jobs between rounds: their fits, their batch sizes, and what a scheduler is told.

Fits and choices are made in one call for all jobs that need it.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.replay.job_modes import fit_tables, predict_unmeasured
from goodalloc.experiments.replay.job_state import BatchBasis
from goodalloc.models.goodput.batch_size import best_batch_size
from goodalloc.models.goodput.speedup import stack_models
from goodalloc.solvers.policies.policy import ActiveJob

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from goodalloc.experiments.replay.replay_conditions import Setting
    from goodalloc.experiments.replay.simulated_job import SimulatedJob
    from goodalloc.models.goodput.model import GoodputModel
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.mode import Mode
    from goodalloc.solvers.policies.policy import Oracle


def fit_models(jobs: Iterable[SimulatedJob]) -> None:
    """Fit the throughput parameters of jobs with new measurements since their last fit."""
    stale = [
        (job, gpu_type, found)
        for job in jobs
        for gpu_type, found in job.measured.items()
        if len(found.times) > found.fitted
    ]
    fitted = fit_tables([found.times for _, _, found in stale])
    for (job, gpu_type, found), parameters in zip(stale, fitted, strict=True):
        found.parameters = parameters
        found.fitted = len(found.times)
        predict_unmeasured(found, job.application_on(gpu_type), job.experiences())


def choose_batch_sizes(jobs: Sequence[SimulatedJob]) -> None:
    """Set the batch size of every job to that of its best predicted goodput, by the published grid.

    Jobs are skipped whose predictions and GPUs are those of their last choice.
    """
    if not jobs:
        return
    fit_models(jobs)
    wanted = {
        job: BatchBasis(model, len(job.spread), job.replicas)
        for job in jobs
        if (model := job.batch_model())
    }
    changed = {job: choice for job, choice in wanted.items() if choice != job.chosen_for}
    if not changed:
        return
    models, nodes, replicas = zip(*changed.values(), strict=True)
    found = best_batch_size(
        stack_models(models), np.array(nodes), np.array(replicas), search="grid"
    )
    for job, atomic, steps in zip(changed, found.atomic, found.accumulation_steps, strict=True):
        job.set_batch(int(atomic), int(steps))
        job.chosen_for = changed[job]


def observed_jobs(
    active: Sequence[SimulatedJob],
    time: int,
    cluster: Cluster,
    oracles: Mapping[str, Oracle],
    setting: Setting,
) -> tuple[ActiveJob, ...]:
    """Return the active jobs as a scheduler sees them.

    Parameters
    ----------
    active
        The jobs.
    time
        Seconds since the start.
    cluster
        The nodes that are available now.
    oracles
        Oracles of the jobs, by name.
    setting
        Conditions of the replay.
    """

    def model_of(job: SimulatedJob) -> GoodputModel | None:
        fit_models(active)
        return job.model()

    def modes_of(job: SimulatedJob) -> tuple[Mode, ...]:
        fit_models(active)
        there = {*cluster.gpu_types, ""}
        return tuple(mode for mode in job.modes() if mode.gpu_type in there)

    if setting.oracle == "estimated":
        fit_models(active)
    noise = setting.noise
    running = {job.submission.name for job in active if job.placement}
    return tuple(
        ActiveJob(
            name=job.submission.name,
            application=job.submission.application,
            submission=job.submission.time,
            age=round((time - job.submission.time) * noise.factor(noise.age, job.submission.name)),
            placement=job.placement,
            restarts=job.restarts or 0,
            attained_service=job.attained_service,
            replicas=job.submission.replicas,
            batch_size=job.submission.batch_size,
            batch=job.batch,
            fixed_replicas=job.fixed_replicas,
            most_explored=job.most_explored,
            model=partial(model_of, job),
            oracle=oracles[job.submission.name],
            modes=tuple if job.equipment.plain else cache(partial(modes_of, job)),
            mode=job.mode,
            losses=job.losses,
            host=job.host if job.host in running else "",
            busy=job.busy,
            memory=job.memory,
            share=job.share,
            adaptive=job.batch_sizes in ("goodput", "throughput"),
        )
        for job in active
    )
