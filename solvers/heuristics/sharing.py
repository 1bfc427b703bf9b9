"""Whole numbers of GPUs for every job, as the knapsack would share them out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.knapsack import (
    best_price,
    build_knapsack,
    first_reference,
    knapsack_costs,
)

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices


def knapsack_replicas(instance: Instance) -> Indices:
    """Return the GPUs of every job in an integer point near the knapsack's optimum.

    It is the response to the best price that fits, with the remaining GPUs where they help most;
    shape (jobs,).

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers.heuristics import knapsack_replicas
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> instance = Instance(Cluster.uniform(1, 2), (Job("a", table),), Rules(restart_delay=0.0))
    >>> knapsack_replicas(instance).tolist()
    [2]
    """
    cost, gpus = _costs(instance)
    return _share_rest(cost, gpus, best_price(cost, gpus).replicas)


def whole_replicas(instance: Instance, gpus: Floats) -> Indices:
    """Return the GPUs of every job near fractional ones, shape (jobs,).

    Numbers are rounded down to the best that the job may have; the remaining GPUs go where they
    help most.
    """
    cost, total = _costs(instance)
    beyond = np.arange(cost.shape[1]) > np.floor(gpus + 1e-6)[:, None]
    below = np.where(beyond, np.inf, cost)
    fewest = np.argmax(np.isfinite(cost), axis=1)
    return _share_rest(cost, total, np.maximum(np.argmin(below, axis=1), fewest))


def _costs(instance: Instance) -> tuple[Floats, int]:
    """Return the costs of the knapsack, and its GPUs; at infinite powers as for p = -1 or 1."""
    knapsack = build_knapsack(instance)
    if math.isinf(knapsack.power):
        knapsack = knapsack._replace(power=math.copysign(1.0, knapsack.power))
    return knapsack_costs(knapsack, first_reference(knapsack)), knapsack.gpus


def _share_rest(cost: Floats, gpus: int, replicas: Indices, most_rounds: int = 50) -> Indices:
    """Share out remaining GPUs: in each round every job bids for its best raise per GPU."""
    replicas, jobs, width = replicas.copy(), np.arange(cost.shape[0]), np.arange(cost.shape[1])
    for _ in range(most_rounds):
        left = gpus - int(replicas.sum())
        more = width - replicas[:, None]
        possible = (more > 0) & (more <= left)
        saved = cost[jobs, replicas][:, None] - cost
        rate = np.where(possible, saved / np.where(possible, more, 1), 0.0)
        bid = np.argmax(rate, axis=1)
        order = np.argsort(-rate[jobs, bid], kind="stable")
        order = order[rate[order, bid[order]] > 0]
        order = order[np.cumsum(bid[order] - replicas[order]) <= left]
        if order.size == 0:
            break
        replicas[order] = bid[order]
    return replicas
