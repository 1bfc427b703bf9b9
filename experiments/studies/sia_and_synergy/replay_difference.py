"""Difference of two replays of one workload, job by job: where do they part, and how far?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from goodalloc.experiments.reporting.table_numbers import rounded

if TYPE_CHECKING:
    from pathlib import Path


class ReplayDifference(NamedTuple):
    """Difference of a replay from another one.

    Attributes
    ----------
    jobs
        Jobs that start or end at another time; NaN where nothing was compared.
    first_job, first_hours
        The job whose start or end differs first, and the earlier of its two times, in hours from
        the start; empty and NaN where none differs.
    event
        What differs there first, ``"start"`` or ``"end"``; empty where none differs.
    greatest_job, greatest_hours
        The job whose completion differs most, and how much later it ends in the first replay.
    """

    jobs: float
    first_job: str
    first_hours: float
    event: str
    greatest_job: str
    greatest_hours: float


#: Where there is nothing to compare with.
NOT_COMPARED = ReplayDifference(math.nan, "", math.nan, "", "", math.nan)


def difference(one: Path, other: Path, tolerance: float = 0.5) -> ReplayDifference:
    """Return how the replay in folder `one` differs from that in `other`.

    Parameters
    ----------
    one, other
        Folders of finished replays, with their ``jobs.csv``.
    tolerance
        Seconds up to which times are equal.

    Raises
    ------
    ValueError
        If the replays are of other jobs.
    """
    mine, its = (pd.read_csv(folder / "jobs.csv", index_col="job") for folder in (one, other))
    if mine.index.tolist() != its.index.tolist():
        raise ValueError(
            f"Replays '{one}' and '{other}' are of other jobs; expected one workload under two "
            "policies or settings."
        )
    parted: list[tuple[float, str, str]] = []
    for event, column in (("start", "start"), ("end", "completion")):
        earlier = mine[column].combine(its[column], min)
        apart = (mine[column] - its[column]).abs() > tolerance
        parted += [(float(earlier[job]), str(job), event) for job in mine.index[apart]]
    later = mine.completion - its.completion
    greatest = str(later.abs().idxmax())
    seconds, job, event = min(parted, default=(math.nan, "", ""))
    return ReplayDifference(
        jobs=len({name for _, name, _ in parted}),
        first_job=job,
        first_hours=rounded(seconds / 3600.0, 4),
        event=event,
        greatest_job=greatest if parted else "",
        greatest_hours=rounded(float(later[greatest]) / 3600.0, 4),
    )
