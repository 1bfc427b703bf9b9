"""Problems of time shares, drawn, and their optimum by linear programming."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog

from goodalloc.models.gavel.share_goal import (
    Gain,
    Level,
    completion_time,
    finish_time,
    makespan,
    max_min,
    throughput,
)
from goodalloc.models.gavel.time_sharing import (
    TimeSharing,
    equal_rates,
    isolated_shares,
    rates,
)
from goodalloc.solvers.gavel.time_shares import (
    repaired,
)

if TYPE_CHECKING:
    from goodalloc.models.gavel.share_goal import Goal
    from goodalloc.models.support.array_types import Floats

ONE = TimeSharing(("a", "b"), [[2.0, 1.0], [3.0, 0.0]], [1, 1])


def drawn(seed: int, jobs: int, *, pairs: bool = False, crowded: int = 4) -> TimeSharing:
    """Jobs of several orders of magnitude on three types of GPU, some in gangs."""
    random = np.random.default_rng(seed)
    replicas = random.choice([1, 2, 4], jobs, p=[0.7, 0.2, 0.1])
    rate = np.exp(random.normal(0.0, 2.0, (jobs, 1))) * np.exp(random.normal(0.0, 0.7, (jobs, 3)))
    rate *= random.random((jobs, 3)) < 0.8
    rate[:, 0] = np.maximum(rate[:, 0], 1e-3)
    gpus = random.integers(4, max(jobs // crowded, 5), 3)
    if not pairs:
        return TimeSharing([f"job{i}" for i in range(jobs)], rate, gpus, replicas)
    chosen = [
        (one, two)
        for one in range(jobs)
        for two in range(one + 1, jobs)
        if replicas[one] == replicas[two] and random.random() < 0.5
    ]
    parts = random.uniform(0.3, 1.0, (len(chosen), 3, 2))
    shared = parts * np.stack([rate[list(pair)].T for pair in chosen]) if chosen else parts
    names = [f"job{i}" for i in range(jobs)]
    return TimeSharing(names, rate, gpus, replicas, chosen or None, shared if chosen else None)


def goals(sharing: TimeSharing, seed: int) -> dict[str, Goal]:
    """One of every kind."""
    random = np.random.default_rng(seed)
    jobs = sharing.num_jobs
    steps, elapsed = np.exp(random.normal(8.0, 2.0, jobs)), random.uniform(0.0, 1e4, jobs)
    alone = elapsed + steps / rates(sharing, isolated_shares(sharing))
    return {
        "max-min": max_min(sharing, random.uniform(0.5, 5.0, jobs)),
        "makespan": makespan(steps),
        "finish-time": finish_time(steps, elapsed, alone),
        "completion": completion_time(steps, elapsed),
        "throughput": throughput(sharing, equal_rates(sharing), [3.0, 2.0, 1.0]),
    }


def by_linprog(sharing: TimeSharing, goal: Level | Gain, promised: Floats | None = None) -> float:
    """The same program, row by row in natural units by another front door; minus inf if none."""
    lines, types = sharing.num_lines, sharing.num_types
    width = lines * types + 1
    rows, limits = [], []
    tau = np.zeros((sharing.num_jobs, width))
    for line, members in enumerate(sharing.members.tolist()):
        for place, job in enumerate(members):
            for kind in range(types):
                if job >= 0:
                    tau[job, line * types + kind] += sharing.line_rate[line, kind, place]
    for job in range(sharing.num_jobs):
        row = np.zeros(width)
        for line, members in enumerate(sharing.members.tolist()):
            row[line * types : (line + 1) * types] = float(job in members)
        rows.append(row)
        limits.append(1.0)
        if promised is not None:
            rows.append(-tau[job])
            limits.append(-promised[job])
        if isinstance(goal, Level) and goal.step[job] > 0:
            row = -tau[job] / goal.step[job]
            row[-1] = 1.0
            rows.append(row)
            limits.append(-goal.floor[job] / goal.step[job])
    for kind in range(types):
        row = np.zeros(width)
        row[kind : lines * types : types] = sharing.line_replicas
        rows.append(row)
        limits.append(float(sharing.gpus[kind]))
    worth = np.append(goal.worth.ravel(), 0.0) if isinstance(goal, Gain) else np.eye(width)[-1]
    found = linprog(
        -worth, np.array(rows), limits, bounds=[(0, None)] * (width - 1) + [(None, None)]
    )
    return float(-found.fun) if found.status == 0 else -math.inf


def random_shares(sharing: TimeSharing, random: np.random.Generator) -> Floats:
    """Feasible ones, some of them crowded."""
    shares = random.random((sharing.num_lines, sharing.num_types)) ** random.integers(1, 9)
    return repaired(sharing, shares * float(np.exp(random.normal(0.0, 2.0))))
