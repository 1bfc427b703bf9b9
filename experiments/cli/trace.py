"""Command `trace`: read a published trace, and write what other commands read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.experiments.cli.output import Output, check_kept, counted, make_folder
from goodalloc.experiments.cli.types import whole
from goodalloc.experiments.reporting.report import for_machines, text_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

#: Readers of traces of jobs, by the name of the trace.
READERS = {
    "philly": "read_philly_jobs",
    "helios": "read_helios_jobs",
    "acme": "read_acme_jobs",
    "pai": "read_pai_jobs",
    "spot": "read_spot_jobs",
}
SERVER_HOURS = "server-hours"

#: Year in which traces without dates begin.
UNDATED = 1970

TEXT = """\
The traces are too large to ship; data/ARTIFACTS.md says where to get them.

  philly        Microsoft 2017: the file cluster_job_log
  helios        SenseTime 2020: the file cluster_log.csv of a cluster
  acme          Shanghai AI Lab 2023: the file trace_seren.csv or trace_kalos.csv
  pai           Alibaba 2020: a folder with pai_task_table.csv and pai_job_table.csv
  spot          Alibaba 2026, spot jobs: the file job_info_df.csv
  server-hours  Alibaba 2026, by the hour: a folder with asi_opensource_server_hourly
                and asi_opensource_pod_hourly; --day and --hour choose the hour

Of jobs, FOLDER gets jobs.csv, from which `goodalloc simulate --philly` draws workloads,
summary.csv and trace.png. Of an hour, it gets round.json and tree.json, for
`goodalloc topology`.
"""


def add_trace(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `trace`."""
    parser.epilog = TEXT
    parser.add_argument("trace", choices=(*READERS, SERVER_HOURS), help="which trace")
    parser.add_argument("path", help="its file or folder")
    parser.add_argument(
        "--out", metavar="FOLDER", help="write there, over files of the same names (default: none)"
    )
    parser.add_argument("--day", type=whole(0), help="day of server-hours, from the start")
    parser.add_argument("--hour", type=whole(0, 23), help="hour of that day")
    parser.add_argument("--cluster", metavar="ID", help="a cluster, where the hour has several")
    parser.add_argument("--gpu-type", metavar="TYPE", help="a type, where the cluster has several")


def trace_command(arguments: argparse.Namespace) -> Output:
    """Read a trace."""
    if arguments.out is not None:
        check_kept(arguments.out, ("jobs.csv", "summary.csv"), arguments.path)
    folder = None if arguments.out is None else make_folder(arguments.out)
    if arguments.trace == SERVER_HOURS:
        return _server_hour(arguments, folder)
    for name in ("day", "hour", "cluster", "gpu_type"):
        if getattr(arguments, name) is not None:
            option = name.replace("_", "-")
            raise ValueError(
                f"argument --{option}: expected none with '{arguments.trace}'; it is for "
                f"'{SERVER_HOURS}'."
            )
    from goodalloc.data import traces
    from goodalloc.experiments.reporting.plots import save
    from goodalloc.experiments.reporting.trace_plot import plot_trace

    trace = getattr(traces, READERS[arguments.trace])(arguments.path)
    rows = [row._asdict() for row in traces.summarise_trace(trace)]
    columns = tuple(rows[0])
    days = float(trace.table.submission.iloc[-1]) / 86_400.0
    shown = [
        {
            name: round(value, 2) if isinstance(value, float) else value
            for name, value in row.items()
        }
        for row in rows
    ]
    dated = trace.begin.year > UNDATED
    begin = f"from {trace.begin}" if dated else "the source has no dates"
    text = (
        f"{counted(len(trace), 'job')} submitted in {days:.1f} days, {begin}\n"
        f"{_left_out(trace.left_out, 'jobs')}\n{text_table(shown, columns)}\n"
    )
    if folder is not None:
        traces.write_job_list(trace, folder / "jobs.csv")
        write_atomically(folder / "summary.csv", csv_text(rows, columns))
        save(plot_trace(trace), folder / "trace.png")
        text += f"\nwritten to {folder}: jobs.csv, summary.csv, trace.png"
    data = {"jobs": len(trace), "begin": str(trace.begin), "left_out": dict(trace.left_out)}
    return Output(text, data | {"summary": for_machines(rows)})


def _left_out(left_out: Mapping[str, int], noun: str) -> str:
    """Return how many are left out, and why."""
    told = ", ".join(f"{count} ({reason})" for reason, count in left_out.items())
    return f"left out: {told}\n" if told else f"all {noun} are read\n"


def _server_hour(arguments: argparse.Namespace, folder: Path | None) -> Output:
    """Read an hour of servers and pods."""
    from goodalloc.data.files.instance import write_instance
    from goodalloc.data.topology.topology_file import write_topology
    from goodalloc.data.traces.server_hours import read_server_hour

    for name in ("day", "hour"):
        if getattr(arguments, name) is None:
            raise ValueError(f"argument --{name}: expected one with '{SERVER_HOURS}'.")
    found = read_server_hour(
        arguments.path, arguments.day, arguments.hour, arguments.cluster, arguments.gpu_type
    )
    instance, (racks,) = found.round.instance, found.round.topology.domains
    held = int(instance.current.replicas.sum())
    waiting = sum(not job.placement for job in instance.jobs)
    data: dict[str, Any] = {
        "nodes": instance.cluster.num_nodes,
        "racks": len(set(racks)),
        "gpus": instance.cluster.num_gpus,
        "held_gpus": held,
        "jobs": instance.num_jobs,
        "waiting": waiting,
        "left_out": dict(found.left_out),
    }
    text = (
        f"{counted(data['nodes'], 'node')} in {counted(data['racks'], 'rack')}, "
        f"{held} of {counted(data['gpus'], 'GPU')} held\n"
        f"{counted(instance.num_jobs, 'job')}, waiting: {waiting}\n"
        f"{_left_out(found.left_out, 'pods')}"
    )
    if folder is not None:
        write_instance(instance, folder / "round.json")
        write_topology(found.round, folder / "tree.json")
        text += f"\nwritten to {folder}: round.json, tree.json"
    return Output(text, data)
