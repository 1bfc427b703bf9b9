"""Jobs that train large models by execution plans, and their times, from tables of a user's own."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.plans.plan_tables import MEASURED, WHERE, read_measured_times
from goodalloc.models.plans.execution_plan import Configuration, Training
from goodalloc.models.plans.plan_job import PlanJob
from goodalloc.models.support.validation import did_you_mean

if TYPE_CHECKING:
    from goodalloc.data.documents.csv_table import Table
    from goodalloc.models.plans.plan_times import PlanTimes

COLUMNS = (
    "job",
    "submit_s",
    "model",
    "parameters",
    "global_batch",
    "steps",
    "gpus",
    "gpu_type",
)

#: Cells of what cannot run.
NO_TIME = ("inf", "nan", "")

#: Columns of whole numbers by which shapes are told apart.
COUNTS = ("global_batch", "nodes", "gpus_per_node")

#: Latest submission: ten years after the start of the trace.
LATEST = 315_360_000.0


def read_plan_times(folder: str | os.PathLike[str]) -> PlanTimes:
    """Read measured times as `read_measured_times`, and refuse what published tables never have.

    Parameters
    ----------
    folder
        Folder that holds ``measured.csv``.

    Raises
    ------
    ValueError
        As `read_measured_times`, or if the folder is a file, a time is none, or a training has
        two times on one shape.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from goodalloc.data.plans import read_plan_times
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "measured.csv").write_text(
    ...     "model,parameters,global_batch,gpu_type,nodes,gpus_per_node,iteration_s\\n"
    ...     "bert,1.3B,256,a100,1,1,inf\\nbert,1.3B,256,a100,1,2,5.3\\n"
    ... )
    >>> times = read_plan_times(folder)
    >>> times.speeds(times.trainings[0], {"a100": 4})
    {Configuration(gpu_type='a100', gpus=2): 0.18867924528301888}
    """
    if Path(folder).is_file():
        raise ValueError(f"Folder '{os.fspath(folder)}' is a file; expected that with {MEASURED}.")
    table = read_table(Path(folder) / MEASURED, (*WHERE, "iteration_s"))
    seen = set()
    names = [table.columns[name] for name in WHERE if name not in COUNTS]
    shapes = zip(*names, *(table.counts(name) for name in COUNTS), strict=True)
    for row, (cell, shape) in enumerate(zip(table.columns["iteration_s"], shapes, strict=True)):
        if cell not in NO_TIME and not _is_time(cell):
            expected = "seconds above 0, or inf, nan or nothing where it does not run"
            raise table.refusal(row, "iteration_s", expected)
        if shape in seen:
            raise table.refusal(row, "iteration_s", "one time for each training and shape")
        seen.add(shape)
    return read_measured_times(Path(folder))


def _is_time(text: str) -> bool:
    """Return whether a text is a finite number above 0."""
    try:
        return 0.0 < float(text) < math.inf
    except ValueError:
        return False


def read_plan_jobs(path: str | os.PathLike[str], times: PlanTimes) -> tuple[PlanJob, ...]:
    """Read jobs in order of submission; further columns are passed over.

    Parameters
    ----------
    path
        CSV with the columns `COLUMNS`; `gpus` and `gpu_type` are what the user asked for.
    times
        Times of the plans of what the jobs train.

    Raises
    ------
    ValueError
        If the file cannot be read, a cell is not what its column holds, two jobs have one name, or
        nothing is known of what a job trains; the sentence names the line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from goodalloc.data.plans import read_plan_jobs, shipped_plan_times
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "jobs.csv"
    >>> _ = path.write_text(
    ...     "job,submit_s,model,parameters,global_batch,steps,gpus,gpu_type\\n"
    ...     "mine,0,bert,1.3B,256,5000,4,a100\\n"
    ... )
    >>> jobs = read_plan_jobs(path, shipped_plan_times())
    >>> jobs[0].training, jobs[0].request
    (Training(model='bert', parameters='1.3B', global_batch=256), \
Configuration(gpu_type='a100', gpus=4))
    """
    table = read_table(path, COLUMNS)
    submissions = table.numbers("submit_s", 0.0, LATEST).tolist()
    steps = table.numbers("steps", 0.0, strict=True).tolist()
    batches, gpus = table.counts("global_batch"), table.counts("gpus")
    names, types = table.columns["job"], table.columns["gpu_type"]
    known = {
        "model": tuple(dict.fromkeys(one.model for one in times.trainings)),
        "gpu_type": timed_types(times),
    }
    seen: set[str] = set()
    jobs = []
    for row, name in enumerate(names):
        for column, expected in known.items():
            cell = table.columns[column][row]
            if cell not in expected:
                told = f"one of {', '.join(expected)}{did_you_mean(cell, expected)}"
                raise table.refusal(row, column, told)
        if not name or name in seen:
            raise table.refusal(row, "job", "a name of its own")
        seen.add(name)
        training = _training(table, row, batches[row], times)
        request = Configuration(types[row], gpus[row])
        jobs.append(PlanJob(name, training, submissions[row], steps[row], request))
    return tuple(sorted(jobs, key=lambda job: job.submission))


def timed_types(times: PlanTimes) -> tuple[str, ...]:
    """Return the types of GPU of which some time is known, in order."""
    return tuple(sorted({shape.gpu_type for shapes in times.best.values() for shape in shapes}))


def _training(table: Table, row: int, batch: int, times: PlanTimes) -> Training:
    """Return what a job trains; refuse what no time is known of."""
    model, parameters = table.columns["model"][row], table.columns["parameters"][row]
    training = Training(model, parameters, batch)
    if training not in times.best:
        alike = ", ".join(
            f"{one.parameters} with {one.global_batch}"
            for one in times.trainings
            if one.model == model
        )
        told = f"a size and a batch of {model} whose times are known: {alike}"
        raise table.refusal(row, "global_batch", told)
    return training
