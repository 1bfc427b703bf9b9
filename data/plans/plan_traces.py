"""Traces of jobs that train large models, as Arena's simulations replay them (EuroSys'26).

The columns are ``job_id, submission_time, num_iteration, model_name, batch_size, num_gpu,
gpu_type``, the name of a model being family and size, as in ``bert__1.3B``. The published simulator
divides the iterations by five, and so do we.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.data.documents.csv_table import read_table
from goodalloc.models.plans.execution_plan import Configuration, Training
from goodalloc.models.plans.plan_job import PlanJob
from goodalloc.models.round.cluster import Cluster, NodeGroup

if TYPE_CHECKING:
    from pathlib import Path

#: Iterations of a trace for one that is replayed.
SHORTENED = 5.0

#: Names of the traces, and their files.
TRACES = {
    "philly": "simulate_trace_philly.csv",
    "helios": "simulate_trace_venus.csv",
    "pai": "simulate_trace_pai.csv",
}

COLUMNS = (
    "job_id",
    "submission_time",
    "num_iteration",
    "model_name",
    "batch_size",
    "num_gpu",
    "gpu_type",
)

#: Nodes of each type of the simulated cluster, 1,280 GPUs, and GPUs of each node.
NODES = {"a100": (80, 4), "v100": (20, 16), "a40": (160, 2), "a10": (160, 2)}


def arena_cluster() -> Cluster:
    """Return the cluster of Arena's simulations.

    Examples
    --------
    >>> from goodalloc.data.plans import arena_cluster
    >>> arena_cluster().num_gpus
    1280
    """
    return Cluster(
        tuple(NodeGroup(kind, nodes, gpus, kind) for kind, (nodes, gpus) in NODES.items())
    )


def read_plan_trace(path: Path) -> tuple[PlanJob, ...]:
    """Read a trace; times count from the first submission.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    ValueError
        If the file cannot be read, a cell is not what its column holds, or two jobs have one name.
    """
    table = read_table(path, COLUMNS)
    times = table.numbers("submission_time", 0.0)
    steps = table.numbers("num_iteration", 0.0, strict=True) / SHORTENED
    batches, gpus = table.counts("batch_size"), table.counts("num_gpu")
    seen: set[str] = set()
    jobs = []
    for row, name in enumerate(table.columns["job_id"]):
        model, mark, parameters = table.columns["model_name"][row].partition("__")
        if not mark:
            raise table.refusal(row, "model_name", "family and size, as in bert__1.3B")
        if name in seen:
            raise table.refusal(row, "job_id", "a name of its own")
        seen.add(name)
        jobs.append(
            PlanJob(
                name,
                Training(model, parameters, batches[row]),
                float(times[row] - times.min()),
                float(steps[row]),
                Configuration(table.columns["gpu_type"][row], gpus[row]),
            )
        )
    return tuple(sorted(jobs, key=lambda job: job.submission))
