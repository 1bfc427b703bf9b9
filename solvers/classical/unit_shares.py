r"""Sharing of equal units by their gains: SLAQ's greedy algorithm, and exactly.

SLAQ's greedy algorithm begins with the fewest units that every job must have and gives one after
the other to the job that gains most by it, while any job gains. With concave gains that is the
optimum of `models/classical/unit_gains.py`; otherwise a job may need two units before it gains by
either.

Exactly, the program is solved by dynamic programming (`formulations/basics/dynamic_program.py`).
First a price on a unit is found, that of the linear relaxation: the sum over the jobs of the
concave envelopes of their gains. At this price :math:`\lambda` every total is at most

.. math:: D(\lambda) = \sum_j \max_a (g_j(a) - \lambda a) + \lambda C,                         (1)

and a job that takes *a* reduces it by as much as *a* is worse than its best at that price. A choice
that reduces it by more than its excess over a known total is in no better allocation, and is left
out; mostly a few choices a job remain. Where the greedy algorithm attains the bound nothing remains
to do.

References
----------
Zhang et al., "SLAQ: Quality-Driven Scheduling for Distributed Machine Learning", SoCC 2017.
    doi:10.1145/3127479.3127490
"""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.dynamic_program import least_amounts, least_totals
from goodalloc.formulations.gpu_rounds.knapsack import best_price, respond
from goodalloc.models.classical.unit_gains import total_gain

if TYPE_CHECKING:
    from goodalloc.models.classical.unit_gains import UnitGains
    from goodalloc.models.support.array_types import Floats, Indices


#: Relative difference from the bound up to which a total attains it: rounding of sums.
ATTAINED = 1e-11


class Shares(NamedTuple):
    """Units of every job, with their total gain and a proven bound on it.

    Attributes
    ----------
    amounts
        Units of every job.
    total
        Total gain of the units.
    bound
        Proven upper bound on the total of any allocation; infinite where nothing is proved.
    seconds
        Time of the computation.
    """

    amounts: Indices
    total: float
    bound: float
    seconds: float

    @property
    def gap(self) -> float:
        """Distance of the total from the bound, relative to the bound; NaN without a bound."""
        if not np.isfinite(self.bound):
            return float("nan")
        return max(self.bound - self.total, 0.0) / self.bound if self.bound > 0 else 0.0


def share_greedily(problem: UnitGains) -> Shares:
    """Give one unit after the other to the job that gains most by it, the first of equals.

    Parameters
    ----------
    problem
        The gains and the units.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import one_each
    >>> from goodalloc.solvers.classical import share_greedily
    >>> gains = np.array([[0.0, 5.0, 6.0, 6.5], [0.0, 4.0, 7.0, 9.0]])  # of 0, 1, 2, 3 units
    >>> shares = share_greedily(one_each(gains, 3))
    >>> shares.amounts.tolist(), shares.total
    ([1, 2], 12.0)
    """
    begin = time.perf_counter()
    amounts = problem.least.tolist()
    left = problem.units - sum(amounts)
    most = problem.gains.shape[1] - 1
    gains = problem.gains

    def further(job: int) -> float:
        held = amounts[job]
        return gains.item(job, held + 1) - gains.item(job, held) if held < most else -np.inf

    waiting = [(-further(job), job) for job in range(len(amounts))]
    heapq.heapify(waiting)
    while left > 0 and waiting and waiting[0][0] < 0:
        job = waiting[0][1]
        amounts[job] += 1
        left -= 1
        heapq.heapreplace(waiting, (-further(job), job))
    found = np.array(amounts, dtype=np.int64)
    return Shares(found, total_gain(problem, found), np.inf, time.perf_counter() - begin)


def share_exactly(problem: UnitGains, *, prune: bool = True) -> Shares:
    """Return the best allocation, proved.

    Parameters
    ----------
    problem
        The gains and the units.
    prune
        Whether choices are left out that the bound (1) rules out; the total is the same.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import one_each
    >>> from goodalloc.solvers.classical import share_exactly
    >>> gains = np.array([[0.0, 5.0, 6.0, 6.5], [0.0, 4.0, 7.0, 9.0]])  # of 0, 1, 2, 3 units
    >>> shares = share_exactly(one_each(gains, 3))
    >>> shares.amounts.tolist(), shares.gap < 1e-9
    ([1, 2], True)
    """
    begin = time.perf_counter()
    cost = -problem.gains
    if prune:
        priced = best_price(cost, problem.units)
        known = max(
            (total_gain(problem, amounts), index, amounts)
            for index, amounts in enumerate((priced.replicas, share_greedily(problem).amounts))
        )
        if known[0] >= -priced.bound - ATTAINED * max(abs(priced.bound), abs(known[0])):
            bound = max(known[0], -priced.bound)
            return Shares(known[2], known[0], bound, time.perf_counter() - begin)
        cost = _without_worse(cost, problem.units, priced.price, -known[0])
    amounts = least_amounts(cost, least_totals(cost, problem.units))
    total = total_gain(problem, amounts)
    return Shares(amounts, total, total, time.perf_counter() - begin)


def _without_worse(cost: Floats, units: int, price: float, known: float) -> Floats:
    """Return the costs without choices that no allocation as cheap as a known one makes."""
    bound = respond(cost, units, price).bound
    priced = cost + price * np.arange(cost.shape[1])
    loses = priced - priced.min(axis=1, keepdims=True)
    room = known - bound + ATTAINED * max(abs(known), abs(bound))
    return np.where(loses <= room, cost, np.inf)


def gain_bound(problem: UnitGains) -> float:
    """Return the bound (1) at the best price, the value of the linear relaxation.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import one_each
    >>> from goodalloc.solvers.classical import gain_bound
    >>> gains = np.array([[0.0, 5.0, 6.0, 6.5], [0.0, 4.0, 7.0, 9.0]])  # of 0, 1, 2, 3 units
    >>> round(gain_bound(one_each(gains, 3)), 6)
    12.0
    """
    return -best_price(-problem.gains, problem.units).bound


def gain_by_units(problem: UnitGains) -> Floats:
    """Return the optimum with 0, 1, …, C units, minus infinity where jobs must have more.

    The last difference is the value of the last unit.
    """
    return np.asarray(-least_totals(-problem.gains, problem.units)[-1])
