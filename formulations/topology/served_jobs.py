r"""Rows that say how many gangs can be served, which no relaxation by pieces knows.

Let :math:`d_j` be the fewest GPUs of any choice of job *j* that runs, and :math:`y_j` whether it
runs. Whatever the tree, the jobs share *G* GPUs,

.. math:: \sum_j d_j y_j \le G.                                                            (1)

A relaxation serves a part of a gang with the GPUs that are left over, and where starving is dear it
looks much better than any allocation. Divide (1) by the GPUs *D* of a gang, count the jobs of fewer
as starved, :math:`s_j = 1 - y_j`, and round (*mixed-integer rounding*): with
:math:`\beta = (G - \sum_{d_j < D} d_j) / D` and its fraction :math:`f`,

.. math:: \sum_{d_j \ge D} F(d_j / D)\, y_j + \sum_{d_j < D} F(-d_j / D)\, s_j
          \le \lfloor\beta\rfloor, \quad
          F(a) = \lfloor a \rfloor + \frac{\max(a - \lfloor a \rfloor - f, 0)}{1 - f}       (2)

for every *D* that occurs: with 479 jobs of one GPU and gangs of 8 on 512 GPUs, four gangs, and one
more only for seven jobs of one GPU that starve.

References
----------
Marchand and Wolsey, "Aggregation and Mixed Integer Rounding to Solve MIPs", Operations Research,
    2001, section 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.gpu_rounds.patterns import Limit
    from goodalloc.models.support.array_types import Floats

#: Fraction of a whole gang up to which GPUs that are left over are none, as after rounding.
NEGLIGIBLE = 1e-9


def served_limits(choices: Choices, gpus: int) -> tuple[Limit, ...]:
    """Return the rows (2), one for each least number of GPUs above one.

    Parameters
    ----------
    choices
        Choices of the jobs, that to starve included.
    gpus
        GPUs of the cluster.

    Returns
    -------
    tuple of Limit
        Weights of the choices, shape (choices,), and the most that those taken may sum to.

    Examples
    --------
    >>> from goodalloc.formulations.gpu_rounds import enumerate_choices
    >>> from goodalloc.formulations.topology import served_limits
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> speeds = SpeedupTable((1.0, 1.8), (0.0, 1.7))
    >>> gang = Job("a", speeds, min_replicas=2, max_replicas=2, age=3600.0)
    >>> jobs = (gang, gang.replace(name="b"), gang.replace(name="c"))
    >>> choices = enumerate_choices(Instance(Cluster.uniform(nodes=1, gpus=5), jobs))
    >>> [(sorted(set(weights.tolist())), most) for weights, most in served_limits(choices, 5)]
    [([0.0, 1.0], 2.0)]
    """
    runs = choices.replicas > 0
    least = np.full(int(choices.job.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, choices.job[runs], choices.replicas[runs])
    served = np.isin(np.arange(least.size), choices.job[runs])
    rows = []
    for gang in np.unique(least[served & (least > 1)]).tolist():
        small = served & (least < gang)
        left = (gpus - int(least[small].sum())) / gang
        part = left - np.floor(left)
        part = 0.0 if part > 1.0 - NEGLIGIBLE else part
        weight = np.zeros(least.size)
        weight[served] = _rounded(np.where(small, -least, least)[served] / gang, part)
        most = float(np.floor(left + NEGLIGIBLE) - weight[small].sum())
        weight[small] *= -1.0  # of a job that runs, not of one that starves
        rows.append((np.where(runs, weight[choices.job], 0.0), most))
    return tuple(rows)


def _rounded(ratio: Floats, part: float) -> Floats:
    """Return *F* of (2)."""
    whole = np.floor(ratio)
    return whole + np.maximum(ratio - whole - part, 0.0) / (1.0 - part)
