"""Picture of a trace: when jobs come, how long they run, and which take the GPU-hours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.traces.summary import HOUR, summarise_trace
from goodalloc.experiments.reporting.axes import logarithmic, open_axes
from goodalloc.experiments.reporting.plots import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.data.traces.trace import Trace


def plot_trace(trace: Trace) -> Figure:
    """Draw jobs an hour over the day, the share of jobs by hours that they ran, and GPU-hours.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.traces import read_helios_jobs
    >>> from goodalloc.experiments.reporting import plot_trace
    >>> _ = Path("cluster_log.csv").write_text(
    ...     "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,duration,queue\\n"
    ...     "1,u1,vcA,1,4,1,COMPLETED,2020-06-09 18:41:01,36848,0\\n"
    ... )
    >>> len(plot_trace(read_helios_jobs("cluster_log.csv")).axes)
    3
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 3.2), layout="constrained")
    arrivals, running, shares = figure.subplots(1, 3)
    seconds = trace.table.submission.to_numpy() + (trace.begin - trace.begin.normalize()).seconds
    days = max((float(seconds.max()) - float(seconds[0])) / (24 * HOUR), 1.0)
    by_hour = np.bincount((seconds // HOUR).astype(np.int64) % 24, minlength=24) / days
    arrivals.bar(np.arange(24) + 0.5, by_hour, width=1.0, color=COLOURS[0], edgecolor="white")
    arrivals.set_xticks(range(0, 25, 6))
    arrivals.set_xlabel("hour of the day")
    arrivals.set_ylabel("jobs submitted an hour")
    hours = np.sort(trace.table.seconds.to_numpy()) / HOUR
    share = np.linspace(100.0 / len(hours), 100.0, len(hours))
    running.step(hours, share, where="post", color=COLOURS[0])
    logarithmic(running, "x")
    running.xaxis.set_major_formatter("{x:g}")
    running.set_xlabel("hours")
    running.set_ylabel("jobs that ran at most so long, %")
    running.set_ylim(0, 100)
    rows = summarise_trace(trace)[:-1]
    place = np.arange(len(rows))
    for index, (label, values) in enumerate(
        {
            "jobs": [row.jobs_percent for row in rows],
            "GPU-hours": [row.gpu_hours_percent for row in rows],
        }.items()
    ):
        shares.barh(place + 0.2 - 0.4 * index, values, 0.4, label=label, color=COLOURS[index])
    shares.set_yticks(place, [row.gpus for row in rows])
    shares.set_ylabel("GPUs of a job")
    shares.set_xlabel("share, %")
    shares.legend(frameon=False, fontsize="small")
    for ax in (arrivals, running, shares):
        open_axes(ax)
    return figure
