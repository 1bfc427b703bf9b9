r"""Bounds on the goals of time shares, proved by prices: Gavel, section 4.

A solver is right to a few digits. Over the shares (1) of `models/gavel/time_sharing.py`, take any
prices :math:`\lambda_j \ge 0` of rates, :math:`\pi_w \ge 0` of GPUs and :math:`\mu_j \ge 0` of the
jobs' time such that on every line

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

the second since :math:`b / \tau + \nu \tau \ge 2 \sqrt{b \nu}`; in (6) only jobs with a step count.
The solver's prices are taken, clipped at 0, and :math:`\mu` is raised until (1) holds: whatever the
solver did, the bound is one. Prices and bound are a proof that anybody can check
(`experiments/verification/verify_time_shares.py`).

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020, section 4. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.gavel.share_goal import Gain, Level, Total, Worst
from goodalloc.models.gavel.time_sharing import largest_rates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtyping import Float

    from goodalloc.models.gavel.share_goal import Goal
    from goodalloc.models.gavel.time_sharing import TimeSharing
    from goodalloc.models.support.array_types import Floats


#: Relative rounding of a few operations that a bound allows for; long sums are rounded once.
ROUNDING = 2.0**-48


class SharePrices(NamedTuple):
    """Prices of the constraints in units of the goal, as a solver reports them.

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

    rates: Float[Floats, " jobs"]
    promises: Float[Floats, " jobs"]
    gpus: Float[Floats, " types"]
    time: Float[Floats, " jobs"]


def no_prices(sharing: TimeSharing) -> SharePrices:
    """Return prices of 0, from which a bound follows without a solver.

    Examples
    --------
    >>> from goodalloc.models.gavel import TimeSharing
    >>> sharing = TimeSharing(("a", "b"), [[2.0], [1.0]], gpus=[1])  # two jobs, one GPU
    >>> from goodalloc.formulations.gavel import no_prices
    >>> no_prices(sharing).gpus.tolist()
    [0.0]
    """
    jobs = sharing.num_jobs
    nothing = np.zeros(jobs)
    return SharePrices(nothing, nothing, np.zeros(sharing.num_types), nothing)


class Certificate(NamedTuple):
    """Bound that prices prove.

    Attributes
    ----------
    bound
        No shares do better; the worst delay is infinite where none keep the promises.
    excess
        By how much (1) is missed by each pair, shape (pairs,): where nobody misses it, no pair
        that was left out of a program would have improved it.
    prices
        Prices that prove the bound, and satisfy (1).
    """

    bound: float
    excess: Float[Floats, " pairs"]
    prices: SharePrices


def certify(
    sharing: TimeSharing,
    goal: Goal,
    prices: SharePrices,
    promised: Float[Floats, " jobs"] | None = None,
) -> Certificate:
    """Return the bound (3) to (6) by some prices, or by those of one job alone if that is better.

    Parameters
    ----------
    sharing, goal, promised
        As of `share_program.solve_shares`.
    prices
        Of what they may be; (1) is mended by raising those of the jobs' time.

    Examples
    --------
    >>> from goodalloc.models.gavel import TimeSharing, max_min
    >>> sharing = TimeSharing(("a", "b"), [[2.0], [1.0]], gpus=[1])  # two jobs, one GPU
    >>> from goodalloc.formulations.gavel import certify, no_prices
    >>> goal = max_min(sharing)
    >>> certify(sharing, goal, no_prices(sharing)).bound >= 0.5  # half of the GPU each is possible
    True
    """
    better = min if goal.larger_is_better else max
    alone = _priced_alone(sharing, goal)
    with np.errstate(over="ignore", invalid="ignore"):
        found, excess = _mended(sharing, goal, prices)
        sure, _ = _mended(sharing, goal, alone)
        bound = _bound(goal, found, _free(sharing, found, promised))
        other = _bound(goal, sure, _free(sharing, sure, None))
    if better(bound, other) != bound:
        return Certificate(other, excess, sure)
    if math.isinf(bound) and not goal.larger_is_better:
        found = found._replace(rates=np.zeros_like(found.rates))
    return Certificate(bound, excess, found)


