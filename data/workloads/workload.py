"""Workloads: which jobs are submitted when, and what their users ask for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.documents.json_file import in_file
from goodalloc.models.support.validation import require_count, require_name

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

#: Columns of a workload file, as published with Pollux.
COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")

_WHOLE = re.compile(r"[+-]?[0-9]{1,100}")


@dataclass(frozen=True, slots=True)
class Submission:
    """One job as its user submits it.

    Parameters
    ----------
    name
        Unique within a workload.
    time
        Seconds from the start of the workload.
    application
        Name of the application.
    replicas
        Requested GPUs; schedulers that choose the number themselves ignore them.
    batch_size
        Requested total batch size in examples; likewise.

    Raises
    ------
    ValueError
        If a value is out of range.
    """

    name: str
    time: int
    application: str
    replicas: int
    batch_size: int

    def __post_init__(self) -> None:
        require_name("Job", self.name)
        item = f"Job '{self.name}'"
        require_count(f"{item}: time", self.time, minimum=0)
        if not self.application:
            raise ValueError(f"{item}: application is ''; expected what it trains.")
        require_count(f"{item}: num_replicas", self.replicas, minimum=1)
        require_count(f"{item}: batch_size", self.batch_size, minimum=1)


def read_workload(path: str | os.PathLike[str]) -> tuple[Submission, ...]:
    """Read a workload in the published format: CSV with the columns `COLUMNS`.

    Raises
    ------
    ValueError
        If the file cannot be read, has no rows or lacks a column, a number is negative or no
        number, an application is unknown, or a name is given twice.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data import read_workload
    >>> text = "name,time,application,num_replicas,batch_size\\nfirst,0,cifar10,1,128\\n"
    >>> _ = Path("jobs.csv").write_text(text)
    >>> read_workload("jobs.csv")[0].application
    'cifar10'
    """
    table = read_table(path, COLUMNS)
    try:
        jobs = tuple(
            Submission(name, _whole(time), application, _whole(replicas), _whole(batch))
            for name, time, application, replicas, batch in zip(
                *(table.columns[column] for column in COLUMNS), strict=True
            )
        )
        check_workload(jobs)
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error
    return jobs


def _whole(text: str) -> Any:
    """Return the whole number of a text; other texts unchanged, to be refused by their value."""
    return int(text) if _WHOLE.fullmatch(text) else text


def check_workload(jobs: Sequence[Submission]) -> None:
    """Refuse an empty workload and names that are given twice.

    Examples
    --------
    >>> from goodalloc.data.workloads import check_workload, draw_workload
    >>> check_workload(draw_workload(1))
    """
    if not jobs:
        raise ValueError("Workload: got no jobs; expected at least one.")
    seen: set[str] = set()
    for job in jobs:
        if job.name in seen:
            raise ValueError(f"Job '{job.name}' is listed twice; expected unique names.")
        seen.add(job.name)


def write_workload(jobs: Sequence[Submission], path: str | os.PathLike[str]) -> None:
    """Write a workload in the published format."""
    lines = [
        f"{job.name},{job.time},{job.application},{job.replicas},{job.batch_size}" for job in jobs
    ]
    write_atomically(Path(path), "\n".join([",".join(COLUMNS), *lines]) + "\n")
