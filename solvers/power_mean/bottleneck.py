"""Maximisation of the least or the greatest utility by counting: means of infinite power.

A level is within reach when no more than a given number of jobs have to stay below it. The least
such number is a sum of costs of 0 and 1, which an oracle (`solvers/power_mean/oracle.py`)
minimises.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import AtMost, least_useful
from goodalloc.formulations.certificates.certificate import Measure
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.solvers.power_mean.oracle import MOST_CALLS, Request, scaled, within

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.power_mean.oracle import Search


def raise_least(search: Search, leximin: bool) -> float:
    """Raise the least utility as far as it goes (power -inf); return a proven cap on it.

    With `leximin` the second-least follows, and so on; otherwise the harmonic mean breaks ties.
    Without an incumbent there is no call of the oracle.
    """
    if search.incumbent is None:
        return float(search.best.min())
    level, bound = _highest_level(search, 0, ())
    rows: tuple[AtMost, ...] = (AtMost(0, level),)
    if not leximin:
        _break_ties(search, -1.0, rows)
        return bound
    while not search.stuck and search.calls < MOST_CALLS:
        above = math.nextafter(level, math.inf)
        found, reached, _ = search.ask(_count(above, rows))
        if found is not None and within(reached, rows):
            search.adopt(found, reached)
        settled = int(np.count_nonzero(search.reached < above))
        if settled == search.num_jobs:
            break
        level, _ = _highest_level(search, settled, rows)
        rows = (*rows, AtMost(settled, level))
    return bound


def raise_greatest(search: Search) -> float:
    """Raise the greatest utility as far as it goes (power inf); return a proven cap on it.

    The arithmetic mean breaks ties. Without an incumbent there is no call of the oracle.
    """
    if search.incumbent is None:
        return float(search.best.max())
    level, bound = _highest_level(search, search.num_jobs - 1, ())
    _break_ties(search, 1.0, (AtMost(search.num_jobs - 1, level),))
    return bound


def _count(below: float, rows: tuple[AtMost, ...]) -> Request:
    """Return the request for the fewest jobs below a utility, within the rows."""
    barred = max((row.below for row in rows if row.jobs == 0), default=0.0)
    return Request(
        lambda utility: (utility < below).astype(float),
        lambda utility: utility < barred,
        rows,
        gap=0.5,
    )


def _highest_level(search: Search, allowed: int, rows: tuple[AtMost, ...]) -> tuple[float, float]:
    """Return the highest level that all but `allowed` jobs can reach, and a proven cap.

    Bisection over the distinct utilities; a level is reached if no more than `allowed` jobs need
    stay below it. The cap itself is tried first for the greatest utility, where it mostly holds.
    """
    levels = search.levels
    low = _index(levels, np.sort(search.reached)[allowed])
    high = proven = _index(levels, np.sort(search.best)[allowed])
    middle = high if allowed == search.num_jobs - 1 else (low + high + 1) // 2
    while low < high and search.calls < MOST_CALLS:
        request = _count(float(levels[middle]), rows)
        power = -math.inf if allowed == 0 else math.inf
        measure = Measure(power, float(levels[middle - 1]))
        found, reached, cost = search.ask(replace(request, measure=measure))
        target = AtMost(allowed, float(levels[middle]))
        if found is not None and within(reached, (*rows, target)):
            search.adopt(found, reached)
            low = max(middle, _index(levels, np.sort(reached)[allowed]))
        elif cost > allowed + 1e-6:
            high = proven = middle - 1
        else:
            break
        middle = (low + high + 1) // 2
    return float(levels[low]), float(levels[max(low, proven)])


def _index(levels: Floats, value: float) -> int:
    """Return the index of the highest level that does not exceed a value."""
    return max(int(np.searchsorted(levels, value, side="right")) - 1, 0)


def _break_ties(search: Search, power: float, rows: tuple[AtMost, ...]) -> None:
    """Adopt an allocation within the rows with the best mean of a gentler power."""
    mean = float(power_mean(search.reached, power))
    least = max(least_useful(mean, search.num_jobs, power), search.levels[0])
    request = scaled(power, mean, least, math.inf, search.num_jobs * search.gap)
    found, reached, _ = search.ask(replace(request, limits=rows))
    if found is not None and within(reached, rows) and power_mean(reached, power) > mean:
        search.adopt(found, reached)
