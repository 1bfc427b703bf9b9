"""Command `simulate --rates`: replay given jobs by given measured rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.gavel.measured_rates import read_rate_jobs, read_rate_table
from goodalloc.experiments.cli.output import (
    Output,
    all_refused,
    check_kept,
    drawing,
    flat,
    make_folder,
)
from goodalloc.experiments.cli.replay import cluster_of, run_with_progress
from goodalloc.experiments.cli.replay_arguments import ONE_TYPE_POLICIES, RATE_POLICIES
from goodalloc.experiments.reporting.report import for_machines, text_table
from goodalloc.experiments.studies.gavel.measured_replay import (
    JOB_COLUMNS,
    MeasuredReplay,
    plot_completions,
    require_rated,
    require_served,
    summary_row,
)
from goodalloc.solvers.policies.policy_table import PolicyOptions
from goodalloc.solvers.policies.registry import make_policy

if TYPE_CHECKING:
    import argparse


def simulate_rates_command(arguments: argparse.Namespace) -> Output:
    """Replay jobs by measured rates under several policies; finished replays are kept."""
    if arguments.workload is None:
        raise ValueError("argument --rates: no workload is given; expected the CSV of the jobs.")
    for name, default in arguments.not_with_rates.items():
        if getattr(arguments, name) != default:
            option = name.replace("_", "-")
            raise ValueError(
                f"argument --{option}: jobs with measured rates have no use for it; expected none "
                "with --rates."
            )
    rates = read_rate_table(arguments.rates)
    jobs, cluster = read_rate_jobs(arguments.workload, rates), cluster_of(arguments)
    require_rated(rates, jobs, cluster)
    policies = tuple(dict.fromkeys(flat(arguments.policies or ())))
    if not policies:
        one_type = len(cluster.gpu_types) == 1
        policies = (*RATE_POLICIES, *(ONE_TYPE_POLICIES if one_type else ()))
    options = PolicyOptions(seed=arguments.seed, seconds=arguments.seconds)
    for name in policies:
        make_policy(name, options)
        require_served(name, jobs, cluster)
    written = ("summary.csv", "jobs.csv")
    check_kept(arguments.out, written, arguments.workload, arguments.rates)
    folder = make_folder(arguments.out)
    tasks = [
        MeasuredReplay(
            folder=folder.absolute() / name,
            policy=name,
            jobs=jobs,
            rates=rates,
            cluster=cluster,
            round_seconds=arguments.interval,
            restart_seconds=arguments.restart_delay,
            options=options,
        )
        for name in policies
    ]
    refused = run_with_progress(arguments, tasks, folder, "simulate", arguments.workers)
    if refused:
        raise all_refused(refused, folder)
    done = {task.policy: task.completed() for task in tasks}
    rows = [summary_row(name, completed) for name, completed in done.items()]
    columns = tuple(rows[0])
    write_atomically(folder / "summary.csv", csv_text(rows, columns))
    jobs_columns = ("policy", *JOB_COLUMNS)
    each = [{"policy": name, **one._asdict()} for name, found in done.items() for one in found]
    write_atomically(folder / "jobs.csv", csv_text(each, jobs_columns))
    with drawing(f"the table is in {folder}"):
        from goodalloc.experiments.reporting.plots import save

        save(plot_completions(done), folder / f"replay.{arguments.pictures}")
    told = f"written to {folder}: {', '.join(written)}, replay.{arguments.pictures}"
    return Output(f"{text_table(rows, columns)}\n\n{told}", for_machines(rows))
