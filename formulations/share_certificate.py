r"""How good time shares can be, proved by prices: the goals of Gavel (OSDI'20, section 4).

A solver is right to a few digits. Over the shares (1) of `models/time_sharing.py`, take any prices
:math:`\lambda_j \ge 0` of rates, :math:`\pi_w \ge 0` of GPUs and :math:`\mu_j \ge 0` of the jobs'
time such that on every line

.. math:: g_{lw} + \sum_{j \in l} \lambda_j T_{lwj} - s_l \pi_w \le \sum_{j \in l} \mu_j,   (1)

where *g* is 0 but for the goal *gain*. Then for all shares, by adding up,

.. math::

    \sum_{lw} g_{lw} X_{lw} + \sum_j \lambda_j \tau_j
    \;\le\; V = \sum_j \mu_j + \sum_w N_w \pi_w.                                              (2)

From that follow bounds on the goals: with :math:`\lambda = \kappa + \nu`, where :math:`\kappa` are
the prices of the promised rates,

.. math::

    \text{gain} &\le V - \kappa \cdot r \quad (\nu = 0),  (3)\\
    \text{total} &\ge \sum_j (a_j + 2 \sqrt{b_j \nu_j}) + \kappa \cdot r - V,  (4)\\
    \text{worst} &\ge \rho : \; \sum_j \nu_j b_j / (\rho - a_j) = V - \kappa \cdot r,  (5)\\
    \text{level} &\le (V - \kappa \cdot r - \nu \cdot a) / (\nu \cdot b),  (6)

the second since :math:`b / \tau + \nu \tau \ge 2 \sqrt{b \nu}`. The solver's prices are taken,
clipped at 0, and :math:`\mu` is raised until (1) holds: whatever the solver did, the bound is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import brentq

from goodalloc.models.share_goal import Gain, Level, Total
from goodalloc.models.time_sharing import largest_rates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from goodalloc.models.share_goal import Goal
    from goodalloc.models.time_sharing import TimeSharing

    Floats = NDArray[np.float64]

#: Relative rounding that a bound allows for.
ROUNDING = 1e-12


class SharePrices(NamedTuple):
    """What a solver says that things are worth, at the margin of the goal.

    Attributes
    ----------
    rates
        nu: of a step per second of every job, by the goal; shape (jobs,).
    promises
        kappa: of a step per second that was promised; likewise.
    gpus
        pi: of a GPU of every type, shape (types,).
    time
        mu: of the whole time of every job, shape (jobs,).
    """

    rates: Floats
    promises: Floats
    gpus: Floats
    time: Floats


def no_prices(sharing: TimeSharing) -> SharePrices:
    """Prices of 0, which prove what needs no solver."""
    jobs = sharing.num_jobs
    nothing = np.zeros(jobs)
    return SharePrices(nothing, nothing, np.zeros(sharing.num_types), nothing)


class Certificate(NamedTuple):
    """What prices prove.

    Attributes
    ----------
    bound
        No shares do better.
    excess
        By how much (1) is missed by each pair, shape (pairs,): where nobody misses it, no pair
        that was left out of a program would have improved it.
    """

    bound: float
    excess: Floats


def certify(
    sharing: TimeSharing, goal: Goal, prices: SharePrices, promised: Floats | None = None
) -> Certificate:
    """The bound (3) to (6) by some prices, less what rounding may have hidden.

    Parameters
    ----------
    sharing, goal, promised
        As of `share_program.solve_shares`.
    prices
        Of what they may be; (1) is mended by raising those of the jobs' time.
    """
    jobs = sharing.num_jobs
    padded = np.append(prices.rates + prices.promises, 0.0)
    value = np.einsum("lwi,li->lw", sharing.line_rate, padded[sharing.members])
    if isinstance(goal, Gain):
        value = value + goal.worth
    best = (value - sharing.line_replicas[:, None] * prices.gpus).max(axis=1)
    hours, excess = np.maximum(best[:jobs], 0.0), np.zeros(0)
    if len(sharing.pairs):
        hours = np.maximum(hours, prices.time)
        excess = np.maximum(best[jobs:] - hours[sharing.pairs].sum(axis=1), 0.0)
        more = np.zeros(jobs)
        np.maximum.at(more, sharing.pairs, excess[:, None] / 2.0)
        hours = hours + more
    paid = float(hours.sum() + sharing.gpus @ prices.gpus)
    free = paid - (0.0 if promised is None else float(prices.promises @ promised))
    slack = ROUNDING * (paid + abs(free))
    return Certificate(_bound(sharing, goal, prices.rates, free + slack), excess)


def _bound(sharing: TimeSharing, goal: Goal, price: Floats, free: float) -> float:
    """Of a goal, by the prices of rates and what V leaves beyond the promises."""
    if isinstance(goal, Gain):
        return free
    if isinstance(goal, Level):
        steps = float(price @ goal.step)
        level = (free - float(price @ goal.floor)) / steps if steps > 0 else np.inf
        return level + ROUNDING * abs(level)
    if isinstance(goal, Total):
        least = float((goal.delay + 2.0 * np.sqrt(goal.work * price)).sum())
        return max(least * (1.0 - ROUNDING) - free, float(goal.delay.sum()))
    alone = float(np.max(goal.delay + goal.work / largest_rates(sharing)))
    return _worst_at_least(goal.delay, goal.work, price, free, alone)


def _worst_at_least(delay: Floats, work: Floats, price: Floats, free: float, alone: float) -> float:
    """The root of (5)."""
    priced = price * work > 0
    if not priced.any():
        return alone
    if free <= 0.0:
        return np.inf  # the promises cannot be kept
    delay, spent = delay[priced], (price * work)[priced]
    low, high = float(delay.max()), float(delay.max() + spent.sum() / free)

    def surplus(rho: float) -> float:
        return float(np.sum(spent / (rho - delay))) - free

    low *= 1.0 + ROUNDING
    if low > 0.0 and surplus(high) < 0.0:  # else all delays are alike, and it is there
        high = float(brentq(surplus, low, high, rtol=ROUNDING)) if surplus(low) > 0.0 else low
    return max(high * (1.0 - 2.0 * ROUNDING), alone)
