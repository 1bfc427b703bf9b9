"""Interface of an oracle, by which a solver can maximise every power mean.

An oracle minimises a sum of costs, one for the choice of every job, under three kinds of side
condition: choices that are forbidden, rows that limit the number of jobs below a utility, and
nothing else. `solvers/power_mean/hierarchy.py` and `solvers/power_mean/bottleneck.py` turn any
power into a few calls of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import power_cost
from goodalloc.formulations.certificates.certificate import Measure
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.round.objective import utilities

if TYPE_CHECKING:
    from goodalloc.formulations.basics.power_mean_cost import AtMost
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats


#: Most calls of a sequence, which then takes its best allocation.
MOST_CALLS = 200


@dataclass(frozen=True)
class Request:
    """Request to an oracle: minimise the sum over jobs of the cost of the chosen utility.

    Parameters
    ----------
    cost
        Function that returns the cost of every utility in an array; never increasing in the
        utility.
    forbidden
        Function that returns which utilities in an array may not be chosen.
    limits
        Rows: at most `jobs` jobs with a utility strictly below `below`.
    start
        An allocation that satisfies these conditions, if one is known.
    gap
        Absolute gap in cost at which to stop.
    measure
        Measure of the cost, where a bound on the cost gives one on the fitness.
    """

    cost: Callable[[Floats], Floats]
    forbidden: Callable[[Floats], Flags]
    limits: tuple[AtMost, ...] = ()
    start: Allocation | None = None
    gap: float = 0.0
    measure: Measure | None = None


@dataclass(frozen=True)
class Reply:
    """Reply of an oracle: an allocation (or None), and a proven lower bound on the cost."""

    allocation: Allocation | None
    bound: float = -math.inf


Oracle = Callable[[Request], Reply]


@dataclass(frozen=True)
class Outcome:
    """Outcome of a sequence of calls.

    Parameters
    ----------
    allocation
        The best allocation, or None.
    bound
        A proven upper bound on the fitness.
    calls
        Number of calls of the oracle.
    """

    allocation: Allocation | None
    bound: float
    calls: int


@dataclass
class Search:
    """State of one sequence of calls.

    Parameters
    ----------
    oracle, instance
        The oracle, and the round that it decides.
    levels
        The distinct utilities of all choices, ascending.
    best
        The best utility of every job if it were alone, shape (jobs,).
    gap
        Relative gap in fitness at which to stop.
    incumbent, reached
        The best allocation so far and its utilities; None and empty before there is one.
    calls
        Calls of the oracle so far.
    stuck
        Whether the last call brought no allocation.
    """

    oracle: Oracle
    instance: Instance
    levels: Floats
    best: Floats
    gap: float
    incumbent: Allocation | None = None
    reached: Floats = field(default_factory=lambda: np.zeros(0))
    calls: int = 0
    stuck: bool = False

    @property
    def num_jobs(self) -> int:
        """Number of jobs."""
        return self.instance.num_jobs

    def level_below(self, value: float) -> float:
        """Return the greatest utility of any choice that does not exceed a value."""
        at = int(np.searchsorted(self.levels, value, side="right")) - 1
        return float(self.levels[max(at, 0)])

    def ask(self, request: Request) -> tuple[Allocation | None, Floats, float]:
        """Call the oracle; return the allocation, its utilities and a bound on the cost."""
        self.calls += 1
        reply = self.oracle(replace(request, start=self.incumbent))
        found = reply.allocation
        self.stuck = found is None
        reached = np.zeros(0) if found is None else utilities(self.instance, found)
        return found, reached, reply.bound

    @staticmethod
    def mean(reached: Floats, power: float, default: float = 0.0) -> float:
        """Return the power mean of utilities; a default where there is no allocation."""
        return float(power_mean(reached, power)) if reached.size else default

    def adopt(self, allocation: Allocation | None, reached: Floats) -> None:
        """Make an allocation the incumbent."""
        self.incumbent, self.reached = allocation, reached


def scaled(power: float, reference: float, least: float, greatest: float, gap: float) -> Request:
    """Return the request that minimises the cost of utilities from `least` to `greatest`."""

    def cost(utility: Floats) -> Floats:
        return power_cost(np.clip(utility, least, greatest), power, reference)

    def forbidden(utility: Floats) -> Flags:
        return (utility < least) | (utility > greatest)

    return Request(cost, forbidden, gap=gap, measure=Measure(power, reference))


def within(reached: Floats, rows: tuple[AtMost, ...]) -> bool:
    """Return whether utilities satisfy the rows."""
    return all(np.count_nonzero(reached < row.below) <= row.jobs for row in rows)
