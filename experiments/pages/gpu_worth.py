"""What a GPU is worth in a round: its price, and what each job gains by one more or loses by one.

As shares of the fitness, from costs that add up over the jobs (`fitness_from_cost`); the price,
which is of a GPU that nobody has yet, to first order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import fitness_from_cost, power_cost
from goodalloc.models.round.objective import utilities
from goodalloc.solvers.columns.column_choices import column_costs
from goodalloc.solvers.columns.round_utilities import TabulatedUtilities
from goodalloc.solvers.columns.whole_numbers import GREATEST_POWER, wanted_replicas

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats


class GPUWorth(NamedTuple):
    """Worth of GPUs, as shares of the fitness.

    Attributes
    ----------
    price
        What one more GPU in the cluster is worth, with all nodes as one pool.
    more, fewer
        What the fitness gains if a job alone has one GPU more, and loses if it has one fewer,
        placed as well as can be; NaN where it may not have as many. Shape (jobs,).
    """

    price: float
    more: Float[Floats, " jobs"]
    fewer: Float[Floats, " jobs"]


def gpu_worth(instance: Instance, allocation: Allocation) -> GPUWorth | None:
    """Return what GPUs are worth beside an allocation.

    Parameters
    ----------
    instance, allocation
        The round, and who has what.

    Returns
    -------
    GPUWorth or None
        None for jobs with modes, with a fewest number of GPUs or that may not move, and at powers
        whose mean is no sum of costs.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.experiments.pages.gpu_worth import gpu_worth
    >>> instance = load_benchmark("tiny-cold")
    >>> gpu_worth(instance, instance.current).price > 0.0
    True
    """
    power = instance.rules.power
    if not instance.plain or not math.isfinite(power) or power > GREATEST_POWER:
        return None
    if instance.pinned.any() or (instance.min_replicas > 1).any():
        return None
    table = TabulatedUtilities(instance)
    wanted = wanted_replicas(table)
    if wanted.price is None:
        return None
    cost = column_costs(table, wanted.reference, power)
    now = power_cost(utilities(instance, allocation), power, wanted.reference)
    total, jobs = float(now.sum()), instance.num_jobs
    fitness = fitness_from_cost(total, jobs, power)
    held, rows = allocation.job_replicas, np.arange(jobs)

    def gained(change: int) -> Floats:
        """Return the share that so many GPUs more gain, NaN where a job may not have them."""
        replicas = held + change
        inside = (replicas >= 0) & (replicas < cost.shape[1])
        found = cost[rows, np.clip(replicas, 0, cost.shape[1] - 1)]
        known = inside & np.isfinite(found)
        totals = np.where(known, total - now + found, total).tolist()
        values = np.array([fitness_from_cost(one, jobs, power) for one in totals])
        return np.where(known, values / fitness - 1.0, np.nan)

    price = wanted.price / (jobs - power * total)  # the derivative of the fitness by the total
    return GPUWorth(price, gained(1), -gained(-1))
