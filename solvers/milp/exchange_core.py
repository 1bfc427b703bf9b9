r"""One configuration for every job under a few capacities, exactly: prices, then exchanges.

The program is (1) of `formulations/sia_and_synergy/sia.py`: a multiple-choice knapsack of several
resources. Its relaxation prices the resources and has, except for at most as many jobs as there are
resources, one configuration for every job, the job's *base*, of reduced cost 0. Any other
configuration is an *exchange* against the base: it has a reduced cost and changes the demand by its
own less the base's. The cost of an allocation beyond the relaxation's bound is the sum of the
reduced costs of its exchanges and of the priced resources that it leaves unused.

1. *Cheapest exchanges.* With only the few cheapest exchanges of every change of demand, HiGHS finds
   an allocation that is mostly optimal already, in no time.
2. *Which exchanges can matter.* Let an allocation be known, at most :math:`\delta` above the bound.
   A better one of least cost needs an exchange *a* only if those *b* of the same change that are
   cheaper belong to jobs that are not at their base either: otherwise *b* in place of *a* is no
   worse. Each of these jobs pays at least its cheapest exchange :math:`r_k`, so

   .. math:: r_a + \sum_{b \text{ before } a} r_{k(b)} \le \delta.                          (1)

   Exchanges that fail (1) are dropped; the program of the rest proves the optimum.
3. *Counting.* Where many jobs have few demands to choose from, ties abound and branching on single
   configurations does not end; how many jobs take each demand is then branched on
   (`formulations/basics/counted_columns.py`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.sia_and_synergy.sia import build_sia_program, encode_rows
from goodalloc.solvers.milp.counted_program import run_choices
from goodalloc.solvers.milp.highs_program import run_relaxation
from goodalloc.solvers.milp.price_and_core import INTEGRAL, Decision

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.interface.watch import Watch


#: Cheapest exchanges of every change of demand that are tried first, …
FIRST_WIDTH = 2
#: … and the factor by which they grow if these are too few.
WIDENING = 4
#: Most exchanges that are tried in all, as a multiple of that width.
CHANGES = 100
#: Programs with more configurations begin with a sample of the jobs, of about this many, …
SAMPLE = 20_000
#: … whose prices give the first configurations of the relaxation, this many for every job.
PER_JOB = 4
#: Share of the gap that is kept as a margin for rounding in the reduced costs.
MARGIN = 0.1


class Exchanges:
    """Configurations as exchanges against their jobs' bases.

    Parameters
    ----------
    job, demand
        Job of every configuration, ascending, and its demand.
    reduced
        Reduced costs, at least 0.
    base
        The base of every job, an index of a configuration.
    """

    def __init__(self, job: Indices, demand: Indices, reduced: Floats, base: Indices) -> None:
        self.is_base = np.zeros(job.size, dtype=bool)
        self.is_base[base] = True
        change = encode_rows(demand - demand[base][job])
        # by change, the cheapest first; of one job's that are equal in change only the cheapest
        order = np.lexsort((job, reduced, change))
        order = order[~self.is_base[order]]
        pair = encode_rows(np.column_stack([change, job])[order])
        self.order = order[np.sort(np.unique(pair, return_index=True)[1])]
        self.reduced = reduced[self.order]
        self.begins = np.diff(change[self.order], prepend=change.min() - 1) != 0
        cheapest = np.full(base.size, np.inf)
        np.minimum.at(cheapest, job[self.order], self.reduced)
        self.least = cheapest[job[self.order]]

    def _within(self, chosen: Flags) -> Flags:
        core = self.is_base.copy()
        core[self.order[chosen]] = True
        return core

    def cheapest(self, width: int) -> Flags:
        """Return the bases and the cheapest exchanges of every change, shape (configurations,).

        There are at most `width` exchanges of a change and `CHANGES` times as many in all.
        """
        place = np.arange(self.order.size)
        first = np.maximum.accumulate(np.where(self.begins, place, 0))
        few = place - first < width
        most = CHANGES * width
        if np.count_nonzero(few) > most:
            few &= self.reduced <= np.partition(self.reduced[few], most)[most]
        return self._within(few)

    def useful(self, delta: float) -> Flags:
        """Return the bases and the exchanges that satisfy (1), shape (configurations,)."""
        before = np.cumsum(self.least) - self.least
        before -= np.maximum.accumulate(np.where(self.begins, before, 0.0))
        return self._within(before + self.reduced <= delta)


def decide_configurations(
    job: Indices, cost: Floats, demand: Indices, capacity: Indices, watch: Watch, *, gap: float
) -> Decision:
    """Minimise the cost of one configuration for every job.

    Parameters
    ----------
    job, cost, demand, capacity
        As in `goodalloc.formulations.sia_and_synergy.sia.build_sia_program`.
    watch
        The clock of the solve; the best so far is returned when it runs out.
    gap
        Absolute gap at which to stop.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.solvers import Stop
    >>> from goodalloc.solvers.interface import Watch
    >>> from goodalloc.solvers.milp import decide_configurations
    >>> job, cost = np.array([0, 0, 1, 1]), np.array([3.0, 1.0, 3.0, 2.0])
    >>> demand, capacity = np.array([[0], [1], [0], [1]]), np.array([1])  # one GPU for two jobs
    >>> decision = decide_configurations(job, cost, demand, capacity, Watch(Stop()), gap=1e-9)
    >>> np.flatnonzero(decision.values).tolist(), decision.objective
    ([1, 2], 4.0)
    """
    program = build_sia_program(job, cost, demand, capacity)
    priced = _start_with(job, cost, demand, capacity, watch)
    relaxation = run_relaxation(program, priced, watch)
    if relaxation.values is None or relaxation.duals is None:
        return Decision(None, math.inf, math.inf if relaxation.finished else -math.inf)
    relaxed, bound = relaxation.values, relaxation.objective
    best = Decision(None, math.inf, bound, relaxation.nodes)
    whole = np.rint(relaxed)
    if np.abs(relaxed - whole).max() <= INTEGRAL:
        return replace(best, values=whole, objective=float(cost @ whole))
    reduced = np.maximum(program.reduced_costs(relaxation.duals), 0.0)
    ranked = np.lexsort((reduced, -np.round(relaxed, 6), job))
    base = ranked[np.diff(job[ranked], prepend=-1) > 0]
    exchanges = Exchanges(job, demand, reduced, base)
    core, width = exchanges.cheapest(FIRST_WIDTH), FIRST_WIDTH
    best = _improve(
        best=best,
        core=core,
        job=job,
        cost=cost,
        demand=demand,
        capacity=capacity,
        watch=watch,
        gap=gap,
    )
    while best.values is None and watch.limit is None and width < job.size:
        width *= WIDENING
        core = exchanges.cheapest(width)
        best = _improve(
            best=best,
            core=core,
            job=job,
            cost=cost,
            demand=demand,
            capacity=capacity,
            watch=watch,
            gap=gap,
        )
    missing = best.objective - bound
    if missing <= gap or best.values is None or watch.limit is not None:
        return best
    core = exchanges.useful(missing - (1.0 - MARGIN) * gap)
    return _improve(
        best=best,
        core=core,
        job=job,
        cost=cost,
        demand=demand,
        capacity=capacity,
        watch=watch,
        gap=gap,
        proves=True,
    )


def _start_with(
    job: Indices, cost: Floats, demand: Indices, capacity: Indices, watch: Watch
) -> Flags:
    """Return the configurations that the relaxation starts with: all, or by a sample's prices."""
    jobs, step = int(job[-1]) + 1, job.size // SAMPLE
    if step < 2 or jobs < 2 * step:
        return np.ones(job.size, dtype=bool)
    rows = job % step == 0
    sampled = np.unique(job[rows], return_inverse=True)[1]
    share = np.floor(capacity * (int(sampled[-1]) + 1) / jobs).astype(np.int64)
    sample = build_sia_program(sampled, cost[rows], demand[rows], share)
    duals = run_relaxation(sample, np.ones(sampled.size, dtype=bool), watch).duals
    if duals is None:
        return np.ones(job.size, dtype=bool)
    priced = cost - demand @ duals[-capacity.size :]
    first = np.flatnonzero(np.diff(job, prepend=-1))
    priced -= np.minimum.reduceat(priced, first)[job]
    last = min(PER_JOB * jobs, job.size - 1)
    return np.asarray((priced <= np.partition(priced, last)[last]) | ~demand.any(axis=1))


