"""Seeded workloads like those of Pollux's evaluation, from shipped statistics.

Arrivals follow the published profile over eight hours (sampled from Microsoft's Philly trace), the
applications the published mix, and the requests those that were *tuned* by experts or the
*realistic* ones of the trace's users. Equal arguments give equal workloads, to the byte.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from goodalloc.data.documents.shipped import parse_document, read_shipped
from goodalloc.data.workloads.workload import Submission
from goodalloc.models.support.validation import require_choice, require_count, require_number

FORMAT, VERSION = "goodalloc-workload-statistics", 1

#: Where the statistics ship.
SHIPPED = "workload_statistics.json"

#: What users ask for: tuned to the job, or drawn as users were seen to ask.
Requests = Literal["tuned", "realistic"]

#: Jobs of a published workload, at load 1.
PUBLISHED_JOBS = 160

HOUR = 3600


@lru_cache(maxsize=1)
def statistics() -> Any:
    """Return counts over the published workloads (`data/derivation/fit_workloads.py`)."""
    return parse_document(read_shipped(SHIPPED), FORMAT, VERSION)


def jobs_at(load: float) -> int:
    """Return the number of jobs of a load, at least one.

    Examples
    --------
    >>> from goodalloc.data.workloads import jobs_at
    >>> jobs_at(0.5)
    80
    """
    return max(round(PUBLISHED_JOBS * load), 1)


def draw_workload(
    seed: int, *, load: float = 1.0, jobs: int | None = None, requests: Requests = "tuned"
) -> tuple[Submission, ...]:
    """Draw a workload.

    Parameters
    ----------
    seed
        Seed of all random numbers.
    load
        Jobs in multiples of the published 160, over the same eight hours.
    jobs
        Number of jobs, in place of the load.
    requests
        Kind of the requested GPUs and batch sizes: tuned or realistic.

    Raises
    ------
    ValueError
        If `seed` < 0, `load` <= 0, `jobs` < 1 or `requests` is unknown.

    Examples
    --------
    >>> from goodalloc.data import draw_workload
    >>> jobs = draw_workload(seed=1, jobs=3)
    >>> len(jobs), jobs[0].time <= jobs[1].time <= jobs[2].time
    (3, True)
    """
    require_count("Workload: seed", seed, minimum=0)
    require_number("Workload: load", load, minimum=0.0, strict=True)
    require_choice("Workload: requests", requests, get_args(Requests))
    count = jobs_at(load) if jobs is None else jobs
    require_count("Workload: jobs", count, minimum=1)
    known = statistics()
    generator = np.random.default_rng(seed)
    by_hour = np.array(known["submissions_by_hour"], dtype=float)
    hours = generator.choice(by_hour.size, size=count, p=by_hour / by_hour.sum())
    times = np.sort(hours * HOUR + generator.integers(0, HOUR, size=count))
    names = list(known["jobs_by_application"])
    share = np.array([known["jobs_by_application"][name] for name in names], dtype=float)
    drawn = generator.choice(len(names), size=count, p=share / share.sum())
    submissions = []
    for index, (time, which) in enumerate(zip(times.tolist(), drawn.tolist(), strict=True)):
        replicas, batch = draw_request(generator, names[which], requests)
        submissions.append(
            Submission(f"{names[which]}-{index}", time, names[which], replicas, batch)
        )
    return tuple(submissions)


def draw_request(
    generator: np.random.Generator, application: str, requests: Requests
) -> tuple[int, int]:
    """Draw GPUs and batch size for an application, by the frequencies of requests."""
    asked = statistics()["requests"][requests][application]
    counts = np.array([count for *_, count in asked], dtype=float)
    replicas, batch, _ = asked[int(generator.choice(len(asked), p=counts / counts.sum()))]
    return replicas, batch
