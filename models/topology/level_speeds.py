r"""Speed of jobs by the level of the topology that holds them.

Pollux's model tells one node and several apart (section 3.2): on several, *K* replicas synchronise
in :math:`T = \alpha_{node} + \beta_{node} \max(K - 2, 0)` seconds. A job on several nodes that a
domain of level *l* is the lowest to hold takes :math:`\sigma_l T` instead, with the slowdown
:math:`\sigma_l` of the level; a ratio of bandwidths is a first guess of it.

A table of speedups does not tell the time of synchronisation. What its job on several nodes takes
longer than at a linear speedup counts as such,

.. math:: \frac1{s_l(K)} = \frac1{K s_1} + \sigma_l \Bigl(\frac1{s(K)} - \frac1{K s_1}\Bigr),   (1)

with the speedup :math:`s_1` of one GPU; where the table is faster than linear, nothing is slowed. A
job that never ran is taken as linear and is not slowed.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 3.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import speedup_table

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.round.instance import Instance
    from goodalloc.models.round.mode import JobModel
    from goodalloc.models.support.array_types import Floats


def slowed_model(model: JobModel, slowdown: float) -> JobModel:
    """Return the model of a job whose replicas on several nodes synchronise more slowly.

    Parameters
    ----------
    model
        Model of the job.
    slowdown
        Time of synchronisation over that of the model.

    Examples
    --------
    >>> from goodalloc.models import SpeedupTable
    >>> from goodalloc.models.topology import slowed_model
    >>> slowed_model(SpeedupTable((1.0, 1.9), (0.0, 1.0)), 2.0).several_nodes  # 1 / (1/2 + 2/2)
    (0.0, 0.6666666666666666)
    """
    if slowdown == 1.0 or model is None:
        return model
    if isinstance(model, GoodputModel):
        seconds = model.throughput
        return model._replace(
            throughput=seconds._replace(
                alpha_node=seconds.alpha_node * slowdown, beta_node=seconds.beta_node * slowdown
            )
        )
    one = model.one_node[0]
    linear = [one * gpus for gpus in range(1, len(model.several_nodes) + 1)]
    slowed = (
        1.0 / (1.0 / most + slowdown * (1.0 / speedup - 1.0 / most))
        if 0.0 < speedup < most
        else speedup
        for speedup, most in zip(model.several_nodes, linear, strict=True)
    )
    return SpeedupTable(model.one_node, tuple(slowed))


def level_speedups(
    instance: Instance, slowdowns: tuple[float, ...]
) -> Float[Floats, "levels jobs 2 gpus"]:
    """Return the speedup of every job at every level, shape (levels, jobs, 2, most GPUs + 1).

    Speedups are relative to the fair share of the round without a topology. One node knows no
    level: its speedups are those of that round, and tell the share by which the others are divided.

    Parameters
    ----------
    instance, slowdowns
        The round, whose jobs have no modes, and the slowdown of each level.
    """
    flat = speedup_table(instance)
    tables = {1.0: flat}
    for slowdown in slowdowns:
        if slowdown not in tables:
            jobs = (replace(job, model=slowed_model(job.model, slowdown)) for job in instance.jobs)
            slowed = speedup_table(instance.replace(jobs=tuple(jobs)))
            best, reference = slowed[:, 0].max(axis=1), flat[:, 0].max(axis=1)
            share = np.where(best > 0, reference / np.where(best > 0, best, 1.0), 1.0)
            table = slowed * share[:, None, None]
            table[:, 0] = flat[:, 0]
            tables[slowdown] = table
    return np.stack([tables[slowdown] for slowdown in slowdowns])
