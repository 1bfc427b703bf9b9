"""Bound on the cost of every allocation by prices, those of counts among them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goodalloc.formulations.certificates.counted_prices import CountedPrices
from goodalloc.formulations.certificates.price_bound import PriceBound

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.formulations.certificates.counted_prices import Count
    from goodalloc.formulations.certificates.prices import Prices
    from goodalloc.models.support.array_types import Floats

#: Relative rounding of costs less the prices of counts.
ROUNDING = 1e-15


@dataclass(frozen=True)
class CountedBound(PriceBound):
    """The bound (1) of `counted_prices.py` of one round; see `PriceBound`.

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
    >>> round(bound.least_cost(cost, CountedPrices(counts=(5.0,))), 12)  # one of them is idle
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
