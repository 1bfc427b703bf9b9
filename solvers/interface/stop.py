"""Stopping rules: limits that compose, of which the first one reached ends a search."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from goodalloc.models.support.tolerances import DEFAULT_GAP, LEAST_GAP
from goodalloc.models.support.validation import require_count, require_number
from goodalloc.solvers.interface.result import Limit


def proves(bound: float, fitness: float, gap: float) -> bool:
    """Return whether `bound` proves `fitness` optimal to a relative gap of at least `LEAST_GAP`.

    Examples
    --------
    >>> from goodalloc.solvers.interface import proves
    >>> proves(bound=1.0, fitness=0.99, gap=0.02), proves(bound=1.0, fitness=0.9, gap=0.02)
    (True, False)
    """
    return math.isfinite(bound) and bound - fitness <= max(gap, LEAST_GAP) * abs(bound)


@dataclass(frozen=True, slots=True)
class Stop:
    """Limits on a search; None means no such limit, and the first one reached ends the search.

    Parameters
    ----------
    seconds
        Wall-clock time of the solver. The check and the knapsack's bound, which follow it, are
        short; compiling is counted apart (`Result.compile_seconds`). No limit cuts short the table
        of utilities that nearly every solver begins with: some 30 microseconds for a mode of a job.
    gap
        Relative gap at which an allocation counts as optimal; see `proves`.
    iterations
        Generations of the genetic algorithm, passes of the local search.
    no_improvement
        Iterations without an improvement.

    Raises
    ------
    ValueError
        If `seconds` <= 0, `gap` is negative or NaN, or `iterations` or `no_improvement` is not a
        positive integer.

    Examples
    --------
    >>> from goodalloc.solvers import Stop
    >>> stop = Stop(seconds=10.0, iterations=100)
    >>> str(stop.reached(seconds=3.0, iterations=100))
    'iterations'
    >>> stop.reached(seconds=3.0, iterations=99) is None
    True
    """

    seconds: float | None = None
    gap: float = DEFAULT_GAP
    iterations: int | None = None
    no_improvement: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None:
            require_number("Stop: seconds", self.seconds, minimum=0.0, strict=True)
        require_number("Stop: gap", self.gap, minimum=0.0)
        for name in ("iterations", "no_improvement"):
            value = getattr(self, name)
            if value is not None:
                require_count(f"Stop: {name}", value, minimum=1)

    def reached(
        self, *, seconds: float = 0.0, iterations: int = 0, stale: int = 0, gap: float = 1.0
    ) -> Limit | None:
        """Return the limit that is reached, or None."""
        if self.seconds is not None and seconds >= self.seconds:
            return Limit.TIME
        if gap <= self.gap:
            return Limit.GAP
        if self.iterations is not None and iterations >= self.iterations:
            return Limit.ITERATIONS
        if self.no_improvement is not None and stale >= self.no_improvement:
            return Limit.NO_IMPROVEMENT
        return None

    def replace(self, **changes: Any) -> Stop:
        """Return a copy with some limits changed."""
        return replace(self, **changes)