def _improve(
    best: Decision,
    core: Flags,
    *,
    job: Indices,
    cost: Floats,
    demand: Indices,
    capacity: Indices,
    watch: Watch,
    gap: float,
    proves: bool = False,
) -> Decision:
    """Return the better of the best decision and a core's; jobs with one configuration are fixed.

    With `proves`, no allocation outside of the core is better than the best by more than the gap.
    """
    choices = np.bincount(job[core], minlength=int(job[-1]) + 1)
    settled, free = core & (choices[job] == 1), core & (choices[job] > 1)
    left = capacity - demand[settled].sum(axis=0)
    if not free.any() or (left < 0).any():  # nothing new fits
        return replace(best, bound=max(best.bound, best.objective - gap)) if proves else best
    renumbered = np.unique(job[free], return_inverse=True)[1]
    program = build_sia_program(renumbered, cost[free], demand[free], left)
    outcome = run_choices(program, watch, gap=gap)
    fixed, nodes = float(cost[settled].sum()), best.nodes + outcome.nodes
    bound = best.bound
    found = replace(best, nodes=nodes, core=program.num_columns)
    if outcome.values is not None and outcome.objective + fixed < best.objective:
        values = settled.astype(float)
        values[free] = np.rint(outcome.values)
        found = replace(found, values=values, objective=float(cost @ values))
    if proves:
        bound = max(bound, min(outcome.bound + fixed, best.objective - gap))
    return replace(found, bound=bound)
