r"""True optimum over whole batch sizes: the search over numbers of passes.

Feasible set
------------
For an allocation of K replicas, write w = s + 1 for the passes of a step, c = K w and M = c m.
A pair of whole numbers (m, w) is feasible if m_min <= m <= m_max, M >= M0, and

- M <= M_max; or, as the published grid rounds up, m <= ceil(M_max / c) where w is at most w_top,
  the number of passes the grid gives to M_max: ceil(M_max / (K m_max)), and at least 2 for K = 1
  if M_max > M0. Where K m_min > M_max, only m = m_min with w = 1 is feasible, as on the grid;
- w = 1 without accumulation; with it, K = 1 and w = 1 go with M = M0 only.

Every valid point of the grid is feasible, hence the optimum here is never worse. Goodput is
1 / h with h(m, w) = (A / M + B) T and T = (w - 1) T_g + f(T_g), where f is the pass with
synchronisation and T_g = a + b m (see `Lanes` for A and B). For one w, `batch_atomic` finds the
best whole m. Which w, follows from five facts about real m and w >= 1.

1. For fixed M, dT/dw = T_g - (w - 1 + f') b m / w >= T_g - b m = a >= 0, because f' <= 1: the
   fewer passes the better. So if the best m of some w is not held down by m_max, no larger w is
   better: whatever M those reach, w reaches too, with m beyond m_max if need be, at no more cost,
   and beyond its valley the cost of w only rises.
2. The best m does not rise with w. The slope of ln h in ln m is E - A / (A + B M); M rises with
   w, and so does the elasticity E = b m (w - 1 + f') / T, because f >= T_g f'. So m_max holds
   down the best m of all w below some w_s, and of none above.
3. Below w_s the least cost is H(w) = h(m_max, w) = (A' / w + B) ((w - 1) T_g + f), with
   A' = A / (K m_max). It is convex, with its minimum at w* = sqrt(A' (f - T_g) / (B T_g)). From
   w_s on the least cost G(w) does not fall, by 1, and at w_s its slope is H'(w_s), so w* <= w_s.
   (If m_max holds down nothing from w = 1 on, the slope there says A (f - T_g f') <= T_g f' B K
   m_max, hence w* <= 1.) Thus G falls until w*, brought within [w_1, w_top], and rises after it;
   w_1 is the least w with K m_max w >= M0, and beyond w_top M_max only binds more.
4. Let w_c = ceil(w*). Any whole w < w_c has its optimum at m_max, which is whole, and w_c - 1 is
   the best of them. For w > w_c, whole m may reverse the order, by a hair. If m_max does not hold
   down the best m of w, then G(w + 1) >= G(w) + a (A / M_hi + B) for all M up to M_hi, by 1, and
   the tangents at the last two visits bound G(w) from below; if it does, G(w) is attained. Only
   while such a bound is below the least cost found is the next w searched: hardly ever.
5. After w = 1 no search is needed: any (m, w) has its M at (m w, 1) as well.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 3.3. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goodalloc.models.goodput.allocation_arrays import BatchSize
from goodalloc.models.goodput.batch_atomic import SMALLEST, Problem, best_atomic, tangent_bound
from goodalloc.models.goodput.throughput_model import overlap
from goodalloc.models.support.namespace import advance, namespace

if TYPE_CHECKING:
    from goodalloc.models.goodput.allocation_arrays import Lanes
    from goodalloc.models.support.array_types import Array, Numbers

NOISE = 1e-14
"""Relative difference of costs that counts as rounding noise when more passes are considered."""


class Best(NamedTuple):
    """Best point of each lane so far, and a bound on the cost with more passes."""

    cost: Array
    atomic: Array
    passes: Array
    current: Array
    bound: Array
    visits: Array


class Plan(NamedTuple):
    """Range of the numbers of passes that a lane considers, and the first of them."""

    lanes: Lanes
    fewest: Array
    top: Array
    most: Array
    first: Array


def search_integer(lanes: Lanes) -> BatchSize:
    """Return the goodput-optimal whole m and s of each lane, ties to the least s, then m."""
    xp = namespace(lanes)
    best = find_optimum(lanes)
    found = xp.isfinite(best.cost) & lanes.allowed
    return BatchSize(
        xp.where(found, 1.0 / xp.where(found, best.cost, 1.0), 0.0),
        xp.where(found, best.atomic, 0.0),
        xp.where(found, best.passes - 1.0, 0.0),
    )


def find_optimum(lanes: Lanes) -> Best:
    """Return the optimum with its cost and the evaluations of the step time it took.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.goodput import BatchLimits, GoodputModel, GradientStatistics
    >>> from goodalloc.models.goodput import ThroughputParameters, find_optimum
    >>> from goodalloc.models.goodput import prepare_lanes, stack_models
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> limits = BatchLimits(100, 1000, 10, 100)
    >>> model = GoodputModel(parameters, GradientStatistics(1.0, 3.0), limits)
    >>> lanes = prepare_lanes(stack_models([model]), np.array([1.0]), np.array([2.0]))
    >>> find_optimum(lanes).atomic
    array([50.])
    """
    plan = plan_passes(lanes)
    return advance(_may_improve, _next_passes, plan, _start(plan), rarely=True)


def plan_passes(lanes: Lanes) -> Plan:
    """Compute w_1, w_top, the largest feasible w and w_c (see the module's notes)."""
    xp = namespace(lanes)
    largest = lanes.replicas * lanes.atomic_maximum
    alone = (lanes.replicas == 1.0) & lanes.accumulation
    several = lanes.accumulation & (lanes.replicas * lanes.atomic_minimum <= lanes.maximum)
    top = xp.ceil(lanes.maximum / largest)
    top = xp.where(alone & (lanes.maximum > lanes.initial), xp.maximum(top, 2.0), top)
    top = xp.where(several, top, 1.0)
    fewest = xp.where(several, xp.ceil(lanes.initial / largest), 1.0)
    fewest = xp.where(alone, xp.maximum(fewest, 2.0), fewest)
    smallest = lanes.replicas * lanes.atomic_minimum
    most = xp.maximum(xp.where(several, xp.floor(lanes.maximum / smallest), 1.0), top)
    # of one total batch only, M0 on one replica, one pass is the best way
    single = alone & (lanes.maximum == lanes.initial) & (lanes.initial <= lanes.atomic_maximum)
    most = xp.where(lanes.allowed, xp.where(single, 1.0, most), 0.0)
    gradient, last = _pass_times(lanes, lanes.atomic_maximum)
    ratio = (
        lanes.noise * (last - gradient) / xp.maximum(largest * lanes.signal * gradient, SMALLEST)
    )
    first = xp.ceil(xp.sqrt(xp.maximum(ratio, 0.0)))
    return Plan(lanes, fewest, top, most, xp.clip(first, fewest, xp.maximum(fewest, top)))


def _start(plan: Plan) -> Best:
    """Return the better of M = M0 in one pass (K = 1) and of m_max with one pass less than w_c."""
    xp = namespace(plan)
    lanes, fewer = plan.lanes, plan.first - 1.0
    alone = (lanes.replicas == 1.0) & lanes.accumulation
    within = (lanes.atomic_minimum <= lanes.initial) & (lanes.initial <= lanes.atomic_maximum)
    single = xp.where(alone & within, _cost(lanes, lanes.initial, xp.ones_like(fewer)), xp.inf)
    fewer_cost = _cost(lanes, lanes.atomic_maximum, xp.maximum(fewer, 1.0))
    fewer_cost = xp.where(fewer >= plan.fewest, fewer_cost, xp.inf)
    better = fewer_cost < single
    return Best(
        cost=xp.where(better, fewer_cost, single),
        atomic=xp.where(better, lanes.atomic_maximum, lanes.initial),
        passes=xp.where(better, fewer, 1.0),
        current=fewer,
        bound=xp.full_like(fewer, -xp.inf),
        visits=xp.full_like(fewer, 2.0),
    )


def _pass_times(lanes: Lanes, atomic: Numbers) -> tuple[Numbers, Array]:
    """Return the seconds of a pass without and with synchronisation."""
    gradient = lanes.alpha + lanes.beta * atomic
    last = overlap(gradient, lanes.synchronisation, lanes.log_synchronisation, lanes.gamma).time
    return gradient, last


def _cost(lanes: Lanes, atomic: Numbers, passes: Array) -> Array:
    """Return h at one (m, w)."""
    gradient, last = _pass_times(lanes, atomic)
    batch = lanes.replicas * passes * atomic
    return (lanes.noise / batch + lanes.signal) * ((passes - 1.0) * gradient + last)


def _may_improve(plan: Plan, best: Best) -> Array:
    """Return the flags of lanes that might improve with more passes than those searched."""
    return (best.current < plan.most) & (best.cost > best.bound * (1.0 + NOISE))


def _next_passes(plan: Plan, best: Best) -> Best:
    """Search one pass more than before and bound the cost with still more (fact 4)."""
    xp = namespace(plan, best)
    lanes, passes = plan.lanes, best.current + 1.0
    problem = limit_atomic(plan, passes)
    bracket = best_atomic(problem)
    lower = bracket.low_cost <= bracket.high_cost
    cost = xp.where(lower, bracket.low_cost, bracket.high_cost)
    better = cost < best.cost
    reach = lanes.maximum + lanes.replicas * plan.top
    extra = lanes.alpha * (lanes.noise / reach + lanes.signal)
    falling = xp.isinf(bracket.high_cost) & (passes < plan.top)
    bound = xp.maximum(best.bound, tangent_bound(problem, bracket))
    bound = xp.where(xp.isinf(cost), best.bound, bound + xp.where(falling, 0.0, extra))
    return Best(
        cost=xp.where(better, cost, best.cost),
        atomic=xp.where(better, xp.where(lower, bracket.low, bracket.high), best.atomic),
        passes=xp.where(better, passes, best.passes),
        current=passes,
        bound=xp.where(passes > 1.0, bound, xp.inf),
        visits=best.visits + bracket.visits,
    )


def limit_atomic(plan: Plan, passes: Array) -> Problem:
    """Return the least and the most m that a number of passes allows (see the module's notes)."""
    xp = namespace(plan, passes)
    lanes = plan.lanes
    group = lanes.replicas * passes
    least = xp.maximum(lanes.atomic_minimum, xp.ceil(lanes.initial / group))
    share = lanes.maximum / group
    rounded_up = passes <= plan.top
    most = xp.where(rounded_up, xp.ceil(share), xp.floor(share))
    crowded = lanes.replicas * lanes.atomic_minimum > lanes.maximum
    most = xp.where(crowded, lanes.atomic_minimum, most)
    most = xp.where(lanes.allowed, xp.minimum(most, lanes.atomic_maximum), 0.0)
    lowest = xp.maximum(lanes.atomic_minimum, lanes.initial / group)
    return Problem(lanes, passes, least, most, lowest, xp.where(rounded_up, most, share))
