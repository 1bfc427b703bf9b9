r"""The power mean as a sum of costs, scaled so that a solver's tolerances are meaningful.

Every job takes exactly one choice, so for a finite power *p* and any reference utility *r*

.. math::

    c(u) = \frac{1 - (u / r)^p}{p}, \qquad c(u) = -\log(u / r) \text{ at } p = 0,        (1)

turns the mean into a sum: with :math:`C = \sum_j c(u_j)` over *n* jobs,

.. math::

    \Bigl(\tfrac1n \sum_j u_j^p\Bigr)^{1/p} = r \, (1 - p C / n)^{1/p},
    \qquad r \, e^{-C / n} \text{ at } p = 0,                                             (2)

which falls as *C* rises. So maximising Pollux's fitness (section 4.2) is minimising a
linear function of the choices, for every *p*: (1) is :math:`u^p` (p < 0), :math:`-\log u`,
:math:`-u^p` (p > 0) up to a positive factor and a constant, and passes smoothly through p = 0.

Near the reference a total of *-n g* is a fitness higher by the factor *1 + g*: an absolute gap of
*n g* in cost is a relative gap of *g* in fitness, whatever the power.

**Huge ranges.** At p = -10 a starved job (u = 0.001) costs 1e30 times a job at u = 1, and a
floating-point solver sees only the former. Three facts, all for p < 0, keep numbers small:

1. *Useless choices.* Let an allocation of *n* jobs with mean *r* be known. A choice with
   :math:`u < r n^{1/p}` has :math:`u^p > n r^p`, more than that allocation's whole sum, and all
   terms are positive; so no allocation that uses it is as good. Such choices may be dropped, and
   no scaled cost that remains exceeds (n - 1)/|p|.
2. *Rescaling.* The scaled program therefore has the true optimum. If its answer is better by
   orders of magnitude, its mean becomes the new reference, more choices drop out, and so on.
3. *Settled jobs.* If the terms of an answer's worst jobs, those with :math:`u \le t`, outweigh all
   others together beyond what float64 resolves, the sum does not tell good from bad for the
   others. Require of any later answer that for every level :math:`\ell \le t` at most as many jobs
   fall below :math:`\ell` as do now, and likewise for at or below *t*. Then its sorted utilities
   are, rank by rank, no smaller than the settled ones: the settled part of the sum cannot grow.
   Minimise the cost of the others, scaled by their own mean, where fact 1 holds again.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy.typing import ArrayLike

    from goodalloc.models.support.array_types import Floats


#: Largest scaled term (u / r)^p for which a floating-point solver is trusted.
LARGEST_TERM = 1e7

#: Jobs are settled when the terms of all others are less than this share of theirs.
SETTLED_SHARE = 1e-6


class AtMost(NamedTuple):
    """Row of a program: at most `jobs` jobs have a utility strictly below `below`."""

    jobs: int
    below: float


def require_finite_power(power: float) -> None:
    """Refuse a power whose mean is not a sum of costs.

    Raises
    ------
    ValueError
        If the power is NaN or infinite.
    """
    if not math.isfinite(power):
        raise ValueError(
            f"Power is {power}; expected a finite number, since the minimum and the maximum "
            "are not sums of costs."
        )


def power_cost(utility: ArrayLike, power: float, reference: float = 1.0) -> Float[Floats, ...]:
    """Return the cost to minimise of a utility, equation (1); decreasing in the utility.

    Infinite where it is beyond float64, as a utility far from the reference is at a great power.

    Parameters
    ----------
    utility
        Utilities, above 0, of any shape.
    power
        The power *p*, finite.
    reference
        The utility *r* that costs 0.

    Raises
    ------
    ValueError
        If the power is NaN or infinite.

    Examples
    --------
    >>> from goodalloc.formulations.basics import power_cost
    >>> power_cost([0.5, 1.0, 2.0], power=-1.0).tolist()  # (1 / u - 1)
    [1.0, -0.0, -0.5]
    """
    require_finite_power(power)
    logarithm = np.log(np.asarray(utility, dtype=float) / reference)
    if power == 0:
        return np.asarray(-logarithm)
    with np.errstate(over="ignore"):
        return np.asarray(-np.expm1(power * logarithm) / power)


def fitness_from_cost(
    total_cost: float, num_jobs: int, power: float, reference: float = 1.0
) -> float:
    """Return the power mean of `num_jobs` utilities whose costs add up to `total_cost`, equation
    (2).

    A lower bound on the cost gives an upper bound on the fitness; a cost below what any utility
    can reach (as minus infinity) gives infinity.

    Raises
    ------
    ValueError
        If the power is NaN or infinite.

    Examples
    --------
    >>> from goodalloc.formulations.basics import fitness_from_cost
    >>> fitness_from_cost(1.0 - 0.5, num_jobs=2, power=-1.0)  # utilities 1/2 and 2
    0.8
    """
    require_finite_power(power)
    mean = total_cost / num_jobs
    if power == 0:
        return reference * math.exp(-mean) if mean > -700.0 else math.inf
    if -power * mean <= -1.0:
        return math.inf if power < 0 else 0.0
    exponent = math.log1p(-power * mean) / power
    return reference * math.exp(exponent) if exponent < 700.0 else math.inf


def cost_gap(gap: float, num_jobs: int, power: float) -> float:
    """Return the gap in total cost, at the reference, that corresponds to a relative gap in
    fitness.

    By equation (2) a total of ``num_jobs * -c(1 / (1 - gap))`` below zero has a fitness better by
    the factor ``1 / (1 - gap)``: about ``num_jobs * gap`` when the gap is small. A gap of one and
    more, which anything meets, counts as 0.99, and no term exceeds the largest that is trusted.

    Parameters
    ----------
    gap
        Relative gap, ``(bound - fitness) / bound``.
    num_jobs
        Number of jobs *n*.
    power
        The power *p*, finite.

    Raises
    ------
    ValueError
        If the power is NaN or infinite.

    Examples
    --------
    >>> from goodalloc.formulations.basics import cost_gap
    >>> round(cost_gap(0.01, num_jobs=10, power=-1.0), 4)
    0.1
    """
    better = 1.0 / (1.0 - min(gap, 0.99))
    if power > 0:
        better = min(better, largest_ratio(power))
    return num_jobs * -float(power_cost(better, power))


def least_useful(mean: float, num_jobs: int, power: float) -> float:
    """Return the utility below which no choice is in an allocation as good as one with this mean
    (fact 1).

    A hair lower than ``mean * num_jobs^(1/p)``, so that rounding drops nothing; 0 for p >= 0, where
    no choice is too bad.

    Examples
    --------
    >>> from goodalloc.formulations.basics import least_useful
    >>> round(least_useful(0.5, num_jobs=10, power=-1.0), 6)
    0.05
    """
    if power >= 0:
        return 0.0
    return mean * math.exp(math.log(num_jobs) / power) * (1.0 - 1e-9)


def greatest_possible(bound: float, num_jobs: int, power: float) -> float:
    """Return the utility above which no choice is in any allocation when no mean exceeds `bound`.

    For p > 0 one job alone makes the mean at least ``u * num_jobs^(-1/p)``; infinity for p <= 0.

    Examples
    --------
    >>> from goodalloc.formulations.basics import greatest_possible
    >>> round(greatest_possible(0.5, num_jobs=10, power=1.0), 6)
    5.0
    """
    if power <= 0 or not math.isfinite(bound):
        return math.inf
    exponent = math.log(bound) + math.log(num_jobs) / power
    return math.exp(exponent) * (1.0 + 1e-9) if exponent < 700.0 else math.inf


def largest_ratio(power: float, term: float = LARGEST_TERM) -> float:
    """Return the ratio of two utilities, at least 1, whose power ``|p|`` is this term; infinite
    near 0.

    Examples
    --------
    >>> from goodalloc.formulations.basics import largest_ratio
    >>> round(largest_ratio(-2.0, term=100.0), 6)
    10.0
    """
    exponent = math.log(term) / abs(power) if power else math.inf
    return math.exp(exponent) if exponent < 700.0 else math.inf


def safe_reference(mean: float, least: float, greatest: float, power: float) -> float:
    """Return the reference nearest to `mean` for which no term from `least` to `greatest` is too
    large.

    Examples
    --------
    >>> from goodalloc.formulations.basics import safe_reference
    >>> safe_reference(0.5, least=0.1, greatest=2.0, power=-1.0)
    0.5
    """
    if power == 0:
        return mean
    room = largest_ratio(power)
    return min(mean, least * room) if power < 0 else max(mean, greatest / room)


def settled_level(
    utilities: Float[Floats, " jobs"], power: float, share: float = SETTLED_SHARE
) -> float | None:
    """Return level *t* of fact 3, at or below which jobs outweigh all others together; None if
    there is none.

    Parameters
    ----------
    utilities
        Utilities of the jobs not settled yet.
    power
        The power *p*; there is no such level for p >= 0.
    share
        The others' share of the terms below which they count as outweighed.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.basics import settled_level
    >>> settled_level(np.array([1e-6, 1.0, 2.0]), power=-10.0)
    1e-06
    """
    if power >= 0 or utilities.size < 2:
        return None
    ascending = np.sort(utilities)
    terms = (ascending / ascending[0]) ** power
    heads = np.cumsum(terms)
    tails = np.cumsum(terms[::-1])[::-1]
    outweighed = (tails[1:] < share * heads[:-1]) & (ascending[1:] > ascending[:-1])
    if not outweighed.any():
        return None
    return float(ascending[np.argmax(outweighed)])


def settled_rows(utilities: Float[Floats, " jobs"], level: float) -> tuple[AtMost, ...]:
    """Return rows that keep the jobs at or below a level, rank by rank, as good as they are (fact
    3).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.basics import settled_rows
    >>> [(row.jobs, round(row.below, 6)) for row in settled_rows(np.array([0.1, 0.2]), level=0.2)]
    [(0, 0.1), (1, 0.2), (2, 0.2)]
    """
    values, counts = np.unique(utilities[utilities <= level], return_counts=True)
    thresholds = [*values.tolist(), math.nextafter(level, math.inf)]
    totals = [0, *np.cumsum(counts).tolist()]
    return tuple(AtMost(int(k), t) for t, k in zip(thresholds, totals, strict=True))
