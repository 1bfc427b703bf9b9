r"""Sharing equal units out by what each is worth: SLAQ's greedy, and exactly.

The greedy of SLAQ (SoCC'17) begins with the fewest units that every job must have and gives one
after the other to the job that it is worth most to, while it is worth anything. With concave gains
that is the optimum of `models/classical/unit_gains.py`; otherwise a job may need two units before
either is worth anything.

Exactly, the program is solved by dynamic programming (`formulations/basics/dynamic_program.py`).
First a price on a unit is found, that of the linear relaxation: the sum over the jobs of the
concave envelopes of their gains. At this price :math:`\lambda` every total is at most

.. math:: D(\lambda) = \sum_j \max_a (g_j(a) - \lambda a) + \lambda C,                         (1)

and a job that takes *a* loses as much of it as *a* is worse than its best at that price. What loses
more than :math:`D(\lambda)` is above a total that is known is in no better allocation, and is left
out; mostly a few choices a job remain. Where the greedy attains the bound there is nothing to do.
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


#: Relative difference from the bound up to which a total attains it: that of adding up.
ATTAINED = 1e-11


class Shares(NamedTuple):
    """Who gets how many units.

    Attributes
    ----------
    amounts
        Units of every job.
    total
        What they are worth.
    bound
        No allocation is worth more, as far as was proved.
    seconds
        It took so long.
    """

    amounts: Indices
    total: float
    bound: float
    seconds: float

    @property
    def gap(self) -> float:
        """How far the total is from the bound, as a part of the bound; NaN where that is none."""
        if not np.isfinite(self.bound):
            return float("nan")
        return max(self.bound - self.total, 0.0) / self.bound if self.bound > 0 else 0.0


def share_greedily(problem: UnitGains) -> Shares:
    """One unit after the other to the job that it is worth most to, the first of equals.

    Parameters
    ----------
    problem
        The gains and the units.
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
    """The best allocation, proved.

    Parameters
    ----------
    problem
        The gains and the units.
    prune
        Whether choices are left out that the bound (1) rules out; the total is the same.
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
    """The costs without choices that no allocation as cheap as a known one makes."""
    bound = respond(cost, units, price).bound
    priced = cost + price * np.arange(cost.shape[1])
    loses = priced - priced.min(axis=1, keepdims=True)
    room = known - bound + ATTAINED * max(abs(known), abs(bound))
    return np.where(loses <= room, cost, np.inf)


def gain_bound(problem: UnitGains) -> float:
    """No allocation is worth more: (1) at the best price, the value of the linear relaxation."""
    return -best_price(-problem.gains, problem.units).bound


def gain_by_units(problem: UnitGains) -> Floats:
    """The optimum with 0, 1, …, C units, minus infinity where the jobs must have more.

    The last difference is what the last unit is worth.
    """
    return np.asarray(-least_totals(-problem.gains, problem.units)[-1])
