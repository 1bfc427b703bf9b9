"""Maximisation of a power mean by a solver that can only minimise a sum of costs.

The solver sits behind a callback, the *oracle* (`solvers/power_mean/oracle.py`). Every finite power
becomes a short sequence of calls, each with numbers in the range of a floating-point solver; the
facts cited are proved in `formulations/basics/power_mean_cost.py`. Infinite powers:
`solvers/power_mean/bottleneck.py`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import (
    cost_gap,
    fitness_from_cost,
    greatest_possible,
    least_useful,
    safe_reference,
    settled_level,
    settled_rows,
)
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.round.objective import utilities
from goodalloc.models.support.tolerances import DEFAULT_GAP
from goodalloc.solvers.power_mean.bottleneck import raise_greatest, raise_least
from goodalloc.solvers.power_mean.oracle import MOST_CALLS, Outcome, Search, scaled, within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats
    from goodalloc.solvers.power_mean.oracle import Oracle

#: Relative gap at which the outweighed jobs count as solved.
POLISHED = 1e-6

#: A scale does not fit if the answer's mean term is below this share of the reference's, …
OFF_SCALE = 1e-2
#: … and is as good as it gets from this share on.
ON_SCALE = 0.5

#: Share of the gap that an oracle may leave: at the end of the scale a gap in cost counts double.
OF_GAP = 0.45

#: Deduction from an oracle's bound for rounding: as a share of the gap at a scale that fits, …
SLACK = 0.02
#: … and in cost per job at one that does not, where small errors would turn into large ones.
SLACK_OFF_SCALE = 1e-6


def maximise_power_mean(
    oracle: Oracle,
    instance: Instance,
    job: NDArray[np.int64],
    utility: Floats,
    *,
    power: float | None = None,
    start: Allocation | None = None,
    gap: float = DEFAULT_GAP,
    leximin: bool = False,
) -> Outcome:
    """Maximise the power mean of the jobs' utilities, for any power.

    Parameters
    ----------
    oracle
        Function that minimises linear costs. It watches the time itself, and may return None when
        it runs out.
    instance
        The round.
    job, utility
        Job and utility of each choice that the oracle knows, shape (choices,).
    power
        The power *p*; by default that of the rules.
    start
        A feasible allocation to start from.
    gap
        Relative gap in fitness at which to stop.
    leximin
        At p = -inf only: maximise the second-least utility among the allocations with the best
        least one, then the third, and so on. Without it ties are broken by the harmonic mean.

    Raises
    ------
    ValueError
        If `leximin` is true and the power is not minus infinity.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models import Allocation, Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers.power_mean import Reply, maximise_power_mean
    >>> rules = Rules(restart_delay=0.0, speedup_scale="job", floor=0.001)
    >>> job = Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5)))
    >>> instance = Instance(Cluster.uniform(1, 2), (job,), rules)
    >>> utility = np.array([0.001, 1.001, 1.801])  # on 0, 1 or 2 GPUs
    >>> def oracle(request):
    ...     cost = np.where(request.forbidden(utility), np.inf, request.cost(utility))
    ...     return Reply(Allocation.from_matrix([[int(cost.argmin())]]), float(cost.min()))
    >>> outcome = maximise_power_mean(oracle, instance, np.zeros(3, dtype=int), utility)
    >>> outcome.allocation.placements(), round(outcome.bound, 6)
    ([((0, 2),)], 1.801)
    """
    power = instance.rules.power if power is None else power
    if leximin and power != -math.inf:
        raise ValueError(f"Option leximin is true at power {power:g}; expected power -inf with it.")
    best = np.full(instance.num_jobs, -np.inf)
    np.maximum.at(best, job, utility)
    search = Search(oracle, instance, np.unique(utility), best, gap)
    if start is not None:
        search.adopt(start, utilities(instance, start))
    if math.isfinite(power):
        bound = _finite(search, power)
    else:
        if search.incumbent is None:
            _finite(search, math.copysign(1.0, power))
        bound = raise_least(search, leximin) if power < 0 else raise_greatest(search)
    if search.incumbent is not None:
        bound = max(bound, float(power_mean(search.reached, power)))
    return Outcome(search.incumbent, bound, search.calls)


def _finite(search: Search, power: float) -> float:
    """Solve, rescale until the scale fits (fact 2), polish the outweighed jobs (fact 3)."""
    bound, previous = float(power_mean(search.best, power)), 0.0
    while search.calls < MOST_CALLS:
        mean = search.mean(search.reached, power, default=bound)
        least = float(search.levels[0])
        if search.incumbent is not None:
            least = max(least, least_useful(mean, search.num_jobs, power))
        greatest = search.level_below(greatest_possible(bound, search.num_jobs, power))
        bound = min(bound, greatest)
        reference = safe_reference(mean, least, greatest, power)
        if reference == previous:
            break
        previous = reference
        gap = OF_GAP * cost_gap(search.gap, search.num_jobs, power)
        request = scaled(power, reference, least, greatest, gap)
        found, reached, cost = search.ask(request)
        if cost == math.inf and search.incumbent is not None:
            return bound  # refuted by the incumbent, so not a proof of anything
        if search.mean(reached, power) >= search.mean(search.reached, power):
            search.adopt(found, reached)
        mean = search.mean(search.reached, power)
        term = (mean / reference) ** power if mean > 0 else 0.0
        slack = search.num_jobs * (SLACK_OFF_SCALE if term < OFF_SCALE else SLACK * search.gap)
        bound = min(bound, fitness_from_cost(cost - slack, search.num_jobs, power, reference))
        if found is None:
            return bound
        if term >= ON_SCALE or (term >= OFF_SCALE and bound - mean <= search.gap * bound):
            break
    _polish(search, power)
    return bound


def _polish(search: Search, power: float) -> None:
    """Improve the jobs whose terms the settled jobs outweigh, never at the latter's expense.

    At p = -10 the terms of all other jobs vanish beside that of one starved job: the starved jobs
    are decided first, then the rest (fact 3).
    """
    if search.incumbent is None:
        return
    settled = settled_level(search.reached, power)
    if settled is None:
        return
    rows = settled_rows(search.reached, settled)
    worst = float(search.reached.min())
    while search.calls < MOST_CALLS:
        others = search.reached[search.reached > settled]
        mean = float(power_mean(others, power))
        least = max(least_useful(mean, others.size, power), math.nextafter(settled, math.inf))
        inner = scaled(power, mean, least, math.inf, others.size * POLISHED)

        def forbidden(utility: Floats, least: float = least) -> Flags:
            return (utility < worst) | ((utility > settled) & (utility < least))

        found, reached, _ = search.ask(replace(inner, forbidden=forbidden, limits=rows))
        if found is None or not within(reached, rows):
            return
        improved = reached[reached > settled]
        better = float(power_mean(improved, power))
        fewer_settled = improved.size > others.size
        if not fewer_settled and better <= mean:
            return
        search.adopt(found, reached)
        if not fewer_settled and (better / mean) ** power >= OFF_SCALE:
            return
