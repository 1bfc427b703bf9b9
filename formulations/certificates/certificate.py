r"""Certificates of a bound on the fitness of a round: prices, by cases where one set is not enough.

A *leaf* has prices, and with them `price_bound` bounds the cost of every allocation from below,
which bounds its fitness. A *split* tells two cases apart, a job takes one of some choices or it
takes none of them; whatever holds of both holds. The greatest bound of all leaves is one on the
fitness.

**Finite powers.** Costs are those of `basics/power_mean_cost.py` at the reference of the leaf, and
(2) there turns the bound on the cost into one on the fitness. For p < 0 choices that no allocation
as good as a known one can contain (fact 1) are left out: the bound is then on whatever is better
than that allocation. For large p > 0 a reference suits the greatest utilities alone; the cases in
which no job reaches these have a lower one.

**Infinite powers.** A choice costs 1 if its utility is at most a level, and nothing above it. If
the cost is above 0 then some job stays at or below the level in every allocation: the level bounds
the least utility. If it is above n - 1, all *n* do: the level bounds the greatest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import (
    fitness_from_cost,
    least_useful,
    power_cost,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float

    from goodalloc.formulations.certificates.price_bound import PriceBound
    from goodalloc.formulations.certificates.prices import Prices
    from goodalloc.models.support.array_types import Flags, Floats


#: By how much a bound is raised above what its prices prove, so that whoever computes it again,
#: in another order and with utilities worked out anew, comes to no more.
MARGIN = 2e-12

#: Costs beyond this count as this much, which is less: what costs more is not ruled out.
LARGEST_COST = 1e290


@dataclass(frozen=True)
class Measure:
    """Cost of choices: that of the power mean at a reference, or 1 up to a level.

    Parameters
    ----------
    power
        The power *p* of the fitness.
    mark
        The reference at a finite power, the level at an infinite one.
    """

    power: float
    mark: float

    def cost(self, utility: Float[Floats, ...], known: float, num_jobs: int) -> Float[Floats, ...]:
        """Return the cost of every utility; infinite for those that no better allocation can
        contain.

        Parameters
        ----------
        utility
            Utilities, of any shape.
        known
            Fitness of a feasible allocation, 0 without any.
        num_jobs
            Number of jobs *n*.
        """
        if math.isinf(self.power):
            return (utility <= self.mark * (1 + MARGIN / 2)).astype(np.float64)
        least = least_useful(known, num_jobs, self.power) if known > 0 else 0.0
        useful = utility >= least
        with np.errstate(over="ignore"):
            cost = power_cost(np.where(useful, utility, self.mark), self.power, self.mark)
        return np.where(useful, np.minimum(cost, LARGEST_COST), np.inf)

    def bound(self, least_cost: float, num_jobs: int, known: float) -> float:
        """Return the bound on the fitness that follows from a bound on the total cost; infinite if
        none.

        Parameters
        ----------
        least_cost
            No allocation that is better than the known one costs less.
        num_jobs
            Number of jobs *n*.
        known
            As of `cost`.
        """
        if math.isfinite(self.power):
            bound = fitness_from_cost(least_cost, num_jobs, self.power, self.mark)
        else:
            needed = 0.0 if self.power < 0 else num_jobs - 1.0
            bound = self.mark if least_cost > needed else math.inf
        return max(bound, known) * (1 + MARGIN)


@dataclass(frozen=True)
class Leaf:
    """Case that is decided by prices.

    Parameters
    ----------
    measure
        Cost of the choices.
    prices
        In units of that cost.
    """

    measure: Measure
    prices: Prices


@dataclass(frozen=True)
class Split:
    """Two cases: a job takes one of some choices, or none of them.

    Parameters
    ----------
    job
        Job whose choices are split.
    chosen
        Whether each choice belongs to the case `inside`, shape (choices,).
    inside, outside
        Proofs of the two cases.
    """

    job: int
    chosen: Bool[Flags, " choices"]
    inside: Leaf | Split
    outside: Leaf | Split


#: Prices, or cases that have a tree each.
Tree = Leaf | Split


@dataclass(frozen=True)
class Certificate:
    """Proof of a bound on the fitness of every allocation of a round.

    Parameters
    ----------
    bounds
        Bound of the round as a function of prices.
    tree
        The cases and their prices.
    known
        Fitness of the allocation that the useful choices were told by.
    bound
        Bound on the fitness that is proved.
    """

    bounds: PriceBound
    tree: Tree
    known: float
    bound: float


def certify(bounds: PriceBound, tree: Tree, known: float) -> Certificate:
    """Return the certificate that prices amount to.

    Parameters
    ----------
    bounds, tree
        As of `Certificate`.
    known
        Fitness of a feasible allocation, 0 without any.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.certificates import Leaf, Measure, PriceBound, Prices, certify
    >>> from goodalloc.formulations.gpu_rounds import enumerate_choices, knapsack_bound
    >>> from goodalloc.formulations.mode_rounds import resource_grid
    >>> instance = load_benchmark("tiny-cold")
    >>> bounds = PriceBound(instance, enumerate_choices(instance), resource_grid(instance))
    >>> free = Leaf(Measure(-1.0, 1.0), Prices())  # every job takes its best choice
    >>> certify(bounds, free, known=0.0).bound >= knapsack_bound(instance)
    True
    """
    bound = max(leaf_bound(bounds, leaf, known, allowed) for leaf, allowed in cases(tree, bounds))
    return Certificate(bounds, tree, known, bound)


def leaf_bound(
    bounds: PriceBound, leaf: Leaf, known: float, allowed: Bool[Flags, " choices"]
) -> float:
    """Return the bound on the fitness in one case.

    Parameters
    ----------
    bounds, leaf, known
        As of `certify`.
    allowed
        The choices that there are in the case, shape (choices,).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.certificates import Leaf, Measure, PriceBound, Prices
    >>> from goodalloc.formulations.certificates import leaf_bound
    >>> from goodalloc.formulations.gpu_rounds import enumerate_choices
    >>> from goodalloc.formulations.mode_rounds import resource_grid
    >>> from goodalloc.solvers import solve
    >>> instance = load_benchmark("tiny-cold")
    >>> choices = enumerate_choices(instance)
    >>> bounds = PriceBound(instance, choices, resource_grid(instance))
    >>> free, every = Leaf(Measure(-1.0, 1.0), Prices()), np.ones(len(choices), dtype=bool)
    >>> leaf_bound(bounds, free, 0.0, every) >= solve(instance).fitness
    True
    """
    num_jobs = bounds.instance.num_jobs
    cost = leaf.measure.cost(bounds.choices.utility, known, num_jobs)
    least = bounds.least_cost(np.where(allowed, cost, np.inf), leaf.prices)
    return leaf.measure.bound(least, num_jobs, known)


def cases(tree: Tree, bounds: PriceBound) -> Iterator[tuple[Leaf, Bool[Flags, " choices"]]]:
    """Return the leaves, each with the choices that remain in its case."""
    waiting = [(tree, np.ones(len(bounds.choices), dtype=bool))]
    while waiting:
        node, allowed = waiting.pop()
        if isinstance(node, Leaf):
            yield node, allowed
            continue
        mine = bounds.choices.job == node.job
        waiting.append((node.inside, allowed & (node.chosen | ~mine)))
        waiting.append((node.outside, allowed & ~node.chosen))
