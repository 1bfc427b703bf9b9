"""Genetic algorithm as one compiled program: a block of generations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from goodalloc.solvers.genetic.operators import grow_and_repair, growth_thresholds, recombine
from goodalloc.solvers.genetic.random_numbers import noise, uniform
from goodalloc.solvers.genetic.selection import evaluate, fill_places, survivors, tournament

if TYPE_CHECKING:
    from jax import Array

    from goodalloc.solvers.genetic.operators import Genes, Problem
    from goodalloc.solvers.genetic.options import GeneticOptions

#: Most generations between two looks at the clock.
BLOCK = 128

#: Most children that are made at once.
LARGEST_BATCH = 32


class Population(NamedTuple):
    """Members, in places of which some may be vacant.

    `genes`; `objectives` (places, 2): fitness and cluster utility, both maximised; `crowding`,
    `digest`, `valid` (places,).
    """

    genes: Genes
    objectives: Array
    crowding: Array
    digest: Array
    valid: Array


class Progress(NamedTuple):
    """Population, with the generations that led to it.

    `generation` counts the initial one as 1; `best` fitness, `improved` in which generation;
    `curve` (BLOCK,): best fitness after each generation of the latest block.
    """

    population: Population
    generation: Array
    best: Array
    improved: Array
    curve: Array


def _first_of_its_kind(digest: Array, valid: Array) -> Array:
    """Return which members are valid and equal no earlier valid member."""
    index = jnp.arange(digest.size)
    earlier = (digest[:, None] == digest[None]) & (index[None] < index[:, None]) & valid[None]
    return valid & ~jnp.any(earlier, axis=1)


def _place(onto: Population, vacant: Array, offered: Population, fit: Array) -> Population:
    """Put those of the offered members that are fit on vacant places, in order."""
    filled, source = fill_places(vacant, fit)

    def choose(new: Array, old: Array) -> Array:
        taken = new[source]
        return jnp.where(filled.reshape(-1, *[1] * (old.ndim - 1)), taken, old)

    def choose_genes(new: Array, old: Array) -> Array:
        return jnp.where(filled.reshape(-1, *[1] * (old.ndim - 2)), new[:, source], old)

    return Population(
        jax.tree.map(choose_genes, offered.genes, onto.genes),
        choose(offered.objectives, onto.objectives),
        choose(offered.crowding, onto.crowding),
        choose(offered.digest, onto.digest),
        (onto.valid & ~vacant) | filled,
    )


class Parents(NamedTuple):
    """Parents and point of crossover of every child, (children,) each.

    A child has the rows before `cut` of member `other` and the rest of member `own`.
    """

    own: Array
    other: Array
    cut: Array


def batch_size(population: int) -> int:
    """Return the number of children made at once: few, so that they stay in cache."""
    return min(-(-population // 4), LARGEST_BATCH)


def _pair_up(
    problem: Problem, population: Population, words: Array, children: int, options: GeneticOptions
) -> Parents:
    """Hold tournaments and pair the winners, each pair with two children and a crossover point."""
    matings = -(-children // 2)
    winners = tournament(
        words[:2], population.objectives, population.crowding, population.valid, 2 * matings
    )
    pairs = winners.reshape(matings, 2)
    counters = lax.iota(jnp.uint32, matings)
    cut = jnp.floor(uniform(counters, words[2]) * problem.num_jobs).astype(jnp.int32)
    crossed = uniform(counters, words[3]) < options.crossover_probability
    cut = jnp.repeat(jnp.where(crossed, cut, 0), 2)[:children]
    return Parents(pairs.reshape(-1)[:children], pairs[:, ::-1].reshape(-1)[:children], cut)


def _mate(
    problem: Problem,
    population: Population,
    parents: Parents,
    *,
    seeding: Array,
    key: Array,
    options: GeneticOptions,
    power: float,
) -> Population:
    """Make one batch of children by crossover, mutation and repair; if seeding, by repair alone."""
    size = parents.own.size
    # one draw of words for all uses: each call of the generator takes time to compile
    words = jax.random.bits(key, (problem.pinned.size, 5, 2), jnp.uint32)
    children, used, jobs_on = recombine(
        problem,
        population.genes,
        own=parents.own,
        other=parents.other,
        cut=parents.cut,
        mutate=~seeding,
        words=words[:, :3],
        options=options,
    )
    never, sometimes = jnp.uint32(0), growth_thresholds(problem, used, jobs_on)
    empty, taken = (jnp.where(seeding, never, threshold) for threshold in sometimes)
    repaired = grow_and_repair(problem, children, (empty, taken), words[:, 3:])
    objectives = jnp.stack(evaluate(problem, repaired, power), axis=-1)
    return Population(
        repaired.genes,
        objectives,
        jnp.zeros(size, jnp.float64),
        repaired.digest,
        population.valid[parents.own] | ~seeding,
    )


def _append(children: Population, count: Array, offered: Population, fit: Array) -> Population:
    """Put the fit members of a batch behind the first `count` children; the rest is unused."""
    order = jnp.argsort(~fit, stable=True)
    update = lax.dynamic_update_slice_in_dim

    def put(old: Array, new: Array) -> Array:
        return update(old, new[:, order], count, 1)

    return Population(
        jax.tree.map(put, children.genes, offered.genes),
        *(
            update(old, new[order], count, 0)
            for old, new in zip(children[1:], offered[1:], strict=True)
        ),
    )


def _breed(
    problem: Problem,
    population: Population,
    *,
    number: Array,
    key: Array,
    words: Array,
    options: GeneticOptions,
    power: float,
) -> Population:
    """Return children that equal neither a member nor each other, made in batches.

    In generation 1 the "children" are the given members, repaired.
    """
    places = population.valid.size
    size = batch_size(places)
    most = -(-options.mating_rounds * places // size)
    seeding = number == 1
    batches = jnp.where(seeding, -(-places // size), most)
    parents = _pair_up(problem, population, words, most * size, options)
    index = jnp.arange(most * size)
    given = Parents(jnp.minimum(index, places - 1), parents.other, jnp.zeros_like(parents.cut))
    parents = jax.tree.map(partial(jnp.where, seeding), given, parents)

    def wanting(state: tuple[Array, Array, Population]) -> Array:
        turn, count, _ = state
        return (turn < batches) & (count < places)

    def mate(state: tuple[Array, Array, Population]) -> tuple[Array, Array, Population]:
        turn, count, children = state
        own, other, cut = (lax.dynamic_slice(a, (turn * size,), (size,)) for a in parents)
        key_now = jax.random.fold_in(key, number * most + turn)
        mine = Parents(own, other, cut)
        offered = _mate(
            problem=problem,
            population=population,
            parents=mine,
            seeding=seeding,
            key=key_now,
            options=options,
            power=power,
        )
        known = jnp.concatenate([population.digest, children.digest])
        there = jnp.arange(places + size) < count
        known_valid = jnp.concatenate([population.valid & ~seeding, there])
        repeated = jnp.any((offered.digest[:, None] == known[None]) & known_valid[None], axis=1)
        fit = _first_of_its_kind(offered.digest, offered.valid) & ~repeated
        return turn + 1, count + fit.sum(dtype=jnp.int32), _append(children, count, offered, fit)

    def room(genes: Array) -> Array:
        jobs, _, *more = genes.shape
        return jnp.zeros((jobs, places + size, *more), genes.dtype)

    nobody = _vacant(jax.tree.map(room, population.genes))
    count, children = lax.while_loop(wanting, mate, (jnp.int32(0), jnp.int32(0), nobody))[1:]
    genes = jax.tree.map(lambda array: array[:, :places], children.genes)
    children = Population(genes, *(array[:places] for array in children[1:]))
    return children._replace(valid=jnp.arange(places) < count)


def _select(population: Population, children: Population, words: Array) -> Population:
    """Return the best of parents and children; surviving parents stay in their places."""
    places = population.valid.size
    objectives = jnp.concatenate([population.objectives, children.objectives])
    valid = jnp.concatenate([population.valid, children.valid])
    lives, crowding = survivors(words, objectives, valid, places)
    parents = population._replace(crowding=crowding[:places], valid=lives[:places])
    offered = children._replace(crowding=crowding[places:])
    return _place(parents, ~parents.valid, offered, lives[places:])


def _vacant(genes: Genes) -> Population:
    """Return members without objectives, none of them valid."""
    places = genes.replicas.shape[1]
    zero = jnp.zeros(places, jnp.float64)
    return Population(
        genes,
        jnp.zeros((places, 2), jnp.float64),
        zero,
        jnp.zeros(places, jnp.uint64),
        jnp.zeros(places, bool),
    )


def unborn(genes: Genes, valid: Array) -> Progress:
    """Return the state before generation 1: the given members, neither repaired nor evaluated."""
    population = _vacant(genes)._replace(valid=valid)
    never, curve = jnp.int32(0), jnp.zeros(BLOCK, jnp.float64)
    return Progress(population, never, jnp.float64(-1.0), jnp.int32(0), curve)


def run_block(
    problem: Problem,
    progress: Progress,
    key: Array,
    until: Array,
    patience: Array,
    *,
    options: GeneticOptions,
    power: float,
) -> Progress:
    """Run generations up to the number `until`, or until `patience` of them do not improve."""
    start = progress.generation

    def going(progress: Progress) -> Array:
        stale = progress.generation - progress.improved
        return (progress.generation < until) & (stale < patience)

    def generation(progress: Progress) -> Progress:
        number = progress.generation + 1
        population = progress.population
        counters = jnp.arange(10, dtype=jnp.uint32) + 10 * number.astype(jnp.uint32)
        words = noise(counters, key_words).reshape(5, 2)
        children = _breed(
            problem=problem,
            population=population,
            number=number,
            key=key,
            words=words[:4],
            options=options,
            power=power,
        )
        parents = population._replace(valid=population.valid & (number > 1))
        population = _select(parents, children, words[4])
        best = jnp.where(population.valid, population.objectives[:, 0], -1.0).max()
        improved = jnp.where(best > progress.best, number, progress.improved)
        curve = progress.curve.at[number - start - 1].set(best)
        return Progress(population, number, best, improved, curve)

    key_words = jax.random.key_data(key)
    result: Progress = lax.while_loop(going, generation, progress)
    return result
