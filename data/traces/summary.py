"""Summary of a trace: its jobs by the number of their GPUs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from goodalloc.data.traces.trace import Trace

HOUR = 3600.0

#: Greatest number of GPUs of the jobs of each row but the last; the first is of shared GPUs.
MOST_GPUS = (0.999, 1, 2, 4, 8, 16, 32, 64, 128)


class TraceRow(NamedTuple):
    """Jobs of about as many GPUs.

    Attributes
    ----------
    gpus
        The numbers, as "9 to 16".
    jobs, jobs_percent
        How many there are, and of a hundred jobs of the trace.
    gpu_hours, gpu_hours_percent
        GPU-hours that they took, and of a hundred of the trace.
    median_hours, percentile_95_hours
        Median and 95 % quantile of the hours that they ran.
    completed_percent
        Jobs that completed, of a hundred; NaN where the trace does not tell.
    """

    gpus: str
    jobs: int
    jobs_percent: float
    gpu_hours: float
    gpu_hours_percent: float
    median_hours: float
    percentile_95_hours: float
    completed_percent: float


def summarise_trace(trace: Trace) -> tuple[TraceRow, ...]:
    """Return a row for each range of GPUs that has jobs, and one for all of them.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.traces import read_spot_jobs, summarise_trace
    >>> _ = Path("job_info_df.csv").write_text(
    ...     "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,"
    ...     "duration,job_type\\n1,57,A10,8,1,16,0,7200,HP\\n2,57,A10,8,0.5,1,60,3600,Spot\\n"
    ... )
    >>> rows = summarise_trace(read_spot_jobs("job_info_df.csv"))
    >>> [(row.gpus, row.jobs, row.gpu_hours) for row in rows]
    [('part of one', 1, 0.5), ('9 to 16', 1, 32.0), ('all', 2, 32.5)]
    """
    gpus = trace.table.gpus.to_numpy()
    place = np.searchsorted(MOST_GPUS, gpus)
    rows = [_row(trace, _range(index), place == index) for index in np.unique(place).tolist()]
    return (*rows, _row(trace, "all", np.ones(len(trace), dtype=bool)))


def _range(index: int) -> str:
    """Return the name of a range."""
    if index == 0:
        return "part of one"
    least = math.floor(MOST_GPUS[index - 1]) + 1
    if index == len(MOST_GPUS):
        return f"over {MOST_GPUS[-1]}"
    return str(least) if least == MOST_GPUS[index] else f"{least} to {MOST_GPUS[index]}"


def _row(trace: Trace, name: str, chosen: np.ndarray) -> TraceRow:
    """Return the row of some of the jobs."""
    table, work = trace.table, (trace.table.gpus * trace.table.seconds).to_numpy() / HOUR
    hours = table.seconds.to_numpy()[chosen] / HOUR
    state = table.state.to_numpy()[chosen]
    told = state != ""
    completed = 100.0 * float((state[told] == "completed").mean()) if told.any() else math.nan
    jobs, taken = int(chosen.sum()), float(work[chosen].sum())
    return TraceRow(
        name,
        jobs,
        100.0 * jobs / len(trace),
        taken,
        100.0 * taken / float(work.sum()),
        float(np.median(hours)),
        float(np.quantile(hours, 0.95)),
        completed,
    )
