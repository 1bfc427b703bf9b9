"""Command `room`: make room for a gang in a running cluster, by moving or by stopping jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.rounds.any_round import read_round
from goodalloc.experiments.cli.output import FAILED, Output, counted
from goodalloc.experiments.cli.rounds.columns import require_reader
from goodalloc.experiments.cli.rounds.room_on_tree import read_asked_level, require_tree_options
from goodalloc.experiments.reporting.report import text_table
from goodalloc.models.making_room.room_plan import Gang, usable_nodes
from goodalloc.models.support.validation import literal
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.making_room.defragment import fewest_moves, greedy_moves
from goodalloc.solvers.making_room.preempt import greedy_preemption, least_preemption

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from goodalloc.experiments.cli.rounds.room_on_tree import AskedLevel
    from goodalloc.models.making_room.room_plan import RoomPlan
    from goodalloc.models.round.instance import Instance

#: Folder of the front, unless another one is given.
FRONT_FOLDER = "results/room"

#: Units of costs, by their kinds.
COST_UNITS = {"jobs": "jobs", "gpus": "GPUs", "service": "GPU-seconds"}


def room_command(arguments: argparse.Namespace) -> Output:
    """Make room for a gang; exit code 1 if there is no plan."""
    if arguments.greedy and arguments.seconds is not None:
        raise ValueError("argument --seconds: expected it without --greedy, which needs no limit.")
    for option in ("quota", "groups"):
        if getattr(arguments, option) and arguments.by == "moves":
            raise ValueError(f"argument --{option}: expected it with --by stops only.")
    if arguments.groups and not arguments.quota:
        raise ValueError("argument --groups: expected it with --quota, of groups of that file.")
    require_tree_options(arguments)
    arguments.gang = parsed_gang(arguments.gang)
    require_reader(arguments.file)
    instance = read_round(arguments.file)
    if arguments.priorities is not None:
        instance = of_lower_priority(instance, arguments.priorities, arguments.priority or 0.0)
    elif arguments.priority is not None:
        raise ValueError("argument --priority: expected --priorities with it.")
    asked = None if arguments.tree is None else read_asked_level(instance, arguments)
    costs = job_costs(instance, arguments.cost)
    if arguments.front is not None:
        from goodalloc.experiments.cli.rounds.room_front import front_output

        arguments.out = arguments.out or FRONT_FOLDER
        return front_output(instance, arguments, costs, COST_UNITS[arguments.cost])
    if arguments.out is not None:
        raise ValueError("argument --out: expected it with --front only; a plan is printed.")
    stop, regions = Stop(seconds=arguments.seconds), None if asked is None else asked.regions
    if arguments.by == "moves":
        if arguments.greedy:
            plan = greedy_moves(instance, arguments.gang, costs=costs)
        else:
            plan = fewest_moves(instance, arguments.gang, costs=costs, regions=regions, stop=stop)
    else:
        quotas = _quotas(arguments.quota)
        groups = job_groups(instance, arguments.groups) if quotas else {}
        kept: dict[str, Any] = {"losses": costs, "groups": groups, "quotas": quotas}
        if arguments.greedy:
            plan = greedy_preemption(instance, arguments.gang, **kept)
        else:
            plan = least_preemption(instance, arguments.gang, **kept, regions=regions, stop=stop)
    if asked is not None and plan.found:
        asked.check(arguments.gang, plan)
    return _output(instance, arguments, plan, asked)


def parsed_gang(text: str) -> Gang:
    """Return the nodes, GPUs on each and type of a gang, as 4:8 or 4:8:a100.

    Parameters
    ----------
    text
        The argument.

    Raises
    ------
    ValueError
        If it is of another form, or a number makes no sense.
    """
    nodes, _, rest = text.partition(":")
    gpus, _, gpu_type = rest.partition(":")
    if not (nodes.isdecimal() and gpus.isdecimal()) or ":" in gpu_type or text.endswith(":"):
        raise ValueError(
            f"argument --gang: got {literal(text)}; expected NODES:GPUS, as 4:8, or "
            "NODES:GPUS:TYPE."
        )
    return Gang(int(nodes), int(gpus), gpu_type)


def _quotas(given: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Return the quotas of the arguments; no group has two."""
    found: dict[str, int] = {}
    for group, gpus in given:
        if group in found:
            raise ValueError(
                f"argument --quota: group '{group}' has {found[group]} and {gpus}; expected one."
            )
        found[group] = gpus
    return found


def job_groups(instance: Instance, path: str | None) -> dict[int, str]:
    """Return the group of each job: its application, or as a file has it.

    Parameters
    ----------
    instance
        The round.
    path
        CSV of job, group; jobs that it does not name belong to none. None for applications.

    Raises
    ------
    ValueError
        If the file cannot be read, or names an unknown job or one twice.
    """
    names = {job.name: index for index, job in enumerate(instance.jobs)}
    if path is None:
        return {index: instance.jobs[index].application for index in names.values()}
    table, found = read_table(path, ("job", "group")), dict[int, str]()
    rows = zip(table.columns["job"], table.columns["group"], strict=True)
    for row, (job, group) in enumerate(rows):
        if job not in names or names[job] in found:
            raise table.refusal(row, "job", "jobs of the round, each once")
        found[names[job]] = group
    return found


