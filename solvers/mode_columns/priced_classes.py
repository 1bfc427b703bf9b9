r"""Costs of the choices of all jobs of a round of modes, and what they choose at prices of pools.

For prices :math:`\lambda \ge 0` of whole pools, of which choice *i* takes shares :math:`d_i`,

.. math::

    D(\lambda) = \sum_j \min_{i \in A_j} (c_i + \lambda d_i) - \sum_r \lambda_r \rho_r         (1)

is a lower bound on the total cost of every allocation, by weak duality, where of pool *r* the share
:math:`\rho_r` is there: all of it, unless other jobs are placed already.

Many jobs have the choices of one kind and differ in a factor *f* alone: choice *i* of speedup
:math:`s_i` has the utility :math:`f s_i + \epsilon`. By how much it costs more than another one
rises with *f* or falls, for powers of 0 or more, and for others as far as
:math:`f s_i \ge -\epsilon / p`. A choice that is the cheapest for the least and the greatest
factor is the cheapest between them, so that of such jobs two are asked.
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


#: Classes of which the first and the last are asked for the others.
GROUP = 16


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


class CostRows(NamedTuple):
    """Costs of the choices of some classes, and rows of their kinds."""

    cost: Float[Floats, "some choices"]
    kind: Int[Indices, " some"]

    def cheapest(self, priced: Float[Floats, "kinds choices"]) -> Int[Indices, " some"]:
        """Return the cheapest choice of every class where those of its kind have some prices."""
        return np.asarray(np.argmin(self.cost + priced[self.kind], axis=1))


class _Groups(NamedTuple):
    """Groups of classes in a row: how many are in each, the first of each and, where there are
    several, the last one, with their costs.
    """

    size: Indices
    first: Indices
    last: Indices
    first_costs: CostRows
    last_costs: CostRows


@dataclass(frozen=True, eq=False)
class CostBlock:
    """Costs of classes with about equally many choices.

    Parameters
    ----------
    classes
        These classes, shape (some,).
    cost
        Costs of their choices, infinite where there is none; shape (some, choices).
    code
        Choices of their kinds, shape (kinds here, choices).
    kind
        Row of every class's kind in `code`, shape (some,).
    run
        Number of the run of every class, which rises from one run to the next: classes in a row of
        one kind with as many choices, a choice being the cheapest for all between two for which it
        is. Shape (some,).
    """

    classes: Int[Indices, " some"]
    cost: Float[Floats, "some choices"]
    code: Int[Indices, "kinds choices"]
    kind: Int[Indices, " some"]
    run: Int[Indices, " some"]

    def of_rows(self, rows: Int[Indices, " few"], classes: Int[Indices, " few"]) -> CostBlock:
        """Return some of the rows, whose classes are now called otherwise."""
        kinds, kind = np.unique(self.kind[rows], return_inverse=True)
        code, run = self.code[kinds], self.run[rows]
        return CostBlock(classes, self.cost[rows], code, kind.reshape(-1), run)

    @cached_property
    def _groups(self) -> _Groups:
        """Groups of at most `GROUP` classes of a run."""
        number = self.run.size
        first = np.flatnonzero(np.diff(self.run, prepend=-1))
        place = np.arange(number) - np.repeat(first, np.diff(first, append=number))
        first = np.flatnonzero(place % GROUP == 0)
        size = np.diff(first, append=number)
        last = (first + size - 1)[size > 1]
        return _Groups(size, first, last, self._rows(first), self._rows(last))

    def _rows(self, rows: Indices) -> CostRows:
        """Return some of the rows, without a copy if they are all."""
        if rows.size == self.kind.size:
            return CostRows(self.cost, self.kind)
        return CostRows(self.cost[rows], self.kind[rows])

    def cheapest(
        self, price: Float[Floats, " codes"]
    ) -> tuple[Float[Floats, " some"], Int[Indices, " some"]]:
        """Return cost and price of the cheapest choice of every class, and which.

        Parameters
        ----------
        price
            Price of what each choice takes, by code.
        """
        priced, groups = price[self.code], self._groups
        at_first = groups.first_costs.cheapest(priced)
        at_last = groups.last_costs.cheapest(priced)
        best = np.repeat(at_first, groups.size)
        best[groups.last] = at_last
        differs = np.zeros(at_first.size, dtype=bool)
        differs[groups.size > 1] = at_last != at_first[groups.size > 1]
        between = np.repeat(differs, groups.size)
        between[groups.first], between[groups.last] = False, False
        asked = np.flatnonzero(between)
        best[asked] = self._rows(asked).cheapest(priced)
        return self.cost[np.arange(best.size), best] + priced[self.kind, best], best


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
        """Return the shares of pools that choices of classes take, both of one shape."""
        choices = self.choices
        found = choices.demand[choices.code[choices.kind[classes], np.maximum(positions, 0)]]
        stays = positions == STAY
        found[stays] = choices.kept_demand[choices.kept_way[classes[stays]]]
        return found

    @cached_property
    def kept_cost(self) -> Floats:
        """Cost of staying, shape (classes,)."""
        classes = np.arange(self.choices.num_classes)
        return self.cost_of(classes, np.full(classes.size, STAY))

    @cached_property
    def _may_stay(self) -> Indices:
        """Classes that may stay."""
        return np.flatnonzero(np.isfinite(self.kept_cost))

    @cached_property
    def blocks(self) -> tuple[CostBlock, ...]:
        """Classes by the number of their choices."""
        if self.known is not None:
            return self.known
        choices, length = self.choices, self.choices.choices_of
        width = 2 ** np.ceil(np.log2(np.maximum(length, 4))).astype(np.int64)
        order = np.lexsort((choices.factor, length, choices.kind, width))
        runs, found = self._runs(order), []
        for wide in np.unique(width).tolist():
            here = width[order] == wide
            members, own = order[here], runs[here]
            wide = min(wide, choices.code.shape[1])
            for part in chunks(members.size):
                classes = members[part]
                positions = np.arange(wide)
                shape = (classes.size, wide)
                cost = self.cost_of(
                    np.broadcast_to(classes[:, None], shape), np.broadcast_to(positions, shape)
                )
                cost[positions >= length[classes, None]] = np.inf
                kinds, kind = np.unique(choices.kind[classes], return_inverse=True)
                code = choices.code[kinds, :wide]
                found.append(CostBlock(classes, cost, code, kind.reshape(-1), own[part]))
        return tuple(found)

    def _runs(self, classes: Int[Indices, " some"]) -> Int[Indices, " some"]:
        """Return the runs (`CostBlock`) of classes in the order of kind, choices and factor."""
        choices, floor = self.choices, self.choices.columns.rules.floor
        kind, length = choices.kind[classes], choices.choices_of[classes]
        speedup = np.where(choices.speedup > 0.0, choices.speedup, np.inf)  # 0 on nothing
        slowest = np.minimum.accumulate(speedup, axis=1)[kind, length - 1]
        rise = choices.factor[classes] * np.where(length > 1, slowest, 0.0)
        alone = rise + floor < max(choices.columns.least_utility, self.lowest)
        if self.power < 0.0:  # the condition of the module's docstring
            alone |= self.power * rise + floor > 0.0
        same = (kind[1:] == kind[:-1]) & (length[1:] == length[:-1]) & ~alone[1:] & ~alone[:-1]
        return np.cumsum(np.append(True, ~same)) - 1

    def cheapest(
        self, prices: Float[Floats, " pools"]
    ) -> tuple[Float[Floats, " classes"], Int[Indices, " classes"]]:
        """Return cost and price of the cheapest choice of every class but to stay, and which."""
        choices = self.choices
        price = choices.demand @ prices
        least = np.empty(choices.num_classes)
        chosen = np.empty(choices.num_classes, dtype=np.int64)
        for block in self.blocks:
            least[block.classes], chosen[block.classes] = block.cheapest(price)
        return least, chosen

    def respond(self, prices: Float[Floats, " pools"]) -> Response:
        """Return what the jobs choose at these prices of whole pools."""
        choices, may = self.choices, self._may_stay
        least, chosen = self.cheapest(prices)
        stay = self.kept_cost[may] + (choices.kept_demand @ prices)[choices.kept_way[may]]
        chosen[may] = np.where(stay < least[may], STAY, chosen[may])
        least[may] = np.minimum(stay, least[may])
        usage = self._usage(chosen)
        total, paid = math.fsum((self.count * least).tolist()), float(usage @ prices)
        rounding = 1e-14 * float(self.count @ np.abs(least) + prices.sum() + paid)
        bound = total - float(prices @ self.there) - rounding
        return Response(bound, total - paid, usage, chosen, self.there)

    def response_of(self, chosen: Int[Indices, " classes"]) -> Response:
        """Return cost and usage of given choices, whose plane is above the bound (1).

        Parameters
        ----------
        chosen
            Position of every class's choice in the list of its kind, or `STAY`.
        """
        cost = float(self.count @ self.cost_of(np.arange(chosen.size), chosen))
        return Response(-math.inf, cost, self._usage(chosen), chosen, self.there)

    def _usage(self, chosen: Indices) -> Floats:
        """Return the share of every pool that choices of all classes take."""
        moving, staying = self._numbers(chosen)
        return np.asarray(moving @ self.choices.demand + staying @ self.choices.kept_demand)

    def _numbers(self, chosen: Indices) -> tuple[Floats, Floats]:
        """Return how many jobs choose each code, and how many each way to stay."""
        choices, stays = self.choices, chosen == STAY
        code = choices.code[choices.kind, np.maximum(chosen, 0)]
        moving = np.bincount(code, np.where(stays, 0.0, self.count), len(choices.demand))
        ways = len(choices.kept_demand)
        staying = np.bincount(choices.kept_way, np.where(stays, self.count, 0.0), ways)
        return np.asarray(moving, dtype=float), np.asarray(staying, dtype=float)

    def jobs_by_code(self, chosen: Int[Indices, " classes"]) -> Float[Floats, " codes"]:
        """Return the number of jobs that run in a mode, on one node or several, by code.

        Parameters
        ----------
        chosen
            Position of every class's choice in the list of its kind, or `STAY`.
        """
        moving, staying = self._numbers(chosen)
        return moving + np.bincount(self.choices.kept_code, staying, moving.size)

    def of_jobs(self, jobs: Int[Indices, " some"]) -> PricedClasses:
        """Return the classes of some jobs, in whose order they are."""
        choices, place = self.choices.of_jobs(jobs), np.full(self.choices.num_classes, -1)
        found = np.unique(self.choices.job_class[jobs])
        place[found] = np.arange(found.size)
        known = []
        for block in self.blocks:
            here = np.flatnonzero(place[block.classes] >= 0)
            known.append(block.of_rows(here, place[block.classes[here]]))
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
