"""Commands `room` and `topology`: room for a gang in a running cluster, and rounds on a tree.

`room` moves or stops jobs; `topology` decides exactly, or by a scheduler's placement.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from goodalloc.data.files.allocation import write_allocation
from goodalloc.data.rounds.benchmark_set import find_instance
from goodalloc.data.topology.topology_file import read_topology
from goodalloc.experiments.cli.output import FAILED, Output, check_distinct, check_target
from goodalloc.experiments.reporting.report import text_table
from goodalloc.models.making_room.room_plan import usable_nodes
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.making_room.defragment import fewest_moves, greedy_moves
from goodalloc.solvers.making_room.preempt import greedy_preemption, least_preemption
from goodalloc.solvers.topology.exact_tree import flat_optimum, solve_tree, tree_result
from goodalloc.solvers.topology.kueue_placement import greedy_placement

if TYPE_CHECKING:
    import argparse

    from goodalloc.models.making_room.room_plan import RoomPlan
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.topology.topology_round import TopologyRound
    from goodalloc.solvers.interface.result import Result


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
    return _room_output(instance, arguments, plan)


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


def _room_output(instance: Instance, arguments: argparse.Namespace, plan: RoomPlan) -> Output:
    """Return the plan as text and data."""
    names, nodes = [job.name for job in instance.jobs], instance.cluster.node_names
    held = instance.current.placements()
    data: dict[str, Any] = {
        "found": plan.found,
        "proven": plan.proven,
        "cost": plan.cost if plan.found else None,
        "gang_nodes": [nodes[node] for node in plan.gang_nodes],
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
        return Output(_why_none(instance, arguments, plan), data, FAILED)
    rows = data[arguments.by]
    text = text_table(rows, tuple(rows[0])) + "\n\n" if rows else ""
    proof = "the least possible" if plan.proven else "without a proof"
    unit = {"jobs": "jobs", "gpus": "GPUs", "service": "GPU-seconds"}[arguments.cost]
    text += f"{arguments.by}: {len(rows)}, at a cost of {plan.cost:g} {unit} ({proof}), "
    text += f"found in {plan.seconds:.2g} s"
    if arguments.by == "moves" and rows:
        text += "; all moves are made at once"
    return Output(f"{text}\nthe gang gets {', '.join(data['gang_nodes'])}", data)


def _why_none(instance: Instance, arguments: argparse.Namespace, plan: RoomPlan) -> str:
    """Return a sentence that says why there is no plan, or that none was found."""
    gang = arguments.gang
    large = int(usable_nodes(instance, gang).sum())
    if large < gang.nodes:
        return (
            f"no {arguments.by} make room for the gang: {large} nodes have {gang.gpus_per_node} "
            f"GPUs, and it needs {gang.nodes}"
        )
    if arguments.greedy:
        return "the greedy way found no room for the gang; without --greedy, every way is tried"
    if plan.proven:
        return f"no {arguments.by} make room for the gang, which is proved"
    return "no room for the gang was found within the time limit"


def topology_command(arguments: argparse.Namespace) -> Output:
    """Decide a round on a tree; exit code 1 if no allocation is found."""
    check_target(arguments.out)
    check_distinct(arguments.file, arguments.tree, arguments.out)
    round_ = read_topology(arguments.tree, find_instance(arguments.file))
    stop = Stop(seconds=arguments.seconds, gap=arguments.gap)
    if arguments.placement == "exact":
        result = solve_tree(round_, stop=stop)
    else:
        watch = Watch(stop)
        wanted = flat_optimum(round_, stop)
        if wanted is None:
            return Output("no optimum without the tree was found within the time limit", {}, FAILED)
        placed = greedy_placement(round_, wanted, arguments.placement)
        result = tree_result(round_, arguments.placement, placed, math.inf, source="", watch=watch)
    if arguments.out is not None and result.allocation is not None:
        write_allocation(result.allocation, round_.instance, arguments.out)
    return _topology_output(round_, result)


def _topology_output(round_: TopologyRound, result: Result) -> Output:
    """Return a result as text and data."""
    allocation = result.allocation
    bounded = math.isfinite(result.bound)
    data: dict[str, Any] = {
        "solver": result.solver,
        "status": str(result.status),
        "fitness": None if allocation is None else result.fitness,
        "bound": result.bound if bounded else None,
        "gap": result.gap if bounded and allocation is not None else None,
        "proved_by": result.bound_source,
        "starved": result.starved,
        "seconds": result.solve_seconds,
    }
    if allocation is None:
        return Output("no allocation was found within the time limit", data, FAILED)
    level, names = round_.level_of(allocation), round_.topology.level_names
    runs, gpus = allocation.job_replicas > 0, allocation.job_replicas
    rows = [
        {
            "level": name,
            "jobs": int((runs & (level == place)).sum()),
            "GPUs": int(gpus[runs & (level == place)].sum()),
        }
        for place, name in enumerate(names)
    ]
    data["levels"] = rows
    proof = f"bound {result.bound:.6g}, gap {result.gap:.1e}, proved by {result.bound_source}"
    return Output(
        f"{text_table(rows, tuple(rows[0]))}\n\n{result.status}: fitness {result.fitness:.6g}, "
        f"{proof if bounded else 'without a bound'}, {result.starved} of "
        f"{round_.instance.num_jobs} jobs hold nothing, {result.solve_seconds:.2g} s",
        data,
    )
