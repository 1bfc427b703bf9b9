r"""Numbers of GPUs of a round by worth, where a change of allocation costs a restart.

Job *j*, in phase *q* and on :math:`k_j` GPUs so far, gets GPUs by

.. math::

    \max \sum_j \Bigl( \mu_{jq} \, g_q(k'_j)
        - [k_j > 0, \; k'_j \ne k_j] \, \frac{\delta}{H} \, \mu_{jq} \, g_q(k_j) \Bigr)
    \quad \text{with} \quad \sum_j k'_j \le G                                                 (1)

where :math:`\mu_{jq}` is the worth of a unit of progress, :math:`g_q(k)` the rate on *k* GPUs,
:math:`\delta` the seconds of a restart, and *H* the seconds that an allocation is expected to last.
A knapsack with one choice for each job, decided exactly by dynamic programming over the GPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.support.array_types import Floats, Indices


def gains(
    earned: Float[Floats, "jobs counts"], held: Int[Indices, " jobs"], restart: float
) -> Float[Floats, "jobs counts"]:
    """Return the gains of (1) of every job on 0, 1, … GPUs.

    Parameters
    ----------
    earned
        Worth times rate of every job on 0, 1, … GPUs.
    held
        GPUs that it has; 0 where it does not run.
    restart
        Seconds of a restart over those that an allocation is expected to last.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.solvers.foresight import gains
    >>> gains(np.array([[0.0, 2.0, 3.0]]), np.array([1]), 0.1).tolist()
    [[-0.2, 2.0, 2.8]]
    """
    row = np.arange(held.size)
    lost = np.where(held > 0, restart * earned[row, held], 0.0)
    gain = np.asarray(earned - lost[:, None])
    gain[row, held] += lost
    return gain


def best_numbers(gain: Float[Floats, "jobs counts"]) -> Int[Indices, " jobs"]:
    """Return the numbers of GPUs with the greatest sum of gains.

    Parameters
    ----------
    gain
        Gain of every job on 0, 1, … GPUs, as many as there are.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.solvers.foresight import best_numbers
    >>> best_numbers(np.array([[0.0, 3.0, 4.0], [0.0, 1.5, 2.0]])).tolist()
    [1, 1]
    """
    jobs, counts = gain.shape
    # before[j, i]: greatest gain of the jobs before j on i GPUs together
    before = np.zeros((jobs, counts))
    # best: one of these rows, behind -inf for numbers below 0; rest[k, i]: its value of i - k GPUs,
    # a view
    best = np.concatenate([np.full(counts - 1, -np.inf), np.zeros(counts)])
    step = best.itemsize
    rest = np.ndarray((counts, counts), float, best, (counts - 1) * step, (-step, step))
    if jobs > 1:  # to the first job all is left: no sums
        np.maximum.accumulate(gain[0], out=before[1])
        best[counts - 1 :] = before[1]
    # no job gets more than it would alone: that gains nothing, and leaves less for the others
    stops = (gain.argmax(axis=1) + 1).tolist()
    for row, stop in enumerate(stops[1:-1], start=1):
        total = rest[:stop] + gain[row, :stop, None]
        best[counts - 1 :] = np.maximum.reduce(total, out=before[row + 1])
    numbers, left = np.zeros(jobs, int), counts - 1
    for row in range(jobs - 1, -1, -1):
        numbers[row] = (before[row, left::-1] + gain[row, : left + 1]).argmax()
        left -= numbers[row]
    return numbers
