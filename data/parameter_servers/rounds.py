"""Seeded rounds of jobs with parameter servers on nodes with cores and GPUs.

Drawn are the model, from those that DL2 measured (`step_times.py`); the work that is left, so that
on the least configuration with GPUs it takes hours, log-normally; and by how much a CPU worker is
slower than a GPU, likewise. The nodes are those of Optimus's artifact, 16 cores and 2 GPUs
(EuroSys'18; github.com/pengyanghua/optimus, commit 8c43920).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.parameter_servers.step_times import (
    load_core_efficiency,
    load_step_time,
    step_time_names,
)
from goodalloc.models.parameter_servers.configuration import PsConfiguration
from goodalloc.models.parameter_servers.job import PsChoices, PsJob
from goodalloc.models.parameter_servers.step_time import seconds_per_step
from goodalloc.models.support.validation import require_count

if TYPE_CHECKING:
    from goodalloc.models.parameter_servers.step_time import PsStepTime
    from goodalloc.models.support.array_types import Floats


#: Cores and GPUs of a node, and nodes for every job.
NODE = (16.0, 2.0)
NODES_PER_JOB = 0.5

#: Hours on one server and one GPU worker of one core each: median, and the standard deviation of
#: the logarithm.
HOURS, SPREAD = 4.0, 1.2

#: How much slower a CPU worker with any number of cores is than a GPU: likewise.
CPU_SLOWDOWN, CPU_SPREAD = 6.0, 0.6

#: Up to 10 servers and 8 workers, 4 cores for each of them, with a GPU or without.
ANY_CHOICE = PsChoices()

#: Configuration to which the hours refer.
LEAST = PsConfiguration(1, 1, 1, 1, 1)


class PsRound(NamedTuple):
    """Jobs, and what every node has: cores and GPUs, shape (nodes, 2)."""

    jobs: tuple[PsJob, ...]
    nodes: Floats


def ps_round(
    seed: int, num_jobs: int, *, num_nodes: int | None = None, choices: PsChoices = ANY_CHOICE
) -> PsRound:
    """Draw a round in which all jobs wait.

    Parameters
    ----------
    seed
        Seed of all random numbers.
    num_jobs, num_nodes
        Numbers of jobs and nodes; by default half as many nodes as jobs, at least one.
    choices
        Choices of every job.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from goodalloc.data.parameter_servers import ps_round
    >>> len(ps_round(0, 6).jobs)
    6
    """
    require_count("Round: seed", seed, 0)
    require_count("Round: num_jobs", num_jobs, 1)
    if num_nodes is None:
        num_nodes = max(round(num_jobs * NODES_PER_JOB), 1)
    require_count("Round: num_nodes", num_nodes, 1)
    random = np.random.default_rng([seed, num_jobs])
    jobs = []
    for index in range(num_jobs):
        drawn = draw_training(random)
        jobs.append(PsJob(f"job{index}", drawn.steps, drawn.batch_size, drawn.step_time, choices))
    return PsRound(tuple(jobs), np.tile(NODE, (num_nodes, 1)))


class Training(NamedTuple):
    """Drawn training of a job.

    Attributes
    ----------
    model
        One of `step_time_names`.
    step_time, batch_size
        How long a step takes, and its examples.
    steps
        From its beginning to its end.
    """

    model: str
    step_time: PsStepTime
    batch_size: int
    steps: float


def draw_training(random: np.random.Generator, hours: float = HOURS) -> Training:
    """Draw what a job trains.

    Parameters
    ----------
    random
        Three numbers of it are taken.
    hours
        Median of the hours on `LEAST`.
    """
    names = step_time_names()
    profile = load_step_time(names[int(random.integers(len(names)))])
    hours = hours * float(np.exp(SPREAD * random.standard_normal()))
    slower = CPU_SLOWDOWN * float(np.exp(CPU_SPREAD * random.standard_normal()))
    form = replace(
        profile.parameters.form,
        cpu_slowdown=slower,
        worker_cores=load_core_efficiency("worker"),
        server_cores=load_core_efficiency("server"),
    )
    step_time = replace(profile.parameters, form=form)
    steps = hours * 3600.0 / float(seconds_per_step(step_time, LEAST, profile.batch_size))
    return Training(profile.name, step_time, profile.batch_size, max(float(np.ceil(steps)), 1.0))
