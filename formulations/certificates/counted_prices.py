r"""Prices of counts: how many jobs at least stay at or below a level of utility in any allocation.

Where GPUs are short some jobs get none, and at p < 0 these few outweigh all others. A relaxation
starves 4.5 jobs where no fewer than five can starve, and its bound is far off. But prices prove
the number itself: with cost 1 for every choice of a utility of at most a level *l* and 0 for all
others, (1) of `price_bound.py` bounds the number of such jobs from below, by :math:`C`, so that it
is at least :math:`k = \lceil C \rceil`.

What holds in every allocation may have a price: with :math:`\mu \ge 0` for each count,

.. math::

    \sum_j c(u_j) \ge \sum_j \min_i \bigl( c(u_{ji}) - \mu [u_{ji} \le l] + P_{ji} \bigr)
    - \sum_v W_v + \mu k                                                                    (1)

is (1) of `price_bound.py` for costs that are lower by :math:`\mu` up to the level, plus
:math:`\mu k` for the count, and a valid bound for the same reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.certificates.price_bound import PriceBound
from goodalloc.formulations.certificates.prices import Prices

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.support.array_types import Floats

#: Relative rounding of costs less the prices of counts.
ROUNDING = 1e-15


@dataclass(frozen=True)
class Count:
    """Number of jobs of any allocation that take a choice of a utility up to a level.

    Parameters
    ----------
    level
        The level *l*.
    least
        The number *k*, at least 1.
    proof
        Prices that prove it.
    """

    level: float
    least: int
    proof: Prices


@dataclass(frozen=True)
class CountedPrices(Prices):
    """Prices with those of counts; see `Prices`.

    Parameters
    ----------
    counts
        Of every count of the round, at least 0.
    """

    counts: tuple[float, ...] = ()

    @classmethod
    def of(cls, prices: Prices, counts: Float[Floats, " counts"]) -> CountedPrices:
        """Return prices with those of counts, of shape (counts,)."""
        fields = prices.resources, prices.values, prices.stays, prices.parts
        return cls(*fields, tuple(counts.tolist()))

    def times(self, factor: float) -> CountedPrices:
        """Return the prices times a factor, for costs that are scaled by it."""
        return self.of(super().times(factor), np.array(self.counts) * factor)


@dataclass(frozen=True)
class CountedBound(PriceBound):
    """The bound (1) of one round; see `PriceBound`.

    Parameters
    ----------
    counts
        What is known of every allocation.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.certificates import Count, CountedBound, CountedPrices, Prices
    >>> from goodalloc.formulations.gpu_rounds import enumerate_choices
    >>> from goodalloc.formulations.mode_rounds import resource_grid
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> jobs = tuple(Job(name, SpeedupTable((1.0,), (1.0,))) for name in "ab")
    >>> instance = Instance(Cluster.uniform(1, 1), jobs)
    >>> choices = enumerate_choices(instance)  # idle, or the only GPU, for each job
    >>> half = Prices(resources=np.array([[1.0]]))
    >>> bound = CountedBound(instance, choices, resource_grid(instance), (Count(0.5, 1, half),))
    >>> cost = np.where(choices.utility <= 0.5, 5.0, 0.0)
    >>> bound.least_cost(cost, CountedPrices(counts=(5.0,)))
    5.0
    """

    counts: tuple[Count, ...] = ()

    def least_cost(self, cost: Float[Floats, " choices"], prices: Prices) -> float:
        """Return the right-hand side of (1), less a bound on its rounding.

        Parameters
        ----------
        cost
            Of every choice, infinite where there is no such choice: shape (choices,).
        prices
            Prices; any prices give a valid bound.

        Returns
        -------
        float
            Infinity if some job has no choice.
        """
        if not isinstance(prices, CountedPrices):
            return super().least_cost(cost, prices)
        earned = 0.0
        for count, price in zip(self.counts, prices.counts, strict=True):
            cost = cost - price * (self.choices.utility <= count.level)
            earned += price * count.least
        scale = self.instance.num_jobs * math.fsum(prices.counts) + earned
        return super().least_cost(cost, prices) + earned - ROUNDING * scale
