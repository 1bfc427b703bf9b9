r"""Loads that jobs of Gavel's generator can put on GPUs for ever: where queues start to grow.

Let :math:`m_c` be the mean steps that an arriving job brings to class *c* (its probability times
its mean steps), and :math:`Y_{cw}` the mean number of jobs of a class that run on a type. No policy
can serve more arrivals :math:`\lambda` than

.. math:: \max_{Y \ge 0} \lambda \quad \text{s.t.} \quad \sum_w T_{cw} Y_{cw} \ge \lambda m_c,
    \quad \sum_c s_c Y_{cw} \le N_w.                                                           (1)

Max-min fairness that knows the types approaches (1): the longer its queue, the less the limit of
a job's time binds, and the jobs of a class are there in proportion to the work that they bring. One
that takes all types for equal gives every job the mean :math:`\bar T_c` of its rates, weighted by
GPUs, and can serve

.. math:: \lambda = \frac{\sum_w N_w}{\sum_c s_c m_c / \bar T_c}.                               (2)
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import linprog

from goodalloc.data.gavel.workload import HOUR, MINUTE
from goodalloc.models.gavel.time_sharing import TimeSharing, equal_rates

if TYPE_CHECKING:
    from goodalloc.data.gavel.workload import GavelWorkload
    from goodalloc.models.gavel.rate_table import RateTable
    from goodalloc.models.support.array_types import Floats


class SustainableLoad(NamedTuple):
    """Largest loads without a growing queue, in jobs an hour.

    Attributes
    ----------
    aware
        Of any policy (1), which max-min fairness that knows the types approaches.
    blind
        Of max-min fairness that takes all types for equal (2).
    """

    aware: float
    blind: float


def sustainable_load(
    rates: RateTable, workload: GavelWorkload, gpus: tuple[int, ...]
) -> SustainableLoad:
    """Return the loads (1) and (2) of a workload whose replicas are drawn first.

    Parameters
    ----------
    rates
        Steps per second.
    workload
        Parameters of the workload; its arrivals do not matter.
    gpus
        GPUs of every type, in the order of `rates.types`.

    Raises
    ------
    ValueError
        If the program (1) is not solved.
    """
    kind = rates.types.index(workload.gpu_type)
    classes, work = [], []
    for replicas, likelihood in workload.replicas:
        runs = [
            (one, float(rates.alone_rates([one], [replicas])[0, kind]))
            for one in rates.configurations
            if not workload.families or one.family in workload.families
        ]
        runs = [(one, rate) for one, rate in runs if rate > 0]
        classes += [(one, replicas) for one, _ in runs]
        work += [
            likelihood / len(runs) * mean_minutes(workload) * MINUTE * rate for _, rate in runs
        ]
    replicas_of = np.array([replicas for _, replicas in classes])
    rate = rates.alone_rates([one for one, _ in classes], replicas_of.tolist())
    steps = np.array(work)
    names = [f"{one.name} on {replicas}" for one, replicas in classes]
    due = equal_rates(TimeSharing(names, rate, gpus, replicas_of))
    blind = sum(gpus) / float((replicas_of * steps / due).sum())
    return SustainableLoad(_largest(rate, replicas_of, steps, gpus) * HOUR, blind * HOUR)


def mean_minutes(workload: GavelWorkload) -> float:
    """Return the mean duration of a job on GPUs of the workload's type, in minutes."""
    parts = (
        (workload.short_share, workload.short),
        (1.0 - workload.short_share, workload.long),
    )
    return math.fsum(
        share * (math.pow(10.0, most) - math.pow(10.0, least)) / (math.log(10.0) * (most - least))
        for share, (least, most) in parts
    )


def _largest(rate: Floats, replicas: Floats, steps: Floats, gpus: tuple[int, ...]) -> float:
    """Return the largest load (1) in jobs a second; columns are Y in rows of classes, then it."""
    classes, types = rate.shape
    unit = 1.0 / steps.max()
    rows, limits = np.zeros((classes + types, classes * types + 1)), np.zeros(classes + types)
    for place, column in product(range(classes), range(types)):
        rows[place, place * types + column] = -rate[place, column] / steps[place]
        rows[classes + column, place * types + column] = replicas[place]
    rows[:classes] /= unit
    rows[:classes, -1] = 1.0
    limits[classes:] = gpus
    cost = np.zeros(classes * types + 1)
    cost[-1] = -1.0
    found = linprog(cost, A_ub=rows, b_ub=limits, method="highs")
    if not found.success:
        raise ValueError(f"Sustainable load: HiGHS found '{found.message}'; expected an optimum.")
    load: float = found.x[-1] * unit
    return load
