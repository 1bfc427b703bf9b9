r"""Prices of counts: how many jobs at least stay at or below a level of utility in any allocation.

Where GPUs are short some jobs get none, and at p < 0 these few outweigh all others. A relaxation
starves a part of a job where a whole one has to, and its bound is far off. But prices prove the
number itself: with cost 1 for every choice of a utility of at most a level *l* and 0 for all
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

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.certificates.prices import Prices

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.support.array_types import Floats


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
