"""Derive the shipped statistics of workloads from those of the Pollux artifact (OSDI'21).

Run as `python -m goodalloc.data.derivation.fit_workloads --reference DIR [--out FILE]`; DIR holds
the folder `pollux` with its `workloads` (tuned requests) and `workloads-realistic`. What is kept is
counts: submissions by hour, jobs by application, and how often which GPUs and batch size were asked
for.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.json_file import dump
from goodalloc.data.documents.shipped import run_fit
from goodalloc.data.workloads.generator import FORMAT, SHIPPED, VERSION
from goodalloc.data.workloads.workload import read_workload

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from goodalloc.data.workloads.workload import Submission

#: Folder of the artifact for either kind of request.
FOLDERS = {"tuned": "workloads", "realistic": "workloads-realistic"}


SOURCE = {
    "artifact": "github.com/petuum/adaptdl, branch osdi21-artifact, commit c793c70",
    "licence": "Apache-2.0",
    "note": "Counts over the eight published workloads, whose arrivals are sampled from Philly's.",
}


def statistics(reference: Path) -> dict[str, Any]:
    """Return counts over all published workloads.

    Raises
    ------
    ValueError
        If a folder holds no workload, or one cannot be read.
    """
    workloads = {kind: _read_all(reference / "pollux" / name) for kind, name in FOLDERS.items()}
    jobs = workloads["tuned"]
    hours = Counter(int(job.time // 3600) for job in jobs)
    applications = Counter(job.application for job in jobs)
    return {
        "format": FORMAT,
        "version": VERSION,
        "source": SOURCE,
        "submissions_by_hour": [hours[hour] for hour in range(max(hours) + 1)],
        "jobs_by_application": dict(sorted(applications.items())),
        "requests": {
            kind: {name: _requests(jobs, name) for name in sorted(applications)}
            for kind, jobs in workloads.items()
        },
    }


def _read_all(folder: Path) -> list[Submission]:
    paths = sorted(folder.glob("*.csv"))
    if not paths:
        raise ValueError(f"Folder '{folder}': expected workloads, *.csv.")
    return [job for path in paths for job in read_workload(path)]


def _requests(jobs: Sequence[Submission], application: str) -> list[list[int]]:
    """Return triples of GPUs, batch size, and number of jobs with that request."""
    asked = Counter((j.replicas, j.batch_size) for j in jobs if j.application == application)
    return [[*request, count] for request, count in sorted(asked.items())]


def main(arguments: Sequence[str] | None = None) -> None:
    """Derive the statistics and write them; the command line is that of the process if None."""
    run_fit(statistics, SHIPPED, "pollux/", arguments, text=dump)


if __name__ == "__main__":
    main()
