r"""Equal units for jobs, each with a gain of its own: the instance, and its independent checker.

.. math:: \max_a \sum_j g_j(a_j) \quad \text{s.t.} \quad \sum_j a_j \le C, \quad a_j \in A_j     (1)

The table holds :math:`g_j(a)`, minus infinity where *a* is not in :math:`A_j`. That no job starves,
as SLAQ (SoCC'17) has it, is a matter of :math:`A_j`: 0 is not in it (`one_each`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.validation import as_numbers, require_all, require_count

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from goodalloc.models.support.array_types import Floats, Indices


#: Relative difference up to which two totals are the same.
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class UnitGains:
    """What units are worth to every job, and how many there are.

    Parameters
    ----------
    gains
        Of every job with 0, 1, 2, … units, minus infinity where it cannot have so many; shape
        (jobs, most units + 1).
    units
        C, how many there are.

    Raises
    ------
    ValueError
        If a number makes no sense, or the jobs must have more units than there are.
    """

    gains: Floats
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
    def least(self) -> Indices:
        """The fewest units that each job can have."""
        return np.asarray(np.argmax(np.isfinite(self.gains), axis=1))


def one_each(gains: Floats, units: int) -> UnitGains:
    """The instance in which the jobs have a unit each at least, in order while they last.

    Parameters
    ----------
    gains, units
        As of `UnitGains`; a job that can have no unit has none.
    """
    table = np.array(gains, dtype=float)
    if table.shape[1] > 1:
        able = np.flatnonzero(np.isfinite(table[:, 1]))[:units]
        table[able, 0] = -np.inf
    return UnitGains(table, units)


def total_gain(problem: UnitGains, amounts: ArrayLike) -> float:
    """The objective of (1), minus infinity for what a job cannot have."""
    total, most = 0.0, problem.gains.shape[1] - 1
    for row, amount in zip(problem.gains, np.asarray(amounts).tolist(), strict=True):
        total += float(row[amount]) if 0 <= amount <= most else -np.inf
    return total


def unit_violations(
    problem: UnitGains, amounts: ArrayLike, total: float | None = None
) -> list[str]:
    """What is wrong with an allocation; nothing if it is feasible and worth its total.

    Parameters
    ----------
    problem
        The instance.
    amounts
        Units of every job.
    total
        What it is said to be worth, None to leave that open.
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
