"""Goodput of real jobs on types of GPU that they never ran on.

A job measures on the type of its GPUs. On another type its throughput is scaled, as in Sia's
bootstrap (`models/goodput/bootstrapped_goodput.py`), by the relative speed of the types. Sia
profiles every job on one GPU of each type beforehand. Here no job is profiled: relative speeds
come from all jobs of the cluster, present and finished, of which some ran on several types, or
trained the same application on different ones. Types that no job connects count as equally fast.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.goodput.bootstrapped_goodput import best_on_one_gpu, bootstrap
from goodalloc.models.goodput.model import GoodputModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from goodalloc.data.files.job_state import JobState
    from goodalloc.experiments.live.jobs import LiveJob


def relative_speeds(jobs: Iterable[LiveJob]) -> dict[str, float]:
    """Return the relative speed of every type of GPU that a job has measured.

    With r the fitted examples per second on one GPU, the logarithms s of the speeds are the
    least-squares solution of :math:`s_t - s_u = \\log r_t - \\log r_u`, one equation for every pair
    of measurements of one application on different types.

    Parameters
    ----------
    jobs
        Present and finished jobs.

    Returns
    -------
    dict
        Speeds by type. Only ratios of types that some job connects have a meaning.
    """
    groups: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for job in jobs:
        submission, state = job.submission, job.state
        if state is not None:
            key = (submission.application, "" if submission.application else submission.name)
            for name, fit in state.fits.items():
                groups[key].append((name, math.log(best_on_one_gpu(fit, state.batch))))
    types = sorted({name for found in groups.values() for name, _ in found})
    index = {name: column for column, name in enumerate(types)}
    rows, differences = [], []
    for found in groups.values():
        for (one, rate), (other, other_rate) in combinations(found, 2):
            if one != other:
                row = np.zeros(len(types))
                row[index[one]], row[index[other]] = 1.0, -1.0
                rows.append(row)
                differences.append(rate - other_rate)
    if not rows:
        return dict.fromkeys(types, 1.0)
    logarithms, *_ = np.linalg.lstsq(np.array(rows), np.array(differences), rcond=None)
    return {name: math.exp(logarithms[column]) for name, column in index.items()}


def models_by_type(
    state: JobState | None, types: Sequence[str], speeds: Mapping[str, float]
) -> dict[str, GoodputModel]:
    """Return the goodput model of a job on every type of GPU; empty before its first fit.

    Parameters
    ----------
    state
        State of the job; None if it never ran.
    types
        Types of GPU of the cluster.
    speeds
        Relative speeds of types (`relative_speeds`); 1 for types that it lacks.
    """
    if state is None or state.gradient is None or not (fits := state.fits):
        return {}
    first, fit = next(iter(fits.items()))
    rate = best_on_one_gpu(fit, state.batch) / speeds.get(first, 1.0)
    rates = {name: rate * speeds.get(name, 1.0) for name in (*fits, *types)}
    predicted = bootstrap(fits, rates)
    return {name: GoodputModel(predicted[name], state.gradient, state.batch) for name in types}
