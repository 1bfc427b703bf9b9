"""Decided plans that make room for a gang, on all nodes or within one of several regions.

The optimum on all nodes as one region comes first: if its nodes are of one region, such as a rack,
or there is no plan, nothing else is solved. Otherwise the regions are solved in the order of their
lower bounds (`formulations/making_room/region_program.py`), until no bound is below the best plan;
in each the relaxation is solved first, and nothing more where it shows that the region has no
better plan.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.making_room.room_plan import RoomPlan
from goodalloc.solvers.milp.price_and_core import decide

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jaxtyping import Int

    from goodalloc.formulations.making_room.moves_program import MovesProgram
    from goodalloc.formulations.making_room.preemption_program import PreemptionProgram
    from goodalloc.formulations.making_room.region_program import RegionMoves
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.interface.watch import Watch

#: Gap in cost at which a plan counts as the cheapest.
GAP = 1e-6


class DividedRoom(NamedTuple):
    """What is solved in each region.

    Attributes
    ----------
    bounds
        Lower bound on the cost in each region that may be the best, by its number.
    solve
        Plan in a region, by its number and the cost of the best plan so far.
    """

    bounds: Mapping[int, float]
    solve: Callable[[int, float], RoomPlan]


def require_regions(instance: Instance, regions: Int[Indices, " nodes"] | None) -> None:
    """Refuse regions of other nodes.

    Parameters
    ----------
    instance, regions
        The round, and the number of the region of every node; None for no regions.
    """
    if regions is not None and regions.shape != (instance.cluster.num_nodes,):
        raise ValueError(
            f"Regions: shape is {regions.shape}; expected ({instance.cluster.num_nodes},), one "
            "for each node."
        )


def decided_plan(
    found: MovesProgram | PreemptionProgram | RegionMoves,
    watch: Watch,
    decoded: Callable[[Floats], RoomPlan],
    *,
    known: float = math.inf,
) -> RoomPlan:
    """Return the plan of the optimum of a program, with the bound that is proved.

    Parameters
    ----------
    found, watch
        The program, with what its columns stand for, and the clock.
    decoded
        Plan of a solution.
    known
        Cost of a plan of the caller: there is no plan below it if none is found and the bound is
        this cost.
    """
    every = np.ones(found.program.num_columns, dtype=bool)
    decision = decide(found.program, every, watch, gap=GAP, known=known)
    if decision.values is None:
        plan, objective, cost = no_plan(0.0), known, known
    else:
        plan, objective = decoded(decision.values), decision.objective
        cost = plan.cost
    bound = cost if objective - decision.bound <= GAP else max(decision.bound, 0.0)
    return plan._replace(bound=bound, seconds=watch.seconds)


def no_plan(bound: float, seconds: float = 0.0) -> RoomPlan:
    """Return that no plan was found.

    Parameters
    ----------
    bound, seconds
        Lower bound on the cost, infinite if there is none; and the time.
    """
    return RoomPlan((), (), (), math.inf, bound, seconds)


def best_of_regions(
    everywhere: RoomPlan,
    regions: Int[Indices, " nodes"] | None,
    divide: Callable[[Int[Indices, " nodes"]], DividedRoom],
    watch: Watch,
) -> RoomPlan:
    """Return the best plan of all regions.

    Parameters
    ----------
    everywhere
        The plan on all nodes as one region, whose bound is one for all regions.
    regions
        Number of the region of every node, shape (nodes,); None if they are one.
    divide
        What is solved in each region; called only where the plan on all nodes settles nothing.
    watch
        The clock.
    """
    if regions is None or not everywhere.found or _regions_used(everywhere, regions) == 1:
        return everywhere
    if not everywhere.proven:  # no time is left
        return no_plan(everywhere.bound, watch.seconds)
    bounds, solve = divide(regions)
    best, proven = no_plan(0.0), math.inf
    for region in sorted(bounds, key=bounds.__getitem__):
        bound = max(bounds[region], everywhere.bound)
        if bound >= best.cost - GAP or watch.limit is not None:
            proven = min(proven, bound)
            break
        plan = solve(region, best.cost)
        proven = min(proven, max(plan.bound, bound))
        if plan.cost < best.cost:
            best = plan
    if best.found and (used := _regions_used(best, regions)) > 1:
        raise AssertionError(f"The plan breaks a rule: the gang lies in {used} regions.")
    bound = best.cost if proven >= best.cost - GAP else proven
    return best._replace(bound=bound, seconds=watch.seconds)


def _regions_used(plan: RoomPlan, regions: Int[Indices, " nodes"]) -> int:
    """Return in how many regions the gang of a plan lies."""
    return len(set(regions[[*plan.gang_nodes]].tolist()))
