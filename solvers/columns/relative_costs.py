"""Costs of a round relative to the mean of what every job would have alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.solvers.columns.column_choices import column_costs

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.columns.round_utilities import RoundUtilities


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
