"""Choice of the bound that is believed among several that are stated or claimed."""

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

#: Source of the knapsack's bound in every result.
KNAPSACK = "knapsack"


class Bound(NamedTuple):
    """Upper bound on the fitness of every allocation of an instance, with its source and evidence.

    Attributes
    ----------
    value
        The bound; infinite where there is none.
    source
        Relaxation, method or person that it comes from.
    evidence
        Reason to believe it.

    Examples
    --------
    >>> from goodalloc.solvers import Evidence
    >>> from goodalloc.solvers.interface import Bound
    >>> Bound(1.5, "knapsack", Evidence.SOLVER).value
    1.5
    """

    value: float = math.inf
    source: str = ""
    evidence: Evidence = Evidence.NONE

    @classmethod
    def of(cls, result: Result) -> Bound:
        """Return the bound of a result."""
        return cls(result.bound, result.bound_source, result.evidence)


#: Bound of an instance for which nothing is proved or given.
NO_BOUND = Bound()


def attributed(bound: Bound, solver: str) -> Bound:
    """Return the bound of a result of `solver`, with the solver named in its source.

    Examples
    --------
    >>> from goodalloc.solvers import Evidence
    >>> from goodalloc.solvers.interface import Bound, attributed
    >>> attributed(Bound(1.5, "relaxation", Evidence.SOLVER), "mine").source
    'relaxation of mine'
    """
    nobodys = bound.evidence is Evidence.GIVEN or bound.source in (KNAPSACK, solver)
    return bound if nobodys else bound._replace(source=f"{bound.source} of {solver}")


def least_bound(bounds: Iterable[Bound], fitness: float) -> Bound:
    """Return the least bound that has evidence and is not refuted by `fitness`.

    Of equal bounds a proved one precedes a given one. The result is `NO_BOUND` if none is left.

    Parameters
    ----------
    bounds
        Bounds stated for one instance.
    fitness
        Largest fitness of its checked allocations; NaN without any.

    Examples
    --------
    >>> from goodalloc.solvers import Evidence
    >>> from goodalloc.solvers.interface import Bound, least_bound
    >>> bounds = [Bound(value, "", Evidence.SOLVER) for value in (0.8, 1.2, 1.5)]
    >>> least_bound(bounds, fitness=1.0).value  # the fitness refutes 0.8
    1.2
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
    """Return the `least_bound`, or the knapsack's, computed afresh, where no bound stands.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers.interface import believed_bound
    >>> job = Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5)))
    >>> rules = Rules(restart_delay=0.0, speedup_scale="job")
    >>> instance = Instance(Cluster.uniform(1, 2), (job,), rules)
    >>> bound = believed_bound(instance, [], 1.0)
    >>> round(bound.value, 2), bound.source
    (1.8, 'knapsack')
    """
    found = least_bound(bounds, fitness)
    if found.evidence is Evidence.NONE:
        found = least_bound([knapsack(instance)], fitness)
    return found


def knapsack(instance: Instance) -> Bound:
    """Return the bound of the multiple-choice knapsack.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers.interface import knapsack
    >>> job = Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5)))
    >>> rules = Rules(restart_delay=0.0, speedup_scale="job")
    >>> instance = Instance(Cluster.uniform(1, 2), (job,), rules)
    >>> round(knapsack(instance).value, 2)
    1.8
    """
    return Bound(knapsack_bound(instance), KNAPSACK, Evidence.SOLVER)


def refutation(what: str, bound: float, fitness: float, whose: str = "the allocation") -> str:
    """Return the sentence that a fitness refutes a bound, with both numbers, or an empty string.

    Examples
    --------
    >>> from goodalloc.solvers.interface import refutation
    >>> refutation("bound", 1.0, 1.2)
    'bound 1 refuted: the allocation is worth 1.2'
    >>> refutation("bound", 1.0, 0.9)
    ''
    """
    if not refutes(fitness, bound):
        return ""
    return f"{what} {bound:.12g} refuted: {whose} is worth {fitness:.12g}"


def as_number(value: object) -> float:
    """Return the number that foreign code returned; NaN if `value` is no real number.

    Examples
    --------
    >>> from goodalloc.solvers.interface import as_number
    >>> as_number(2), as_number("two")
    (2.0, nan)
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if cast("float", value) > 0 else -math.inf


def doubt(claimed: object, fitness: float) -> str:
    """Return the objection to a claimed bound in words; empty if there is none.

    Parameters
    ----------
    claimed
        Value returned by foreign code.
    fitness
        Fitness of the claimant's own checked allocation; NaN without one.

    Examples
    --------
    >>> from goodalloc.solvers.interface import doubt
    >>> doubt("many", 1.0)
    'claimed bound is of type str; expected a number'
    >>> doubt(1.5, 1.0)
    ''
    """
    number = as_number(claimed)
    if math.isnan(number):
        what = claimed if isinstance(claimed, float) else f"of type {type(claimed).__name__}"
        return f"claimed bound is {what}; expected a number"
    if number < 0 and math.isnan(fitness):
        return f"claimed bound {number:.12g} refuted: no fitness is below 0"
    return refutation("claimed bound", number, fitness)


def told(history: object, fitness: float) -> tuple[Incumbent, ...]:
    """Return the credible part of the history of a solver that does not ship.

    Bounds are dropped, and so are entries that are no incumbents, precede the start or exceed the
    checked fitness. Without an allocation (`fitness` is NaN) nothing is kept.

    Examples
    --------
    >>> from goodalloc.solvers.interface import Incumbent, told
    >>> history = (Incumbent(0.1, 1, 0.5, 2.0), Incumbent(0.2, 2, 9.0))
    >>> [step.fitness for step in told(history, fitness=1.0)]
    [0.5]
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
