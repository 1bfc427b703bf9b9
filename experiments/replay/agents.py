"""Computations of the agents of all jobs between rounds, in one call for those that need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.replay.job_state import BatchBasis
from goodalloc.models.fitting.fit import ONLINE, fit_throughput
from goodalloc.models.fitting.problem import pad_observations
from goodalloc.models.goodput.batch_size import best_batch_size
from goodalloc.models.goodput.speedup import stack_models
from goodalloc.models.goodput.throughput_model import ThroughputParameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goodalloc.experiments.replay.simulated_job import SimulatedJob


def fit_models(jobs: Iterable[SimulatedJob]) -> None:
    """Fit the throughput parameters of jobs with new measurements since their last fit."""
    measured = (found for job in jobs for found in job.measured.values())
    stale = [found for found in measured if len(found.times) > found.fitted]
    if not stale:
        return
    tables = [
        np.array([(*configuration, *times) for configuration, times in found.times.items()])
        for found in stale
    ]
    fitted = fit_throughput(pad_observations(tables), ONLINE).parameters
    for found, parameters in zip(stale, zip(*map(np.asarray, fitted), strict=True), strict=True):
        found.parameters = ThroughputParameters(*map(float, parameters))
        found.fitted = len(found.times)


def choose_batch_sizes(jobs: Sequence[SimulatedJob]) -> None:
    """Set the batch size of every job to that of its best predicted goodput, by the published grid.

    Jobs are skipped whose predictions and GPUs are those of their last choice.
    """
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
