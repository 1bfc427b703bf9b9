"""Tiny traces whose offline problem a mixed-integer program decides."""

from __future__ import annotations

import numpy as np

from goodalloc.models.hindsight.offline_problem import (
    OfflineJob,
    OfflineProblem,
    Supply,
    Training,
)

#: Seconds between the edges of the grid.
UNIT = 10.0


def tiny_trace(seed: int, *, types: int = 1) -> OfflineProblem:
    """Draw two or three jobs of one or two phases on one or two GPUs of each type."""
    random = np.random.default_rng([seed, types])
    gpus = {f"type {row}": float(random.integers(1, 3)) for row in range(types)}
    trainings = tuple(_training(random, f"kind {index}", types) for index in range(2))
    jobs = []
    for index in range(int(random.integers(2, 4))):
        begin = UNIT * float(random.integers(0, 3))
        release = max(begin - float(random.integers(0, 8)), 0.0)
        weight = float(random.choice([0.5, 1.0, 2.0]))
        kind = f"kind {random.integers(2)}"
        jobs.append(OfflineJob(f"job {index}", kind, release, begin, weight))
    return OfflineProblem(trainings, tuple(jobs), Supply.constant(gpus))


def gang_trace(seed: int, *, types: int = 1) -> OfflineProblem:
    """Draw two to four jobs that need a fixed number of GPUs, and whole units of time a phase.

    Whoever decides when a job begins or ends, or at an edge, does so at edges only, so that the
    time-indexed program has every such schedule. A training runs on one type or equally fast on
    all, so that changes of the type do not end it between edges either.
    """
    random = np.random.default_rng([seed, types, 1])
    gpus = {f"type {row}": float(random.integers(1, 4)) for row in range(types)}
    trainings = []
    for index in range(3):
        own = np.ones(types) if random.random() < 0.5 else np.eye(types)[random.integers(types)]
        fitting = min(number for number, runs in zip(gpus.values(), own, strict=True) if runs)
        work = np.array([UNIT * float(random.integers(1, 3)) for _ in range(random.integers(1, 3))])
        counts = np.array([float(random.integers(1, int(fitting) + 1))])
        rates = np.broadcast_to(own[:, None, None], (types, work.size, 1))
        trainings.append(Training(f"kind {index}", work, counts, rates))
    jobs = []
    for index in range(int(random.integers(2, 5))):
        begin = UNIT * float(random.integers(0, 3))
        weight, kind = float(random.choice([0.5, 1.0, 2.0])), f"kind {random.integers(3)}"
        jobs.append(OfflineJob(f"job {index}", kind, 0.5 * begin, begin, weight))
    return OfflineProblem(tuple(trainings), tuple(jobs), Supply.constant(gpus))


def _training(random: np.random.Generator, name: str, types: int) -> Training:
    """Draw rates that grow less than in proportion to the GPUs; a phase takes at most 15 s."""
    phases = int(random.integers(1, 3))
    gpus = np.array([1.0, 2.0])
    power = random.uniform(0.3, 1.0, (types, phases, 1))
    rates = random.uniform(0.5, 2.0, (types, phases, 1)) * gpus**power
    return Training(name, random.uniform(3.0, 15.0, phases) * rates[0, :, 0], gpus, rates)


def edges_of(problem: OfflineProblem) -> np.ndarray:
    """Return a grid that is long enough for all jobs one after the other."""
    longest = sum(
        float(np.ceil((training.work / training.rates[0, :, 0]).sum() / UNIT)) + 1
        for training in (problem.training(job.training) for job in problem.jobs)
    )
    last = max(job.begin for job in problem.jobs) / UNIT
    return UNIT * np.arange(last + longest + 1)


def whole_edges(problem: OfflineProblem) -> np.ndarray:
    """Return a grid for gangs that is long enough for all jobs one after the other."""
    units = sum(float(problem.training(job.training).work.sum()) for job in problem.jobs) / UNIT
    last = max(job.begin for job in problem.jobs) / UNIT
    return UNIT * np.arange(last + units + 2)
