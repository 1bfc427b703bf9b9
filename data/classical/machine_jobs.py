"""Seeded jobs that arrive at processors and GPUs, each with its own speedup on a GPU.

A job's seconds on a GPU are log-normal, on a processor 1 to 30 times as many, log-uniformly, and it
is of one of ten users (a documented reading: AlloX's workloads are not published).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import brentq

from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Floats, Indices

#: Numbers of processors and GPUs, and of users.
MACHINES = (20, 10)
USERS = 10

#: Seconds on a GPU: median, and standard deviation of the logarithm; most seconds on a processor.
MEDIAN, SPREAD, MOST_SPEEDUP = 600.0, 1.5, 30.0


class Arrivals(NamedTuple):
    """Jobs in order of arrival.

    Attributes
    ----------
    time
        Arrival times in seconds, ascending, shape (jobs,).
    times
        Seconds on every type of machine, shape (jobs, types).
    user
        User of each job, from 0, shape (jobs,).
    """

    time: Floats
    times: Floats
    user: Indices


def most_jobs_a_second() -> float:
    """Return the arrival rate of load 1, the greatest that the machines can sustain.

    Jobs of a speedup below *s* go to processors, the others to GPUs, so that both are just busy:
    with *S* log-uniform up to *b* and *X* the seconds on a GPU, the rate is that of GPUs,
    ``n_gpu / (E[X] (1 - ln s / ln b))``, and that of processors, ``n_cpu ln b / (E[X] (s - 1))``.
    """
    processors, gpus = MACHINES
    width, mean = np.log(MOST_SPEEDUP), MEDIAN * np.exp(SPREAD**2 / 2)

    def rates(speedup: float) -> tuple[float, float]:
        return (
            float(gpus / (mean * (1.0 - np.log(speedup) / width))),
            float(processors * width / (mean * (speedup - 1.0))),
        )

    found = brentq(
        lambda s: rates(s)[0] - rates(s)[1], 1.0 + 1e-9, MOST_SPEEDUP * (1.0 - 1e-9), xtol=1e-12
    )
    return rates(float(found))[0]


def draw_arrivals(seed: int, jobs: int, load: float) -> Arrivals:
    """Draw jobs with random arrivals; all arrive at once if `load` is infinite.

    Raises
    ------
    ValueError
        If there is no job, or the load is not above 0.

    Examples
    --------
    >>> from goodalloc.data.classical import draw_arrivals
    >>> arrivals = draw_arrivals(0, jobs=5, load=1.0)
    >>> arrivals.times.shape, bool((arrivals.times[:, 0] >= arrivals.times[:, 1]).all())
    ((5, 2), True)
    """
    require_count("Arrivals: jobs", jobs, minimum=1)
    require_number("Arrivals: load", load, minimum=0.0, finite=False, strict=True)
    random = np.random.default_rng([seed, jobs])
    gpu = MEDIAN * random.lognormal(0.0, SPREAD, jobs)
    processor = gpu * np.exp(random.uniform(0.0, np.log(MOST_SPEEDUP), jobs))
    gaps = random.exponential(1.0, jobs) / (load * most_jobs_a_second())
    user = random.integers(0, USERS, jobs)
    return Arrivals(np.cumsum(gaps), np.column_stack([processor, gpu]), user)
