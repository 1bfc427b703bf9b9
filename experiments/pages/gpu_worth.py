"""What a GPU is worth in a round: its price, and what each job gains by one more or loses by one.

In units of the best fitness: near the optimum a cost of *c* is *c / n* of the fitness of *n* jobs
(`formulations/basics/power_mean_cost.py`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import power_cost
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
    """Worth of GPUs, as shares of the best fitness.

    Attributes
    ----------
    price
        What one more GPU in the cluster is worth, with all nodes as one pool.
    more, fewer
        What each job gains by one GPU more, and loses by one fewer, placed as well as can be; NaN
        where it may not have as many. Shape (jobs,).
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
    held, rows = allocation.job_replicas, np.arange(instance.num_jobs)

    def after(change: int) -> Floats:
        """Return the cost of so many GPUs more, NaN where a job may not have them."""
        replicas = held + change
        inside = (replicas >= 0) & (replicas < cost.shape[1])
        found = cost[rows, np.clip(replicas, 0, cost.shape[1] - 1)]
        return np.where(inside & np.isfinite(found), found, np.nan)

    jobs = float(instance.num_jobs)
    return GPUWorth(wanted.price / jobs, (now - after(1)) / jobs, (after(-1) - now) / jobs)
