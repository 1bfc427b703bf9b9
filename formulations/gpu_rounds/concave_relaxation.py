r"""The concave relaxation: fractional GPUs, solved as a cone program in CVXPY.

Let job *j* take any real number :math:`k_j` of GPUs and give it at most :math:`\phi_j(k_j)`, the
least concave function above its utility on every whole number of GPUs; forget the nodes:

.. math::

    \max_{k, \mu} \Bigl(\tfrac1n \sum_j \mu_j^p\Bigr)^{1/p}
    \quad \text{s.t.} \quad \mu_j \le \phi_j(k_j), \qquad \sum_j k_j \le G.               (1)

For p <= 1 the power mean is concave, so (1) is convex; every allocation is feasible in it, so its
value is an upper bound on the fitness. For p > 1 the mean is not concave and there is no such
program. The multiplier of :math:`\sum_j k_j \le G` is the price of a GPU.

**Certificate.** A cone solver is right to a few digits only. With the costs *c* of
`formulations/basics/power_mean_cost.py` every price :math:`\lambda \ge 0` gives a valid bound by
itself,

.. math::

    D(\lambda) = \sum_j \min_k \bigl( c(\phi_j(k)) + \lambda k \bigr) - \lambda G,           (2)

with minima known in closed form on every linear piece; the bound reported is (2) at the solver's
price, less rounding. At p = -inf it is the level at which the jobs together need *G* GPUs.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy
import numpy as np

from goodalloc.formulations.basics.power_mean_cost import (
    fitness_from_cost,
    largest_ratio,
    power_cost,
)
from goodalloc.formulations.basics.program import require_finite
from goodalloc.formulations.gpu_rounds.knapsack import ROUNDING, best_utilities, knapsack_bound
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.round.requirements import require_whole_gpus
from goodalloc.models.support.cone_solver import CONE_SOLVER

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices


#: Largest scaled term (u / r)^p; worse utilities are counted as no worse than this.
LARGEST_TERM = 1e200

#: CVXPY; most of its names are defined where type checkers do not see them.
cp: Any = cvxpy


class Envelope(NamedTuple):
    """Concave envelopes of all jobs, by their linear pieces; one entry of each array is a piece.

    Parameters
    ----------
    job
        Job of every piece; ascending, at least one piece per job.
    left, right
        GPUs at its ends.
    utility
        Utility at its left end.
    slope
        Utility per GPU, at least 0.
    """

    job: Int[Indices, " pieces"]
    left: Float[Floats, " pieces"]
    right: Float[Floats, " pieces"]
    utility: Float[Floats, " pieces"]
    slope: Float[Floats, " pieces"]


class ConcaveSolution(NamedTuple):
    """Solution of the relaxation.

    Parameters
    ----------
    gpus
        Fractional GPUs of every job, shape (jobs,); empty if the solver found none.
    price
        Fitness gained per additional GPU.
    bound
        The certified upper bound on the fitness.
    value
        The value of (1) as the solver sees it; NaN if it found none.
    status
        Status as the solver reports it.
    """

    gpus: Float[Floats, " jobs"]
    price: float
    bound: float
    value: float
    status: str


def concave_envelope(utility: Float[Floats, "jobs gpus"]) -> Envelope:
    """Return the least concave functions above the utilities; GPUs may be left unused.

    Found by going from each vertex to the one of steepest ascent, for all jobs at once.

    Parameters
    ----------
    utility
        Shape (jobs, most GPUs + 1), minus infinity where a job cannot have so many GPUs.
    """
    jobs, width = utility.shape
    replicas = np.arange(width, dtype=float)
    value = np.maximum.accumulate(utility, axis=1)
    at = np.argmax(np.isfinite(value), axis=1)
    last = np.where(np.isfinite(utility), replicas, -1).max(axis=1)
    active = np.arange(jobs)
    pieces = [(active, at.astype(float), at.astype(float), value[active, at], np.zeros(jobs))]
    active = active[at < last]
    while active.size:
        here, base = at[active], value[active, at[active]]
        distance = replicas - here[:, None]
        reachable = (distance > 0) & (replicas <= last[active, None])
        ascent = (value[active] - base[:, None]) / np.where(distance > 0, distance, 1.0)
        ascent = np.where(reachable, ascent, -np.inf)
        following = width - 1 - np.argmax(ascent[:, ::-1], axis=1)
        slope = ascent[np.arange(active.size), following]
        pieces.append((active, here.astype(float), following.astype(float), base, slope))
        at[active] = following
        active = active[(following < last[active]) & (slope > 0)]
    columns = [np.concatenate(part) for part in zip(*pieces, strict=True)]
    job, left, right, start, slope = columns
    longer = np.bincount(job, weights=right > left, minlength=jobs)
    needed = (right > left) | (longer[job] == 0)
    order = np.flatnonzero(needed)[np.lexsort((left[needed], job[needed]))]
    return Envelope(job[order], left[order], right[order], start[order], slope[order])


def solve_concave_relaxation(
    instance: Instance, solver: str = CONE_SOLVER, **options: Any
) -> ConcaveSolution:
    """Solve (1) and certify its bound.

    Parameters
    ----------
    instance
        The round.
    solver, options
        A conic solver that CVXPY finds, and settings of its own.

    Raises
    ------
    ValueError
        If the power is above 1, or replicas share GPUs.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.gpu_rounds import solve_concave_relaxation
    >>> from goodalloc.solvers import solve
    >>> instance = load_benchmark("tiny-cold")
    >>> solve_concave_relaxation(instance).bound >= solve(instance).fitness
    True
    """
    require_whole_gpus(instance)
    power, gpus = instance.rules.power, instance.cluster.num_gpus
    if power > 1:
        raise ValueError(
            f"Rules: power is {power:g}; the power mean is concave, and the relaxation convex, "
            "only for powers of at most 1."
        )
    envelope = concave_envelope(best_utilities(instance))
    scale = _level(envelope, gpus) if power < 0 else knapsack_bound(instance)
    found, wanted, multiplier, status = _solve(envelope, gpus, power, scale, solver, options)
    jobs = instance.num_jobs
    if power == -math.inf:
        bound = scale
        price = multiplier * scale
    else:
        bound = fitness_from_cost(
            dual(envelope, gpus, power, multiplier, scale), jobs, power, scale
        )
        price = multiplier * scale / jobs * (bound / scale) ** (1.0 - power)
    value = float(power_mean(_evaluate(envelope, wanted), power)) if found else math.nan
    return ConcaveSolution(wanted, price, bound, value, status)


def _solve(
    envelope: Envelope, gpus: int, power: float, scale: float, solver: str, options: dict[str, Any]
) -> tuple[bool, Floats, float, str]:
    """Return whether it was solved, the GPUs, the multiplier of the GPUs in scaled cost, the
    status.
    """
    jobs = int(envelope.job[-1]) + 1
    first = np.searchsorted(envelope.job, np.arange(jobs))
    last = np.searchsorted(envelope.job, np.arange(jobs), side="right") - 1
    amount, reached = cp.Variable(jobs), cp.Variable(jobs)
    offset = (envelope.utility - envelope.slope * envelope.left) / scale
    slope = envelope.slope / scale
    require_finite("Concave relaxation: a scaled utility", [offset, slope])
    capacity = cp.sum(amount) <= gpus
    constraints = [
        capacity,
        amount >= envelope.left[first],
        amount <= envelope.right[last],
        reached[envelope.job] <= offset + cp.multiply(slope, amount[envelope.job]),
    ]
    problem = cp.Problem(cp.Minimize(_objective(reached, power)), constraints)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an inaccurate solution is certified below
            problem.solve(solver=solver, **options)
    except cp.SolverError as error:
        return False, np.zeros(0), 0.0, str(error)
    if amount.value is None or capacity.dual_value is None:
        return False, np.zeros(0), 0.0, str(problem.status)
    wanted = np.clip(amount.value, envelope.left[first], envelope.right[last])
    return True, wanted, max(float(capacity.dual_value), 0.0), str(problem.status)


def _objective(reached: Any, power: float) -> Any:
    """Return the scaled cost of the utilities, up to a constant, in CVXPY's cones."""
    if power == -math.inf:
        return -cp.min(reached)
    if power == 0:
        return -cp.sum(cp.log(reached))
    if power == 1:
        return -cp.sum(reached)
    return -cp.sum(cp.power(reached, power, approx=False)) / power


