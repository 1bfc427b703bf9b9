"""Certificates of rounds in which jobs starve: their least number is proved first, and has a price.

The relaxation leaves some job halfway between GPUs and none; by the counts
(`formulations/certificates/counted_prices.py`) whole jobs starve.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.formulations.certificates.counted_bound import CountedBound
from goodalloc.formulations.certificates.counted_prices import Count, CountedPrices
from goodalloc.solvers.certificates.certificate_search import (
    MOST_LEAVES,
    bounds_of,
    fitting_measure,
    search_certificate,
)
from goodalloc.solvers.certificates.choice_relaxation import relaxation_of
from goodalloc.solvers.certificates.solve import CERTIFICATE_SECONDS, certified, status_of
from goodalloc.solvers.interface.result import Evidence
from goodalloc.solvers.interface.watch import Watch

if TYPE_CHECKING:
    from goodalloc.formulations.certificates.price_bound import PriceBound
    from goodalloc.formulations.certificates.prices import Prices
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats
    from goodalloc.solvers.certificates.choice_relaxation import ChoiceRelaxation
    from goodalloc.solvers.interface.result import Result
    from goodalloc.solvers.interface.stop import Stop

#: Least ratio of the utility above a level to the one below it.
APART = 1.01

#: Distance of a number from the least whole one that may be rounding, and least distance that
#: makes a count worth while.
WHOLE, WORTH_WHILE = 1e-6, 1e-4


class _Counted:
    """Relaxation with a row for every count: mixin for kinds of `ChoiceRelaxation`."""

    _counts: tuple[Count, ...] = ()

    def add_counts(self: Any, counts: tuple[Count, ...]) -> None:
        """Add the rows, before those of any cut."""
        for count in counts:
            used = np.flatnonzero(self.choices.utility <= count.level).astype(np.int32)
            self._solver.addRow(
                -math.inf, -float(count.least), used.size, used, np.full(used.size, -1.0)
            )
        self._counts = counts

    def extended(self, prices: Prices, weights: Floats) -> Prices:
        """Return prices with those of counts and cuts, by their dual values."""
        number = len(self._counts)
        parent: Any = super()
        return CountedPrices.of(parent.extended(prices, weights[number:]), weights[:number])


def starved_counts(
    bounds: PriceBound, relaxation: ChoiceRelaxation, known: float
) -> tuple[Count, ...]:
    """Return how many jobs starve at least, where that is more than the relaxation says.

    Parameters
    ----------
    bounds
        Price bounds of the round.
    relaxation
        Its relaxation.
    known
        Fitness of a feasible allocation, above 0: the count is of better ones.
    """
    utility, power = bounds.choices.utility, bounds.instance.rules.power
    measure = fitting_measure(utility, power, bounds.instance.num_jobs, known)
    useful = np.isfinite(measure.cost(utility, known, bounds.instance.num_jobs))
    least = float(utility[useful].min())
    above = utility[useful & (utility > least)]
    if not above.size or above.min() < APART * least:
        return ()
    level = math.sqrt(least * float(above.min()))
    found = count_up_to(level, bounds, relaxation, useful)
    return () if found is None else (found,)


def count_up_to(
    level: float, bounds: PriceBound, relaxation: ChoiceRelaxation, useful: Flags
) -> Count | None:
    """Return how many jobs at least stay at or below a level; None if the relaxation says as much.

    Parameters
    ----------
    level
        The level of utility.
    bounds, relaxation
        Price bounds of the round, and its relaxation.
    useful
        Choices that the allocations in question can contain, shape (choices,).
    """
    cost = np.where(useful, (bounds.choices.utility <= level).astype(float), np.inf)
    relaxed = relaxation.solve(cost)
    if relaxed is None:
        return None
    proved = bounds.least_cost(cost, relaxed.prices)
    number = math.ceil(proved - WHOLE) if math.isfinite(proved) else 0
    if number < 1 or number - proved < WORTH_WHILE:
        return None
    return Count(level, number, relaxed.prices)


def certified_by_counts(instance: Instance, result: Result, stop: Stop) -> Result:
    """Return the same result with the bound that prices prove with counts of starved jobs.

    Parameters
    ----------
    instance, result
        A round and a checked result; it is returned as it is without an allocation, with a closed
        gap that prices prove, at an infinite power, and where no count tells more than the
        relaxation.
    stop
        Limits on the search; without one on its time, `CERTIFICATE_SECONDS`.

    Examples
    --------
    >>> from goodalloc.data.library import load_round
    >>> from goodalloc.solvers import Stop, solve
    >>> from goodalloc.solvers.certificates.counted_search import certified_by_counts
    >>> instance = load_round("equal-60x16-3-kinds-from-3-1")
    >>> result = solve(instance, certificate=True, stop=Stop(seconds=5.0))
    >>> round(result.bound / result.fitness - 1.0, 4)
    0.0086
    >>> counted = certified_by_counts(instance, result, Stop())
    >>> counted.bound / counted.fitness - 1.0 < 1e-9
    True
    """
    power = instance.rules.power
    proved = result.evidence is Evidence.PRICES and result.bound <= result.fitness * (1 + stop.gap)
    if result.allocation is None or proved or math.isinf(power):
        return result
    begin = time.perf_counter()
    seconds = CERTIFICATE_SECONDS if stop.seconds is None else stop.seconds
    watch = Watch(stop.replace(seconds=seconds))
    plain = bounds_of(instance)
    first = relaxation_of(plain, watch)
    counts = starved_counts(plain, first, result.fitness)
    if not counts:
        return result
    bounds = CountedBound(plain.instance, plain.choices, plain.grid, counts)
    kind: Any = type(f"Counted{type(first).__name__}", (_Counted, type(first)), {})

    def relaxation() -> ChoiceRelaxation:
        made: Any = kind(bounds, watch)
        made.add_counts(counts)
        return made  # type: ignore[no-any-return]

    found = search_certificate(
        bounds, result.fitness, watch, most_leaves=MOST_LEAVES, relaxation=relaxation
    )
    if result.evidence is Evidence.PRICES and found.bound >= result.bound:
        return result
    message = result.message
    if found.bound > result.bound * (1 + stop.gap):
        said = f"without a certificate, {result.bound_source} bounds the fitness by "
        message = "; ".join(filter(None, (message, f"{said}{result.bound:.12g}")))
    return replace(
        result,
        bound=found.bound,
        bound_source="prices",
        evidence=Evidence.PRICES,
        certificate=found,
        message=message,
        status=status_of(result.fitness, found.bound, stop.gap),
        bound_seconds=result.bound_seconds + time.perf_counter() - begin,
    )


def best_certified(instance: Instance, result: Result, stop: Stop) -> Result:
    """Return the same result with the bound that prices prove, with counts where they tell more.

    Where the relaxation starves a part of a job, a search without counts would end in vain.

    Parameters
    ----------
    instance, result, stop
        As of `certified_by_counts`.
    """
    counted = certified_by_counts(instance, result, stop)
    return certified(instance, result, stop) if counted is result else counted
