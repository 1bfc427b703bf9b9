r"""Division of equal units among jobs with gains of their own: instance and independent checker.

.. math:: \max_a \sum_j g_j(a_j) \quad \text{s.t.} \quad \sum_j a_j \le C, \quad a_j \in A_j     (1)

The table holds :math:`g_j(a)`, minus infinity where *a* is not in :math:`A_j`. That no job starves,
as SLAQ (SoCC'17) has it, is a matter of :math:`A_j`: 0 is not in it (`one_each`).

References
----------
Zhang et al., "SLAQ: Quality-Driven Scheduling for Distributed Machine Learning", SoCC 2017.
    doi:10.1145/3127479.3127490
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.validation import as_numbers, require_all, require_count

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from numpy.typing import ArrayLike

    from goodalloc.models.support.array_types import Floats, Indices


#: Relative difference up to which two totals are the same.
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class UnitGains:
    """Gains of every job by number of units, and the units available.

    Parameters
    ----------
    gains
        Gain of every job with 0, 1, 2, … units, minus infinity where a number is not allowed; shape
        (jobs, most units + 1).
    units
        C, the units available.

    Raises
    ------
    ValueError
        If `units` is not a count, a gain is NaN or infinite, a job can have no number of units, or
        the least numbers of the jobs exceed `units`.
    """

    gains: Float[Floats, "jobs units"]
    units: int

    def __post_init__(self) -> None:
        require_count("Gains: units", self.units, 0)
        gains = as_numbers("Gains", "table", self.gains).astype(float)
        if gains.ndim != 2 or not gains.size:
            raise ValueError(f"Gains: table has shape {gains.shape}; expected jobs by units.")
        require_all(gains < np.inf, "Gains", "table", gains, "a number or -inf")
        some = np.isfinite(gains).any(axis=1)
        require_all(some, "Gains", "table", -np.inf, "a number of units that the job can have")
        object.__setattr__(self, "gains", gains)
        if (least := int(self.least.sum())) > self.units:
            raise ValueError(
                f"Gains: the jobs must have {least} units; expected at most the {self.units} that "
                "there are."
            )

    @property
    def least(self) -> Int[Indices, " jobs"]:
        """Fewest units that each job can have, shape (jobs,)."""
        return np.asarray(np.argmax(np.isfinite(self.gains), axis=1))


def one_each(gains: Float[Floats, "jobs units"], units: int) -> UnitGains:
    """Return the instance in which each job has at least one unit, in order while units last.

    Parameters
    ----------
    gains, units
        As of `UnitGains`; a job that can have no unit has none.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import one_each
    >>> one_each(np.array([[0.0, 2.0, 3.0], [0.0, 1.0, 1.5]]), units=2).least
    array([1, 1])
    """
    table = np.array(gains, dtype=float)
    if table.shape[1] > 1:
        able = np.flatnonzero(np.isfinite(table[:, 1]))[:units]
        table[able, 0] = -np.inf
    return UnitGains(table, units)


def total_gain(problem: UnitGains, amounts: ArrayLike) -> float:
    """Return the objective of (1), minus infinity if a number of units is not allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import UnitGains, total_gain
    >>> problem = UnitGains(np.array([[0.0, 2.0, 3.0], [0.0, 1.0, 1.5]]), units=2)
    >>> total_gain(problem, [1, 1])
    3.0
    """
    total, most = 0.0, problem.gains.shape[1] - 1
    for row, amount in zip(problem.gains, np.asarray(amounts).tolist(), strict=True):
        total += float(row[amount]) if 0 <= amount <= most else -np.inf
    return total


def unit_violations(
    problem: UnitGains, amounts: ArrayLike, total: float | None = None
) -> list[str]:
    """Return a sentence for each rule that an allocation breaks, or for a wrong total.

    Parameters
    ----------
    problem
        The instance.
    amounts
        Units of every job.
    total
        Claimed objective, None to leave it unchecked.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import UnitGains, unit_violations
    >>> problem = UnitGains(np.array([[0.0, 2.0, 3.0], [0.0, 1.0, 1.5]]), units=2)
    >>> unit_violations(problem, [2, 1])
    ['Units used: 3; there are 2.']
    """
    given = np.asarray(amounts)
    if given.shape != (len(problem.gains),) or given.dtype.kind not in "iu":
        return [
            f"Units have shape {given.shape} and type {given.dtype}; expected a whole number for "
            f"each of {len(problem.gains)} jobs."
        ]
    broken = [
        f"Job {job} has {amount} units, which it cannot have."
        for job, amount in enumerate(given.tolist())
        if not 0 <= amount < problem.gains.shape[1] or problem.gains[job, amount] == -np.inf
    ]
    if (used := int(given.sum())) > problem.units:
        broken.append(f"Units used: {used}; there are {problem.units}.")
    if not broken and total is not None:
        worth = total_gain(problem, given)
        if abs(worth - total) > SAME * max(abs(worth), 1.0):
            broken.append(f"Total is said to be {total:.10g}; it is {worth:.10g}.")
    return broken
