"""The genetic algorithm as one compiled program: a block of generations."""

import time
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from goodalloc.solvers.genetic_operators import (
    Problem,
    grow_and_repair,
    growth_thresholds,
    noise,
    recombine,
    uniform,
)
from goodalloc.solvers.genetic_options import GeneticOptions
from goodalloc.solvers.genetic_selection import evaluate, fill_places, survivors, tournament

#: Most generations between two looks at the clock.
BLOCK = 128


class Population(NamedTuple):
    """Members, in places some of which may be vacant.

    `replicas` (jobs, places, nodes); `objectives` (places, 2): fitness and cluster utility, both
    maximised; `crowding`, `digest`, `valid` (places,).
    """

    replicas: Array
    objectives: Array
    crowding: Array
    digest: Array
    valid: Array


class Progress(NamedTuple):
    """A population and how it got there.

    `generation` counts the initial one as 1; `best` fitness, `improved` in which generation;
    `curve` (BLOCK,): best fitness after each generation of the latest block.
    """

    population: Population
    generation: Array
    best: Array
    improved: Array
    curve: Array


def _first_of_its_kind(digest: Array, valid: Array) -> Array:
    """Which members are valid and equal no earlier valid member."""
    index = jnp.arange(digest.size)
    earlier = (digest[:, None] == digest[None]) & (index[None] < index[:, None]) & valid[None]
    return valid & ~jnp.any(earlier, axis=1)


def _place(onto: Population, vacant: Array, offered: Population, fit: Array) -> Population:
    """Put those of the offered members that are fit onto vacant places, in order."""
    filled, source = fill_places(vacant, fit)

    def choose(new: Array, old: Array) -> Array:
        taken = new[source]
        return jnp.where(filled.reshape(-1, *[1] * (old.ndim - 1)), taken, old)

    replicas = jnp.where(filled[:, None], offered.replicas[:, source], onto.replicas)
    return Population(
        replicas,
        choose(offered.objectives, onto.objectives),
        choose(offered.crowding, onto.crowding),
        choose(offered.digest, onto.digest),
        (onto.valid & ~vacant) | filled,
    )


