"""Choices of jobs near the best prices of pools, in part and whole.

At the best prices most jobs have one cheapest choice by far. For those with others nearly as cheap
a linear program (the *core*) finds how many of each class take which, so that what all take fits
into the pools; a basic solution divides no more classes than there are pools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.models.support.tolerances import WHOLE_TOLERANCE
from goodalloc.solvers.milp.highs_program import run_relaxation
from goodalloc.solvers.mode_columns.choice_pools import STAY

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.interface.watch import Watch
    from goodalloc.solvers.mode_columns.pool_prices import PoolPrices
    from goodalloc.solvers.mode_columns.priced_classes import PricedClasses

#: Choices in the core besides the cheapest of every class.
MOST_CHOICES = 3_000

#: Factor of the price at which the core may take more than there is; what then has no place is
#: offered less.
OVERRUN = 4.0


class Taken(NamedTuple):
    """Choices that are taken.

    Attributes
    ----------
    classes, positions
        Class of jobs, and position of a choice in the list of its kind or `STAY`; shape (taken,).
    number
        Jobs that take it, in whole or in part; shape (taken,).
    """

    classes: Int[Indices, " taken"]
    positions: Int[Indices, " taken"]
    number: Float[Floats, " taken"]


def taken_choices(classes: PricedClasses, found: PoolPrices, watch: Watch) -> Taken:
    """Return the choices that all jobs take together, which fit into the pools.

    Parameters
    ----------
    classes
        The classes of jobs.
    found
        The best prices of pools.
    watch
        The clock of the solve.
    """
    choices, chosen = classes.choices, found.response.choice
    members, positions = _core(classes, found)
    rows, row = np.unique(members, return_inverse=True)
    settled = np.setdiff1d(np.arange(choices.num_classes), rows)
    usage = classes.count[settled] @ classes.demand_of(settled, chosen[settled])
    pools = found.prices.size
    jobs = float(classes.count.sum())
    builder = ProgramBuilder()
    cost = classes.cost_of(members, positions)
    taken = builder.add_columns("jobs", cost.size, cost=cost, integer=False)
    dearest = OVERRUN * (found.prices + found.prices.max()) / jobs
    over = builder.add_columns("overrun", pools, cost=dearest, integer=False)
    count = classes.count[rows]
    each = builder.add_rows("one_choice", rows.size, lower=count, upper=count)
    builder.add_entries(each[row], taken, 1.0)
    demand = classes.demand_of(members, positions) * jobs
    pool = builder.add_rows("pool", pools, upper=(classes.there - usage) * jobs)
    column, at = np.nonzero(demand)
    builder.add_entries(pool[at], taken[column], demand[column, at])
    builder.add_entries(pool, over, -1.0)
    program = builder.build()
    outcome = run_relaxation(program, np.ones(program.num_columns, dtype=bool), watch)
    number = np.append(np.zeros(members.size - rows.size), count)  # the cheapest come last
    if outcome.values is not None:
        number = np.maximum(outcome.values[: cost.size], 0.0)
    return Taken(
        np.concatenate([settled, members]),
        np.concatenate([chosen[settled], positions]),
        np.concatenate([classes.count[settled], number]),
    )


def _core(classes: PricedClasses, found: PoolPrices) -> tuple[Indices, Indices]:
    """Return class and position of choices nearly as cheap as the cheapest, and of these."""
    choices, chosen, prices = classes.choices, found.response.choice, found.prices
    priced = (choices.demand @ prices)[choices.code]
    everyone = np.arange(choices.num_classes)
    best = classes.cost_of(everyone, chosen) + classes.demand_of(everyone, chosen) @ prices
    stay = classes.kept_cost + (choices.kept_demand @ prices)[choices.kept_way] - best
    stayers = np.flatnonzero(np.isfinite(stay) & (chosen != STAY))
    parts = [(stayers, np.full(stayers.size, STAY), stay[stayers])]
    for block in classes.blocks:
        own = block.classes
        more = block.cost + priced[choices.kind[own], : block.cost.shape[1]] - best[own, None]
        more[np.arange(own.size), np.maximum(chosen[own], 0)] = np.where(
            chosen[own] == STAY, more[np.arange(own.size), 0], np.inf
        )
        at, position = np.nonzero(np.isfinite(more))
        parts.append((own[at], position, more[at, position]))
    members, positions, more = (np.concatenate(column) for column in zip(*parts, strict=True))
    if more.size > MOST_CHOICES:
        nearest = np.argpartition(more, MOST_CHOICES)[:MOST_CHOICES]
        members, positions = members[nearest], positions[nearest]
    rows = np.unique(members)
    return np.concatenate([members, rows]), np.concatenate([positions, chosen[rows]])


def whole_jobs(classes: PricedClasses, taken: Taken, prices: Floats) -> Int[Indices, " jobs"]:
    """Return the position of every job's choice; those divided take what is cheapest to have.

    Parameters
    ----------
    classes
        The classes of all jobs.
    taken
        The choices that they take.
    prices
        Prices of the pools.
    """
    choices = classes.choices
    whole = np.floor(taken.number + WHOLE_TOLERANCE).astype(np.int64)
    placed = np.zeros(choices.num_classes, dtype=np.int64)
    np.add.at(placed, taken.classes, whole)
    worth = classes.demand_of(taken.classes, taken.positions) @ prices
    settled = taken.number - whole <= WHOLE_TOLERANCE
    order = np.lexsort((worth, settled, taken.classes))  # those in part first
    divided, first = np.unique(taken.classes[order], return_index=True)
    whole[order[first]] += choices.count[divided] - placed[divided]
    by_class = np.argsort(taken.classes, kind="stable")
    found = np.empty(choices.job_class.size, dtype=np.int64)
    jobs = np.argsort(choices.job_class, kind="stable")
    found[jobs] = np.repeat(taken.positions[by_class], whole[by_class])
    return found
