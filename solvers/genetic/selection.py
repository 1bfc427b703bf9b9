"""Evaluation and selection of the genetic algorithm: two objectives, NSGA-II.

Selection takes fronts of non-dominated members in turn, and within a front the more isolated ones
first.

References
----------
Deb, Pratap, Agarwal and Meyarivan, "A Fast and Elitist Multiobjective Genetic Algorithm: NSGA-II",
    IEEE Transactions on Evolutionary Computation, 2002.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import lax

from goodalloc.solvers.genetic.random_numbers import uniform

if TYPE_CHECKING:
    from jax import Array

    from goodalloc.solvers.genetic.operators import Problem, Repaired


def evaluate(problem: Problem, repaired: Repaired, power: float) -> tuple[Array, Array]:
    """Return fitness and cluster utility of every member, (members,) each.

    Fitness is the power mean of the utilities, summed up in logarithms, so that no power overflows.
    Cluster utility is the sum of the speedups over the GPUs on nodes that hold anything (the
    second objective of Pollux's artifact).
    """
    width = problem.log_moved.shape[-1]
    place = problem.first_mode[:, None]
    if repaired.genes.modes is not None:
        place = place + repaired.genes.modes
    place = place * 2 + repaired.several
    place = place * width + jnp.minimum(repaired.held, width - 1)
    moved = problem.log_moved.reshape(-1)[place]
    logarithms = jnp.where(repaired.unchanged, problem.log_kept[:, None], moved)
    fitness = jnp.exp(_log_power_mean(logarithms, problem.real[:, None], problem.num_jobs, power))
    speedups = problem.speedups.reshape(-1)[place].sum(0)
    gpus = jnp.where(repaired.occupied, problem.gpus.astype(jnp.float64), 0.0).sum(1)
    return fitness, speedups / jnp.maximum(gpus, 1.0)


def _log_power_mean(logarithms: Array, real: Array, num_jobs: Array, power: float) -> Array:
    """Return the logarithm of the power mean over jobs of numbers given by logarithms."""
    if power == 0.0:
        return jnp.where(real, logarithms, 0.0).sum(0) / num_jobs
    if math.isinf(power):
        sign = math.copysign(1.0, power)
        return sign * jnp.where(real, sign * logarithms, -jnp.inf).max(0)
    exponents = jnp.where(real, power * logarithms, -jnp.inf)
    largest = exponents.max(0)
    return (largest + jnp.log(jnp.exp(exponents - largest).sum(0) / num_jobs)) / power


def dominates(first: Array, second: Array) -> Array:
    """Return whether objectives (last axis) are as good as others in all and better in one."""
    return jnp.all(first >= second, axis=-1) & jnp.any(first > second, axis=-1)


def front_ranks(objectives: Array, valid: Array, enough: int) -> Array:
    """Return the number of the front of every candidate, (candidates,), from 0.

    Fronts are peeled off until `enough` candidates have one; the rest, and those that are not
    valid, come after all fronts.
    """
    count = valid.size
    above = dominates(objectives[:, None], objectives[None]) & valid[:, None]
    wanted = jnp.minimum(enough, valid.sum())

    def unfinished(state: tuple[Array, Array, Array]) -> Array:
        return (state[1] < count).sum() < wanted

    def peel(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        front, rank, left = state
        now = left & ~jnp.any(above & left[:, None], axis=0)
        return front + 1, jnp.where(now, front, rank), left & ~now

    start = (jnp.int32(0), jnp.full(count, count, jnp.int32), valid)
    ranks: Array = lax.while_loop(unfinished, peel, start)[1]
    return ranks


def crowding_distances(objectives: Array, rank: Array) -> Array:
    """Return the crowding distance of every candidate within its front, (candidates,).

    The sum over both objectives of the distance between a candidate's neighbours, relative to the
    extent of its front; infinite at the ends. Of candidates equal in both objectives all but the
    first have distance 0.
    """
    count = rank.size
    equal = jnp.all(objectives[:, None] == objectives[None], axis=-1)
    equal &= rank[:, None] == rank[None]
    index = jnp.arange(count)
    repeated = jnp.any(equal & (index[None] < index[:, None]), axis=1)
    group = jnp.where(repeated, 2 * count, rank)  # sorted behind all fronts, of no consequence
    total = jnp.zeros(count, jnp.float64)
    for values in (objectives[:, 0], objectives[:, 1]):
        order = jnp.lexsort((values, group))
        value, front = values[order], group[order]
        first = jnp.concatenate([jnp.ones(1, bool), front[1:] != front[:-1]])
        last = jnp.concatenate([first[1:], jnp.ones(1, bool)])
        low = jax.ops.segment_min(value, front, 2 * count + 1)[front]
        high = jax.ops.segment_max(value, front, 2 * count + 1)[front]
        extent = jnp.where(high > low, high - low, 1.0)
        gap = (jnp.roll(value, -1) - jnp.roll(value, 1)) / extent
        total = total.at[order].add(jnp.where(first | last, jnp.inf, gap))
    return jnp.where(repeated, 0.0, total)


def tournament(
    words: Array, objectives: Array, crowding: Array, valid: Array, winners: int
) -> Array:
    """Return the winners of binary tournaments by dominance, then crowding distance, (winners,).

    Contestants are drawn by permutations, so that all members compete equally often. `words`
    (2, 2) are random.
    """
    members = valid.size
    permutations = -(-2 * winners // members)
    counters = lax.iota(jnp.uint32, permutations * members).reshape(permutations, members)
    lots = uniform(counters, words[0])
    order = jnp.argsort(jnp.where(valid, lots, 2.0), axis=1)
    place = jnp.arange(members) % jnp.maximum(valid.sum(), 1)
    first, second = order[:, place].reshape(-1)[: 2 * winners].reshape(winners, 2).T
    ties = uniform(lax.iota(jnp.uint32, winners), words[1]) < 0.5
    lonelier = crowding[first] > crowding[second]
    level = crowding[first] == crowding[second]
    by_crowding = jnp.where(level, ties, lonelier)
    wins = dominates(objectives[first], objectives[second])
    loses = dominates(objectives[second], objectives[first])
    return jnp.where(wins | (~loses & by_crowding), first, second)


def survivors(words: Array, objectives: Array, valid: Array, places: int) -> tuple[Array, Array]:
    """Return which candidates survive, and the crowding distance of all, (candidates,) each.

    Whole fronts in their order; of the last one the most isolated, ties at random (from the two
    `words`).
    """
    rank = front_ranks(objectives, valid, places)
    crowding = crowding_distances(objectives, rank)
    lots = uniform(lax.iota(jnp.uint32, valid.size), words)
    order = jnp.lexsort((lots, -crowding, rank))
    position = jnp.argsort(order)
    return (position < places) & valid, crowding


def fill_places(vacant: Array, offered: Array) -> tuple[Array, Array]:
    """Assign offered candidates to vacant places, in order.

    Returns
    -------
    tuple
        Whether each place is filled, and from which index, (places,) each.
    """
    source = jnp.argsort(~offered, stable=True)
    turn = jnp.cumsum(vacant) - 1
    taken = vacant & (turn < offered.sum())
    return taken, source[jnp.clip(turn, 0, offered.size - 1)]
