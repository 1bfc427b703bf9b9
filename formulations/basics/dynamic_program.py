r"""The knapsack of one resource by dynamic programming: exact for any costs.

.. math:: \min_a \sum_j c_j(a_j) \quad \text{s.t.} \quad \sum_j a_j \le C, \quad a \text{ whole} (1)

The least total of the first *j* jobs on at most *u* units follows from that of one job less,

.. math:: f_j(u) = \min_{0 \le a \le u} f_{j-1}(u - a) + c_j(a), \qquad f_0 = 0:               (2)

one (min, +) convolution a job, in time jobs × units × choices. An infinite cost is no choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.support.array_types import Floats, Indices


def least_totals(cost: Float[Floats, "jobs units"], units: int) -> Float[Floats, "jobs+1 units"]:
    """Return all values of (2), shape (jobs + 1, units + 1); the last row is (1) for every
    capacity.

    Parameters
    ----------
    cost
        Shape (jobs, most units + 1), infinite where a job cannot have so many.
    units
        C.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.basics import least_totals
    >>> cost = np.array([[0.0, -3.0, -4.0], [0.0, -2.0, -5.0]])  # of 0, 1 and 2 units
    >>> least_totals(cost, units=3)[-1].tolist()
    [0.0, -3.0, -5.0, -8.0]
    """
    totals = np.full((len(cost) + 1, units + 1), np.inf)
    totals[0] = 0.0
    for job, row in enumerate(cost):
        least, following = totals[job], totals[job + 1]
        for amount in np.flatnonzero(np.isfinite(row[: units + 1])).tolist():
            reached = least[: units + 1 - amount] + row[amount]
            np.minimum(following[amount:], reached, out=following[amount:])
    return totals


def least_amounts(
    cost: Float[Floats, "jobs units"], totals: Float[Floats, "jobs+1 units"]
) -> Int[Indices, " jobs"]:
    """Return the units of every job that attain the last value of (2); of equals the fewest, from
    the last job on.

    Parameters
    ----------
    cost, totals
        Of `least_totals`.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.basics import least_amounts, least_totals
    >>> cost = np.array([[0.0, -3.0, -4.0], [0.0, -2.0, -5.0]])
    >>> least_amounts(cost, least_totals(cost, units=3)).tolist()
    [1, 2]
    """
    left, amounts = totals.shape[1] - 1, np.zeros(len(cost), dtype=np.int64)
    for job in range(len(cost) - 1, -1, -1):
        most = min(left, cost.shape[1] - 1)
        reached = totals[job, left - most : left + 1][::-1] + cost[job, : most + 1]
        amounts[job] = np.argmin(reached)
        left -= int(amounts[job])
    return amounts
