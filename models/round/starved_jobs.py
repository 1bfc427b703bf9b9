r"""Decomposition of a fitness into starved jobs and the utilities of the others.

A job that holds nothing *starves* and is worth :math:`u_{idle}`. With *s* of *n* jobs starved and
the power mean *M* of the utilities of the others (*served*),

.. math::

    FITNESS_p = \left(\frac{s}{n} u_{idle}^p + \frac{n - s}{n} M^p\right)^{1/p},            (1)

:math:`u_{idle}^{s/n} M^{1 - s/n}` at p = 0, and the larger or lesser of both at plus or minus
infinity. At p = -1 with :math:`u_{idle}` = 0.001 a starved job weighs 1000 where a served one
weighs a few: a gap between two fitnesses is then nearly one between two numbers of starved jobs,
and says little of how well the others are served. So it stands beside *s* and *M* everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.round.objective import utilities

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats


class Starvation(NamedTuple):
    """Parts of a fitness.

    Attributes
    ----------
    jobs, starved
        Number of jobs, and number of those that hold nothing.
    idle
        Utility of a starved job.
    served
        Power mean of the utilities of the others; NaN if all starve.
    """

    jobs: int
    starved: int
    idle: float
    served: float

    def fitness(self, power: float) -> float:
        """Return the fitness recomposed from the parts, by (1)."""
        parts = [(self.idle, self.starved), (self.served, self.jobs - self.starved)]
        values, counts = zip(*((value, count) for value, count in parts if count), strict=True)
        return float(power_mean(np.repeat(values, counts), power))


def starvation(
    worth: Float[Floats, " jobs"], served: Bool[Flags, " jobs"], idle: float, power: float
) -> Starvation:
    """Decompose a fitness into its parts.

    Parameters
    ----------
    worth
        Utility of every job, shape (jobs,); that of a starved one is `idle`.
    served
        Whether a job holds anything, shape (jobs,).
    idle
        Utility of a starved job.
    power
        The power *p* of the mean.
    """
    count = int(np.count_nonzero(served))
    mean = float(power_mean(worth[served], power)) if count else float("nan")
    return Starvation(worth.size, worth.size - count, idle, mean)


def starvation_of(instance: Instance, allocation: Allocation) -> Starvation:
    """Return the parts of the fitness of an allocation.

    Raises
    ------
    ValueError
        If the allocation has another shape than the instance.

    Examples
    --------
    >>> from goodalloc.models import Allocation, Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.models.round import starvation_of
    >>> cluster = Cluster.uniform(nodes=2, gpus=4)
    >>> job = Job("job", SpeedupTable((1.0, 1.8), ()), max_replicas=2)
    >>> instance = Instance(cluster, (job,))
    >>> starvation_of(instance, Allocation.empty(1, 2)).starved
    1
    """
    worth, rules = utilities(instance, allocation), instance.rules
    return starvation(worth, allocation.job_replicas > 0, rules.idle, rules.power)
