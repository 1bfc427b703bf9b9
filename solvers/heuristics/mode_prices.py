r"""Choices of jobs with modes by prices of resources: quick, and near the optimum.

At prices :math:`\lambda` of GPUs and resources, of each type of GPU and in all, every job takes the
choice of least :math:`c_i + \lambda d_i` (the dual of `formulations/mode_rounds/aggregate.py`, as
(2) of `formulations/gpu_rounds/knapsack.py` for GPUs alone). One price after the other is set, by
bisection, to the least at which no more is taken than there is; a few rounds of that settle them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.mode_rounds.mode_choices import choice_demand, node_capacity

if TYPE_CHECKING:
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices


#: Rounds in which every price is set once, and steps of each bisection.
ROUNDS, STEPS = 2, 16
#: Prices below this share of the highest count as 0.
LEAST_PRICE = 1e-30


def priced_choices(
    instance: Instance, choices: Choices, cost: Floats, *, spare: float = 0.0
) -> Indices:
    """Return a choice for every job by prices; together they fit into the cluster as a whole.

    Parameters
    ----------
    instance, choices
        The round and the choices of its jobs.
    cost
        Cost of every choice, shape (choices,).
    spare
        Share of every resource that is left unused.

    Returns
    -------
    ndarray
        Indices of choices, shape (jobs,).
    """
    takes = _shares(instance, choices)
    most = 1.0 - spare
    first = np.searchsorted(choices.job, np.arange(instance.num_jobs))
    highest = float(cost.max() - cost.min()) / max(float(takes[takes > 0].min(initial=1.0)), 1e-12)
    prices = np.zeros(takes.shape[1])

    def respond(prices: Floats) -> Indices:
        return _cheapest(cost + takes @ prices, first)

    for _ in range(ROUNDS):
        before = prices.copy()
        for scarce in range(prices.size):
            low, high = LEAST_PRICE * highest, highest
            prices[scarce] = 0.0
            if takes[respond(prices), scarce].sum() <= most:
                continue
            for _ in range(STEPS):
                prices[scarce] = np.sqrt(low * high)
                if takes[respond(prices), scarce].sum() <= most:
                    high = prices[scarce]
                else:
                    low = prices[scarce]
            prices[scarce] = high
        if np.allclose(prices, before, rtol=1e-3):
            break
    return respond(prices)


def _shares(instance: Instance, choices: Choices) -> Floats:
    """Return the share of every priced amount that every choice takes, shape (choices, prices).

    The amounts are GPUs and resources, first in all, then of the nodes of each type of GPU.
    """
    demand, capacity = choice_demand(instance, choices), node_capacity(instance)
    parts, amounts = [demand], [capacity.sum(axis=0)]
    code = instance.mode_type[choices.mode]
    kinds = np.unique(instance.cluster.node_type)
    for kind in kinds.tolist() if kinds.size > 1 else []:
        parts.append(np.where((code == kind)[:, None], demand, 0.0))
        amounts.append(capacity[instance.cluster.node_type == kind].sum(axis=0))
    takes, has = np.hstack(parts), np.concatenate(amounts)
    wanted = np.flatnonzero(takes.any(axis=0) & (has > 0))
    return np.asarray(takes[:, wanted] / has[wanted])


def _cheapest(priced: Floats, first: Indices) -> Indices:
    """Return the first of the cheapest choices of every job, whose choices begin at `first`."""
    least = np.minimum.reduceat(priced, first)
    lengths = np.diff(np.append(first, priced.size))
    at = np.where(priced <= np.repeat(least, lengths), np.arange(priced.size), priced.size)
    return np.asarray(np.minimum.reduceat(at, first))
