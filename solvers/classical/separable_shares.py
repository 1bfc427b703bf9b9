r"""Largest sum of gains that GPUs can be shared out for, by a dynamic program.

.. math::

    \max \sum_j g_j(k_j) \quad \text{s.t.} \quad \sum_j k_j \le C, \; k_j \in \{0, \dots, C\}    (1)

for any gains, concave or not. With :math:`F_j(c)` the best of the first *j* jobs on exactly *c*
GPUs,

.. math:: F_j(c) = \max_{0 \le k \le c} F_{j-1}(c - k) + g_j(k),                              (2)

a convolution of maxima and sums for every job, :math:`O(n C^2)` in all. A gain may be minus
infinity, as the logarithm of 0: the number of those is minimised first, then the sum of the others
is maximised, so that no large number has to stand for infinity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from goodalloc.models.support.validation import as_numbers, require_all

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from goodalloc.models.support.array_types import Floats, Indices


def best_shares(gains: Floats) -> Indices:
    """Return whole numbers of GPUs that solve (1), shape (jobs,); of equal sums the fewest.

    Parameters
    ----------
    gains
        Gain of every job on 0, 1, …, *C* GPUs, shape (jobs, C + 1); minus infinity on numbers to
        avoid.

    Raises
    ------
    ValueError
        If `gains` is not a table of at least one column, or a gain is NaN or plus infinity.
    """
    table = as_numbers("Shares", "gains", gains)
    if table.ndim != 2 or table.shape[1] < 1:
        raise ValueError(
            f"Shares: gains have the shape {table.shape}; expected a row a job, with a gain for "
            "0, 1, … GPUs."
        )
    require_all(
        ~np.isnan(table) & (table < np.inf), "Shares", "gain", table, "a number below infinity"
    )
    jobs, size = table.shape
    lost, total = np.full(size, jobs + 1), np.full(size, -np.inf)
    lost[0], total[0] = 0, 0.0
    chosen = np.zeros((jobs, size), dtype=np.int64)
    row = np.arange(size)
    for job, gain in enumerate(table):
        losing = gain == -np.inf
        losses = _shifted(lost, jobs + 1) + losing
        sums = _shifted(total, -np.inf) + np.where(losing, 0.0, gain)
        lost = losses.min(axis=1)
        sums[losses > lost[:, None]] = -np.inf
        chosen[job] = sums.argmax(axis=1)
        total = sums[row, chosen[job]]
    left = int(np.argmax(np.where(lost == lost.min(), total, -np.inf)))
    shares = np.zeros(jobs, dtype=np.int64)
    for job in reversed(range(jobs)):
        shares[job] = chosen[job, left]
        left -= int(shares[job])
    return shares


def _shifted(values: NDArray[Any], outside: float) -> NDArray[Any]:
    """Return ``values[c - k]`` at row *c* and column *k*; `outside` where *k* is above *c*."""
    padded = np.concatenate([np.full(values.size - 1, outside, dtype=values.dtype), values])
    return sliding_window_view(padded, values.size)[:, ::-1]
