"""Genetic algorithm of Pollux, seeded and compiled.

It is NSGA-II with the operators and the repair of the artifact, and differs from the original where
a compiled program of fixed shapes requires it: children that replace duplicates are made in batches
and bounded in number (`GeneticOptions.mating_rounds`), duplicates are found by a 64-bit hash, and
the random numbers are others. Beyond the original it decides jobs with modes (types of GPU, cores,
memory): every row of a member has its mode beside it (`genetic/modes.py`).

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.objective import fitness
from goodalloc.models.round.requirements import require_whole_gpus
from goodalloc.solvers.genetic.compile import compile_block
from goodalloc.solvers.genetic.options import GeneticOptions
from goodalloc.solvers.genetic.problem import (
    build_problem,
    initial_members,
    pad_members,
    repair_order,
    without_broken_rows,
)
from goodalloc.solvers.genetic.program import BLOCK, unborn
from goodalloc.solvers.interface.result import Answer, Incumbent, Limit
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.genetic.compile import CompiledBlock
    from goodalloc.solvers.genetic.operators import Problem
    from goodalloc.solvers.genetic.program import Progress

#: Wall-clock seconds of work between two looks at the clock, roughly.
BLOCK_SECONDS = 0.1

#: Seconds by which a run may exceed its limit: no generation begins that would take longer.
OVERRUN_SECONDS = 0.5

#: Number of generations that no run reaches.
UNLIMITED = 2**30


@dataclass(frozen=True)
class Evolution:
    """Outcome of a run of the genetic algorithm.

    Parameters
    ----------
    population
        Replicas of every member, shape (members, jobs, nodes), the fittest first.
    modes
        Index of every job's mode, 0 where it does not run; shape (members, jobs).
    fitness, cluster_utility
        The two objectives of every member, shape (members,); cluster utility is NaN if no
        generation was done.
    generations
        Generations done, the initial population counted as the first; 0 if time was over before.
    history
        Improvements of the best fitness; seconds count from the call, compilation included.
    limit
        Limit that ended the run.
    compile_seconds
        Time spent on waiting for compilation, 0 if the program was ready.
    """

    population: NDArray[np.int64]
    modes: NDArray[np.int64]
    fitness: NDArray[np.float64]
    cluster_utility: NDArray[np.float64]
    generations: int
    history: tuple[Incumbent, ...]
    limit: Limit
    compile_seconds: float

    @property
    def best(self) -> Allocation:
        """The fittest member."""
        return self.member(0)

    def member(self, index: int) -> Allocation:
        """Return one member."""
        return Allocation.from_matrix(self.population[index], self.modes[index])

    def non_dominated(self) -> tuple[Allocation, ...]:
        """Return the members that no other dominates, from which Pollux's next round starts."""
        better = (self.fitness[:, None] >= self.fitness) & (
            self.cluster_utility[:, None] >= self.cluster_utility
        )
        strictly = (self.fitness[:, None] > self.fitness) | (
            self.cluster_utility[:, None] > self.cluster_utility
        )
        dominated = np.any(better & strictly, axis=0)
        return tuple(self.member(index) for index in np.flatnonzero(~dominated).tolist())


def solve_genetic(
    instance: Instance,
    *,
    stop: Stop | None = None,
    seed: int = 0,
    start: Allocation | None = None,
    population: int = 100,
    generations: int | None = 100,
    warm_population: Sequence[Allocation] | None = None,
    **parameters: Any,
) -> Answer:
    """Decide a round by Pollux's genetic algorithm.

    Parameters
    ----------
    instance
        The round.
    stop
        Limits on the search; `Stop.iterations`, where given, takes the place of `generations`.
        `Stop.seconds` counts compilation in: if that alone takes longer, the start is returned
        without the rows that break a rule, and a later call finds the program compiled.
    seed
        Seed of all random numbers: equal seeds give equal allocations on processors that round
        exponentials and logarithms alike; between others (AVX2 and AVX-512, for instance) members
        that nearly tie may part.
    start
        An allocation to have among the first generation.
    population
        Members of the population.
    generations
        Generations, the initial population counted as the first; None for no limit.
    warm_population
        Members to start from; without them, the current placements alone, as the artifact does in
        its first round.
    parameters
        Other fields of `GeneticOptions`.

    Raises
    ------
    ValueError
        If a parameter is out of range, no limit ends the run, a mode takes a part of a GPU, or a
        given member does not belong to the instance.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.models import fitness
    >>> from goodalloc.solvers.genetic import solve_genetic
    >>> from goodalloc.solvers.interface import Stop
    >>> instance = load_benchmark("tiny-cold")
    >>> answer = solve_genetic(instance, stop=Stop(iterations=5))
    >>> fitness(instance, answer.allocation) > 0
    True
    """
    options = GeneticOptions(population=population, **parameters)
    evolution = evolve(
        instance,
        stop=stop,
        seed=seed,
        start=start,
        generations=generations,
        warm_population=warm_population,
        options=options,
    )
    compiling = evolution.compile_seconds
    return Answer(
        allocation=evolution.best,
        limit=evolution.limit,
        history=tuple(replace(i, seconds=i.seconds - compiling) for i in evolution.history),
        iterations=evolution.generations,
        compile_seconds=compiling,
    )


