"""Search for the prices whose bound on all schedules of jobs with steady rates is greatest.

L-BFGS-B climbs the smoothed bound (`smoothed_bound.py`), first much smoothed on long intervals,
then less and on shorter ones. What is returned is the bound of the prices alone, without smoothing
and with finer multipliers, as `formulations/hindsight/steady_price_bound.py` works it out in NumPy.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.hindsight.steady_price_bound import (
    price_edges,
    steady_bound,
    steady_job_bounds,
)
from goodalloc.solvers.hindsight.price_climb import PriceScale, climb_prices
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.steady_jobs.smoothed_bound import SmoothedBound

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float
    from numpy.typing import NDArray

    from goodalloc.models.hindsight.steady_jobs import SteadyJobs

#: Multipliers of the search.
COARSE = 128

#: Stages of the search: the length of the intervals, in those of the last stage, and the smoothing,
#: one after the other, in the average completion time of the jobs alone.
STAGES = ((16.0, (0.1, 0.03, 0.01)), (4.0, (0.01,)), (1.0, (0.01, 0.003)))

#: Price, in mean weights of the jobs, to which lower ones are lifted before every climb: over their
#: square roots prices do not climb from 0.
LIFTED = 1e-2

#: Equal prices, in mean weights of the jobs, from the best of which the search starts.
FIRST_PRICES = np.geomspace(1e-5, 1.0, 11)

#: Behind so many times its bound a job is not looked at in the next stage.
CLEAR = 1.5

#: Most steps with each smoothing, unless others are wished.
MOST_STEPS = 60

NO_LIMIT = Stop()


class SteadyBound(NamedTuple):
    """Bound on every schedule, and the prices that prove it.

    Attributes
    ----------
    value
        Bound on the weighted sum of completion times.
    edges
        Seconds between intervals of constant prices; shape (edges,).
    prices
        Price of a unit of every resource for a second; shape (edges - 1, resources).
    """

    value: float
    edges: Float[NDArray[np.float64], " edges"]
    prices: Float[NDArray[np.float64], "intervals resources"]


def steady_jobs_bound(
    problem: SteadyJobs,
    interval: float,
    stop: Stop = NO_LIMIT,
    *,
    report: Callable[[float], None] = lambda _share: None,
) -> SteadyBound:
    """Return the greatest bound that the search finds within its limits.

    Parameters
    ----------
    problem
        The problem.
    interval
        Seconds of the shortest intervals of constant prices, above 0.
    stop
        Iterations are most steps with each smoothing, `MOST_STEPS` if None; at the limit of seconds
        the bound of the prices so far is returned.
    report
        Callback for the share of the search that is done.

    Raises
    ------
    ValueError
        If `interval` is not above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import Configurations, SteadyJobs
    >>> from goodalloc.solvers.steady_jobs import steady_jobs_bound
    >>> kind, two = Configurations("one", np.ones(1), np.ones((1, 1))), np.ones(2)
    >>> jobs = SteadyJobs((kind,), np.array([0, 0]), 600 * two, 0 * two, 0 * two, two, np.ones(1))
    >>> 1700 < steady_jobs_bound(jobs, interval=60.0).value <= 1800  # 600 and 1,200
    True
    """
    watch, scale = Watch(stop), float(problem.weight.mean())
    unit, lone = PriceScale(scale, problem.lone_value), problem.lone_value / problem.work.size
    edges = prices = None
    best = SteadyBound(-np.inf, np.zeros(0), np.zeros((0, problem.supply.size)))
    done, smoothings = 0, sum(len(shares) for _, shares in STAGES)
    until = np.full(problem.work.size, np.inf)
    for length, shares in STAGES:
        finer = price_edges(problem, length * interval)
        smoothed = SmoothedBound(problem, finer, COARSE, until)
        if edges is None or prices is None:
            prices = _equal_prices(smoothed, scale, shares[0] * lone)
        else:
            middle = (finer[:-1] + finer[1:]) / 2
            prices = prices[np.searchsorted(edges, middle).clip(1, len(prices)) - 1]
        edges = finer
        for share in shares:
            prices = climb_prices(
                partial(smoothed, smoothing=share * lone),
                np.maximum(prices, LIFTED * scale),
                unit,
                stop.iterations or MOST_STEPS,
                watch,
            )
            done += 1
            report(done / smoothings)
        job_bounds = steady_job_bounds(problem, edges, prices, COARSE)
        until = problem.release + CLEAR * job_bounds / problem.weight
        value = float(job_bounds.sum() - np.diff(edges) @ prices @ problem.supply)
        best = max(best, SteadyBound(value, edges, prices), key=lambda found: found.value)
        if watch.limit is not None:
            break
    free = np.zeros_like(best.prices)  # gives the jobs alone
    proven = ((steady_bound(problem, best.edges, found), found) for found in (best.prices, free))
    value, prices = max(proven, key=lambda found: found[0])
    return SteadyBound(value, best.edges, prices)


def _equal_prices(
    smoothed: SmoothedBound, scale: float, smoothing: float
) -> Float[NDArray[np.float64], "intervals resources"]:
    """Return the prices of the greatest smoothed bound, one for all resources at all times."""
    shape = (smoothed.edges.size - 1, smoothed.problem.supply.size)
    tried = [np.full(shape, scale * price) for price in FIRST_PRICES.tolist()]
    return max(tried, key=lambda prices: smoothed(prices, smoothing)[0])
