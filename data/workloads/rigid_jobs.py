"""Traces of rigid jobs, as published: those of Tiresias's simulator, and of Microsoft's clusters.

A rigid job takes the requested GPUs, all or none, and of these a trace knows how long
it takes: its rate is steps over seconds, and on any other number of GPUs nothing is known. Read are
the 60 jobs of Tiresias (NSDI'19; github.com/SymbioticLab/Tiresias, `simulator/`, Apache-2.0); the
195 of ElasticFlow's testbed (ASPLOS'23), which have deadlines; and the 69,351 jobs on ten clusters
that those were drawn from (github.com/microsoft/elasticflow-traces, MIT), of which only the seconds
are known: theirs make a step a second. Submissions count from the first job that is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.documents.json_file import in_file
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.support.validation import require_count, require_name, require_number

if TYPE_CHECKING:
    import os

DAY = 24 * 3600

#: Folders of the two sources, in the folder of `--artifact`, and where to get them.
TIRESIAS, ITP = "tiresias-traces", "elasticflow-itp-2021"
SOURCES = {
    TIRESIAS: "github.com/SymbioticLab/Tiresias, simulator/",
    ITP: (
        "github.com/microsoft/elasticflow-traces, data/: raw-traces.tar.gz unpacked to raw/, and "
        "195job.csv of elasticflow-traces.tar.gz as testbed_195job.csv"
    ),
}


@dataclass(frozen=True, slots=True)
class RigidJob:
    """Job with given GPUs and duration.

    Parameters
    ----------
    name
        Unique in its trace.
    submission
        Seconds from the start of the trace.
    replicas
        GPUs that it takes, all or none.
    seconds
        Duration on these GPUs, in seconds.
    steps
        Number of steps of the job.
    configuration
        Trained model; empty if unknown.
    deadline
        Seconds from the start of the trace until which it is to be done; infinite for never.

    Raises
    ------
    ValueError
        If a value is out of range.
    """

    name: str
    submission: float
    replicas: int
    seconds: float
    steps: float
    configuration: str = ""
    deadline: float = math.inf

    def __post_init__(self) -> None:
        require_name("Job", self.name)
        item = f"Job '{self.name}'"
        require_number(f"{item}: submission", self.submission, minimum=0.0)
        require_count(f"{item}: GPUs", self.replicas, minimum=1)
        require_number(f"{item}: seconds", self.seconds, minimum=0.0, strict=True)
        require_number(f"{item}: steps", self.steps, minimum=0.0, strict=True)
        require_number(f"{item}: deadline", self.deadline, minimum=0.0, finite=False)

    @property
    def rate(self) -> float:
        """Steps per second on its GPUs."""
        return self.steps / self.seconds


class _Columns(NamedTuple):
    """Columns of a trace by what they hold; empty where it lacks one."""

    submission: str
    steps: str = ""
    trained: str = ""
    deadline: str = ""

    @property
    def names(self) -> list[str]:
        return ["job_id", "num_gpu", "duration", *(name for name in self if name)]


def read_tiresias_jobs(folder: str | os.PathLike[str]) -> tuple[RigidJob, ...]:
    """Read the 60 jobs of Tiresias's simulator, in order of submission.

    Parameters
    ----------
    folder
        Folder that holds `60_job.csv`.

    Raises
    ------
    ValueError
        If `folder` lacks the file, or a value in it is out of range.
    """
    columns = _Columns("submit_time", "iterations", "model_name")
    return _read(Path(folder) / "60_job.csv", columns)


def read_elasticflow_jobs(folder: str | os.PathLike[str]) -> tuple[RigidJob, ...]:
    """Read the 195 jobs of ElasticFlow's testbed, in order of submission, with their deadlines.

    Parameters
    ----------
    folder
        Folder that holds `testbed_195job.csv`.

    Raises
    ------
    ValueError
        If `folder` lacks the file, or a value in it is out of range.
    """
    columns = _Columns("submission_time", "num_iteration", "model_name", "deadline")
    return _read(Path(folder) / "testbed_195job.csv", columns)


def read_itp_jobs(
    folder: str | os.PathLike[str], cluster: int, first_day: int = 0, days: int | None = None
) -> tuple[RigidJob, ...]:
    """Read jobs of one of Microsoft's clusters, in order of submission.

    Parameters
    ----------
    folder
        Folder that holds `raw/clusterNN.csv`.
    cluster
        Number of the cluster, from 1 to 10.
    first_day, days
        First day of the collection, and number of days; None for all jobs.

    Raises
    ------
    ValueError
        If the file is unreadable, a value is out of range, or no job was submitted in that time.
    """
    require_count("Trace: cluster", cluster, 1, 10)
    require_count("Trace: first_day", first_day, minimum=0)
    last = math.inf if days is None else first_day + days
    if days is not None:
        require_count("Trace: days", days, minimum=1)
    path = Path(folder) / "raw" / f"cluster{cluster:02}.csv"
    return _read(path, _Columns("submission_time"), first_day * DAY, last * DAY)


def read_services(folder: str | os.PathLike[str], samples: int = 1000) -> tuple[float, ...]:
    """Read services of past jobs in GPU-seconds, for Tiresias's Gittins index.

    Parameters
    ----------
    folder
        Folder that holds `yarn-gputN.csv`.
    samples
        N: 1,000, 5,000 or 10,000, about as many as there are.

    Raises
    ------
    ValueError
        If the file is unreadable or malformed, or a value is out of range.
    """
    path = Path(folder) / f"yarn-gput{samples}.csv"
    return tuple(read_table(path, ["duration"]).numbers("duration", 0.0, strict=True).tolist())


def read_tiresias_cluster(folder: str | os.PathLike[str], name: str = "n32g4") -> Cluster:
    """Read a cluster of Tiresias's simulator: nodes and GPUs of each.

    Parameters
    ----------
    folder, name
        It holds `NAME.csv`, of one line.

    Raises
    ------
    ValueError
        If the file is unreadable or malformed, or a value is out of range.
    """
    path = Path(folder) / f"{name}.csv"
    columns = ["num_switch", "num_node_p_switch", "num_gpu_p_node"]
    table = read_table(path, columns)
    switches, nodes, gpus = (table.counts(column)[0] for column in columns)
    return Cluster.uniform(switches * nodes, gpus)


def _read(
    path: Path, columns: _Columns, first: float = 0.0, last: float = math.inf
) -> tuple[RigidJob, ...]:
    """Read the jobs submitted from one second of the collection to before another."""
    table = read_table(path, columns.names)
    numbers: dict[str, list[float]] = {
        name: table.numbers(name).tolist()
        for name in ("duration", columns.submission, columns.steps, columns.deadline)
        if name
    }
    submitted = numbers[columns.submission]
    chosen = [index for index, time in enumerate(submitted) if first <= time < last]
    chosen.sort(key=submitted.__getitem__)
    if not chosen:
        raise ValueError(
            f"File '{path}': no job was submitted from {first:g} to {last:g} s; expected one."
        )
    start = submitted[chosen[0]]
    identity, gpus = table.columns["job_id"], table.counts("num_gpu")
    trained = table.columns.get(columns.trained, ("",) * len(table))
    try:
        jobs = tuple(
            RigidJob(
                name=identity[index],
                submission=submitted[index] - start,
                replicas=gpus[index],
                seconds=numbers["duration"][index],
                steps=numbers[columns.steps or "duration"][index],
                configuration=trained[index],
                deadline=numbers[columns.deadline][index] - start if columns.deadline else math.inf,
            )
            for index in chosen
        )
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error
    seen = set[str]()
    for job in jobs:
        if job.name in seen:
            raise ValueError(f"File '{path}': job '{job.name}' is there twice; expected it once.")
        seen.add(job.name)
    return jobs
