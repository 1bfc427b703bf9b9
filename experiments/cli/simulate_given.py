"""Commands `simulate --rates` and `simulate --plans`: replay jobs by given tables of speeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.workloads.generator import jobs_at
from goodalloc.experiments.cli.output import (
    Output,
    all_refused,
    check_kept,
    drawing,
    flat,
    make_folder,
    policy_folder,
)
from goodalloc.experiments.cli.replay import cluster_of, run_with_progress
from goodalloc.experiments.cli.replay_arguments import (
    ONE_TYPE_POLICIES,
    PLAN_POLICIES,
    RATE_POLICIES,
)
from goodalloc.experiments.reporting.report import for_machines, text_table
from goodalloc.experiments.studies.gavel.measured_replay import (
    JOB_COLUMNS,
    MeasuredReplay,
    plot_completions,
    read_rated_jobs,
    require_served,
    summary_row,
)
from goodalloc.solvers.policies.policy_table import PolicyOptions
from goodalloc.solvers.policies.registry import make_policy, source_digest

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from goodalloc.experiments.studies.plans.given_plans import GivenPlanBound, PlanReplay


def simulate_given_command(arguments: argparse.Namespace) -> Output:
    """Replay jobs by given tables under several policies; finished replays are kept."""
    if arguments.rates is not None and arguments.plans is not None:
        raise ValueError("argument --plans: the speeds are those of --rates; expected one of both.")
    policies = tuple(dict.fromkeys(flat(arguments.policies or ())))
    tasks: Sequence[MeasuredReplay] | Sequence[PlanReplay]
    bound = None
    if arguments.rates is not None:
        tasks = _by_rates(arguments, policies)
    else:
        tasks, bound = _by_plans(arguments, policies)
    written = ("summary.csv", "jobs.csv")
    check_kept(arguments.out, written, arguments.workload, arguments.rates)
    folder = make_folder(arguments.out)
    every = tasks if bound is None else [*tasks, bound]
    refused = run_with_progress(arguments, every, folder, "simulate", arguments.workers)
    if refused:
        raise all_refused(refused, folder)
    done = {task.policy: task.completed() for task in tasks}
    rows = [
        summary_row(task.policy, done[task.policy])
        | ({} if isinstance(task, MeasuredReplay) else task.decisions())
        for task in tasks
    ]
    if bound is not None:
        rows = bound.beside(rows, done)
    columns = tuple(rows[0])
    write_atomically(folder / "summary.csv", csv_text(rows, columns))
    jobs_columns = ("policy", *JOB_COLUMNS)
    each = [{"policy": name, **one._asdict()} for name, found in done.items() for one in found]
    write_atomically(folder / "jobs.csv", csv_text(each, jobs_columns))
    with drawing(f"the table is in {folder}"):
        from goodalloc.experiments.reporting.plots import save

        least = None if bound is None else bound.hours()
        save(plot_completions(done, least), folder / f"replay.{arguments.pictures}")
    told = f"written to {folder}: {', '.join(written)}, replay.{arguments.pictures}"
    return Output(f"{text_table(rows, columns)}\n\n{told}", for_machines(rows))


def _refuse(arguments: argparse.Namespace, unused: Mapping[str, Any], jobs: str) -> None:
    """Refuse arguments that jobs with given speeds have no use for."""
    for name, default in unused.items():
        if getattr(arguments, name) != default:
            option, table = name.replace("_", "-"), "rates" if arguments.plans is None else "plans"
            raise ValueError(
                f"argument --{option}: jobs with {jobs} have no use for it; expected none with "
                f"--{table}."
            )


def _by_rates(arguments: argparse.Namespace, policies: tuple[str, ...]) -> Sequence[MeasuredReplay]:
    """Return the replays by measured rates."""
    if arguments.workload is None:
        raise ValueError("argument --rates: no workload is given; expected the CSV of the jobs.")
    _refuse(arguments, arguments.not_with_rates, "measured rates")
    cluster = cluster_of(arguments)
    jobs, rates = read_rated_jobs(arguments.workload, arguments.rates, cluster)
    if not policies:
        one_type = len(cluster.gpu_types) == 1
        policies = (*RATE_POLICIES, *(ONE_TYPE_POLICIES if one_type else ()))
    options = PolicyOptions(seed=arguments.seed, seconds=arguments.seconds)
    for name in policies:
        make_policy(name, options)
        require_served(name, jobs, cluster)
    return [
        MeasuredReplay(
            folder=policy_folder(arguments, name),
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


def _by_plans(
    arguments: argparse.Namespace, policies: tuple[str, ...]
) -> tuple[Sequence[PlanReplay], GivenPlanBound | None]:
    """Return the replays by times of execution plans, and the bound that is to stand beside."""
    from goodalloc.experiments.studies.plans.given_plans import (  # few replays need them
        PlanNodes,
        PlanReplay,
        bound_beside,
        planned_jobs,
    )
    from goodalloc.experiments.studies.plans.plan_policies import make_plan_policy
    from goodalloc.experiments.studies.plans.plan_simulator import ROUND_SECONDS

    unused = {**arguments.not_with_rates, "seconds": None}
    del unused["bound"]
    if arguments.workload is None:
        del unused["load"]
    elif arguments.load is not None:
        raise ValueError(
            f"argument --load: the jobs are those of '{arguments.workload}'; expected none with it."
        )
    _refuse(arguments, unused, "execution plans")
    if arguments.interval not in (arguments.usual_interval, ROUND_SECONDS):
        raise ValueError(
            f"argument --interval: it is {arguments.interval}; expected {ROUND_SECONDS:g} or none "
            "with --plans, whose rounds take that long."
        )
    nodes = tuple(
        PlanNodes(group.name, group.nodes, group.gpus, group.gpu_type)
        for group in cluster_of(arguments).groups
    )
    drawn = jobs_at(arguments.load or 1.0)
    jobs, times = planned_jobs(
        arguments.workload, arguments.plans, nodes, seed=arguments.seed, drawn=drawn
    )
    policies = policies or PLAN_POLICIES
    for name in policies:
        make_plan_policy(name, arguments.restart_delay)
    tasks = [
        PlanReplay(
            folder=policy_folder(arguments, name),
            policy=name,
            source=source_digest(name),
            jobs=jobs,
            times=times,
            nodes=nodes,
            restart_seconds=arguments.restart_delay,
            gaps=arguments.gaps,
        )
        for name in policies
    ]
    return tasks, bound_beside(tasks[0]) if arguments.bound else None