def as_promises(prices: SharePrices) -> SharePrices:
    r"""Return prices of a level as those of promises.

    Where the level of the promised rates is below 1 they cannot be kept, :math:`V < \kappa r`.

    Parameters
    ----------
    prices
        Prices that prove the level.

    Examples
    --------
    >>> from goodalloc.models.gavel import TimeSharing, max_min
    >>> sharing = TimeSharing(("a", "b"), [[2.0], [1.0]], gpus=[1])  # two jobs, one GPU
    >>> from goodalloc.formulations.gavel import as_promises, solve_shares
    >>> level = solve_shares(sharing, max_min(sharing))
    >>> as_promises(level.prices).rates.tolist()
    [0.0, 0.0]
    """
    return prices._replace(rates=np.zeros_like(prices.rates), promises=prices.rates)


def _priced_alone(sharing: TimeSharing, goal: Goal) -> SharePrices:
    """Return a price for the rate of the job that limits the goal most when it has all GPUs."""
    prices, most = no_prices(sharing), largest_rates(sharing)
    if isinstance(goal, Gain | Total):
        return prices
    if isinstance(goal, Worst):
        job = int(np.argmax(goal.delay + goal.work / most))
    else:
        counts = np.flatnonzero(goal.step > 0)
        levels = (most[counts] - goal.floor[counts]) / goal.step[counts]
        job = int(counts[np.argmin(levels)])
    return prices._replace(rates=np.eye(sharing.num_jobs)[job])


def _mended(
    sharing: TimeSharing, goal: Goal, prices: SharePrices
) -> tuple[SharePrices, Float[Floats, " pairs"]]:
    """Return prices that keep to (1) despite rounding, and by how much each pair missed it."""
    jobs = sharing.num_jobs
    padded = np.append(prices.rates + prices.promises, 0.0)
    value = np.einsum("lwi,li->lw", sharing.line_rate, padded[sharing.members])
    if isinstance(goal, Gain):
        value = value + goal.worth
    cost = sharing.line_replicas[:, None] * prices.gpus
    needed = (value - cost + ROUNDING * (value + cost)).max(axis=1)
    hours, excess = np.maximum(needed[:jobs], 0.0), np.zeros(0)
    if len(sharing.pairs):
        hours = np.maximum(hours, prices.time)
        paid = hours[sharing.pairs].sum(axis=1)
        excess = np.maximum((value - cost)[jobs:].max(axis=1) - paid, 0.0)
        more = np.zeros(jobs)
        np.maximum.at(more, sharing.pairs, ((needed[jobs:] - paid) / 2.0)[:, None])
        hours = hours + more
    return prices._replace(time=hours), excess


def _free(
    sharing: TimeSharing, prices: SharePrices, promised: Float[Floats, " jobs"] | None
) -> float:
    """Return an upper bound on what V leaves beyond the promises."""
    paid = _sum(prices.time) + _sum(sharing.gpus * prices.gpus)
    kept = 0.0 if promised is None else _sum(prices.promises * promised)
    return paid - kept + ROUNDING * (paid + kept)


def _bound(goal: Goal, prices: SharePrices, free: float) -> float:
    """Return the bound of a goal; that of no proof where numbers overflow."""
    price = prices.rates
    if not math.isfinite(free):
        return math.inf if goal.larger_is_better else -math.inf
    if isinstance(goal, Gain):
        return free
    if isinstance(goal, Level):
        steps, floors = _sum(price * goal.step), _sum((price * goal.floor)[goal.step > 0])
        level = (free - floors * (1.0 - ROUNDING)) / steps if steps > 0 else math.inf
        return level + ROUNDING * abs(level)
    if isinstance(goal, Total):
        least = _sum(goal.delay) + 2.0 * _sum(np.sqrt(goal.work * price))
        return least * (1.0 - ROUNDING) - free
    return _worst_at_least(goal, price, free)


def _worst_at_least(goal: Worst, price: Float[Floats, " jobs"], free: float) -> float:
    """Return the root of (5), from below by Newton's method: the sum is convex."""
    spent = price * goal.work
    priced = spent > 0
    surely = float(goal.delay.max())
    if free < 0.0:
        return math.inf  # the promises cannot be kept
    if free == 0.0 or not priced.any():
        return surely
    delay, spent = goal.delay[priced], spent[priced]
    rho = max(float(np.max(delay + spent / free)), math.nextafter(float(delay.max()), math.inf))
    for _ in range(200):
        parts = spent / (rho - delay)
        step = (_sum(parts) - free) / _sum(parts / (rho - delay))
        if not step > ROUNDING * rho:
            break
        rho += step
    return max(rho * (1.0 - 2.0 * ROUNDING), surely)


def _sum(terms: Iterable[float]) -> float:
    """Return a sum that is rounded once; infinite where it overflows."""
    try:
        return math.fsum(terms)
    except OverflowError:
        return math.inf
