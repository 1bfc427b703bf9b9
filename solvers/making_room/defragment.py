"""Defragmentation: which jobs to move so that a gang fits, at the least cost, or greedily.

The exact way solves `formulations/making_room/moves_program.py` and finds nodes and jobs for its
counts, on all nodes or within one of several regions (`within_regions`). The greedy one empties the
nodes where that costs least, one after the other, and puts each job that leaves where it fits
tightest, the largest first (best fit decreasing).
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.making_room.moves_program import build_moves_program, movable_jobs
from goodalloc.formulations.making_room.region_program import build_region_moves
from goodalloc.models.making_room.residents import residents_of
from goodalloc.models.making_room.room_plan import (
    Move,
    RoomPlan,
    barred_nodes,
    checked_plan,
    require_costs,
    usable_nodes,
)
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.making_room.within_regions import (
    DividedRoom,
    best_of_regions,
    decided_plan,
    no_plan,
    require_regions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from jaxtyping import Int

    from goodalloc.formulations.making_room.moves_program import MovesProgram
    from goodalloc.models.making_room.residents import Resident
    from goodalloc.models.making_room.room_plan import Gang
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices


def fewest_moves(
    instance: Instance,
    gang: Gang,
    *,
    costs: Mapping[int, float] | None = None,
    regions: Int[Indices, " nodes"] | None = None,
    stop: Stop | None = None,
) -> RoomPlan:
    """Return the cheapest moves of running jobs after which a gang fits, with a proof.

    Parameters
    ----------
    instance
        The round, of which the present placements count. Jobs on one node that are preemptible may
        move, each to one other node with GPUs of the same type.
    gang
        The gang.
    costs
        Cost of moving a job, by its index, for those that may move; 1 for each if None.
    regions
        Number of the region of every node, such as its rack, as
        `goodalloc.models.topology.job_regions` gives it; shape (nodes,). The gang lies in one of
        them, jobs move anywhere. None if all nodes are one region.
    stop
        Limit of time.

    Returns
    -------
    RoomPlan
        The plan, whose bound is infinite where no moves make room.

    Raises
    ------
    ValueError
        If the gang asks for a type that is not there, nodes have resources beside GPUs, a cost
        is negative, or there are more or fewer regions than nodes.

    Examples
    --------
    Four nodes of two GPUs with one job each: to free two of them, two jobs move.

    >>> from goodalloc.models import Cluster, Instance, Job
    >>> from goodalloc.models.making_room import Gang
    >>> from goodalloc.solvers.making_room import fewest_moves
    >>> jobs = tuple(Job(f"job{node}", placement=((node, 1),)) for node in range(4))
    >>> plan = fewest_moves(Instance(Cluster.uniform(4, 2), jobs), Gang(2, 2))
    >>> len(plan.moves), plan.cost, plan.proven
    (2, 2.0, True)

    Two nodes are empty, but of different racks: one job moves if one rack is to hold the gang.

    >>> import numpy as np
    >>> two, racks = Instance(Cluster.uniform(4, 2), (jobs[0], jobs[2])), np.array([0, 0, 1, 1])
    >>> fewest_moves(two, Gang(2, 2)).gang_nodes
    (1, 3)
    >>> plan = fewest_moves(two, Gang(2, 2), regions=racks)
    >>> plan.cost, plan.proven, len(set(racks[list(plan.gang_nodes)].tolist()))
    (1.0, True, 1)
    """
    watch = Watch(stop or Stop())
    prices = _prices(instance, costs)
    usable_nodes(instance, gang)
    require_regions(instance, regions)
    found = build_moves_program(instance, gang, prices)
    decoded = partial(_decoded, instance, gang, found, prices)
    divide = partial(_divided, gang, found, decoded, watch)
    plan = best_of_regions(decided_plan(found, watch, decoded), regions, divide, watch)
    return checked_plan(instance, gang, plan) if plan.found else plan


def greedy_moves(
    instance: Instance, gang: Gang, *, costs: Mapping[int, float] | None = None
) -> RoomPlan:
    """Return moves after which a gang fits, greedily.

    Parameters
    ----------
    instance, gang, costs
        As of `fewest_moves`.
    """
    begin = time.perf_counter()
    prices = _prices(instance, costs)
    usable, barred = usable_nodes(instance, gang), barred_nodes(instance, gang)
    free = instance.cluster.node_gpus - instance.current.node_replicas
    types = np.array(instance.cluster.node_types)
    here = _movable_by_node(instance, prices)
    leaving: dict[int, list[Resident]] = {}
    for node in np.flatnonzero(usable).tolist():
        jobs = _leaving(here[node], gang.gpus_per_node - int(free[node]), prices)
        if node not in barred and jobs is not None:
            leaving[node] = jobs
    order = sorted(leaving, key=lambda node: (sum(prices[one.job] for one in leaving[node]), node))
    chosen: list[int] = []
    moves: list[Move] = []
    touched: set[int] = set()
    for node in order:
        if len(chosen) == gang.nodes:
            break
        if node in touched:
            continue
        trial, made = free.copy(), list[Move]()
        for one in sorted(leaving[node], key=lambda one: -one.gpus):
            fits = (trial >= one.gpus) & (types == types[node])
            fits[[node, *chosen]] = False
            if not fits.any():
                break
            target = int(np.argmin(np.where(fits, trial, np.iinfo(np.int64).max)))
            trial[target] -= one.gpus
            trial[node] += one.gpus
            made.append(Move(one.job, node, target))
        else:
            free, chosen = trial, [*chosen, node]
            moves += made
            touched |= {move.target for move in made}
    seconds = time.perf_counter() - begin
    if len(chosen) < gang.nodes:
        return no_plan(0.0, seconds)
    cost = float(sum(prices[move.job] for move in moves))
    return checked_plan(
        instance, gang, RoomPlan(tuple(chosen), tuple(moves), (), cost, 0.0, seconds)
    )


def _prices(instance: Instance, costs: Mapping[int, float] | None) -> dict[int, float]:
    """Return the cost of every job that may move."""
    movable = movable_jobs(instance)
    if costs is None:
        return dict.fromkeys(movable, 1.0)
    require_costs("Cost of a move", costs, instance.num_jobs)
    return {job: float(costs[job]) for job in movable if job in costs}


def _movable_by_node(instance: Instance, prices: Mapping[int, float]) -> list[list[Resident]]:
    """Return the movable jobs of every node."""
    return [[one for one in here if one.job in prices] for here in residents_of(instance)]


def _leaving(
    held: list[Resident], needed: int, prices: Mapping[int, float]
) -> list[Resident] | None:
    """Return jobs that free enough GPUs, the cheapest a GPU first; None if all are too few."""
    freed = 0
    taken: list[Resident] = []
    for one in sorted(held, key=lambda one: (prices[one.job] / one.gpus, -one.gpus)):
        if freed >= needed:
            break
        taken.append(one)
        freed += one.gpus
    return taken if freed >= needed else None


def _divided(
    gang: Gang,
    found: MovesProgram,
    decoded: Callable[..., RoomPlan],
    watch: Watch,
    regions: Int[Indices, " nodes"],
) -> DividedRoom:
    """Return bound and solution of each region, of those with equal optima one."""
    divided = build_region_moves(found, gang)
    counts = divided.counts(regions)
    # regions with equally many nodes of each class have equal optima
    alike = {row.tobytes(): region for region, row in enumerate(counts)}.values()

    def solve(region: int, known: float) -> RoomPlan:
        inside = frozenset(np.flatnonzero(regions == region).tolist())
        placed = partial(decoded, holders=divided.holders, inside=inside)
        return decided_plan(divided.within(counts[region]), watch, placed, known=known)

    return DividedRoom({region: divided.bound(counts[region], gang) for region in alike}, solve)


def _decoded(
    instance: Instance,
    gang: Gang,
    found: MovesProgram,
    prices: Mapping[int, float],
    values: Floats,
    *,
    holders: Sequence[int] = (),
    inside: Collection[int] = (),
) -> RoomPlan:
    """Return moves and nodes of the gang for the counts of a solution.

    Each column takes its number of nodes: within a region, given by its nodes and the `holders` of
    `RegionMoves`, first those of the region that hold a piece of the gang, and then the others from
    all that are left of their class.
    """
    here = _movable_by_node(instance, prices)
    left = {
        index: sorted(group.nodes, key=lambda node: node in inside)
        for index, group in enumerate(found.classes)
    }
    counts, first = np.rint(values).astype(int).tolist(), len(found.keepings)
    pieces = dict(zip(holders, counts[first + len(found.takings) :], strict=True))
    held: dict[tuple[int, bool], list[int]] = defaultdict(list)
    others: dict[tuple[int, bool], list[int]] = defaultdict(list)
    homeless: dict[int, list[tuple[int, int]]] = defaultdict(list)
    kept = [(place, count, held) for place, count in pieces.items()]
    for place, count in enumerate(counts[:first]):
        kept.append((place, count - pieces.get(place, 0), others))
    for place, count, room in kept:
        one = found.keepings[place]
        for _ in range(count):
            node = left[one.group].pop()
            room[one.free, found.classes[one.group].barred].append(node)
            for size, stay in enumerate(one.kept, start=1):
                alike = sorted(
                    (prices[mover.job], mover.job) for mover in here[node] if mover.gpus == size
                )
                for _, job in alike[: len(alike) - stay]:
                    homeless[size].append((job, node))
    nodes, moves = list[int](), list[Move]()
    for count, take in zip(counts[first:], found.takings, strict=False):
        key = take.free, take.barred
        for _ in range(count):
            node = (held[key] or others[key] if take.gang else others[key] or held[key]).pop()
            if take.gang:
                nodes.append(node)
            for size, number in enumerate(take.taken, start=1):
                for _ in range(min(number, len(homeless[size]))):
                    job, origin = homeless[size].pop()
                    moves.append(Move(job, origin, node))
    real = tuple(sorted(move for move in moves if move.origin != move.target))
    cost = float(sum(prices[move.job] for move in real))
    return RoomPlan(tuple(sorted(nodes)[: gang.nodes]), real, (), cost, 0.0, 0.0)


def move_front(
    instance: Instance,
    gang: Gang,
    nodes: Sequence[int],
    *,
    costs: Mapping[int, float] | None = None,
) -> list[RoomPlan]:
    """Return the cheapest moves for gangs of several numbers of nodes, up to what moves allow.

    Parameters
    ----------
    instance
        The round.
    gang
        The gang, whose number of nodes is replaced.
    nodes
        Numbers of nodes, ascending.
    costs
        As of `fewest_moves`.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job
    >>> from goodalloc.models.making_room import Gang
    >>> from goodalloc.solvers.making_room import move_front
    >>> jobs = tuple(Job(f"job{node}", placement=((node, 1),)) for node in range(4))
    >>> instance = Instance(Cluster.uniform(4, 2), jobs)
    >>> [plan.cost for plan in move_front(instance, Gang(1, 2), (1, 2, 3))]
    [1.0, 2.0]
    """
    found = []
    for count in nodes:
        plan = fewest_moves(instance, replace(gang, nodes=count), costs=costs)
        if not plan.found:
            break
        found.append(plan)
    return found