def of_lower_priority(instance: Instance, path: str, priority: float) -> Instance:
    """Return the round with the jobs that a gang of some priority may not touch left as they are.

    Parameters
    ----------
    instance
        The round.
    path
        CSV of job, priority; jobs that it does not name have 0.
    priority
        Priority of the gang. Only running jobs of a lower one may be moved or stopped.

    Raises
    ------
    ValueError
        If the file cannot be read, a priority is no number, or it names an unknown job or one
        twice.
    """
    table = read_table(path, ("job", "priority"))
    known, found = {job.name for job in instance.jobs}, dict[str, float]()
    rows = zip(table.columns["job"], table.numbers("priority").tolist(), strict=True)
    for row, (job, own) in enumerate(rows):
        if job not in known or job in found:
            raise table.refusal(row, "job", "jobs of the round, each once")
        found[job] = own
    jobs = tuple(
        replace(job, preemptible=False)
        if job.placement and found.get(job.name, 0.0) >= priority
        else job
        for job in instance.jobs
    )
    return instance.replace(jobs=jobs)


def job_costs(instance: Instance, kind: str) -> dict[int, float]:
    """Return what each running job costs that is moved or stopped.

    Parameters
    ----------
    instance
        The round.
    kind
        "jobs" for 1, "gpus" for the GPUs that it holds, "service" for the GPU-seconds that it
        received.
    """
    replicas = instance.current.job_replicas
    running = [job for job in range(instance.num_jobs) if replicas[job] > 0]
    if kind == "service":
        return {job: instance.jobs[job].attained_service for job in running}
    return {job: float(replicas[job]) if kind == "gpus" else 1.0 for job in running}


def _output(
    instance: Instance,
    arguments: argparse.Namespace,
    plan: RoomPlan,
    asked: AskedLevel | None,
) -> Output:
    """Return the plan as text and data."""
    names, nodes = [job.name for job in instance.jobs], instance.cluster.node_names
    held = instance.current.placements()
    data: dict[str, Any] = {
        "found": plan.found,
        "proven": plan.proven,
        "cost": plan.cost if plan.found else None,
        "gang_nodes": [nodes[node] for node in plan.gang_nodes],
        **({} if asked is None else {"level": asked.level, "domain": asked.domain(plan)}),
        "moves": [
            {
                "job": names[one.job],
                "GPUs": held[one.job][0][1],
                "from": nodes[one.origin],
                "to": nodes[one.target],
            }
            for one in plan.moves
        ],
        "stops": [
            {
                "job": names[job],
                "GPUs": sum(gpus for _, gpus in held[job]),
                "nodes": " ".join(nodes[node] for node, _ in held[job]),
            }
            for job in plan.victims
        ],
        "seconds": plan.seconds,
    }
    if not plan.found:
        return Output(_why_none(instance, arguments, plan, asked), data, FAILED)
    rows = data[arguments.by]
    text = text_table(rows, tuple(rows[0])) + "\n\n" if rows else ""
    proof = "the least possible" if plan.proven else "without a proof"
    unit = COST_UNITS[arguments.cost].removesuffix("s" if plan.cost == 1.0 else "")
    text += f"{arguments.by}: {len(rows)}, at a cost of {plan.cost:g} {unit} ({proof}), "
    text += f"found in {plan.seconds:.2g} s"
    if arguments.by == "moves" and rows:
        text += "; all moves are made at once"
    text += f"\nthe gang gets {', '.join(data['gang_nodes'])}"
    return Output(text if asked is None else f"{text}, within {data['domain']}", data)


def _why_none(
    instance: Instance,
    arguments: argparse.Namespace,
    plan: RoomPlan,
    asked: AskedLevel | None,
) -> str:
    """Return a sentence that says why there is no plan, or that none was found."""
    gang = arguments.gang
    within = "" if asked is None else f" within one {asked.level}"
    large, gpus = int(usable_nodes(instance, gang).sum()), counted(gang.gpus_per_node, "GPU")
    if large < gang.nodes:
        have = counted(large, "node", ("has", "have"))
        return (
            f"no {arguments.by} make room for the gang: {have} {gpus}, and the gang needs "
            f"{gang.nodes}"
        )
    if asked is not None and (most := asked.largest(gang)) < gang.nodes:
        return (
            f"no {arguments.by} make room for the gang{within}: none has more than "
            f"{counted(most, 'node')} of {gpus}, and the gang needs {gang.nodes}"
        )
    if arguments.greedy:
        return "the greedy way found no room for the gang; without --greedy, every way is tried"
    if plan.proven:
        return f"no {arguments.by} make room for the gang{within}, which is proved"
    when = "before the interrupt" if arguments.seconds is None else "within the time limit"
    return f"no room for the gang{within} was found {when}"
