"""Commands on one instance: solve, check, generate."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import pack_number
from goodalloc.data.files.instance import instance_text, instance_to_dict, write_instance
from goodalloc.data.rounds.benchmark_set import find_instance
from goodalloc.experiments.cli.output import (
    FAILED,
    INTERRUPTED,
    PARQUET,
    Output,
    check_distinct,
    check_target,
)
from goodalloc.experiments.cli.types import uniform_size
from goodalloc.experiments.gap.comparison import check_solvers
from goodalloc.experiments.reporting.report import bound_text, percent
from goodalloc.experiments.support.extras import require_extra
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness, mode_utilities
from goodalloc.models.support.validation import literal
from goodalloc.solvers.certificates.certificate_file import write_certificate
from goodalloc.solvers.interface.result import Limit
from goodalloc.solvers.interface.result_file import result_to_dict, write_result

if TYPE_CHECKING:
    import argparse

    from goodalloc.models.columns.round_columns import RoundColumns
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.round.rules import Rules
    from goodalloc.solvers.interface.result import Result

#: Jobs up to which the allocation is printed.
MOST_PRINTED_JOBS = 40


def solve_command(arguments: argparse.Namespace) -> Output:
    """Solve an instance."""
    from goodalloc.solvers.certificates.solve import solve
    from goodalloc.solvers.interface.stop import Stop

    if arguments.file.endswith(PARQUET):
        return _solve_columns(arguments)
    instance = find_instance(arguments.file)
    check_solvers([arguments.solver])
    check_target(arguments.out)
    check_target(arguments.certificate)
    check_distinct(arguments.file, arguments.out, arguments.certificate)
    if arguments.cross_check is not None:
        require_extra(arguments.cross_check, f"Argument --cross-check {arguments.cross_check}")
    start = _start(arguments.start, instance)
    mode_utilities(instance)
    stop = Stop(seconds=arguments.seconds, gap=arguments.gap)
    options: dict[str, Any] = {"leximin": True} if arguments.leximin else {}
    result = solve(
        instance,
        arguments.solver,
        stop=stop,
        seed=arguments.seed,
        start=start,
        certificate=arguments.certificate is not None,
        **options,
    )
    text = solve_text(instance, result)
    if arguments.out is not None:
        write_result(result, instance, arguments.out)
        text += f"\nwritten      {arguments.out}"
    if arguments.certificate is not None and result.certificate is not None:
        write_certificate(result.certificate, arguments.certificate)
        text += f"\ncertificate  {arguments.certificate}"
    code = 0
    if result.allocation is None:
        code = INTERRUPTED if result.limit is Limit.INTERRUPTED else FAILED
    data = result_to_dict(result, instance)
    if arguments.cross_check is not None and result.limit is not Limit.INTERRUPTED:
        check = _cross_check(instance, result, arguments.cross_check_seconds)
        text += f"\n{check.text}"
        data["cross_check"] = check.data
        code = check.code or code
    return Output(text, data, code)


def _solve_columns(arguments: argparse.Namespace) -> Output:
    """Solve a round in columns by its price, and write the placements as CSV."""
    from goodalloc.data.documents.csv_writing import csv_text
    from goodalloc.data.rounds.column_file import read_columns
    from goodalloc.models.columns.mode_columns import ModeColumns
    from goodalloc.solvers.certificates.column_certificate import write_column_certificate
    from goodalloc.solvers.columns.solver import ColumnAnswer, solve_columns
    from goodalloc.solvers.mode_columns.solver import ModeColumnAnswer, solve_mode_columns

    require_extra("parquet", f"File '{arguments.file}'")
    given = ("start", "cross_check", "seconds")
    for name in (*given, *(["leximin"] if arguments.leximin else [])):
        if getattr(arguments, name) is not None:
            raise ValueError(
                f"argument --{name.replace('_', '-')}: expected none for a round in columns."
            )
    if arguments.solver != "highs":
        raise ValueError("argument --solver: expected none for a round in columns.")
    check_target(arguments.out)
    check_target(arguments.certificate)
    check_distinct(arguments.file, arguments.out, arguments.certificate)
    columns = read_columns(arguments.file)
    answer: ColumnAnswer | ModeColumnAnswer
    if isinstance(columns, ModeColumns):
        if arguments.certificate is not None:
            raise ValueError(
                "argument --certificate: expected none for a round in columns whose jobs have "
                "modes."
            )
        answer, proof = solve_mode_columns(columns), "prices of GPUs and resources"
    else:
        answer, proof = solve_columns(columns), "the price of a GPU"
    cluster, allocation = columns.cluster, answer.allocation
    served = int((allocation.job_replicas > 0).sum())
    shape = f"{columns.num_jobs} jobs, {cluster.num_nodes} nodes, {cluster.num_gpus} GPUs"
    lines = [
        ("round", f"{arguments.file}: {shape}"),
        ("fitness", f"{answer.fitness:.12g}"),
        ("bound", f"{answer.bound:.12g} (by {proof})"),
        ("gap", f"{answer.gap:.3g}"),
        ("served", f"{served} of {columns.num_jobs} jobs"),
        ("used", f"{int(allocation.replicas.sum())} of {cluster.num_gpus} GPUs"),
        ("seconds", ", ".join(f"{part} {took:.2f}" for part, took in answer.seconds.items())),
    ]
    text = "\n".join(f"{name:<12} {value}" for name, value in lines)
    if arguments.out is not None:
        entries = [allocation.job.tolist(), allocation.node.tolist(), allocation.replicas.tolist()]
        if isinstance(columns, ModeColumns):
            mode = allocation.mode[allocation.job].tolist()
            entries.append([columns.modes[index].name for index in mode])
        names = "job", "node", "gpus", "mode"
        rows = [dict[str, Any](zip(names, row, strict=False)) for row in zip(*entries, strict=True)]
        write_atomically(arguments.out, csv_text(rows, names[: len(entries)]))
        text += f"\nwritten      {arguments.out}"
    if arguments.certificate is not None and isinstance(answer, ColumnAnswer):
        write_column_certificate(answer, arguments.file, arguments.certificate)
        text += f"\ncertificate  {arguments.certificate}"
    data = {
        "fitness": answer.fitness,
        "bound": answer.bound,
        "gap": answer.gap,
        "price": answer.prices.tolist() if isinstance(answer, ModeColumnAnswer) else answer.price,
        "seconds": answer.seconds,
        "jobs": columns.num_jobs,
        "served": served,
    }
    return Output(text, data)


def _start(path: str | None, instance: Instance) -> Allocation | None:
    """Read the allocation to start from, which must be feasible."""
    if path is None:
        return None
    from goodalloc.data.files.allocation import read_allocation

    start = read_allocation(path, instance)
    broken = violations(instance, start)
    if broken:
        raise ValueError(f"File '{path}' is no feasible start: {broken[0]}")
    return start


def solve_text(instance: Instance, result: Result) -> str:
    """Return a result as text."""
    cluster = instance.cluster
    limit = "" if result.limit is None else f" (stopped by {str(result.limit).replace('_', ' ')})"
    lines = [
        (
            "instance",
            f"{instance.name}: {instance.num_jobs} jobs, {cluster.num_nodes} nodes, "
            f"{cluster.num_gpus} GPUs",
        ),
        ("solver", result.solver),
        ("status", f"{result.status}{limit}"),
        ("fitness", f"{result.fitness:.12g}"),
        ("bound", bound_text(result.bound, result.bound_source, result.evidence)),
        ("gap", percent(result.gap)),
        ("seconds", f"{result.solve_seconds:.3f}"),
    ]
    if result.claimed_bound != math.inf:
        claim = f"{result.claimed_bound:.12g} (by {result.solver}; unverified)"
        lines.insert(5, ("claimed", claim))
    if result.message:
        lines.append(("message", result.message))
    allocation = result.allocation
    if allocation is not None:
        served = int((allocation.job_replicas > 0).sum())
        used = int(allocation.replicas.sum())
        worth = "" if math.isnan(result.served_fitness) else f", worth {result.served_fitness:.9g}"
        starved = f"{instance.num_jobs - served} starve"
        lines.append(("served", f"{served} of {instance.num_jobs} jobs{worth}; {starved}"))
        lines.append(("used", f"{used} of {cluster.num_gpus} GPUs"))
    text = "\n".join(f"{name:<12} {value}" for name, value in lines)
    if allocation is not None and instance.num_jobs <= MOST_PRINTED_JOBS:
        text += "\n\n" + placement_text(instance, allocation) + "\n"
    return text


def _cross_check(instance: Instance, result: Result, seconds: float) -> Output:
    """Return the outcome of the cross-check of `result` with SCIP."""
    from goodalloc.experiments.gap.scip_check import Verdict, cross_check

    check = cross_check(instance, result, seconds=seconds)
    why = f" ({check.message})" if check.message else ""
    lines = [("cross-check", f"scip: {check.verdict}{why}")]
    if check.status:
        more = f"({check.difference:+.2g} relative to {result.solver})"
        lines += [
            ("  status", check.status),
            ("  fitness", f"{check.fitness:.12g} {more}"),
            ("  bound", f"{check.bound:.12g}"),
            ("  seconds", f"{check.seconds:.3f}"),
        ]
    text = "\n".join(f"{name:<12} {value}" for name, value in lines)
    data = {
        name: pack_number(value) if isinstance(value, float) else str(value)
        for name, value in asdict(check).items()
    }
    return Output(text, data, FAILED if check.verdict is Verdict.DISAGREE else 0)


def placement_text(instance: Instance, allocation: Allocation) -> str:
    """Return the placement and mode of every job as text, one line each."""
    names = instance.cluster.node_names
    width = max(len(job.name) for job in instance.jobs)
    lines = []
    for index, (job, pairs) in enumerate(zip(instance.jobs, allocation.placements(), strict=True)):
        placed = ", ".join(f"{names[node]}: {gpus}" for node, gpus in pairs) or "-"
        if pairs and job.modes:
            placed += f"  ({job.modes[allocation.mode[index]].name})"
        lines.append(f"{job.name:<{width}}  {placed}")
    return "\n".join(lines)


def check_command(arguments: argparse.Namespace) -> Output:
    """Check an allocation; exit code 1 if it breaks a rule."""
    from goodalloc.data.files.allocation import read_allocation

    instance = find_instance(arguments.file)
    allocation = read_allocation(arguments.allocation, instance)
    broken = violations(instance, allocation)
    if broken:
        count = "1 rule is" if len(broken) == 1 else f"{len(broken)} rules are"
        text = "\n".join([f"infeasible: {count} broken", *(f"  {item}" for item in broken)])
        found = [{"rule": item.rule, "message": item.message} for item in broken]
        return Output(text, {"feasible": False, "violations": found, "fitness": None}, FAILED)
    value = fitness(instance, allocation)
    served = int((allocation.job_replicas > 0).sum())
    text = f"feasible: fitness {value:.12g}, {served} of {instance.num_jobs} jobs served"
    return Output(text, {"feasible": True, "violations": [], "fitness": pack_number(value)})


def generate_command(arguments: argparse.Namespace) -> Output:
    """Draw an instance and write or print it."""
    check_target(arguments.out)
    if arguments.out is not None and arguments.out.endswith(PARQUET):
        return _draw_columns(arguments)
    instance = (_draw_pollux if arguments.workload == "pollux" else _draw_synergy)(arguments)
    if arguments.out is None:
        return Output(instance_text(instance).rstrip(), instance_to_dict(instance))
    write_instance(instance, arguments.out)
    size = f"{instance.num_jobs} jobs, {instance.cluster.num_nodes} nodes"
    data = {
        "file": arguments.out,
        "name": instance.name,
        "jobs": instance.num_jobs,
        "nodes": instance.cluster.num_nodes,
        "gpus": instance.cluster.num_gpus,
    }
    return Output(f"{arguments.out}: {instance.name}, {size}", data)


def _draw_columns(arguments: argparse.Namespace) -> Output:
    """Draw a round in columns and write it."""
    from goodalloc.data.rounds.column_file import write_columns
    from goodalloc.data.rounds.column_rounds import generate_columns
    from goodalloc.data.rounds.mode_column_rounds import generate_mode_columns

    require_extra("parquet", f"File '{arguments.out}'")
    for name in ("load", "memory", "split", "several_gpus", "name"):
        if getattr(arguments, name) not in (None, False):
            raise ValueError(
                f"argument --{name.replace('_', '-')}: expected none for a round in columns."
            )
    if arguments.workload != "pollux" or arguments.jobs is None:
        raise ValueError("argument --jobs: expected a number, of Pollux's jobs, for columns.")
    nodes, gpus = uniform_size(arguments)
    given: dict[str, Any] = {
        "state": "cold" if arguments.state is None else arguments.state,
        "rules": _preset(arguments),
    }
    columns: RoundColumns
    if arguments.group is not None:
        cluster = _cluster(arguments.group, arguments.cores or 0.0)
        columns = generate_mode_columns(arguments.seed, arguments.jobs, cluster, **given)
    elif arguments.cores is not None:
        raise ValueError("argument --cores: expected --group with it for a round in columns.")
    else:
        columns = generate_columns(arguments.seed, arguments.jobs, nodes, gpus, **given)
    write_columns(columns, arguments.out)
    nodes = columns.cluster.num_nodes
    data = {
        "file": arguments.out,
        "jobs": columns.num_jobs,
        "nodes": nodes,
        "gpus": columns.cluster.num_gpus,
    }
    return Output(f"{arguments.out}: {columns.num_jobs} jobs, {nodes} nodes", data)


def _cluster(groups: list[tuple[str, int, int, str]], cores: float = 0.0) -> Cluster:
    """Return a cluster of groups of nodes with as many cores each."""
    from goodalloc.models.round.cluster import Cluster, NodeGroup
    from goodalloc.models.round.mode import resources

    return Cluster(tuple(NodeGroup(*group, resources({"cpu": cores})) for group in groups))


def _draw_pollux(arguments: argparse.Namespace) -> Instance:
    """Draw a round of elastic jobs, as in Pollux's evaluation."""
    from goodalloc.data.rounds.equipped import equip
    from goodalloc.data.rounds.generator import generate
    from goodalloc.data.rounds.typed import generate_typed

    _refuse(arguments, "split", "several_gpus")
    cluster = None if arguments.group is None else _cluster(arguments.group)
    nodes, gpus = uniform_size(arguments)
    given: dict[str, Any] = {
        "load": arguments.load,
        "state": "cold" if arguments.state is None else arguments.state,
        "rules": _preset(arguments),
        "name": arguments.name,
    }
    if cluster is not None and any(cluster.gpu_types):
        instance = generate_typed(arguments.seed, arguments.jobs, cluster=cluster, **given)
    else:
        instance = generate(arguments.seed, arguments.jobs, nodes, gpus, cluster=cluster, **given)
    if arguments.cores is None:
        if arguments.memory is not None:
            raise ValueError("argument --memory: expected --cores with it.")
        return instance
    equipped = equip(instance, arguments.seed, cores=arguments.cores, memory=arguments.memory)
    return equipped if arguments.name is None else equipped.replace(name=arguments.name)


