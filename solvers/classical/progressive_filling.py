r"""Least largest value that GPUs can be shared out for, then the second largest, and so on.

.. math:: \min \max_j \rho_j(K_j) \quad \text{s.t.} \quad \sum_j K_j \le C                    (1)

for values that never rise with GPUs. A job's value falls below a level only if it gets the fewest
GPUs that take it there; so the job of the largest value gets those while enough GPUs remain, and
stays where it is otherwise. Whenever the largest value has to stay, every job above it had to get
what it got: (1) is exact, and so is the next largest value, and so on, as long as no two jobs are
stuck at the same value (of those the first in order goes first).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.validation import as_numbers, require_all

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Floats, Indices


def least_largest(values: Floats) -> Indices:
    """Return GPUs of every job that solve (1) with the fewest GPUs, shape (jobs,).

    Parameters
    ----------
    values
        Value of every job on 0, 1, …, *C* GPUs, shape (jobs, C + 1); never rises, may be infinite.

    Raises
    ------
    ValueError
        If `values` is not a table of at least one column, or a value is NaN or above the one before
        it.
    """
    table = as_numbers("Values", "values", values)
    if table.ndim != 2 or table.shape[1] < 1:
        raise ValueError(
            f"Values: they have the shape {table.shape}; expected a row a job, with a value for "
            "0, 1, … GPUs."
        )
    require_all(~np.isnan(table), "Values", "value", table, "a number")
    falls = table[:, 1:] <= table[:, :-1]
    require_all(falls, "Values", "value", table[:, 1:], "at most that of one GPU less")
    left = table.shape[1] - 1
    shares = np.zeros(len(table), dtype=np.int64)
    queue = [(-float(row[0]), job) for job, row in enumerate(table)]
    heapq.heapify(queue)
    while queue:
        value, job = heapq.heappop(queue)
        better = np.flatnonzero(table[job] < -value)
        if better.size and better[0] - shares[job] <= left:
            left -= int(better[0] - shares[job])
            shares[job] = better[0]
            heapq.heappush(queue, (-float(table[job, better[0]]), job))
    return shares
