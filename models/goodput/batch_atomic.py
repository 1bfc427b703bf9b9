r"""Best whole m for a number of passes, with proof, and a bound over all real m.

In x = ln m the slope of ln h, where h = (A / M + B) T is the reciprocal of goodput, is
E - A / (A + B M), with E the elasticity of the step time T = s T_g + f(T_g) in m. Here f is the
pass with synchronisation and T_g = a + b m. E is the product of b m / T_g, which rises with x,
and of (s + f') / (s + f / T_g), which rises too: f is convex and f / T_g falls. The other term
falls. So h has one valley in m: a whole m with a slope below 0 whose successor has none below 0
proves that one of the two is best.

Newton's method finds them. The slope has the sign of

    F = ln( B c b m^2 (s + f') / (A (a (s + f') + f - T_g f')) ),    c = K (s + 1),

which rises with x by at least 2 everywhere, and by exactly 2 for gamma = 1. All trials are whole.
A step that leaves the bracket where both its ends are known bisects it, so the search always
ends, and its end is the proof. Four visits or so is what it takes.

h is moreover convex in v = 1 / m (T, convex and rising in m, makes T(1/v) convex as well as the
perspective v T(1/v)), so that two tangents bound it from below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goodalloc.models.goodput.throughput_model import overlap
from goodalloc.models.support.namespace import advance, namespace

if TYPE_CHECKING:
    from goodalloc.models.goodput.allocation_arrays import Lanes
    from goodalloc.models.support.array_types import Array

SMALLEST = 1e-150
"""Floor under a denominator, or under a number whose logarithm is taken."""

LONGEST_STEP = 50.0
"""Longest Newton step in ln m, so that its exponential stays finite."""


class Problem(NamedTuple):
    """Lane with its number of passes w and the whole and real m that it allows.

    `least` and `most` are whole; `lowest` and `highest` bound the real m that any whole m of the
    same or of more passes could stand for, and are for the bound only.
    """

    lanes: Lanes
    passes: Array
    least: Array
    most: Array
    lowest: Array
    highest: Array


class Point(NamedTuple):
    """Cost at one m, its slope in ln m, and the equation F = 0 with its derivative."""

    cost: Array
    slope: Array
    excess: Array
    steepness: Array


class Bracket(NamedTuple):
    """Two whole m around the optimum, with cost and slope where they were visited."""

    low: Array
    high: Array
    low_cost: Array
    high_cost: Array
    low_slope: Array
    high_slope: Array
    trial: Array
    visits: Array


def best_atomic(problem: Problem) -> Bracket:
    """Return the two neighbouring m that hold the optimum; the cost of one outside is infinite."""
    return advance(_open, _narrow, problem, _bracket(problem))


def visit(lanes: Lanes, passes: Array, atomic: Array) -> Point:
    """Evaluate goodput's reciprocal and its slope: four transcendental functions and one more."""
    xp = namespace(lanes, atomic)
    computing = lanes.beta * atomic
    gradient = lanes.alpha + computing
    last, kept, hidden = overlap(
        gradient, lanes.synchronisation, lanes.log_synchronisation, lanes.gamma
    )
    rate = last / gradient * kept
    waiting = last * hidden
    accumulated = passes - 1.0
    weight = accumulated + rate
    batch = lanes.replicas * passes * atomic
    noise, signal = lanes.noise, lanes.signal * batch
    step = accumulated * gradient + last
    cost = (noise / batch + lanes.signal) * step
    fixed = lanes.alpha * weight + waiting
    up, down = signal * computing * weight, noise * fixed
    slope = cost * (up - down) / ((noise + signal) * step)
    excess = xp.log(xp.maximum(up, SMALLEST) / xp.maximum(down, SMALLEST))
    bend = kept + hidden * rate / xp.maximum(weight, SMALLEST)
    bend = waiting * (lanes.gamma - 1.0) * (computing / gradient) * bend
    return Point(cost, slope, excess, 2.0 + bend / xp.maximum(fixed, SMALLEST))


def _bracket(problem: Problem) -> Bracket:
    """Start with nothing visited, at the m that would be best if nothing overlapped."""
    xp = namespace(problem)
    lanes, passes, least, most, _, _ = problem
    group = lanes.replicas * passes
    numerator = lanes.noise * (lanes.alpha + lanes.synchronisation / passes)
    guess = xp.sqrt(numerator / xp.maximum(lanes.signal * group * lanes.beta, SMALLEST))
    never = xp.full_like(least, xp.inf)
    nought = xp.zeros_like(least)
    trial = xp.maximum(xp.minimum(xp.rint(guess), most), least)
    return Bracket(
        low=least - 1.0,
        high=most + 1.0,
        low_cost=never,
        high_cost=never,
        low_slope=nought,
        high_slope=nought,
        trial=trial,
        visits=nought,
    )


def _open(problem: Problem, bracket: Bracket) -> Array:
    """Return the flags of brackets that still hold a whole number inside."""
    del problem
    return bracket.high - bracket.low > 1.0


def _narrow(problem: Problem, bracket: Bracket) -> Bracket:
    """Visit the trial, make it an end of the bracket and choose the next trial."""
    xp = namespace(problem, bracket)
    trial = bracket.trial
    point = visit(problem.lanes, problem.passes, trial)
    falls = point.slope < 0.0
    low = xp.where(falls, trial, bracket.low)
    high = xp.where(falls, bracket.high, trial)
    low_cost = xp.where(falls, point.cost, bracket.low_cost)
    high_cost = xp.where(falls, bracket.high_cost, point.cost)
    step = xp.clip(-point.excess / point.steepness, -LONGEST_STEP, LONGEST_STEP)
    newton = trial * xp.exp(step)
    newton = xp.where(falls, xp.ceil(newton), xp.floor(newton))
    middle = xp.rint(xp.sqrt(xp.maximum(low, 1.0) * high))
    outside = (newton <= low) & xp.isfinite(low_cost) | (newton >= high) & xp.isfinite(high_cost)
    following = xp.where(outside, middle, newton)
    return Bracket(
        low=low,
        high=high,
        low_cost=low_cost,
        high_cost=high_cost,
        low_slope=xp.where(falls, point.slope, bracket.low_slope),
        high_slope=xp.where(falls, bracket.high_slope, point.slope),
        trial=xp.clip(following, low + 1.0, xp.maximum(high - 1.0, low + 1.0)),
        visits=bracket.visits + 1.0,
    )


def tangent_bound(problem: Problem, bracket: Bracket) -> Array:
    """Bound h over all real m of a number of passes from below, by tangents in v = 1 / m."""
    xp = namespace(problem, bracket)
    has_low, has_high = xp.isfinite(bracket.low_cost), xp.isfinite(bracket.high_cost)
    low, high = xp.maximum(bracket.low, 1.0), xp.maximum(bracket.high, 1.0)
    low_cost = xp.where(has_low, bracket.low_cost, 0.0)
    high_cost = xp.where(has_high, bracket.high_cost, 0.0)
    # dh/dv = -m dh/dx: rising in v at the low m, falling at the high m
    rise, fall = -low * bracket.low_slope, high * bracket.high_slope
    width = 1.0 / low - 1.0 / high
    both = rise + fall
    meeting = (high_cost - low_cost + rise * width) / xp.where(both > 0.0, both, 1.0)
    between = high_cost - fall * xp.clip(meeting, 0.0, width)
    below = high_cost - bracket.high_slope * (high / problem.lowest - 1.0)
    above = low_cost + bracket.low_slope * (1.0 - low / xp.maximum(problem.highest, low))
    bound: Array = xp.where(has_high, xp.where(has_low, between, below), above)
    return bound
