"""Room for a gang within one of several regions, such as racks: fewest moves, least preemption.

The optimum on all nodes as one region comes first: if its nodes are of one region, or there is no
plan, nothing else is solved. Otherwise the regions are solved in the order of their lower bounds
(`formulations/making_room/region_program.py`), until no bound is below the best plan; in each the
relaxation is solved first, and nothing more where it shows that the region has no better plan.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.making_room.moves_program import build_moves_program, movable_jobs
from goodalloc.formulations.making_room.preemption_program import build_preemption_program
from goodalloc.formulations.making_room.region_program import (
    build_region_moves,
    least_loss_within,
)
from goodalloc.models.making_room.residents import residents_of
from goodalloc.models.making_room.room_plan import Move, RoomPlan, checked_plan
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.making_room.defragment import GAP, fewest_moves, proven_bound
from goodalloc.solvers.making_room.preempt import least_preemption
from goodalloc.solvers.milp.price_and_core import decide

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jaxtyping import Bool, Int

    from goodalloc.formulations.making_room.region_program import RegionMoves
    from goodalloc.models.making_room.room_plan import Gang
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.milp.price_and_core import Decision

    #: Plan in a region, by its number and the cost of the best plan so far.
    Solve = Callable[[int, float], RoomPlan]


def fewest_moves_within(
    instance: Instance,
    gang: Gang,
    regions: Int[Indices, " nodes"],
    *,
    costs: Mapping[int, float] | None = None,
    stop: Stop | None = None,
) -> RoomPlan:
    """Return the cheapest moves after which a gang fits into one region, with a proof.

    Parameters
    ----------
    instance, gang
        As of `fewest_moves`; jobs may move to any node of their type.
    regions
        Number of the region of every node, as `goodalloc.models.topology.job_regions` gives it;
        shape (nodes,).
    costs, stop
        As of `fewest_moves`.

    Returns
    -------
    RoomPlan
        The plan, whose bound is infinite where no moves make room.

    Raises
    ------
    ValueError
        As `fewest_moves`, or if there are more or fewer regions than nodes.

    Examples
    --------
    Four nodes of two GPUs, of which two of different racks are empty: one job moves.

    >>> import numpy as np
    >>> from goodalloc.models import Cluster, Instance, Job
    >>> from goodalloc.models.making_room import Gang
    >>> from goodalloc.solvers.making_room import fewest_moves, fewest_moves_within
    >>> jobs = (Job("a", placement=((0, 1),)), Job("b", placement=((2, 1),)))
    >>> instance, racks = Instance(Cluster.uniform(4, 2), jobs), np.array([0, 0, 1, 1])
    >>> fewest_moves(instance, Gang(2, 2)).gang_nodes
    (1, 3)
    >>> plan = fewest_moves_within(instance, Gang(2, 2), racks)
    >>> plan.cost, plan.proven, set(racks[list(plan.gang_nodes)].tolist()) in ({0}, {1})
    (1.0, True, True)
    """
    _require_regions(instance, regions)
    watch = Watch(stop or Stop())
    everywhere = fewest_moves(instance, gang, costs=costs, stop=stop)
    if (settled := _settled(everywhere, regions)) is not None:
        return settled
    movable = movable_jobs(instance)
    prices = (
        dict.fromkeys(movable, 1.0)
        if costs is None
        else {job: float(costs[job]) for job in movable if job in costs}
    )
    found = build_region_moves(build_moves_program(instance, gang, prices), gang)
    counts = found.counts(regions)
    # of regions with equally many nodes of each class, which have equal optima, one
    alike = {row.tobytes(): region for region, row in enumerate(counts)}.values()

    def solve(region: int, known: float) -> RoomPlan:
        program = found.within(counts[region])
        every = np.ones(program.num_columns, dtype=bool)
        decision = decide(program, every, watch, gap=GAP, known=known)
        if decision.values is None:
            return _no_plan(decision, known)
        moves, nodes = _decoded(instance, gang, found, decision.values, prices, regions == region)
        cost = float(sum(prices[move.job] for move in moves))
        return RoomPlan(nodes, moves, (), cost, proven_bound(decision, cost), 0.0)

    bounds = {region: found.bound(counts[region], gang) for region in alike}
    best = _best_of(bounds, everywhere.bound, solve, watch)
    return _checked(instance, gang, best, regions)


def least_preemption_within(
    instance: Instance,
    gang: Gang,
    regions: Int[Indices, " nodes"],
    *,
    losses: Mapping[int, float] | None = None,
    groups: Mapping[int, str] | None = None,
    quotas: Mapping[str, int] | None = None,
    stop: Stop | None = None,
) -> RoomPlan:
    """Return the jobs to stop so that a gang fits into one region, of least loss, with a proof.

    Parameters
    ----------
    instance, gang
        As of `least_preemption`.
    regions
        As of `fewest_moves_within`.
    losses, groups, quotas, stop
        As of `least_preemption`.

    Raises
    ------
    ValueError
        As `least_preemption`, or if there are more or fewer regions than nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models import Cluster, Instance, Job
    >>> from goodalloc.models.making_room import Gang
    >>> from goodalloc.solvers.making_room import least_preemption_within
    >>> jobs = tuple(Job(f"job{node}", placement=((node, 2),)) for node in range(4))
    >>> losses = {0: 1.0, 1: 5.0, 2: 2.0, 3: 2.0}
    >>> racks = np.array([0, 0, 1, 1])
    >>> instance = Instance(Cluster.uniform(4, 2), jobs)
    >>> least_preemption_within(instance, Gang(2, 2), racks, losses=losses).victims
    (2, 3)
    """
    _require_regions(instance, regions)
    watch = Watch(stop or Stop())
    members, own = dict(groups or {}), dict(quotas or {})
    everywhere = least_preemption(
        instance, gang, losses=losses, groups=members, quotas=own, stop=stop
    )
    if (settled := _settled(everywhere, regions)) is not None:
        return settled
    held = instance.current.job_replicas
    worth = dict(enumerate(held.tolist())) if losses is None else losses
    lost = {
        job: float(loss)
        for job, loss in worth.items()
        if held[job] > 0 and instance.jobs[job].preemptible
    }
    found = build_preemption_program(instance, gang, lost, members, own)
    columns = defaultdict[int, list[int]](list)
    for place, one in enumerate(found.freeings):
        columns[int(regions[one.node])].append(place)

    def solve(region: int, known: float) -> RoomPlan:
        involved = {job for place in columns[region] for job in found.freeings[place].victims}
        stops = [job in involved for job in found.distributed]
        chosen = np.concatenate([np.zeros(len(found.freeings), dtype=bool), np.array(stops, bool)])
        chosen[columns[region]] = True
        program = found.program.columns(chosen)
        every = np.ones(program.num_columns, dtype=bool)
        decision = decide(program, every, watch, gap=GAP, known=known)
        if decision.values is None:
            return _no_plan(decision, known)
        values = found.program.widen(decision.values, chosen)
        freed = [found.freeings[place] for place in columns[region] if values[place] > 0.5]
        freed = sorted(freed)[: gang.nodes]
        victims = tuple(sorted({job for one in freed for job in one.victims}))
        cost = float(sum(lost[job] for job in victims))
        nodes = tuple(one.node for one in freed)
        return RoomPlan(nodes, (), victims, cost, proven_bound(decision, cost), 0.0)

    bounds = {
        region: least_loss_within([found.freeings[place] for place in places], lost, gang)
        for region, places in columns.items()
    }
    best = _best_of(bounds, everywhere.bound, solve, watch)
    return _checked(instance, gang, best, regions, groups=members, quotas=own)


def _require_regions(instance: Instance, regions: Int[Indices, " nodes"]) -> None:
    """Refuse regions of other nodes."""
    if regions.shape != (instance.cluster.num_nodes,):
        raise ValueError(
            f"Regions: shape is {regions.shape}; expected ({instance.cluster.num_nodes},), one "
            "for each node."
        )


def _settled(everywhere: RoomPlan, regions: Int[Indices, " nodes"]) -> RoomPlan | None:
    """Return the answer if the plan on all nodes, or that there is none, tells it; else None."""
    if not everywhere.found or len(set(regions[[*everywhere.gang_nodes]].tolist())) == 1:
        return everywhere
    if not everywhere.proven:  # no time is left
        return RoomPlan((), (), (), math.inf, everywhere.bound, everywhere.seconds)
    return None


def _no_plan(decision: Decision, known: float) -> RoomPlan:
    """Return that a region has no plan, or none below a known cost, with the bound."""
    bound = known if known - decision.bound <= GAP else max(decision.bound, 0.0)
    return RoomPlan((), (), (), math.inf, bound, 0.0)


def _best_of(bounds: Mapping[int, float], floor: float, solve: Solve, watch: Watch) -> RoomPlan:
    """Return the best plan of all regions.

    Parameters
    ----------
    bounds
        Lower bound on the cost in each region that may be the best.
    floor
        Lower bound on the cost in all of them.
    solve
        Way to the plan in a region.
    watch
        The clock.
    """
    best = RoomPlan((), (), (), math.inf, 0.0, 0.0)
    proven = math.inf
    for region in sorted(bounds, key=bounds.__getitem__):
        bound = max(bounds[region], floor)
        if bound >= best.cost - GAP or watch.limit is not None:
            proven = min(proven, bound)
            break
        plan = solve(region, best.cost)
        proven = min(proven, max(plan.bound, bound))
        if plan.cost < best.cost:
            best = plan
    bound = best.cost if proven >= best.cost - GAP else proven
    return best._replace(bound=bound, seconds=watch.seconds)


def _checked(
    instance: Instance,
    gang: Gang,
    plan: RoomPlan,
    regions: Int[Indices, " nodes"],
    *,
    groups: Mapping[int, str] | None = None,
    quotas: Mapping[str, int] | None = None,
) -> RoomPlan:
    """Return a plan that the checker has passed, or that there is none."""
    if not plan.found:
        return plan
    if len(used := set(regions[[*plan.gang_nodes]].tolist())) > 1:
        raise AssertionError(f"The plan breaks a rule: the gang lies in {len(used)} regions.")
    return checked_plan(instance, gang, plan, groups=groups, quotas=quotas)


def _decoded(
    instance: Instance,
    gang: Gang,
    found: RegionMoves,
    values: Floats,
    prices: Mapping[int, float],
    inside: Bool[Flags, " nodes"],
) -> tuple[tuple[Move, ...], tuple[int, ...]]:
    """Return moves and nodes of the gang for the counts of a solution.

    Each column of the program takes its number of nodes: first those that hold a piece of the gang
    from the region, then the others from all that are left of their class.
    """
    keepings, takings, classes = found.moves.keepings, found.moves.takings, found.moves.classes
    counts = np.rint(values).astype(int).tolist()
    pieces = dict(zip(found.holders, counts[len(keepings) + len(takings) :], strict=True))
    left = {
        index: sorted(group.nodes, key=lambda node: bool(inside[node]))
        for index, group in enumerate(classes)
    }
    kept = dict[int, tuple[int, ...]]()
    held, others = defaultdict[int, list[int]](list), defaultdict[tuple[int, bool], list[int]](list)
    for place, count in pieces.items():
        for _ in range(count):
            node = left[keepings[place].group].pop()
            held[keepings[place].free].append(node)
            kept[node] = keepings[place].kept
    for place, (one, count) in enumerate(zip(keepings, counts, strict=False)):
        for _ in range(count - pieces.get(place, 0)):
            node = left[one.group].pop()
            others[one.free, classes[one.group].barred].append(node)
            kept[node] = one.kept
    homeless = _homeless(instance, kept, prices)
    nodes, moves = list[int](), list[Move]()
    taken = zip(takings, counts[len(keepings) :], strict=False)
    for take, count in sorted(taken, key=lambda pair: not pair[0].gang):
        for _ in range(count):
            if take.gang:
                node = held[take.free].pop()
                nodes.append(node)
            else:
                node = (others[take.free, take.barred] or held[take.free]).pop()
            for size, number in enumerate(take.taken, start=1):
                for job, origin in homeless[size][:number]:
                    if origin != node:
                        moves.append(Move(job, origin, node))
                del homeless[size][:number]
    return tuple(sorted(moves)), tuple(sorted(nodes)[: gang.nodes])


def _homeless(
    instance: Instance, kept: Mapping[int, tuple[int, ...]], prices: Mapping[int, float]
) -> dict[int, list[tuple[int, int]]]:
    """Return the jobs that leave, and their nodes, by their GPUs: the cheapest of equal ones."""
    residents, found = residents_of(instance), defaultdict[int, list[tuple[int, int]]](list)
    for node, stay in kept.items():
        movable = sorted(
            (prices[one.job], one.job, one.gpus) for one in residents[node] if one.job in prices
        )
        for size, number in enumerate(stay, start=1):
            alike = [job for _, job, gpus in movable if gpus == size]
            found[size] += [(job, node) for job in alike[: len(alike) - number]]
    return found
