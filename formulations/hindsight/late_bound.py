r"""Bound on late jobs, and on the makespan, from prices of a GPU over time.

Job *j* is due at :math:`d_j`, and costs its weight :math:`w_j` if it ends later. As in
`price_bound.py` any prices :math:`\lambda \ge 0` bound the weight of the late jobs:

.. math::

    \sum_j \min \{ w_j, V_j(d_j) \} - \sum_a \int \lambda_a(t) \, G_a(t) \, dt
    \;\le\; \sum_{j: C_j > d_j} w_j                                                         (1)

since a job either is late or pays for the GPUs of a schedule that ends by :math:`d_j`, which cost
at least

.. math::

    V_j(d) = \max_{\mu \ge 0} \Bigl[ \sum_q \mu_q W_q - \int_{b_j}^{d} h_\mu(\lambda(t)) \, dt
        \Bigr]^+                                                                             (2)

with :math:`h_\mu` of `price_bound.py`, (2). If even alone a job cannot end by :math:`d_j`, (2) has
no limit.

If all jobs are due at *T* and (1) is above 0, no schedule ends by *T*: the makespan of all is
longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.formulations.hindsight.price_bound import Multipliers
    from goodalloc.models.hindsight.offline_problem import OfflineJob
    from goodalloc.models.support.array_types import Floats


def late_job_bound(
    job: OfflineJob,
    due: float,
    multipliers: Multipliers,
    edges: Float[Floats, " edges"],
    prices: Float[Floats, "intervals types"],
) -> float:
    """Return the term of a job in (1); 0 if it is due behind the last edge.

    Plain and slow; `solvers/hindsight/late_jobs.py` does the same for many jobs at once.

    Parameters
    ----------
    job
        The job.
    due
        Seconds by which it is due.
    multipliers
        Multipliers of its training.
    edges
        Seconds between intervals, ascending from 0.
    prices
        Prices of a GPU-second in every interval.
    """
    if due > edges[-1]:
        return 0.0
    earned, _ = multipliers.earnings(prices)
    seconds = np.clip(np.minimum(edges[1:], due) - np.maximum(edges[:-1], job.begin), 0.0, None)
    value = float((multipliers.work_worth - earned @ seconds).max())
    return min(job.weight, max(value, 0.0))