def _mate(
    problem: Problem, population: Population, seeding: Array, key: Array,
    options: GeneticOptions, power: float,
) -> Population:  # fmt: skip
    """A full set of children: tournament, crossover, mutation, repair; if seeding, repair alone."""
    places, num_jobs = population.valid.size, problem.pinned.size
    matings = -(-places // 2)
    # one draw of words for everything: each call of the generator takes its time to compile
    words = jax.random.bits(key, (6 * num_jobs + 4, 2), jnp.uint32)
    per_job = words[4:].reshape(2, num_jobs, 3, 2)
    winners = tournament(
        words[:2], population.objectives, population.crowding, population.valid, 2 * matings
    )
    pairs = winners.reshape(matings, 2)
    own, other = pairs.reshape(-1)[:places], pairs[:, ::-1].reshape(-1)[:places]
    own = jnp.where(seeding, jnp.arange(places), own)
    counters = lax.iota(jnp.uint32, matings)
    cut = jnp.floor(uniform(counters, words[2]) * problem.num_jobs).astype(jnp.int32)
    crossed = uniform(counters, words[3]) < options.crossover_probability
    cut = jnp.repeat(jnp.where(crossed & ~seeding, cut, 0), 2)[:places]
    children, used, jobs_on = recombine(
        problem, population.replicas, own, other, cut, ~seeding, per_job[0], options
    )
    never, sometimes = jnp.uint32(0), growth_thresholds(problem, used, jobs_on)
    empty, taken = (jnp.where(seeding, never, threshold) for threshold in sometimes)
    repaired = grow_and_repair(problem, children, (empty, taken), per_job[1])
    objectives = jnp.stack(evaluate(problem, repaired, power), axis=-1)
    return Population(
        repaired.replicas, objectives, jnp.zeros(places, jnp.float64), repaired.digest,
        population.valid | ~seeding,
    )  # fmt: skip


def _breed(
    problem: Problem, population: Population, number: Array, key: Array,
    options: GeneticOptions, power: float,
) -> Population:  # fmt: skip
    """Children that equal neither a member nor each other: rounds of mating until all places fill.

    In generation 1 the "children" are the given members, repaired.
    """
    seeding = number == 1
    rounds = jnp.where(seeding, 1, options.mating_rounds)

    def wanting(state: tuple[Array, Population]) -> Array:
        turn, children = state
        return (turn < rounds) & ~jnp.all(children.valid)

    def mate(state: tuple[Array, Population]) -> tuple[Array, Population]:
        turn, children = state
        key_now = jax.random.fold_in(key, number * options.mating_rounds + turn)
        offered = _mate(problem, population, seeding, key_now, options, power)
        known = jnp.concatenate([population.digest, children.digest])
        known_valid = jnp.concatenate([population.valid & ~seeding, children.valid])
        repeated = jnp.any((offered.digest[:, None] == known[None]) & known_valid[None], axis=1)
        fit = _first_of_its_kind(offered.digest, offered.valid) & ~repeated
        return turn + 1, _place(children, ~children.valid, offered, fit)

    nobody = population._replace(valid=jnp.zeros_like(population.valid))
    children: Population = lax.while_loop(wanting, mate, (jnp.int32(0), nobody))[1]
    return children


def _select(population: Population, children: Population, words: Array) -> Population:
    """The best of parents and children; survivors among the parents stay in their places."""
    places = population.valid.size
    objectives = jnp.concatenate([population.objectives, children.objectives])
    valid = jnp.concatenate([population.valid, children.valid])
    lives, crowding = survivors(words, objectives, valid, places)
    parents = population._replace(crowding=crowding[:places], valid=lives[:places])
    offered = children._replace(crowding=crowding[places:])
    return _place(parents, ~parents.valid, offered, lives[places:])


def unborn(replicas: Array, valid: Array) -> Progress:
    """The state before generation 1: the given members, neither repaired nor evaluated."""
    places = valid.size
    nothing = jnp.zeros(places, jnp.float64)
    population = Population(
        replicas, jnp.zeros((places, 2), jnp.float64), nothing,
        jnp.zeros(places, jnp.uint64), valid,
    )  # fmt: skip
    never, curve = jnp.int32(0), jnp.zeros(BLOCK, jnp.float64)
    return Progress(population, never, jnp.float64(-1.0), jnp.int32(0), curve)


def _block(
    problem: Problem, progress: Progress, key: Array, until: Array, patience: Array, *,
    options: GeneticOptions, power: float,
) -> Progress:  # fmt: skip
    """Generations up to the number `until`, or until `patience` of them brought no improvement."""
    start = progress.generation

    def going(progress: Progress) -> Array:
        stale = progress.generation - progress.improved
        return (progress.generation < until) & (stale < patience)

    def generation(progress: Progress) -> Progress:
        number = progress.generation + 1
        population = progress.population
        children = _breed(problem, population, number, key, options, power)
        parents = population._replace(valid=population.valid & (number > 1))
        words = noise(jnp.arange(2, dtype=jnp.uint32) + 2 * number.astype(jnp.uint32), key_words)
        population = _select(parents, children, words)
        best = jnp.where(population.valid, population.objectives[:, 0], -1.0).max()
        improved = jnp.where(best > progress.best, number, progress.improved)
        curve = progress.curve.at[number - start - 1].set(best)
        return Progress(population, number, best, improved, curve)

    key_words = jax.random.key_data(key)
    result: Progress = lax.while_loop(going, generation, progress)
    return result


@dataclass(frozen=True)
class CompiledBlock:
    """The compiled program for one shape of problem, and how long compiling it took."""

    run: Any
    seconds: float


def compile_block(problem: Problem, options: GeneticOptions, power: float) -> CompiledBlock:
    """The program for problems of this shape; compiled once, `seconds` is 0 when it was there."""
    shapes = tuple((array.shape, array.dtype.name) for array in problem)
    before = _compiled.cache_info().misses
    block = _compiled(shapes, options, power, jax.default_backend())
    return block if _compiled.cache_info().misses > before else CompiledBlock(block.run, 0.0)


@lru_cache(maxsize=32)
def _compiled(
    shapes: tuple[tuple[tuple[int, ...], str], ...],
    options: GeneticOptions,
    power: float,
    backend: str,
) -> CompiledBlock:
    del backend  # it only tells the entries of the cache apart
    begin = time.perf_counter()
    like: Any = jax.ShapeDtypeStruct
    problem = Problem(*(like(shape, name) for shape, name in shapes))
    jobs, nodes = problem.current.shape
    progress = jax.eval_shape(
        unborn,
        like((jobs, options.population, nodes), problem.current.dtype),
        like((options.population,), "bool"),
    )
    key = jax.eval_shape(partial(jax.random.key, impl="threefry2x32"), 0)
    block = jax.jit(partial(_block, options=options, power=power))
    number = like((), "int32")
    compiled = block.lower(problem, progress, key, number, number).compile()
    return CompiledBlock(compiled, time.perf_counter() - begin)
