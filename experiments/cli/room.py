"""Command `room`: make room for a gang in a running cluster, by moving or by stopping jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.data.rounds.benchmark_set import find_instance
from goodalloc.experiments.cli.output import FAILED, Output
from goodalloc.experiments.reporting.report import text_table
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.making_room.defragment import fewest_moves, greedy_moves
from goodalloc.solvers.making_room.preempt import greedy_preemption, least_preemption

if TYPE_CHECKING:
    import argparse

    from goodalloc.models.making_room.room_plan import RoomPlan
    from goodalloc.models.round.instance import Instance


def room_command(arguments: argparse.Namespace) -> Output:
    """Make room for a gang; exit code 1 if there is no plan."""
    if arguments.greedy and arguments.seconds is not None:
        raise ValueError("argument --seconds: expected it without --greedy, which needs no limit.")
    instance = find_instance(arguments.file)
    costs = job_costs(instance, arguments.cost)
    if arguments.by == "moves":
        if arguments.greedy:
            plan = greedy_moves(instance, arguments.gang, costs=costs)
        else:
            stop = Stop(seconds=arguments.seconds)
            plan = fewest_moves(instance, arguments.gang, costs=costs, stop=stop)
    elif arguments.greedy:
        plan = greedy_preemption(instance, arguments.gang, losses=costs)
    else:
        stop = Stop(seconds=arguments.seconds)
        plan = least_preemption(instance, arguments.gang, losses=costs, stop=stop)
    return _output(instance, plan, arguments.by)


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


def _output(instance: Instance, plan: RoomPlan, by: str) -> Output:
    names, nodes = [job.name for job in instance.jobs], instance.cluster.node_names
    data: dict[str, Any] = {
        "found": plan.found,
        "proven": plan.proven,
        "cost": plan.cost if plan.found else None,
        "gang_nodes": [nodes[node] for node in plan.gang_nodes],
        "moves": [
            {"job": names[one.job], "from": nodes[one.origin], "to": nodes[one.target]}
            for one in plan.moves
        ],
        "stops": [names[job] for job in plan.victims],
        "seconds": plan.seconds,
    }
    if not plan.found:
        text = f"no {by} make room for the gang"
        return Output(text + (", which is proved" if plan.proven else ""), data, FAILED)
    rows = data["moves"] or [{"job": name} for name in data["stops"]]
    text = text_table(rows, tuple(rows[0])) + "\n\n" if rows else ""
    proof = "the least possible" if plan.proven else "without a proof"
    text += f"{len(rows)} {by}, cost {plan.cost:g} ({proof}), in {plan.seconds:.2g} s\n"
    text += f"the gang gets {', '.join(data['gang_nodes'])}"
    return Output(text, data)