def _evaluate(envelope: Envelope, gpus: Float[Floats, " jobs"]) -> Float[Floats, " jobs"]:
    """Return the envelopes at these GPUs, shape (jobs,)."""
    lines = envelope.utility + envelope.slope * (gpus[envelope.job] - envelope.left)
    starts = np.searchsorted(envelope.job, np.arange(gpus.size))
    return np.minimum.reduceat(lines, starts)


def dual(envelope: Envelope, gpus: int, power: float, price: float, scale: float) -> float:
    """Return the bound (2) on the cost at a price, in units of cost, less a bound on its rounding.

    On a piece the cost falls by as much as the price asks where
    ``(u / scale)^(p - 1) = price * scale / slope``; elsewhere an end is best.
    """
    low = envelope.utility
    high = low + envelope.slope * (envelope.right - envelope.left)
    if power == 1:
        points = [low, high]  # the cost is linear
    else:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            ratio = price * scale / envelope.slope
            stationary = scale * ratio ** (1.0 / (power - 1.0))
        points = [np.clip(np.where(np.isnan(stationary), low, stationary), low, high)]
    starts = np.searchsorted(envelope.job, np.arange(int(envelope.job[-1]) + 1))
    slope = np.where(envelope.slope > 0, envelope.slope, 1.0)
    best = np.full(low.size, np.inf)
    for utility in points:
        amount = envelope.left + (utility - low) / slope
        if power < 0:  # what costs less than it does leaves a bound
            utility = np.maximum(utility, scale / largest_ratio(power, LARGEST_TERM))
        cost = power_cost(utility, power, scale)
        best = np.minimum(best, cost + price * amount)
    least = np.minimum.reduceat(best, starts)
    size = float(np.abs(least).sum()) + price * gpus
    return float(least.sum()) - price * gpus - ROUNDING * size


def _level(envelope: Envelope, gpus: int) -> float:
    """Return the highest level that all envelopes reach with the GPUs of the cluster, by
    bisection.
    """
    length = envelope.right - envelope.left
    starts = np.searchsorted(envelope.job, np.arange(int(envelope.job[-1]) + 1))
    slope = np.where(envelope.slope > 0, envelope.slope, 1.0)

    def needed(level: float) -> float:
        amount = envelope.left + np.clip((level - envelope.utility) / slope, 0.0, length)
        below = np.where(envelope.utility < level, amount, 0.0)
        return float(np.maximum(np.maximum.reduceat(below, starts), envelope.left[starts]).sum())

    ends = envelope.utility + envelope.slope * length
    high = float(np.maximum.reduceat(ends, starts).min())
    low = float(np.minimum.reduceat(envelope.utility, starts).min())
    while needed(high) > gpus * (1.0 + ROUNDING):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if needed(middle) <= gpus * (1.0 + ROUNDING):
            low = middle
        else:
            high = middle
    return high * (1.0 + ROUNDING)
