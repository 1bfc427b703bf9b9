"""Price, then greedy: every job takes its best number of GPUs at the price, as far as it fits.

The two stages of CvxCluster, on rounds of this package: a relaxation gives the price of a GPU, and
at that price every job is placed with what it then wants most. GPUs that nobody wants at the price
stay free. Jobs are placed as in `placing.py`, by counts of equal nodes.

References
----------
Nnorom, Boyd and Levis, "CvxCluster: Solving Large, Complex, Granular Resource Allocation Problems
    100-1000x Faster", 2026. arXiv:2605.01614
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.solvers.columns.column_choices import column_costs
from goodalloc.solvers.columns.placing import place_replicas
from goodalloc.solvers.columns.price_search import search_price

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.columns.round_utilities import RoundUtilities


def price_then_greedy(utilities: RoundUtilities) -> Allocation:
    """Return the allocation of the best responses to the best price.

    Parameters
    ----------
    utilities
        Utilities of a round of a finite power.

    Examples
    --------
    >>> from goodalloc.data import generate
    >>> from goodalloc.models import violations
    >>> from goodalloc.solvers.columns import TabulatedUtilities, price_then_greedy
    >>> instance = generate(seed=0, jobs=100, nodes=16, gpus_per_node=4)
    >>> violations(instance, price_then_greedy(TabulatedUtilities(instance)))
    ()
    """
    found = search_price(costs_below_best(utilities), utilities.columns.cluster.num_gpus)
    return place_replicas(utilities, found.fewest)


def costs_below_best(utilities: RoundUtilities) -> Float[Floats, "jobs gpus"]:
    """Return the cost of every job on *K* GPUs, 0 at the mean of the jobs' best utilities.

    Parameters
    ----------
    utilities
        Utilities of a round of a finite power.

    Returns
    -------
    ndarray
        Shape (jobs, most GPUs + 1), infinite where not allowed.

    Examples
    --------
    >>> from goodalloc.data import generate
    >>> from goodalloc.solvers.columns import TabulatedUtilities, costs_below_best
    >>> instance = generate(seed=0, jobs=8, nodes=2, gpus_per_node=4)
    >>> costs_below_best(TabulatedUtilities(instance)).shape[0]
    8
    """
    power, whole = utilities.columns.rules.power, slice(0, utilities.columns.num_jobs)
    reference = float(power_mean(utilities.best(whole).max(axis=1), power))
    return column_costs(utilities, reference, power)
