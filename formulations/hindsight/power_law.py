r"""Bound on every schedule of the offline problem: speed-ups below a power law.

All jobs begin at once, at *b*, with equal weights, on *G* GPUs of one type at most. For any power
*0 < p < 1* let :math:`c_q = \max_k g_q(k) / k^p`, the least for which phase *q* advances by no more
than :math:`c_q k^p` on every number of GPUs. With *k* GPUs, what is left of

.. math:: x_j = \sum_q W_q / c_q                                                              (1)

falls by :math:`k^p` a second at most: every schedule is one of jobs of these sizes, with that
speed-up, on GPUs that can be divided at will, of which heSRPT has the least total *H*
(`models/classical/hesrpt.py`; Berg, Vesilo and Harchol-Balter 2020). Therefore

.. math:: \sum_j (C_j - r_j) \ge H(x, G, p) + \sum_j (b - r_j)                                (2)

for every *p*; the greatest is taken. *Exact* where the speed-ups are a power law and heSRPT's
shares are numbers of GPUs on which the jobs can run, as those of one job alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.hindsight.pooled_machine import equal_weight
from goodalloc.models.classical.hesrpt import least_flow_time

if TYPE_CHECKING:
    from goodalloc.models.hindsight.offline_problem import OfflineProblem, Training

#: Powers that are tried, in how many steps the best is looked for between its neighbours, and how
#: often.
POWERS, STEPS, TIMES = np.linspace(0.02, 0.98, 49), 6, 3


def power_law_bound(problem: OfflineProblem, power: float | None = None) -> float:
    """Return the bound (2), times the weight of a job.

    Parameters
    ----------
    problem
        The problem; its supply may change, and counts by its most GPUs.
    power
        *p*, between 0 and 1; None for the best of several.

    Raises
    ------
    ValueError
        If the GPUs have several types, the jobs different weights or begins, or one cannot run on
        the GPUs that are ever there.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.hindsight import power_law_bound
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> training = Training("one", np.array([6.0]), np.array([1.0, 4.0]), np.array([[[1.0, 2.0]]]))
    >>> problem = OfflineProblem(
    ...     (training,), (OfflineJob("a", "one", 0.0, 0.0),), Supply.constant({"t4": 4.0})
    ... )
    >>> power_law_bound(problem, 0.5)
    3.0
    """
    weight = equal_weight(problem)
    if len(problem.supply.types) > 1:
        types = ", ".join(problem.supply.types)
        raise ValueError(f"Power law: the GPUs are of types {types}; expected one type.")
    begin = problem.jobs[0].begin
    for job in problem.jobs:
        if job.begin != begin:
            raise ValueError(
                f"Job '{job.name}': it begins at {job.begin:g} s; expected {begin:g} s, as job "
                f"'{problem.jobs[0].name}', since heSRPT has all jobs from the start."
            )
    most = float(problem.supply.gpus.max())
    trainings = {job.training: problem.training(job.training) for job in problem.jobs}
    waited = sum(begin - job.release for job in problem.jobs)

    def bound(power: float) -> float:
        sizes = {name: _size(training, most, power) for name, training in trainings.items()}
        return least_flow_time([sizes[job.training] for job in problem.jobs], most, power) + waited

    if power is not None:
        return weight * bound(power)
    best = max(POWERS.tolist(), key=bound)
    step = float(POWERS[1] - POWERS[0])
    for _ in range(TIMES):
        nearby = np.linspace(best - step, best + step, 2 * STEPS + 1)[1:-1]
        best, step = max(nearby.tolist(), key=bound), step / STEPS
    return weight * bound(best)


def _size(training: Training, most: float, power: float) -> float:
    """Return the size (1) of a job."""
    there = training.gpus <= most
    if not (training.rates[0, :, there] > 0).any(axis=0).all():
        raise ValueError(
            f"Training '{training.name}': it cannot run on the GPUs of the supply; expected "
            "numbers of GPUs that are there."
        )
    ratio = training.rates[0][:, there] / training.gpus[there] ** power
    return float((training.work / ratio.max(axis=1)).sum())
