r"""Costs of the choices of all jobs of a round of modes, and what they choose at prices of pools.

For prices :math:`\lambda \ge 0` of whole pools, of which choice *i* takes shares :math:`d_i`,

.. math::

    D(\lambda) = \sum_j \min_{i \in A_j} (c_i + \lambda d_i) - \sum_r \lambda_r \rho_r         (1)

is a lower bound on the total cost of every allocation, by weak duality, where of pool *r* the share
:math:`\rho_r` is there: all of it, unless other jobs are placed already.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import power_cost
from goodalloc.solvers.columns.column_choices import LARGEST_TERM, chunks
from goodalloc.solvers.mode_columns.choice_pools import STAY

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.mode_columns.choice_pools import PooledChoices


class Response(NamedTuple):
    """What the jobs choose at some prices.

    Attributes
    ----------
    bound
        Equation (1), less what rounding may hide; -inf if it is not known at which prices the jobs
        choose so.
    cost
        Total cost of the choices.
    usage
        Share of every pool that they take, shape (pools,).
    choice
        Position of every class's choice in the list of its kind, or `STAY`; shape (classes,).
    room
        Share of every pool that there is, shape (pools,).
    """

    bound: float
    cost: float
    usage: Float[Floats, " pools"]
    choice: Int[Indices, " classes"]
    room: Float[Floats, " pools"]

    @property
    def intercept(self) -> float:
        """Height at prices of 0 of the plane above the bound."""
        return self.cost

    @property
    def slope(self) -> Float[Floats, " pools"]:
        """Slope of that plane, shape (pools,)."""
        return self.usage - self.room


class CostBlock(NamedTuple):
    """Classes with about equally many choices: their indices, and costs, infinite where none."""

    classes: Indices
    cost: Floats


@dataclass(frozen=True, eq=False)
class PricedClasses:
    """Costs of the choices of all classes of jobs.

    Parameters
    ----------
    choices
        The choices.
    power, reference
        Power of the mean, and the utility whose cost is 0.
    count
        Jobs of every class, shape (classes,); a sample counts them with weights.
    room
        Share of every pool that there is, shape (pools,); all of it if None.
    known
        Costs of the choices where they are known from other classes.
    """

    choices: PooledChoices
    power: float
    reference: float
    count: Float[Floats, " classes"]
    room: Float[Floats, " pools"] | None = None
    known: tuple[CostBlock, ...] | None = None

    @cached_property
    def there(self) -> Floats:
        """Share of every pool that there is, shape (pools,)."""
        return np.ones(self.choices.demand.shape[1]) if self.room is None else self.room

    @property
    def lowest(self) -> float:
        """Utility below which costs do not rise further, so that float64 holds them."""
        if self.power >= 0:
            return 0.0
        return self.reference * math.exp(math.log(LARGEST_TERM) / self.power)

    def cost_of(self, classes: Indices, positions: Indices) -> Floats:
        """Return the costs of choices (positions or `STAY`) of classes, of any equal shapes."""
        choices = self.choices
        columns, rules = choices.columns, choices.columns.rules
        speedup = choices.speedup[choices.kind[classes], np.maximum(positions, 0)]
        utility = choices.factor[classes] * speedup + rules.floor
        utility = np.maximum(utility, columns.least_utility)
        utility = np.where(positions == 0, rules.idle, utility)
        kept = choices.kept[classes]
        utility = np.where(positions == STAY, kept, utility)
        return self.cost_of_utility(utility)

    def cost_of_utility(self, utility: Float[Floats, ...]) -> Float[Floats, ...]:
        """Return the costs of utilities, infinite where they are."""
        known = np.isfinite(utility)
        clipped = np.maximum(np.where(known, utility, self.reference), self.lowest)
        return np.where(known, power_cost(clipped, self.power, self.reference), np.inf)

    def demand_of(self, classes: Indices, positions: Indices) -> Floats:
        """Return the shares of pools that choices of classes take, shape (..., pools)."""
        choices = self.choices
        code = choices.code[choices.kind[classes], np.maximum(positions, 0)]
        stays = (positions == STAY)[..., None]
        return np.where(stays, choices.kept_demand[classes], choices.demand[code])

    @cached_property
    def kept_cost(self) -> Floats:
        """Cost of staying, shape (classes,)."""
        classes = np.arange(self.choices.num_classes)
        return self.cost_of(classes, np.full(classes.size, STAY))

    @cached_property
    def blocks(self) -> tuple[CostBlock, ...]:
        """Classes by the number of their choices."""
        if self.known is not None:
            return self.known
        length = self.choices.choices_of
        width = 2 ** np.ceil(np.log2(np.maximum(length, 4))).astype(np.int64)
        found = []
        for wide in np.unique(width).tolist():
            members = np.flatnonzero(width == wide)
            wide = min(wide, self.choices.code.shape[1])
            for part in chunks(members.size):
                classes = members[part]
                positions = np.arange(wide)
                shape = (classes.size, wide)
                cost = self.cost_of(
                    np.broadcast_to(classes[:, None], shape), np.broadcast_to(positions, shape)
                )
                cost[positions >= length[classes, None]] = np.inf
                found.append(CostBlock(classes, cost))
        return tuple(found)

    def cheapest(
        self, prices: Float[Floats, " pools"]
    ) -> tuple[Float[Floats, " classes"], Int[Indices, " classes"]]:
        """Return cost and price of the cheapest choice of every class but to stay, and which."""
        choices = self.choices
        priced = (choices.demand @ prices)[choices.code]
        least = np.empty(choices.num_classes)
        chosen = np.empty(choices.num_classes, dtype=np.int64)
        for block in self.blocks:
            both = block.cost + priced[choices.kind[block.classes], : block.cost.shape[1]]
            best = np.argmin(both, axis=1)
            chosen[block.classes] = best
            least[block.classes] = both[np.arange(best.size), best]
        return least, chosen

    def respond(self, prices: Float[Floats, " pools"]) -> Response:
        """Return what the jobs choose at these prices of whole pools."""
        choices = self.choices
        least, chosen = self.cheapest(prices)
        stay = self.kept_cost + choices.kept_demand @ prices
        chosen = np.where(stay < least, STAY, chosen)
        least = np.minimum(stay, least)
        found = self.response_of(chosen)
        usage = found.usage
        total = math.fsum((self.count * least).tolist())
        rounding = 1e-14 * float(self.count @ np.abs(least) + prices.sum() + usage @ prices)
        bound = total - float(prices @ self.there) - rounding
        return found._replace(bound=bound)

    def response_of(self, chosen: Int[Indices, " classes"]) -> Response:
        """Return cost and usage of given choices, whose plane is above the bound (1).

        Parameters
        ----------
        chosen
            Position of every class's choice in the list of its kind, or `STAY`.
        """
        everyone = np.arange(self.choices.num_classes)
        usage = self.count @ self.demand_of(everyone, chosen)
        cost = float(self.count @ self.cost_of(everyone, chosen))
        return Response(-math.inf, cost, usage, chosen, self.there)

    def of_jobs(self, jobs: Int[Indices, " some"]) -> PricedClasses:
        """Return the classes of some jobs, in whose order they are."""
        choices, place = self.choices.of_jobs(jobs), np.full(self.choices.num_classes, -1)
        found = np.unique(self.choices.job_class[jobs])
        place[found] = np.arange(found.size)
        known = []
        for block in self.blocks:
            here = np.flatnonzero(place[block.classes] >= 0)
            known.append(CostBlock(place[block.classes[here]], block.cost[here]))
        count = choices.count.astype(float)
        return replace(self, choices=choices, count=count, known=tuple(known))

    def moving(self, room: Float[Floats, " pools"]) -> PricedClasses:
        """Return the classes if no job stays, where some of every pool is left."""
        return replace(self, choices=self.choices.moving(), room=room, known=self.blocks)

    def with_pools(
        self,
        further: Float[Floats, "codes more"],
        there: Float[Floats, " more"],
    ) -> PricedClasses:
        """Return the classes with further pools: shares by code, and the share that there is."""
        choices = self.choices
        pools = replace(
            choices,
            demand=np.hstack([choices.demand, further]),
            kept_demand=np.hstack([choices.kept_demand, further[choices.kept_code]]),
        )
        room = np.concatenate([self.there, there])
        return replace(self, choices=pools, room=room, known=self.blocks)

    def sample(self, size: int, seed: int) -> PricedClasses:
        """Return a sample of the classes, counted so that they stand for all jobs.

        Classes of many jobs are in it as they are.
        """
        choices, count = self.choices, self.count
        large = np.flatnonzero(count > count.sum() / size)
        small = np.flatnonzero(count <= count.sum() / size)
        small = np.random.default_rng(seed).permutation(small)[: max(size - large.size, 1)]
        share = (count.sum() - count[large].sum()) / max(float(count[small].sum()), 1.0)
        drawn = np.concatenate([large, small])
        weight = np.concatenate([count[large], count[small] * share])
        return replace(self, choices=choices.of_classes(drawn), count=weight, known=None)
