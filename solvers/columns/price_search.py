r"""Best price of a GPU of a round in columns, over ever fewer jobs.

The dual of the knapsack, equation (2) of `formulations/gpu_rounds/knapsack.py`, is maximised
between a price at which the responses of the jobs exceed the GPUs and one at which they do not. The
response of a job never rises with the price, so a job with equal responses at both ends has the
same response in between. Only the other jobs are evaluated again; their number falls with the
interval.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.gpu_rounds.knapsack import respond
from goodalloc.solvers.columns.column_choices import chunks

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.support.array_types import Floats, Indices

#: Steps at most; the bound is valid after any number.
MOST_STEPS = 200


class BestPrice(NamedTuple):
    """Best price of a GPU found.

    Attributes
    ----------
    price
        The price.
    bound
        Lower bound on the total cost, priced anew with all jobs and less what rounding may hide.
    fewest, most
        GPUs of every job in its responses just above and just below the price: the former fit into
        the cluster, the latter do not, unless all jobs can have what they want.
    """

    price: float
    bound: float
    fewest: Int[Indices, " jobs"]
    most: Int[Indices, " jobs"]


class _End(NamedTuple):
    """End of the interval: price, and the total cost and GPUs of the responses there."""

    price: float
    cost: float
    gpus: int


def search_price(cost: Float[Floats, "jobs gpus"], gpus: int) -> BestPrice:
    """Return the best price of a GPU.

    Parameters
    ----------
    cost
        Cost of every job on *K* GPUs, shape (jobs, most GPUs + 1); infinite where not allowed.
    gpus
        GPUs of the cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.solvers.columns import search_price
    >>> cost = np.array([[0.0, -3.0, -4.0], [0.0, -2.0, -5.0]])  # of 0, 1 and 2 GPUs
    >>> found = search_price(cost, gpus=3)
    >>> round(found.bound, 6), found.fewest.tolist(), found.most.tolist()
    (-8.0, [1, 2], [2, 2])
    """
    most = _responses(cost, 0.0)
    low = _end(cost, 0.0, most)
    if low.gpus <= gpus:
        return BestPrice(0.0, price_bound(cost, gpus, 0.0), most, most)
    fewest = np.argmin(np.where(np.isfinite(cost), 0.0, np.inf), axis=1).astype(np.int64)
    high = _end(cost, _dearest(cost), fewest)
    active = np.flatnonzero(fewest != most)
    rows = cost[active]
    decided = fewest == most
    chosen = cost[np.flatnonzero(decided), fewest[decided]]
    settled_cost, settled_gpus = float(chosen.sum()), int(fewest[decided].sum())
    for step in range(MOST_STEPS):
        price = _next_price(low, high, crossing=step % 2 == 0)
        if not low.price < price < high.price:
            break
        response = _responses(rows, price)
        tried = _End(
            price,
            settled_cost + float(rows[np.arange(len(rows)), response].sum()),
            settled_gpus + int(response.sum()),
        )
        if tried.gpus > gpus:
            low, most[active] = tried, response
        else:
            high, fewest[active] = tried, response
        still = fewest[active] != most[active]
        if still.mean() < 0.5:
            gone = active[~still]
            settled_cost += float(cost[gone, fewest[gone]].sum())
            settled_gpus += int(fewest[gone].sum())
            active, rows = active[still], rows[still]
        if not active.size:
            break
    bounds = [(price_bound(cost, gpus, end.price), end.price) for end in (low, high)]
    bound, price = max(bounds)
    return BestPrice(price, bound, fewest, most)


def price_bound(cost: Float[Floats, "jobs gpus"], gpus: int, price: float) -> float:
    """Return the dual at a price, a lower bound on the total cost, less its rounding.

    Parameters
    ----------
    cost, gpus
        As in `search_price`.
    price
        The price of a GPU, at least 0.
    """
    parts = [respond(cost[part], 0, price).bound for part in chunks(len(cost))]
    total = math.fsum(parts)
    return total - price * gpus - 1e-15 * (abs(total) + price * gpus)


def _responses(cost: Floats, price: float) -> Indices:
    """Return the cheapest number of GPUs of every job at a price; ties go to fewer."""
    found = np.empty(len(cost), dtype=np.int64)
    priced = price * np.arange(cost.shape[1])
    for part in chunks(len(cost)):
        found[part] = np.argmin(cost[part] + priced, axis=1)
    return found


def _end(cost: Floats, price: float, response: Indices) -> _End:
    """Return an end of the interval."""
    return _End(price, float(cost[np.arange(len(cost)), response].sum()), int(response.sum()))


def _dearest(cost: Floats) -> float:
    """Return a price at which every job has its fewest GPUs."""
    widest = 0.0
    for part in chunks(len(cost)):
        greatest = np.where(np.isfinite(cost[part]), cost[part], -np.inf).max(axis=1)
        widest = max(widest, float((greatest - cost[part].min(axis=1)).max()))
    return 2.0 * widest + 1.0


def _next_price(low: _End, high: _End, *, crossing: bool) -> float:
    """Return where the tangents of the dual at both ends cross, or the geometric middle."""
    if not crossing and low.price > 0.0:
        return math.sqrt(low.price) * math.sqrt(high.price)
    return (high.cost - low.cost) / (low.gpus - high.gpus)


def search_served(cost: Float[Floats, "jobs gpus"], gpus: int, served: int) -> BestPrice:
    r"""Return the best price of a GPU where some jobs have GPUs and all others have none.

    With the least cost :math:`a_j(\lambda) = \min_{K > 0} c_{jK} + \lambda K` of a job that has
    some, the dual is the sum of the `served` least of them less :math:`\lambda G`. It is concave
    in the price, and the GPUs that are asked for never rise with it.

    Parameters
    ----------
    cost
        As in `search_price`; the first column, of no GPU, is not read.
    gpus
        GPUs of the cluster.
    served
        Number of jobs that have GPUs, at most `gpus` and the number of jobs that may have some.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.solvers.columns import search_served
    >>> cost = np.array([[0.0, -3.0, -4.0], [0.0, -2.0, -5.0]])  # of 0, 1 and 2 GPUs
    >>> found = search_served(cost, gpus=2, served=1)
    >>> round(found.bound, 6), found.fewest.tolist()
    (-5.0, [0, 2])
    """
    some = cost.copy()
    some[:, 0] = np.inf
    low, most = _served(some, 0.0, served)
    if low.gpus <= gpus:
        return BestPrice(0.0, _served_bound(low, gpus), most, most)
    high, fewest = _served(some, _dearest(some), served)
    for step in range(MOST_STEPS):
        price = _next_price(low, high, crossing=step % 2 == 0)
        if not low.price < price < high.price:
            break
        tried, response = _served(some, price, served)
        if tried.gpus > gpus:
            low, most = tried, response
        else:
            high, fewest = tried, response
    bound, price = max((_served_bound(end, gpus), end.price) for end in (low, high))
    return BestPrice(price, bound, fewest, most)


def _served(cost: Floats, price: float, served: int) -> tuple[_End, Indices]:
    """Return the responses of the jobs that are served at a price, 0 for the others."""
    response = _responses(cost, price)
    own = cost[np.arange(len(cost)), response]
    response[np.argsort(own + price * response, kind="stable")[served:]] = 0
    chosen = response > 0
    return _End(price, math.fsum(own[chosen]), int(response.sum())), response


def _served_bound(end: _End, gpus: int) -> float:
    """Return the dual at a price, less its rounding."""
    size = abs(end.cost) + end.price * (end.gpus + gpus)
    return end.cost + end.price * (end.gpus - gpus) - 4e-15 * size
