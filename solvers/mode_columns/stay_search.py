r"""Which jobs of a round of modes stay where they are, and what the others choose.

With the jobs that stay settled, the others choose by the prices of what these leave on their nodes
(`worth_search.py`). Those prices say which jobs had better stay, node by node (`node_stays.py`).
Following them on every node at once overshoots, as the nodes answer each other; the step of Frank
and Wolfe is to follow them on a share of :math:`1/(k + 2)` of the nodes in the *k*-th round, here a
random one. The same prices prove a bound, (1) of `node_stays.py`; the best one is kept.

References
----------
Frank and Wolfe, "An Algorithm for Quadratic Programming", Naval Research Logistics Quarterly 3,
    1956.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.solvers.mode_columns.choice_pools import STAY
from goodalloc.solvers.mode_columns.node_stays import NodeWorth, SingleStays, best_stays
from goodalloc.solvers.mode_columns.node_worth import room_of_pools, with_node_worth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float, Int

    from goodalloc.formulations.mode_rounds.node_values import NodeValue
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.mode_columns.node_filling import NodeFilling
    from goodalloc.solvers.mode_columns.priced_classes import PricedClasses
    from goodalloc.solvers.mode_columns.worth_search import PoolSearch, PricedPools

#: Cost of a job by which prices may fall short, and times that further pools are sought in every
#: round.
PRICE_GAP, POOL_ROUNDS = 5e-6, 3

#: Cost of a job by which the choice of those that stay may be worse than the bound at its prices,
#: and share of that difference that two rounds must leave at most for more to be tried.
SETTLED, SLOW = 3e-5, 0.9


class ProvenCost(NamedTuple):
    """Lower bound on the total cost, if the units of the round are exact.

    Attributes
    ----------
    cost
        The bound.
    prices
        Prices of whole pools that prove it, shape (pools,).
    worths
        Type of GPU and value function of a node of every further pool.
    """

    cost: float
    prices: Float[Floats, " pools"]
    worths: Sequence[tuple[int, NodeValue]]


class Settled(NamedTuple):
    """Jobs that stay, and prices at which the others choose.

    Attributes
    ----------
    filling
        Placements of the jobs that stay, beside those that were there.
    movers
        The other jobs.
    pools
        Their classes and prices.
    proven
        The best bound on the cost of all these jobs.
    """

    filling: NodeFilling
    movers: Int[Indices, " movers"]
    pools: PricedPools
    proven: ProvenCost


class BestStays(NamedTuple):
    """What is best at some prices.

    Attributes
    ----------
    stays
        Which jobs stay, shape (jobs of the round,).
    chosen
        Cheapest choice of every class but to stay, shape (classes,).
    least
        Least cost and price of every job but to stay on its one node, shape (jobs,).
    value
        Greatest value of every node, shape (nodes,).
    cost
        Bound (1) of `node_stays.py`.
    """

    stays: Bool[Flags, " round"]
    chosen: Int[Indices, " classes"]
    least: Float[Floats, " jobs"]
    value: Float[Floats, " nodes"]
    cost: float


@dataclass(frozen=True)
class StayRound:
    """Jobs to be placed beside others that have their places.

    Parameters
    ----------
    classes
        Their classes, without further pools.
    jobs
        These jobs, in the order of the classes.
    filling
        Placements of the others.
    """

    classes: PricedClasses
    jobs: Int[Indices, " jobs"]
    filling: NodeFilling

    @cached_property
    def singles(self) -> SingleStays:
        """Those of the jobs that may stay on their one node, by their place among the jobs."""
        choices = self.classes.choices
        current, units = choices.columns.current, self.filling.units
        may = np.isfinite(choices.kept[choices.job_class]) & (current.job_nodes[self.jobs] == 1)
        own = np.flatnonzero(may)
        job = self.jobs[own]
        taken = units.taken(current.mode[job], current.job_replicas[job])
        return SingleStays(own, units.node_now[job], taken)

    @cached_property
    def room_of_pools(self) -> Floats:
        """Share of every pool, but for further ones, that the others leave; shape (pools,)."""
        return room_of_pools(self.filling.units, self.filling.room)

    def best(
        self, prices: Float[Floats, " pools"], worths: Sequence[tuple[int, NodeValue]]
    ) -> BestStays:
        """Return what is best at some prices."""
        units, filling = self.filling.units, self.filling
        classes = with_node_worth(self.classes, units, worths)
        choices, current = classes.choices, classes.choices.columns.current
        pooled = self.classes.choices.demand.shape[1]
        least, chosen = classes.cheapest(prices)
        own, singles = choices.job_class, self.singles
        way = choices.kept_way[own]
        kept = classes.kept_cost[own]
        apart = np.isfinite(kept) & (current.job_nodes[self.jobs] > 1)
        total = np.where(apart, kept + (choices.kept_demand @ prices)[way], np.inf)
        stays = np.zeros(choices.columns.num_jobs, dtype=bool)
        stays[self.jobs[total < least[own]]] = True
        cheapest = np.minimum(least[own], total)
        pays = (choices.kept_demand[:, :pooled] @ prices[:pooled])[way]
        gain = (cheapest - kept - pays)[singles.job]
        worth = NodeWorth(units, worths, prices[pooled:])
        value, stay = best_stays(singles, gain, worth, filling.room)
        stays[self.jobs[singles.job[stay]]] = True
        cost = math.fsum(cheapest.tolist()) - math.fsum(value.tolist())
        cost -= float(prices[:pooled] @ self.room_of_pools)
        terms = np.abs(cheapest).sum() + np.abs(value).sum() + prices.sum()
        for part in (classes.cost_of(own, chosen[own]), kept[singles.job], pays[singles.job]):
            terms += np.abs(part).sum()
        return BestStays(stays, chosen, cheapest, value, cost - 2e-14 * float(terms))

    def proven(
        self, cost: float, pools: Floats, worths: Sequence[tuple[int, NodeValue]]
    ) -> ProvenCost:
        """Return the bound at some prices; those of pools of which nobody takes anything are 0."""
        taken = self.classes.choices.demand.any(axis=0)
        prices = pools.copy()
        prices[: taken.size][~taken] = 0.0
        return ProvenCost(cost, prices, tuple(worths))

    def settled(
        self,
        search: PoolSearch,
        rounds: int,
        gap: float = PRICE_GAP,
        planes: Sequence[Int[Indices, " classes"]] = (),
    ) -> Settled:
        """Return which jobs stay, and the prices for the others.

        Parameters
        ----------
        search
            Prices and further pools known so far, which go on.
        rounds
            Times that what stays is thought over.
        gap
            Cost of a job by which prices may fall short in every round.
        planes
            Choices of all classes, each of shape (classes,), at prices near the best ones.
        """
        random = np.random.default_rng(0)
        choices = self.classes.choices
        columns, node = choices.columns, self.filling.units.node_now
        known = search.prices
        best = self.best(known, search.worths)
        proven = self.proven(best.cost, known, search.worths)
        stays, found, least = best.stays, None, math.inf
        differences = [math.inf, math.inf]
        planes = [np.where(one == STAY, best.chosen, one) for one in planes]
        for number in range(rounds):
            filling = self.filling.copy()
            filling.keep(stays)
            place = np.flatnonzero(~filling.placed[self.jobs])
            room = filling.room
            plain = self.classes.of_jobs(place).moving(room_of_pools(filling.units, room))
            own = np.unique(choices.job_class[place])
            near = [one[own] for one in planes]
            pools = search.run(plain, gap, POOL_ROUNDS, room, near)
            here = np.ones(self.jobs.size, dtype=bool)
            here[place] = False
            kept = self.classes.kept_cost[choices.job_class[here]]
            cost = pools.best.response.bound + float(kept.sum())
            if cost < least:
                least, found = cost, (filling, self.jobs[place], pools)
            best = self.best(pools.best.prices, pools.worths)
            planes = [best.chosen.copy() for _ in pools.best.planes]
            for plane, choice in zip(planes, pools.best.planes, strict=True):
                plane[own] = choice
            if best.cost > proven.cost:
                proven = self.proven(best.cost, pools.best.prices, pools.worths)
            if not stays.any() and not best.stays.any():
                break
            differences.append(least - proven.cost)
            settled = differences[-1] <= SETTLED * self.jobs.size
            if settled or differences[-1] > SLOW * differences[-3]:
                break
            follow = random.random(columns.cluster.num_nodes) < 1.0 / (number + 2)
            stays = np.where(follow[node], best.stays, filling.placed & stays)
        assert found is not None
        return Settled(*found, proven)
