"""The greatest of the bounds in closed form that a problem has."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goodalloc.formulations.hindsight.pooled_machine import pooled_bound
from goodalloc.formulations.hindsight.power_law import power_law_bound

if TYPE_CHECKING:
    from goodalloc.models.hindsight.offline_problem import OfflineProblem

#: Relative excess that is no rounding: towards linear speed-ups heSRPT comes to the pooled machine.
LEAST_EXCESS = 1e-9


class ClosedForm(NamedTuple):
    """Bound in closed form.

    Attributes
    ----------
    value
        Bound on the weighted sum of completion times, to rounding.
    name
        What it is.
    """

    value: float
    name: str


def best_closed_form(problem: OfflineProblem) -> ClosedForm | None:
    """Return the greatest bound in closed form; None if there is none.

    Parameters
    ----------
    problem
        The problem.

    Raises
    ------
    ValueError
        If a job cannot run on the GPUs that are ever there.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.hindsight import best_closed_form
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> training = Training("one", np.array([6.0]), np.array([1.0, 4.0]), np.array([[[1.0, 2.0]]]))
    >>> jobs = (OfflineJob("a", "one", 0.0, 0.0), OfflineJob("b", "one", 0.0, 0.0))
    >>> best_closed_form(OfflineProblem((training,), jobs, Supply.constant({"t4": 4.0}))).name
    'heSRPT'
    """
    if len({job.weight for job in problem.jobs}) > 1:
        return None
    found = ClosedForm(pooled_bound(problem), "pooled shortest remaining processing time first")
    if len(problem.supply.types) == 1 and len({job.begin for job in problem.jobs}) == 1:
        power = ClosedForm(power_law_bound(problem), "heSRPT")
        found = power if power.value > found.value + LEAST_EXCESS * abs(found.value) else found
    return found
