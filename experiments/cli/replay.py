"""Commands `hindsight` and `reproduce`, and what all commands that replay workloads share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.documents.json_file import dump
from goodalloc.data.workloads.generator import draw_workload, jobs_at
from goodalloc.data.workloads.workload import read_workload
from goodalloc.experiments.cli.output import (
    Output,
    all_refused,
    check_kept,
    distinct,
    drawing,
    flat,
    make_folder,
    telling_what_is_written,
)
from goodalloc.experiments.cli.types import uniform_size
from goodalloc.experiments.replay.replay_conditions import Outage, Setting
from goodalloc.experiments.reporting.progress import percents, progress_bar
from goodalloc.experiments.reporting.report import for_machines, text_table
from goodalloc.experiments.studies.artifacts import NEEDED
from goodalloc.experiments.studies.catalogue import ENTRIES, GROUPS, LIST_NOTE, REPRODUCTIONS
from goodalloc.experiments.studies.documents import whole_minutes
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.support.machine_speed import expected_minutes, slowdown
from goodalloc.experiments.support.tasks import processor_seconds, run_tasks
from goodalloc.experiments.support.workers import ALONE
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.mode import resources
from goodalloc.models.support.validation import did_you_mean, literal
from goodalloc.solvers.policies.registry import make_policy

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.hindsight import HindsightDay
    from goodalloc.experiments.hindsight.deadline_day import DeadlineDay
    from goodalloc.experiments.support.tasks import Task
    from goodalloc.experiments.support.workers import Workers
    from goodalloc.models.topology import Topology


#: Latest submission in seconds: replays go through every interval from the start.
LATEST = 31_622_400

#: File of the certificate of a bound on all replays.
REPLAY_BOUND = "replay-bound.json"

#: Files that `hindsight` writes, besides the picture.
WRITTEN = (
    "problem.json",
    "schedule.json",
    "bound.json",
    "prices.csv",
    "jobs.csv",
    "delays.csv",
    REPLAY_BOUND,
)

#: What a time limit may have changed besides the steps that are told.
LIMITED = "The time limit also cuts short the searches of prices: without it bounds may be greater."


def hindsight_command(arguments: argparse.Namespace) -> Output:
    """Bound all schedules of a workload, and find one with hindsight."""
    from goodalloc.experiments.hindsight.day_search import DaySearch
    from goodalloc.experiments.replay_bound.day_and_replays import whole_day

    search = DaySearch(arguments.price_interval, arguments.search_seed, arguments.steps)
    if arguments.seconds is not None:
        search = search.within(arguments.seconds)
    if (arguments.objective == "late-jobs") != (arguments.due is not None):
        raise ValueError("argument --due: expected with --objective late-jobs, and only with it.")
    inputs = (arguments.workload, arguments.philly, arguments.weights, arguments.tree)
    check_kept(arguments.out, WRITTEN, *inputs)
    workload = workload_of(arguments)
    setting = Setting(
        cluster=cluster_of(arguments),
        interval=arguments.interval,
        restart_delay=arguments.restart_delay,
        outages=tuple(Outage(*outage) for outage in flat(arguments.outages)),
    )
    weights, topology = _read_files(arguments, workload, setting.cluster)
    folder = make_folder(arguments.out)
    written: tuple[str, ...] = ()

    def write(day: HindsightDay | DeadlineDay) -> None:
        nonlocal written
        (folder / REPLAY_BOUND).unlink(missing_ok=True)  # of another day, before
        written = day.write(folder, arguments.pictures)

    with (
        telling_what_is_written(folder, WRITTEN),
        progress_bar("hindsight", 100, quiet=arguments.json) as bar,
    ):
        report = percents(bar)
        day, replays = whole_day(
            arguments.objective,
            workload,
            setting,
            arguments.traces,
            search,
            due=arguments.due,
            weights=weights,
            topology=topology,
            found=write,
            report=report,
        )
        texts, data = [day.text], day.data
        if replays is not None:
            write_atomically(folder / REPLAY_BOUND, dump(replays.certificate) + "\n")
            written, texts = (*written, REPLAY_BOUND), [*texts, replays.text]
            data = {**data, **replays.data}
        report(1.0)
    if arguments.seconds is not None:
        texts.append(LIMITED)
    texts.append(f"written to {folder}: {', '.join(written)}")
    return Output("\n\n".join(texts), data)


def _read_files(
    arguments: argparse.Namespace, workload: Sequence[Submission], cluster: Cluster
) -> tuple[Mapping[str, float] | None, Topology | None]:
    """Return the weights of the jobs and the tree of the cluster, if files are given."""
    weights = topology = None
    if arguments.weights is not None:
        from goodalloc.experiments.hindsight.job_weights import read_weights

        weights = read_weights(arguments.weights)
    if arguments.tree is not None:
        from goodalloc.data.topology.topology_file import read_wishes  # few days need it

        topology = read_wishes(arguments.tree, cluster, [job.name for job in workload]).topology
    return weights, topology


#: Sources of rows, as the last line of the output names them.
TRUTHS = {
    "profiles": "the shipped profiles",
    "artifact": "the artifact's measurements",
    "machine": "measurements of this machine",
    "training": "training here",
}


def reproduce_command(arguments: argparse.Namespace) -> Output:
    """Reproduce published tables and figures, with published values beside ours."""
    _check_stored(arguments)
    if arguments.what == "list":
        return _listed()
    known = ("list", *GROUPS, *REPRODUCTIONS)
    if arguments.what not in known:
        raise ValueError(
            f"What to reproduce is {literal(arguments.what)}{did_you_mean(arguments.what, known)}; "
            f"expected one of list, {', '.join(GROUPS)}, or a study that `goodalloc reproduce "
            "list` names."
        )
    group = arguments.what in GROUPS
    names = GROUPS.get(arguments.what, (arguments.what,))
    pollux = _policies(arguments.policies)
    artifact = None if arguments.artifact is None else Path(arguments.artifact).absolute()
    if artifact is not None and not artifact.is_dir():
        raise ValueError(
            f"argument --artifact: {literal(arguments.artifact)} is no folder; expected one with "
            "published data (data/ARTIFACTS.md tells where to get which)."
        )
    workloads = distinct("workloads", arguments.workloads)
    seeds = distinct("seeds", arguments.seeds)
    folder = Path(arguments.out) if arguments.dry_run else make_folder(arguments.out)
    plan = Plan(
        folder=folder.absolute(),
        workloads=workloads,
        pollux=pollux,
        seeds=seeds,
        artifact=artifact,
        gaps=arguments.gaps,
        quick=arguments.quick,
    )
    if not group:
        REPRODUCTIONS[arguments.what].refuse_ignored(replace(plan, quick=False))
    if arguments.dry_run:
        return _planned(names, plan)
    texts: list[str] = []
    left_out: list[str] = []
    truths: dict[object, None] = {}
    found, quick = list[dict[str, object]](), False
    for name in names:
        own = REPRODUCTIONS[name].own(plan)
        try:
            text, rows = _reproduce(name, own, arguments)
        except ValueError as error:
            if not group:
                raise
            left_out.append(f"{name} is left out. {error}")
            found.append({"reproduction": name, "error": str(error)})
        else:
            texts.append(text)
            quick |= own.quick
            truths[REPRODUCTIONS[name].source(own)["truth"]] = None
            found += [{"reproduction": name, **row} for row in rows]
    texts += left_out
    if quick:
        texts.append(
            "quick: fewer jobs, fewer nodes or fewer seeds, so compare lines with each other only"
        )
    by = " and ".join(told for truth, told in TRUTHS.items() if truth in truths) or "nothing"
    texts.append(f"by {by}; written to {folder}: a .csv and a .{arguments.pictures} of each")
    return Output("\n\n".join(texts), for_machines(found))


def _check_stored(arguments: argparse.Namespace) -> None:
    """Refuse to store or confirm what cannot be, before any time is spent.

    Raises
    ------
    ValueError
        If nothing would be run, a whole run is to be confirmed, or code is not committed.
    """
    option = "store" if arguments.store else "confirm"
    if not (arguments.store or arguments.confirm):
        return
    if arguments.what == "list" or arguments.dry_run:
        raise ValueError(f"argument --{option}: expected a study to run, without --dry-run.")
    if arguments.confirm and not arguments.quick:
        raise ValueError("argument --confirm: expected --quick, too; a whole run has --store.")
    from goodalloc.experiments.cli.report import commit_of_code

    commit_of_code()


def _planned(names: Sequence[str], plan: Plan) -> Output:
    """List the tasks of each study, and their expected minutes on this machine."""
    speed = slowdown()
    rows: list[dict[str, object]] = []
    for name in names:
        reproduction, minutes = REPRODUCTIONS[name], whole_minutes(name)
        own = reproduction.own(plan)
        try:
            reproduction.require(own)
            tasks: object = len(dict.fromkeys(reproduction.tasks(own)))
        except ValueError as error:
            tasks = str(error)
        here = "" if minutes is None or plan.quick else round(minutes * speed, 1)
        rows.append({"name": name, "tasks": tasks, "minutes": here})
    text = text_table(rows, ("name", "tasks", "minutes"))
    note = "minutes: of processor time, at the present speed of this machine"
    return Output(f"{text}\n\n{note}", rows)


def _listed() -> Output:
    """List all studies and their minutes."""
    rows: list[dict[str, object]] = []
    for name, entry in ENTRIES.items():
        minutes, title = whole_minutes(name), entry.title.removeprefix(f"{name}: ")
        shown = "" if minutes is None else round(max(minutes, 0.1), 1 if minutes < 10 else None)
        needs = NEEDED.get(name, "")
        rows.append({"name": name, "minutes": shown, "needs": needs, "what": title})
    for name, members in GROUPS.items():
        what = "all of these" if len(members) == len(ENTRIES) else ", ".join(members)
        rows.append({"name": name, "minutes": "", "needs": "", "what": what})
    text = text_table(rows, ("name", "minutes", "needs", "what"))
    return Output(f"{text}\n\n{LIST_NOTE}", rows)


def _reproduce(
    name: str, plan: Plan, arguments: argparse.Namespace
) -> tuple[str, list[dict[str, object]]]:
    """Run one study and write its table and figure; return its text and its table."""
    reproduction = REPRODUCTIONS[name]
    reproduction.require(plan)
    tasks = list(dict.fromkeys(reproduction.tasks(plan)))
    workers = arguments.workers if reproduction.parallel else ALONE
    expected = "" if plan.quick else expected_minutes(whole_minutes(name))
    refused = run_with_progress(arguments, tasks, plan.folder, name, workers, expected)
    if refused:
        raise all_refused(refused, plan.folder)
    begin = processor_seconds()
    rows, source = reproduction.rows(plan), reproduction.source(plan)
    table = table_of(rows)
    columns = tuple(table[0])
    labelled = [{**row, **source} for row in table]
    file = f"{name}-quick" if source["quick"] else name  # which never takes a full one's place
    write_atomically(plan.folder / f"{file}.csv", csv_text(labelled, (*columns, *source)))
    with drawing(f"the tables are in {plan.folder}"):
        from goodalloc.experiments.reporting.plots import save

        save(reproduction.plot(plan, rows), plan.folder / f"{file}.{arguments.pictures}")
    shown, kept = reproduction.shown(rows), ""
    if arguments.store or arguments.confirm:
        from goodalloc.experiments.cli.report import Reproduced, confirm_result, store_result

        seconds = processor_seconds() - begin
        summary = None if reproduction.shown is table_of else shown
        found = Reproduced(labelled, summary, tasks, seconds)
        (store_result if arguments.store else confirm_result)(name, plan, found)
        kept = f"{'stored' if arguments.store else 'confirmed'} in the repository: {file}"
    parts = reproduction.title, text_table(shown, tuple(shown[0])), reproduction.note, kept
    return "\n\n".join(filter(None, parts)), table


def _policies(lists: Sequence[Sequence[str]]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(flat(lists)))
    for name in names:
        make_policy(name)
    return names


def cluster_of(arguments: argparse.Namespace) -> Cluster:
    """Return the cluster of the arguments."""
    size = uniform_size(arguments)
    groups = arguments.group or [("node", *size, "")]
    amounts = resources({} if arguments.cores is None else {"cpu": arguments.cores})
    return Cluster(
        tuple(NodeGroup(name, nodes, gpus, kind, amounts) for name, nodes, gpus, kind in groups)
    )


def workload_of(arguments: argparse.Namespace) -> tuple[Submission, ...]:
    """Return the workload of a file, or a drawn one."""
    load, requests = arguments.load, arguments.requests
    if arguments.workload is None and arguments.philly is not None:
        from goodalloc.data.workloads.philly import draw_from_philly, read_philly  # pandas

        table, jobs = read_philly(arguments.philly), jobs_at(load or 1.0)
        return draw_from_philly(table, arguments.seed, jobs, requests or "tuned")
    if arguments.workload is None:
        return draw_workload(arguments.seed, load=load or 1.0, requests=requests or "tuned")
    if load is not None or requests is not None or arguments.philly is not None:
        raise ValueError(
            f"Arguments --load, --requests and --philly are for drawn workloads; "
            f"expected none of them with the file '{arguments.workload}'."
        )
    submitted = read_workload(arguments.workload)
    last = max(submitted, key=lambda job: job.time)
    if last.time > LATEST:
        raise ValueError(
            f"File '{arguments.workload}': job '{last.name}' is submitted at {last.time:,} s; "
            f"expected seconds from the start of the trace, at most {LATEST:,} (a year). Subtract "
            "the time of the first job."
        )
    return submitted


def run_with_progress(
    arguments: argparse.Namespace,
    tasks: Sequence[Task],
    folder: Path,
    name: str,
    workers: Workers,
    expected: str = "",
) -> dict[Path, str]:
    """Run tasks under a progress bar, as `run_tasks`; an interrupt says how to resume."""
    try:
        with progress_bar(name, len(tasks), quiet=arguments.json, expected=expected) as bar:
            return run_tasks(tasks, workers, bar.update)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; the same command goes on from the last checkpoint in {folder}."
        ) from None
