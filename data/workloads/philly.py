"""Workloads drawn from a list of jobs of Microsoft's Philly cluster, as Pollux's authors drew.

The list is a CSV with the columns ``timestamp`` (of the submission, as 2017-10-03 07:33:10),
``duration`` (s), ``num_gpus`` and ``gpu_time`` (GPU-s); the artifact of Pollux (OSDI'21) has one of
82,247 jobs, philly.csv. Jobs are drawn among those submitted in some hours of the day. What a job
trains follows from the GPU time it took: up to one hour cifar10 or ncf, up to ten deepspeech2 or
bert, up to a hundred yolov3, up to a thousand imagenet (section 5.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import numpy as np
import pandas as pd

from goodalloc.data.applications.profiles import load_profile
from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.workloads.generator import HOUR, PUBLISHED_JOBS, Requests, draw_request
from goodalloc.data.workloads.workload import Submission
from goodalloc.models.support.validation import require_choice, require_count

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

COLUMNS = ("timestamp", "duration", "num_gpus", "gpu_time")

#: Hours of GPU time up to which a job trains one of these, each as likely as the other.
CATEGORIES = (
    (1.0, ("cifar10", "ncf")),
    (10.0, ("deepspeech2", "bert")),
    (100.0, ("yolov3",)),
    (1000.0, ("imagenet",)),
)

#: Seconds: shorter jobs are left out, and the GPUs of long ones are taken from jobs of a day.
SHORTEST, DAY = 60, 24 * HOUR


def read_philly(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read the jobs of a list that can be drawn: at least a minute, at most a thousand GPU-hours.

    Returns
    -------
    DataFrame
        Columns ``second`` (of the day), ``duration`` (s), ``num_gpus`` and ``gpu_time`` (GPU-s).

    Raises
    ------
    ValueError
        If the file is unreadable, has no rows or lacks a column, or a value is out of range.
    """
    found = read_table(path, COLUMNS)
    told = pd.Series(found.columns["timestamp"])
    times = pd.to_datetime(told, format="ISO8601", errors="coerce", utc=True)
    for row in np.flatnonzero(times.isna())[:1].tolist():
        raise found.refusal(row, "timestamp", "a time, as 2017-10-03 07:33:10")
    table = pd.DataFrame(
        {
            "timestamp": times,
            "duration": found.numbers("duration", 0.0),
            "num_gpus": found.counts("num_gpus", 0),
            "gpu_time": found.numbers("gpu_time", 0.0),
        }
    )
    usable = (table.duration >= SHORTEST) & (table.num_gpus >= 1)
    table = table[usable & (table.gpu_time < CATEGORIES[-1][0] * HOUR)]
    day = table.timestamp.dt
    second = day.hour * HOUR + day.minute * 60 + day.second
    return table.assign(second=second)[["second", *COLUMNS[1:]]].reset_index(drop=True)


def draw_from_philly(
    table: pd.DataFrame,
    seed: int,
    jobs: int = PUBLISHED_JOBS,
    requests: Requests = "tuned",
    *,
    start: int = 2,
    hours: int = 8,
) -> tuple[Submission, ...]:
    """Draw a workload from a list of jobs; equal arguments give equal workloads.

    Parameters
    ----------
    table
        As `read_philly` gives it.
    seed
        Seed of all random numbers.
    jobs
        Number of jobs.
    requests
        ``"tuned"``: GPUs and batch size as experts tuned them, as often as in the published
        workloads; ``"realistic"``: the GPUs of the listed job, at the initial batch size each.
    start, hours
        First hour of the day, and number of hours, in which the jobs were submitted.

    Raises
    ------
    ValueError
        If a value is out of range or the list has too few jobs.
    """
    require_count("Workload: seed", seed, minimum=0)
    require_count("Workload: jobs", jobs, minimum=1)
    require_count("Workload: start", start, 0, 23)
    require_count("Workload: hours", hours, 1, 24)
    require_choice("Workload: requests", requests, get_args(Requests))
    times = (table.second.to_numpy() - start * HOUR) % DAY
    window = np.flatnonzero(times < hours * HOUR)
    if window.size < jobs:
        raise ValueError(
            f"Workload: jobs is {jobs}; expected at most {window.size}, as many as the list has in "
            f"the {hours} h from {start}:00 (a smaller load draws fewer)."
        )
    generator = np.random.default_rng(seed)
    drawn = generator.choice(window, size=jobs, replace=False)
    drawn = drawn[np.argsort(times[drawn], kind="stable")]
    submissions = []
    for index, row in enumerate(drawn.tolist()):
        gpu_hours = float(table.gpu_time[row]) / HOUR
        category = next(i for i, (most, _) in enumerate(CATEGORIES) if gpu_hours < most)
        name = str(generator.choice(CATEGORIES[category][1]))
        if requests == "tuned":
            replicas, batch = draw_request(generator, name, requests)
        else:
            limits = load_profile(name).batch
            replicas = _gpus(table, row, category, generator)
            most = int(limits.maximum // limits.initial)
            batch = min(replicas, most) * int(limits.initial)
        submissions.append(Submission(f"{name}-{index}", int(times[row]), name, replicas, batch))
    return tuple(submissions)


def _gpus(table: pd.DataFrame, row: int, category: int, generator: np.random.Generator) -> int:
    """Draw GPUs of the job; for long jobs those of a shorter one of the category.

    (As published: jobs that ran for days on few GPUs would ask for less than anyone would.)
    """
    if category < 2:
        return int(table.num_gpus[row])
    least, most = CATEGORIES[category - 1][0] * HOUR, CATEGORIES[category][0] * HOUR
    alike: NDArray[np.bool_] = (
        (table.duration <= DAY) & (table.gpu_time >= least) & (table.gpu_time < most)
    ).to_numpy()
    choices = table.num_gpus.to_numpy()[alike]
    return int(generator.choice(choices)) if choices.size else int(table.num_gpus[row])