def _draw_synergy(arguments: argparse.Namespace) -> Instance:
    """Draw a round of rigid jobs with modes, as in Synergy's evaluation."""
    from goodalloc.data.rounds.synergy import ONE_GPU, PUBLISHED_GPUS, synergy_round

    _refuse(arguments, "gpus_per_node", "group", "state", "rules", "cores", "memory")
    instance = synergy_round(
        arguments.seed,
        arguments.nodes or 16,
        arguments.jobs,
        load=arguments.load,
        split=arguments.split,
        gpus=PUBLISHED_GPUS if arguments.several_gpus else ONE_GPU,
        name=arguments.name,
    )
    return instance.replace(rules=_changed(instance.rules, arguments))


def _refuse(arguments: argparse.Namespace, *names: str) -> None:
    """Refuse arguments that have no effect on the workload."""
    for name in names:
        if getattr(arguments, name) not in (None, False):
            raise ValueError(
                f"argument --{name.replace('_', '-')}: makes no difference to the workload "
                f"'{arguments.workload}'; expected none."
            )


def _preset(arguments: argparse.Namespace) -> Rules:
    """Return the rules that the arguments name, as changed by the others.

    Raises
    ------
    ValueError
        If there are none of that name.
    """
    from goodalloc.models.round.rules import PRESETS

    preset = "default" if arguments.rules is None else arguments.rules
    if preset not in PRESETS:
        known = ", ".join(PRESETS)
        raise ValueError(f"argument --rules: got {literal(preset)}; expected one of {known}.")
    return _changed(PRESETS[preset], arguments)


def _changed(rules: Rules, arguments: argparse.Namespace) -> Rules:
    """Return `rules` as changed by the arguments."""
    if arguments.power is not None:
        rules = rules.replace(power=arguments.power)
    if arguments.interference_avoidance is not None:
        rules = rules.replace(interference_avoidance=arguments.interference_avoidance)
    return rules
