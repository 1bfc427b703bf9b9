"""Which bound on an instance is believed where several are stated, and what is only claimed."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, NamedTuple, cast

from goodalloc.formulations.gpu_rounds.knapsack import knapsack_bound
from goodalloc.solvers.interface.result import Evidence, Incumbent, refutes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.interface.result import Result

#: What the knapsack's bound is called, whoever asked for it.
KNAPSACK = "knapsack"


class Bound(NamedTuple):
    """An upper bound on the fitness of every allocation of an instance, and why it is believed.

    Attributes
    ----------
    value
        Infinite where there is none.
    source
        What proved it.
    evidence
        How it is known to hold.
    """

    value: float = math.inf
    source: str = ""
    evidence: Evidence = Evidence.NONE

    @classmethod
    def of(cls, result: Result) -> Bound:
        """The bound of a result."""
        return cls(result.bound, result.bound_source, result.evidence)


#: Where nobody vouches for a bound.
NO_BOUND = Bound()


def attributed(bound: Bound, solver: str) -> Bound:
    """The bound of a solver's result, its source saying whose it is."""
    nobodys = bound.evidence is Evidence.GIVEN or bound.source in (KNAPSACK, solver)
    return bound if nobodys else bound._replace(source=f"{bound.source} of {solver}")


def least_bound(bounds: Iterable[Bound], fitness: float) -> Bound:
    """The least of the bounds that somebody vouches for and that a fitness does not refute.

    Of equal ones the proved comes before the given. `NO_BOUND` if there is none.

    Parameters
    ----------
    bounds
        All that are stated of an instance.
    fitness
        The greatest of its checked allocations; NaN without any.
    """
    standing = [
        bound
        for bound in bounds
        if bound.evidence is not Evidence.NONE
        and math.isfinite(bound.value)
        and not refutes(fitness, bound.value)
    ]
    return min(standing, key=lambda b: (b.value, b.evidence is Evidence.GIVEN), default=NO_BOUND)


def believed_bound(instance: Instance, bounds: Iterable[Bound], fitness: float) -> Bound:
    """The `least_bound`, or the knapsack's, worked out anew, where none of them stands."""
    found = least_bound(bounds, fitness)
    if found.evidence is Evidence.NONE:
        found = least_bound([knapsack(instance)], fitness)
    return found


def knapsack(instance: Instance) -> Bound:
    """The bound of the multiple-choice knapsack."""
    return Bound(knapsack_bound(instance), KNAPSACK, Evidence.SOLVER)


def refutation(what: str, bound: float, fitness: float, whose: str = "the allocation") -> str:
    """That a fitness refutes a bound, with both numbers; empty where it does not."""
    if not refutes(fitness, bound):
        return ""
    return f"{what} {bound:.12g} refuted: {whose} is worth {fitness:.12g}"


def as_number(value: object) -> float:
    """What somebody's code returns for a number; NaN if it is none."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if cast("float", value) > 0 else -math.inf


def doubt(claimed: object, fitness: float) -> str:
    """What is wrong with a claimed bound, in words; empty if nothing is known to be.

    Parameters
    ----------
    claimed
        Whatever somebody's code returned.
    fitness
        Of the claimant's own checked allocation; NaN without one.
    """
    number = as_number(claimed)
    if math.isnan(number):
        what = claimed if isinstance(claimed, float) else f"of type {type(claimed).__name__}"
        return f"claimed bound is {what}; expected a number"
    if number < 0 and math.isnan(fitness):
        return f"claimed bound {number:.12g} refuted: no fitness is below 0"
    return refutation("claimed bound", number, fitness)


def told(history: object, fitness: float) -> tuple[Incumbent, ...]:
    """The history of a solver that does not ship, as far as it can be shown.

    No bound is kept, nor what is not an incumbent, comes before the start or is above the fitness
    that was checked (NaN without an allocation: then nothing is kept).
    """
    return tuple(_tellable(history, fitness)) if isinstance(history, (tuple, list)) else ()


def _tellable(history: Iterable[object], fitness: float) -> Iterator[Incumbent]:
    for step in history:
        if not isinstance(step, Incumbent) or not isinstance(step.iteration, Integral):
            continue
        seconds, reached = as_number(step.seconds), as_number(step.fitness)
        possible = 0 <= seconds < math.inf and step.iteration >= 0 and reached >= 0
        if possible and not refutes(reached, fitness):
            yield replace(
                step,
                seconds=seconds,
                iteration=int(step.iteration),
                fitness=reached,
                bound=math.inf,
            )
