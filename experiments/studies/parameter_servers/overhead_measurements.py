"""Measurements of restarts and profiling of jobs with parameter servers (see `overheads.py`)."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.parameter_servers.training import PsTraining
from goodalloc.experiments.studies.parameter_servers.training_job import (
    StartSeconds,
    StepSeconds,
    TrainingJob,
)
from goodalloc.experiments.support.machine_description import machine
from goodalloc.models.parameter_servers.configuration import PsConfiguration
from goodalloc.models.parameter_servers.step_time import seconds_per_step
from goodalloc.models.parameter_servers.step_time_fitting import design_points, fit_step_time
from goodalloc.models.parameter_servers.step_time_form import StepTimeForm

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.support.array_types import Indices


#: Form of synchronous training: one update by the mean gradient, workers with a core and no GPU.
FORM = StepTimeForm(update_load="averaged", cpu_slowdown=1.0)

#: The stages of a start and the parts of a step.
STAGES = StartSeconds._fields[:-1]
PARTS = StepSeconds._fields[:-1]


class Extent(NamedTuple):
    """Extent of the measurements.

    Attributes
    ----------
    repetitions
        Number of repetitions.
    changes
        Servers and workers of consecutive configurations; the job begins on the last.
    restart_batch
        Examples of a step during the restarts.
    most
        Most profiled servers and workers.
    batch_sizes
        Profiled batch sizes.
    fitted, held_out
        Numbers of fitted and of held-out configurations.
    warm_up, steps
        Steps before a measurement, and of it.
    """

    repetitions: int = 3
    changes: tuple[tuple[int, int], ...] = ((1, 2), (2, 2), (3, 3), (1, 1))
    restart_batch: int = 64
    most: int = 4
    batch_sizes: tuple[int, ...] = (64, 256)
    fitted: int = 10
    held_out: int = 6
    warm_up: int = 5
    steps: int = 20


FULL = Extent()
QUICK = Extent(
    repetitions=1, changes=((1, 2), (1, 1)), most=2, fitted=6, held_out=2, warm_up=2, steps=5
)


class OverheadRow(NamedTuple):
    """Measurements of a configuration that was started and trained.

    Columns from `old_servers` to `checkpoint_s` are None for profiled configurations, the last two
    for restarts.

    Attributes
    ----------
    repetition
        Number of the repetition.
    kind
        "restart", "fitted" or "held out".
    processes_per_core
        Servers and workers over cores of the machine.
    interpreters_s, imports_s, connection_s, state_s
        Stages of the start; see `StartSeconds`.
    start_processor_s, step_processor_s
        Processor time of all processes in the start, and in a step.
    step_s, step_25th_s, step_75th_s
        Median and quartiles of the step time.
    forward_s, backward_s, push_s, update_s, pull_s
        Medians of the parts of a step; see `StepSeconds`.
    old_servers, old_workers
        Configuration before a restart.
    checkpoint_s, stop_s
        Writing of the checkpoint, and end of the old processes.
    cost_s
        Seconds of the whole restart, or of profiling the configuration.
    predicted_s, error_percent
        Step time by the fit, and its relative error.
    """

    repetition: int
    kind: str
    network: str
    servers: int
    workers: int
    batch_size: int
    cores: int
    torch: str
    processes_per_core: float
    interpreters_s: float
    imports_s: float
    connection_s: float
    state_s: float
    start_processor_s: float
    first_step_s: float
    step_s: float
    step_25th_s: float
    step_75th_s: float
    forward_s: float
    backward_s: float
    push_s: float
    update_s: float
    pull_s: float
    step_processor_s: float
    old_servers: int | None = None
    old_workers: int | None = None
    checkpoint_s: float | None = None
    stop_s: float = math.nan
    cost_s: float = math.nan
    predicted_s: float | None = None
    error_percent: float | None = None


def _measured(
    job: TrainingJob, training: PsTraining, first: float, steps: StepSeconds
) -> dict[str, Any]:
    """Return the columns that restarts and profiled configurations share."""
    servers, workers = training.servers, training.workers
    here = machine()
    low, middle, high = np.percentile(steps.total, (25, 50, 75))
    start, parts = training.start._asdict(), steps._asdict()
    return {
        "network": job.network,
        "servers": servers,
        "workers": workers,
        "batch_size": job.batch_size,
        **here,
        "processes_per_core": rounded((servers + workers) / here["cores"]),
        **{f"{stage}_s": rounded(start[stage]) for stage in STAGES},
        "start_processor_s": rounded(training.start.processor),
        "first_step_s": rounded(first),
        "step_s": rounded(middle),
        "step_25th_s": rounded(low),
        "step_75th_s": rounded(high),
        **{f"{part}_s": rounded(float(np.median(parts[part]))) for part in PARTS},
        "step_processor_s": rounded(steps.processor),
    }


def measure_restarts(
    network: str, extent: Extent, repetition: int, folder: Path, report: Report
) -> list[OverheadRow]:
    """Return a row for every change of configuration.

    Parameters
    ----------
    network
        One of `NETWORKS`.
    extent
        Changes, batch size and steps.
    repetition
        Number of the repetition.
    folder
        Folder of the checkpoints.
    report
        Called with the fraction that is done.
    """
    job = TrainingJob(network, extent.restart_batch)
    rows: list[OverheadRow] = []
    training = PsTraining(job, *extent.changes[-1])
    try:
        training.train(extent.warm_up)
        for before, after in zip(
            extent.changes[-1:] + extent.changes, extent.changes, strict=False
        ):
            clock = [time.perf_counter()]
            training.save(folder)
            clock.append(time.perf_counter())
            training.stop()
            clock.append(time.perf_counter())
            training = PsTraining(job, *after, folder)
            clock.append(time.perf_counter())
            training.train(1)
            clock.append(time.perf_counter())
            checkpoint, stop, _, first = np.diff(clock)
            training.train(extent.warm_up)
            rows.append(
                OverheadRow(
                    repetition,
                    "restart",
                    **_measured(job, training, first, training.train(extent.steps)),
                    old_servers=before[0],
                    old_workers=before[1],
                    checkpoint_s=rounded(checkpoint),
                    stop_s=rounded(stop),
                    cost_s=rounded(clock[-1] - clock[0]),
                )
            )
            report(len(rows) / len(extent.changes))
    finally:
        training.kill()
    return rows


class Candidates(NamedTuple):
    """Configurations and batch sizes that can be profiled, each of shape (candidates,)."""

    configuration: PsConfiguration
    batch_size: Indices

    @classmethod
    def of(cls, extent: Extent) -> Candidates:
        """Return all combinations of numbers of servers, of workers, and batch sizes."""
        counts = np.arange(1, extent.most + 1)
        servers, workers, sizes = (
            axis.ravel() for axis in np.meshgrid(counts, counts, extent.batch_sizes, indexing="ij")
        )
        return cls(PsConfiguration(servers, workers, worker_gpus=np.zeros(len(sizes))), sizes)

    def take(self, indices: Indices) -> Candidates:
        """Return the candidates of these indices."""
        return Candidates(self.configuration.take(indices), self.batch_size[indices])


def choose_configurations(extent: Extent, seed: int) -> tuple[Indices, Indices]:
    """Choose the fitted candidates by design, and held-out ones at random."""
    every = Candidates.of(extent)
    fitted = design_points(FORM, every.configuration, every.batch_size, extent.fitted)
    rest = np.setdiff1d(np.arange(len(every.batch_size)), fitted)
    return fitted, np.random.default_rng(seed).choice(rest, extent.held_out, replace=False)


def measure_profiling(
    network: str, extent: Extent, repetition: int, report: Report
) -> list[OverheadRow]:
    """Return a row for every fitted or held-out configuration, with its predicted step time.

    Parameters
    ----------
    network
        One of `NETWORKS`.
    extent
        Configurations and steps.
    repetition
        Number of the repetition, the seed of the held-out configurations.
    report
        Called with the fraction that is done.
    """
    fitted, held_out = choose_configurations(extent, repetition)
    rows: list[OverheadRow] = []
    order = np.concatenate([fitted, held_out])
    chosen = Candidates.of(extent).take(order)
    for servers, workers, batch_size in zip(
        *map(np.asarray, chosen.configuration[:2]), chosen.batch_size, strict=True
    ):
        job = TrainingJob(network, int(batch_size))
        begin = time.perf_counter()
        with PsTraining(job, int(servers), int(workers)) as training:
            started = time.perf_counter()
            training.train(1)
            first = time.perf_counter() - started
            training.train(extent.warm_up)
            steps = training.train(extent.steps)
            clock = time.perf_counter()
            training.stop()
        end = time.perf_counter()
        kind = "fitted" if len(rows) < len(fitted) else "held out"
        rows.append(
            OverheadRow(
                repetition,
                kind,
                **_measured(job, training, first, steps),
                stop_s=rounded(end - clock),
                cost_s=rounded(end - begin),
            )
        )
        report(len(rows) / len(order))
    return with_predictions(rows)


def with_predictions(rows: list[OverheadRow]) -> list[OverheadRow]:
    """Return the rows with the fitted step times and their errors.

    Raises
    ------
    ValueError
        If `fit_step_time` refuses the rows of the kind "fitted", for instance as too few.
    """

    def columns(some: list[OverheadRow]) -> tuple[PsConfiguration, NDArray[np.int64]]:
        servers, workers = (
            np.array([row.servers for row in some]),
            np.array([row.workers for row in some]),
        )
        sizes = np.array([row.batch_size for row in some])
        return PsConfiguration(servers, workers, worker_gpus=np.zeros(len(some))), sizes

    known = [row for row in rows if row.kind == "fitted"]
    fit = fit_step_time(FORM, *columns(known), np.array([row.step_s for row in known]))
    return [
        row._replace(
            predicted_s=rounded(float(seconds)),
            error_percent=rounded(100.0 * (float(seconds) / row.step_s - 1.0)),
        )
        for row, seconds in zip(rows, seconds_per_step(fit.parameters, *columns(rows)), strict=True)
    ]
