"""Whole numbers of GPUs for all jobs of a round, with a bound on every allocation, by one price.

The cluster counts as one pool of GPUs (the multiple-choice knapsack of
`formulations/gpu_rounds/knapsack.py`), which is nearly always tight where jobs are many. At
p = -inf the highest level that all jobs reach comes first; of the ways to reach it, the best
harmonic mean.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import fitness_from_cost
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.solvers.columns.column_choices import chunks, column_costs
from goodalloc.solvers.columns.level_search import search_level
from goodalloc.solvers.columns.price_search import search_price, search_served

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.columns.price_search import BestPrice
    from goodalloc.solvers.columns.round_utilities import RoundUtilities

#: Times that the costs are scaled anew, and the ratio of two references beyond which they are.
MOST_SCALES, NEAR = 6, 2.0

#: Times that jobs bid for GPUs that are left.
MOST_BIDS = 20

#: Greatest power whose costs float64 holds, whatever the utilities.
GREATEST_POWER = 40.0

#: Power of the mean that decides between allocations of the same least utility.
AT_LEVEL = -1.0


class Wanted(NamedTuple):
    """GPUs that every job is to have.

    Attributes
    ----------
    bound
        Upper bound on the objective of every allocation.
    price
        Price of a GPU, in costs, that proves the bound; None where a level does (p = -inf).
    reference
        Utility whose cost is 0; at p = -inf the level.
    replicas
        GPUs of every job, which fit into the cluster as one pool; shape (jobs,).
    mean_bound
        The bound; at p = -inf one on the harmonic mean of all allocations that reach the level.
    fewest
        GPUs of every job that suffice for the bound where a level proves it, else `replicas`.
    """

    bound: float
    price: float | None
    reference: float
    replicas: Int[Indices, " jobs"]
    mean_bound: float
    fewest: Int[Indices, " jobs"]


def wanted_replicas(utilities: RoundUtilities) -> Wanted:
    """Return the GPUs that every job is to have, by the best price of a GPU.

    Parameters
    ----------
    utilities
        Utilities of a round, of a power of at most `GREATEST_POWER`.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.formulations.gpu_rounds import knapsack_bound
    >>> from goodalloc.solvers.columns import TabulatedUtilities, wanted_replicas
    >>> instance = load_benchmark("tiny-cold")
    >>> wanted = wanted_replicas(TabulatedUtilities(instance))
    >>> abs(wanted.bound / knapsack_bound(instance) - 1.0) < 1e-9
    True
    """
    power = utilities.columns.rules.power
    if math.isfinite(power):
        first = _first_mean(utilities, power)
        bound, price, reference, replicas = _at_best_price(utilities, power, first)
        return Wanted(bound, price, reference, replicas, bound, replicas)
    level = search_level(utilities)
    first = max(level.bound, _first_mean(utilities, AT_LEVEL))
    bound, _, _, replicas = _at_best_price(utilities, AT_LEVEL, first, least=level.bound)
    return Wanted(level.bound, None, level.bound, replicas, bound, level.replicas)


def _at_best_price(
    utilities: RoundUtilities, power: float, reference: float, least: float = -math.inf
) -> tuple[float, float, float, Indices]:
    """Return the bound on the mean, the price, its reference, and whole numbers of GPUs."""
    gpus, jobs = utilities.columns.cluster.num_gpus, utilities.columns.num_jobs
    rescaled = 0
    while True:
        cost = column_costs(utilities, reference, power, least)
        found = search_price(cost, gpus)
        bound = fitness_from_cost(found.bound, jobs, power, reference)
        near = not math.isfinite(bound) or 1.0 / NEAR < bound / reference < NEAR
        if near or rescaled == MOST_SCALES:
            break
        reference, rescaled = bound, rescaled + 1
    bound *= 1.0 + 1e-15 * (8.0 + 8.0 * abs(math.log(bound)))
    return bound, found.price, reference, _filled(cost, gpus, found)


def wanted_of_others(
    utilities: RoundUtilities, settled: Bool[Flags, " jobs"], least: float, first: float
) -> Wanted:
    """Return the GPUs that every job is to have where some jobs have all that helps them.

    Parameters
    ----------
    utilities
        Utilities of a round of a finite power.
    settled
        Jobs that are to have the best utility that they can have; shape (jobs,).
    least
        Utility below which no other job may be.
    first
        A mean of the utilities of the others that can be reached.

    Returns
    -------
    Wanted
        Its bounds are on the mean of the others.
    """
    gpus, power = utilities.columns.cluster.num_gpus, utilities.columns.rules.power
    cost = column_costs(utilities, first, power, least)
    for part in chunks(len(cost)):
        best = utilities.best(part)
        whole = np.where(best >= best.max(axis=1, keepdims=True), 0.0, np.inf)
        cost[part] = np.where(settled[part, None], whole, cost[part])
    found = search_price(cost, gpus)
    bound = fitness_from_cost(found.bound, int((~settled).sum()), power, first)
    replicas = _filled(cost, gpus, found)
    return Wanted(bound, found.price, first, replicas, bound, replicas)


def wanted_of_served(utilities: RoundUtilities, served: int, first: float) -> Wanted:
    """Return the GPUs that every job is to have where some jobs have GPUs and all others none.

    Parameters
    ----------
    utilities
        Utilities of a round of a finite power.
    served
        Number of jobs that have GPUs.
    first
        A mean of their utilities that can be reached.

    Returns
    -------
    Wanted
        Its bounds are on the mean of the jobs that are served.
    """
    gpus, power = utilities.columns.cluster.num_gpus, utilities.columns.rules.power
    cost = column_costs(utilities, first, power)
    found = search_served(cost, gpus, served)
    bound = fitness_from_cost(found.bound, served, power, first)
    idle = found.fewest == 0
    cost[idle, 1:], cost[~idle, 0] = np.inf, np.inf
    more = found._replace(most=np.where(idle, 0, np.maximum(found.most, found.fewest)))
    replicas = _filled(cost, gpus, more)
    return Wanted(bound, found.price, first, replicas, bound, replicas)


def _first_mean(utilities: RoundUtilities, power: float) -> float:
    """Return the mean where as many jobs as there are GPUs have one each, the first."""
    rules, jobs = utilities.columns.rules, utilities.columns.num_jobs
    one = np.full(jobs, rules.idle)
    served = min(jobs, utilities.columns.cluster.num_gpus)
    for part in chunks(served):
        one[part] = np.maximum(utilities.moved(part)[:, 0, 1], rules.idle)
    return float(power_mean(one, power))


def _filled(cost: Floats, gpus: int, found: BestPrice) -> Indices:
    """Return whole numbers of GPUs that fit: the fewest, then what remains where it helps most.

    Jobs whose responses differ at the price are indifferent there, so that any of them may have
    more; the largest raises are made first. What is left then goes to the best bids of all jobs.
    """
    replicas, left = found.fewest.copy(), gpus - int(found.fewest.sum())
    raises = found.most - found.fewest
    for size in np.unique(raises[raises > 0])[::-1].tolist():
        takers = np.flatnonzero(raises == size)[: left // size]
        replicas[takers] += size
        left -= size * takers.size
    for _ in range(MOST_BIDS):
        if left <= 0:
            break
        rate, more = _bids(cost, replicas, left)
        order = np.flatnonzero(rate > 0.0)
        order = order[np.argsort(-rate[order], kind="stable")[:left]]
        order = order[np.cumsum(more[order]) <= left]
        if not order.size:
            break
        replicas[order] += more[order]
        left -= int(more[order].sum())
    return replicas


def _bids(cost: Floats, replicas: Indices, left: int) -> tuple[Floats, Indices]:
    """Return what each job saves a GPU by its best raise, and the raise."""
    rate, more = np.zeros(len(cost)), np.zeros(len(cost), dtype=np.int64)
    width = np.arange(cost.shape[1])
    for part in chunks(len(cost)):
        raised = width - replicas[part, None]
        possible = (raised > 0) & (raised <= left)
        now = np.take_along_axis(cost[part], replicas[part, None], axis=1)
        saved = np.where(possible, (now - cost[part]) / np.where(possible, raised, 1), 0.0)
        bid = np.argmax(saved, axis=1)
        rate[part] = np.take_along_axis(saved, bid[:, None], axis=1)[:, 0]
        more[part] = np.maximum(bid - replicas[part], 0)
    return rate, more
