r"""Bound on every schedule of jobs whose rates stay the same, from prices of resources over time.

It is that of `price_bound.py` for jobs with one phase, in configurations with any resources. For
any prices :math:`\lambda_a(t) \ge 0` of a unit of resource *a*,

.. math::

    \sum_j \min_{C \ge e_j} \max_{\mu \ge 0} \Bigl[ w_j (C - r_j) + \mu W_j
        - \int_{b_j}^{C} h_\mu(\lambda(t)) \, dt \Bigr] - \sum_a U_a \int \lambda_a(t) \, dt,
    \qquad h_\mu(\lambda) = \max_c \Bigl( \mu g_c - \sum_a \lambda_a u_{ca} \Bigr)^+          (1)

is never above the objective of `models/hindsight/steady_jobs.py`: no job works before :math:`b_j`,
its begin and its shortest delay, or ends before :math:`e_j`, when it would end alone, and
:math:`\mu` is a multiplier for its work. Any set of multipliers gives a bound. Prices are constant
between edges, and 0 behind the last one, *T*; there a job costs at least
:math:`w_j (\max(T, e_j) - r_j)`.

Between edges the bracket of (1) is linear in *C* for every :math:`\mu`, and least at an end. So

.. math:: \min_t \max_\mu \min \{ [\cdot] \text{ at the start of } t, \text{ at its end} \}      (2)

is never above the minimum of a job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.validation import real_array, require_count, require_number

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.hindsight.steady_jobs import SteadyJobs
    from goodalloc.models.support.array_types import Floats

#: Multipliers of a bound that is reported.
FINE = 600

#: Prices, in mean weights of the jobs, from which the multipliers go, and how many times the worth
#: of a job in its fastest configuration they go to at prices of 1.
LEAST_PRICE, MOST_WORTH = 1e-3, 30.0

#: By how much an interval behind the last begin of a job is longer than that before, and how far
#: they go, in the longest time of a job alone.
GROWTH, FAR = 1.05, 1.5

#: Intervals of a job that are looked at together.
TOGETHER = 16

#: What rounding may add to the terms of a bound, as a share of them.
ROUNDING = 1e-10


def price_edges(problem: SteadyJobs, interval: float) -> Float[Floats, " edges"]:
    """Return edges of intervals of one length while jobs come, and of growing lengths behind.

    Parameters
    ----------
    problem
        The problem.
    interval
        Seconds of an interval while jobs come, above 0.

    Raises
    ------
    ValueError
        If `interval` is not above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import Configurations, SteadyJobs
    >>> from goodalloc.formulations.hindsight import price_edges
    >>> kind, one = Configurations("one", np.ones(1), np.ones((1, 1))), np.ones(1)
    >>> jobs = SteadyJobs((kind,), np.array([0]), 300 * one, 0 * one, 0 * one, one, one)
    >>> price_edges(jobs, 100.0).round().tolist()
    [0.0, 100.0, 205.0, 315.0, 431.0, 553.0]
    """
    require_number("Prices: interval", interval, minimum=0.0, strict=True)
    last = float(problem.begin.max())
    least = [float(((k.uses / problem.supply).max(axis=1) / k.rates).min()) for k in problem.kinds]
    load = float(problem.work @ np.array(least)[problem.kind])  # seconds, if no resource idles
    far = max(FAR * float((problem.first_end - problem.begin).max()), load)
    edges = np.arange(0.0, last + interval, interval).tolist()
    edges += [interval] if len(edges) == 1 else []
    length = interval
    while edges[-1] < last + far:
        length *= GROWTH
        edges.append(edges[-1] + length)
    return np.array(edges)


def steady_multipliers(problem: SteadyJobs, count: int) -> Float[Floats, "kinds multipliers"]:
    """Return multipliers of the work of every kind: 0, and others in a geometric sequence.

    Parameters
    ----------
    problem
        The problem.
    count
        How many, at least 3.

    Raises
    ------
    ValueError
        If `count` is below 3.
    """
    require_count("Bound: multipliers", count, 3)
    scale, rows = float(problem.weight.mean()), []
    for kind in problem.kinds:
        held, fastest = kind.uses.sum(axis=1), int(kind.rates.argmax())
        least = LEAST_PRICE * float((np.maximum(held, LEAST_PRICE) / kind.rates).min())
        most = MOST_WORTH * float((1.0 + held[fastest]) / kind.rates[fastest])
        rows.append(np.concatenate([[0.0], scale * np.geomspace(least, most, count - 1)]))
    return np.stack(rows)


def steady_bound(
    problem: SteadyJobs,
    edges: Float[Floats, " edges"],
    prices: Float[Floats, "intervals resources"],
    multipliers: int = FINE,
) -> float:
    """Return the bound, with the minima (2), less what rounding may have added.

    Parameters
    ----------
    problem
        The problem.
    edges
        Seconds between intervals of constant prices, ascending from 0.
    prices
        Prices of a unit of every resource for a second, at least 0.
    multipliers
        Number of multipliers of every kind, at least 3.

    Raises
    ------
    ValueError
        If the edges are not finite or do not ascend from 0, a price is missing, negative or not
        finite, or there are too few multipliers.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.hindsight import steady_bound
    >>> from goodalloc.models.hindsight import Configurations, SteadyJobs
    >>> kind, two = Configurations("one", np.ones(1), np.ones((1, 1))), np.ones(2)
    >>> jobs = SteadyJobs((kind,), np.array([0, 0]), 600 * two, 0 * two, 0 * two, two, np.ones(1))
    >>> round(steady_bound(jobs, np.array([0.0, 600.0, 1200.0]), np.array([[0.5], [0.0]])))
    1500
    """
    jobs = steady_job_bounds(problem, edges, prices, multipliers)
    total, worth = float(jobs.sum()), float(np.diff(edges) @ np.asarray(prices) @ problem.supply)
    return total - worth - ROUNDING * (total + worth)


def steady_job_bounds(
    problem: SteadyJobs,
    edges: Float[Floats, " edges"],
    prices: Float[Floats, "intervals resources"],
    multipliers: int = FINE,
) -> Float[Floats, " jobs"]:
    """Return the minimum (2) of every job: its weighted completion time, and what it pays.

    Parameters
    ----------
    problem, edges, prices, multipliers
        As of `steady_bound`.

    Raises
    ------
    ValueError
        As of `steady_bound`.
    """
    edges, prices = real_array("Bound: edges", edges), real_array("Bound: prices", prices)
    ascending = edges.ndim == 1 and edges.size > 1 and edges[0] == 0 and (np.diff(edges) > 0).all()
    if not ascending or not np.isfinite(edges).all():
        raise ValueError(
            f"Bound: edges are {edges.tolist()}; expected finite numbers that ascend from 0."
        )
    real_array("Bound: prices", prices, (edges.size - 1, problem.supply.size))
    right = np.isfinite(prices) & (prices >= 0)
    if not right.all():
        raise ValueError(f"Bound: a price is {prices[~right][0]:g}; expected from 0.")
    found = np.empty(problem.work.size)
    for index, values in enumerate(steady_multipliers(problem, multipliers)):
        rates, uses = problem.kinds[index].rates, problem.kinds[index].uses
        earned = np.zeros((edges.size - 1, values.size))
        for rate, use in zip(rates, uses, strict=True):
            np.maximum(earned, values * rate - (prices @ use)[:, None], out=earned)
        for job in np.flatnonzero(problem.kind == index).tolist():
            found[job] = _job_bound(problem, job, edges, earned, values)
    return found


def _job_bound(
    problem: SteadyJobs,
    job: int,
    edges: Float[Floats, " edges"],
    earned: Float[Floats, "intervals multipliers"],
    values: Float[Floats, " multipliers"],
) -> float:
    """Return the minimum (2) of a job.

    With a multiplier of 0, (1) is the cost of its time alone. So intervals from where that is above
    the least so far need not be looked at.
    """
    release, begin, now, weight = (
        float(field[job])
        for field in (problem.release, problem.first_work, problem.first_end, problem.weight)
    )
    least = weight * (max(float(edges[-1]), now) - release)
    if now >= edges[-1]:
        return least
    first, stop = (np.searchsorted(edges, time, side="right") for time in (begin, now))
    lengths = np.diff(np.concatenate([[begin], edges[first:stop], [now]]))
    line = values * problem.work[job] - lengths @ earned[first - 1 : stop]
    while stop < edges.size and weight * (now - release) < least:
        times = np.concatenate([[now], edges[stop : stop + TOGETHER]])
        rows = slice(stop - 1, stop + times.size - 2)
        lines = line - np.cumsum(earned[rows] * np.diff(times)[:, None], axis=0)
        lines = np.concatenate([[line], lines])
        line, waits = lines[-1], weight * (times - release)
        costs = lines + waits[:, None]
        least = min(least, float(np.minimum(costs[:-1], costs[1:]).max(axis=1).min()))
        now, stop = float(times[-1]), stop + TOGETHER
    return least
