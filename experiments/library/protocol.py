"""Protocol of the library: limits, what counts as solved, and means, in one place.

`experiments/LIBRARY.md` states it in words.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.library.library_round import CLOSED_GAP
from goodalloc.solvers.interface.result import refutes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.data.library.library_round import LibraryRound

#: Time limit of a run by class, in seconds.
LIMITS: Mapping[str, float] = MappingProxyType(
    {"easy": 10.0, "degenerate": 10.0, "hard": 60.0, "large": 60.0}
)

#: An answer counts up to its limit times the first, plus the second, in seconds.
LATE_FACTOR, LATE_SECONDS = 1.1, 2.0

#: Shift of the geometric means of seconds, and the limits that a round counts that is not solved.
SECONDS_SHIFT, PENALTY = 1.0, 10.0

#: Seconds from which a round counts as long for an exact solver.
LONG = 10.0

#: Relative losses within which a heuristic is counted, beside `CLOSED_GAP` for solved.
WITHIN = (0.01, 0.05)

#: Relative gain from which a value is better than the best known one: optima differ in their last
#: digits, since solvers stop at a gap.
BETTER = 1e-8


class Judged(NamedTuple):
    """Run of a solver on a round, judged by what the library knows.

    Attributes
    ----------
    round, origin, category
        The round.
    solver
        The solver.
    limit, seconds
        Time limit and seconds.
    fitness
        Fitness that the checker recomputed; NaN without an allocation.
    loss
        How far it is below the best known value, at least 0; 1 without an allocation.
    gap
        How far it is below the bound of the library; 1 without an allocation.
    solved
        Whether it came in time and is proved to be optimal by the library's bound.
    better
        Whether it beats the best known value.
    refutes
        Whether it exceeds the library's bound, which is then wrong.
    """

    round: str
    origin: str
    category: str
    solver: str
    limit: float
    seconds: float
    fitness: float
    loss: float
    gap: float
    solved: bool
    better: bool
    refutes: bool


def judge(line: LibraryRound, solver: str, limit: float, seconds: float, fitness: float) -> Judged:
    """Judge a checked value.

    Parameters
    ----------
    line
        The round.
    solver
        Name of the solver.
    limit, seconds
        Time limit of the run, and what it took.
    fitness
        As recomputed; NaN without an allocation.

    Examples
    --------
    >>> from goodalloc.data.library import find_round
    >>> from goodalloc.experiments.library import judge
    >>> line = find_round("tiny-cold")
    >>> run = judge(line, "mine", limit=10.0, seconds=1.0, fitness=0.9 * line.fitness)
    >>> run.solved, round(run.loss, 6)
    (False, 0.1)
    """
    found = not math.isnan(fitness)
    loss = max(1.0 - fitness / line.fitness, 0.0) if found else 1.0
    gap = max(1.0 - fitness / line.bound, 0.0) if found else 1.0
    in_time = seconds <= LATE_FACTOR * limit + LATE_SECONDS
    return Judged(
        round=line.name,
        origin=line.origin,
        category=line.category,
        solver=solver,
        limit=limit,
        seconds=seconds,
        fitness=fitness,
        loss=loss,
        gap=gap,
        solved=found and in_time and gap <= CLOSED_GAP,
        better=found and fitness > line.fitness * (1.0 + BETTER),
        refutes=found and refutes(fitness, line.bound),
    )


#: Judged runs of a solver by round.
Runs = dict[str, Judged]