def evolve(
    instance: Instance,
    *,
    stop: Stop | None = None,
    seed: int = 0,
    start: Allocation | None = None,
    generations: int | None = 100,
    warm_population: Sequence[Allocation] | None = None,
    options: GeneticOptions | None = None,
) -> Evolution:
    """Run the genetic algorithm and keep its last population; parameters as in `solve_genetic`.

    Raises
    ------
    ValueError
        As `solve_genetic`.
    """
    begin = time.perf_counter()
    stop, options = stop or Stop(), options or GeneticOptions()
    limit = stop.iterations or generations
    if limit is None and stop.seconds is None and stop.no_improvement is None:
        raise ValueError(
            "Genetic algorithm: generations is None and stop sets no limit; expected one of them."
        )
    require_whole_gpus(instance)
    order = repair_order(instance)
    members = initial_members(instance, start, warm_population, options.population)
    with jax.enable_x64(True):
        problem = build_problem(instance, order)
        key = jax.random.key(seed, impl="threefry2x32")
        left = None if stop.seconds is None else stop.seconds - (time.perf_counter() - begin)
        block = compile_block(problem, options, instance.rules.power, left)
        if block is None:
            return _unstarted(instance, members, order, begin)
        progress = unborn(*pad_members(members, order, problem, options.population))
        progress, history, reached = _run(
            block, problem, progress, key, stop.replace(iterations=limit or UNLIMITED), begin
        )
    return _evolution(progress, order, history, reached, block.seconds)


def _unstarted(
    instance: Instance, members: Sequence[Allocation], order: NDArray[np.int64], begin: float
) -> Evolution:
    """Return the outcome when time is over before a generation: the fitter of two starts."""
    given = [members[0], instance.current]
    usable = [without_broken_rows(instance, member, order) for member in given]
    best = max(usable, key=lambda allocation: fitness(instance, allocation))
    value, seconds = fitness(instance, best), time.perf_counter() - begin
    return Evolution(
        population=best.matrix()[None],
        modes=best.mode[None],
        fitness=np.array([value]),
        cluster_utility=np.array([np.nan]),
        generations=0,
        history=(Incumbent(seconds, 0, value),),
        limit=Limit.TIME,
        compile_seconds=seconds,
    )


def _run(
    block: CompiledBlock, problem: Problem, progress: Progress, key: Any, stop: Stop, begin: float
) -> tuple[Progress, tuple[Incumbent, ...], Limit]:
    """Run blocks of generations until a limit is reached; the first block is generation 1 alone."""
    patience = np.int32(stop.no_improvement or UNLIMITED)
    history: list[Incumbent] = []
    done, best, size, reached = 0, -np.inf, 1, None
    started = time.perf_counter()
    progress = block.run(problem, progress, key, np.int32(1), patience)
    try:
        while reached is None:
            now, curve = int(progress.generation), np.asarray(progress.curve)
            seconds = time.perf_counter() - begin
            for generation, value in enumerate(curve[: now - done].tolist(), start=done + 1):
                if value > best:
                    best = value
                    history.append(Incumbent(seconds, generation, value))
            stale = now - int(progress.improved)
            reached = stop.reached(seconds=seconds, iterations=now, stale=stale)
            each = (begin + seconds - started) / max(now - done, 1)
            if stop.seconds is not None and seconds + each > stop.seconds + OVERRUN_SECONDS:
                reached = reached or Limit.TIME
            if reached is None:
                left = BLOCK_SECONDS if stop.seconds is None else stop.seconds - seconds
                size = _next_block(size, each, left)
                until = np.int32(min(now + size, stop.iterations or UNLIMITED))
                done, started = now, time.perf_counter()
                progress = block.run(problem, progress, key, until, patience)
    except KeyboardInterrupt:
        reached = Limit.INTERRUPTED
    return progress, tuple(history), reached


def _next_block(size: int, each: float, left: float) -> int:
    """Return the generations of the next block: about `BLOCK_SECONDS` of work, or less."""
    return int(min(max(min(BLOCK_SECONDS, left) / max(each, 1e-6), 1), 4 * size, BLOCK))


def _evolution(
    progress: Progress,
    order: NDArray[np.int64],
    history: tuple[Incumbent, ...],
    limit: Limit,
    compile_seconds: float,
) -> Evolution:
    """Return the members in the order of the instance's jobs, the fittest first."""
    population = progress.population
    objectives = np.asarray(population.objectives)
    chosen = np.flatnonzero(np.asarray(population.valid))
    chosen = chosen[np.lexsort((-objectives[chosen, 1], -objectives[chosen, 0]))]
    rows = np.asarray(population.genes.replicas)[: order.size, chosen].transpose(1, 0, 2)
    matrices = np.zeros(rows.shape, dtype=np.int64)
    matrices[:, order] = rows
    modes = np.zeros(rows.shape[:2], dtype=np.int64)
    if population.genes.modes is not None:
        modes[:, order] = np.asarray(population.genes.modes)[: order.size, chosen].T
    return Evolution(
        population=matrices,
        modes=modes,
        fitness=objectives[chosen, 0],
        cluster_utility=objectives[chosen, 1],
        generations=int(progress.generation),
        history=history,
        limit=limit,
        compile_seconds=compile_seconds,
    )
