"""Seeded workloads of large models like those of Arena's traces, by the shipped plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.plans.execution_plan import Configuration
from goodalloc.models.plans.plan_job import PlanJob
from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.plans.plan_times import PlanTimes

#: Weights of requests for 1, 2, 4, 8 and 16 GPUs, about as in the traces.
REQUESTS = {1: 0.05, 2: 0.15, 4: 0.4, 8: 0.3, 16: 0.1}

#: Median hours of a job as requested, and deviation of the logarithm.
MEDIAN_HOURS, DEVIATION = 2.5, 1.0


def draw_plan_jobs(
    seed: int,
    jobs: int,
    times: PlanTimes,
    node_gpus: Mapping[str, int],
    *,
    jobs_per_hour: float = 20.0,
) -> tuple[PlanJob, ...]:
    """Draw jobs: what they train evenly, arrivals at random, durations lognormal.

    Parameters
    ----------
    seed
        Seed.
    jobs
        Number of jobs.
    times
        Times by which a request is possible, and steps make up a duration.
    node_gpus
        GPUs of a node of each type.
    jobs_per_hour
        Mean number of arrivals.

    Raises
    ------
    ValueError
        If `jobs` or `jobs_per_hour` is not above 0.

    Examples
    --------
    >>> from goodalloc.data.plans import draw_plan_jobs, shipped_plan_times
    >>> jobs = draw_plan_jobs(0, 20, shipped_plan_times(), {"a100": 4, "a40": 2, "a10": 2})
    >>> len(jobs), jobs[0].submission
    (20, 0.0)
    """
    require_count("Workload: jobs", jobs, minimum=1)
    require_number("Workload: jobs_per_hour", jobs_per_hour, minimum=0.0, strict=True)
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(3600.0 / jobs_per_hour, jobs))
    drawn = []
    for index in range(jobs):
        training = times.trainings[int(random.integers(len(times.trainings)))]
        speeds = times.speeds(training, node_gpus)
        possible = [one for one in sorted(speeds) if one.gpus in REQUESTS]
        weights = np.array([REQUESTS[one.gpus] for one in possible])
        request = possible[int(random.choice(len(possible), p=weights / weights.sum()))]
        hours = MEDIAN_HOURS * float(np.exp(DEVIATION * random.standard_normal()))
        drawn.append(
            PlanJob(
                f"job-{index}",
                training,
                float(np.round(arrivals[index] - arrivals[0])),
                max(float(np.round(hours * 3600.0 * speeds[request])), 1.0),
                Configuration(*request),
            )
        )
    return tuple(drawn)
