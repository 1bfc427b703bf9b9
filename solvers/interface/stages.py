"""Stages of a solve: what a solver tried, one after the other, and what each was worth."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Stage:
    """Stage of a solve.

    Parameters
    ----------
    name
        What was tried, such as "one price".
    seconds
        Time that it took.
    outcome
        What came of it, in a few words, such as "proved".
    bound
        The upper bound on the fitness that it proved; infinite where it proves none.

    Examples
    --------
    >>> from goodalloc.solvers.interface import Stage
    >>> str(Stage("one price", 0.0034, "proved", 1.25))
    'one price: proved in 0.003 s'
    """

    name: str
    seconds: float
    outcome: str
    bound: float = math.inf

    def __str__(self) -> str:
        """Return the stage as a phrase."""
        return f"{self.name}: {self.outcome} in {self.seconds:.3f} s"


@dataclass
class StageLog:
    """Record of the stages of a solve, for a solver that takes one as `log`.

    Attributes
    ----------
    stages
        The stages of the last solve, in order of time.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.solvers import solve
    >>> from goodalloc.solvers.interface import StageLog
    >>> log = StageLog()
    >>> result = solve(load_benchmark("even-settled"), log=log)
    >>> [(stage.name, stage.outcome) for stage in log.stages][::2]
    [('one price', 'no proof'), ('pattern program', 'proved')]
    """

    stages: list[Stage] = field(default_factory=list)
    _since: float = field(default_factory=time.perf_counter, init=False, repr=False)

    def begin(self) -> None:
        """Forget all stages; the first one begins now."""
        self.stages.clear()
        self._since = time.perf_counter()

    def add(self, name: str, outcome: str, bound: float = math.inf) -> None:
        """Record a stage that has ended now, and began where the one before it ended."""
        now = time.perf_counter()
        self.stages.append(Stage(name, now - self._since, outcome, bound))
        self._since = now
