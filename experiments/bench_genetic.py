"""Benchmark of the genetic algorithm; `python -m goodalloc.experiments.bench_genetic`.

Each row of the CSV is one run at the published budget (population 100, 100 generations) on a
generated instance: the seconds of the run without compilation, its processor seconds, the seconds
of compilation (0 where a program was there), the generation of the last improvement, and the
fitness beside that of the greedy algorithm, of the local search, and an upper bound.
"""

from __future__ import annotations

import argparse
import csv
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

from goodalloc.data.generator import State, generate
from goodalloc.formulations.knapsack import knapsack_bound
from goodalloc.models.objective import fitness, utility_table
from goodalloc.solvers.genetic import evolve
from goodalloc.solvers.genetic_options import GeneticOptions
from goodalloc.solvers.greedy import solve_greedy
from goodalloc.solvers.local_search import solve_local_search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TextIO

    from goodalloc.models.instance import Instance

LOGGER = logging.getLogger(__name__)

#: Jobs and nodes of the instances, four GPUs a node.
SIZES = ("16x4", "40x16", "160x16", "160x64", "500x128")


class Run(NamedTuple):
    """One row of the table."""

    instance: str
    jobs: int
    nodes: int
    seed: int
    seconds: float
    processor_seconds: float
    compile_seconds: float
    last_improvement: int
    fitness: float
    greedy: float
    local_search: float
    bound: float
    gap: float


def run_instance(
    instance: Instance,
    seeds: Sequence[int],
    options: GeneticOptions,
    generations: int,
    bound: Callable[[Instance], float] = knapsack_bound,
) -> Iterator[Run]:
    """Run the genetic algorithm with every seed.

    Parameters
    ----------
    instance
        The round.
    seeds
        One run each.
    options, generations
        Parameters and budget of the algorithm.
    bound
        An upper bound on the fitness, or the optimum: what the gap refers to.
    """
    utility_table(instance)
    greedy = solve_greedy(instance).allocation
    polished = solve_local_search(instance, start=greedy).allocation
    assert greedy is not None
    assert polished is not None
    reference = fitness(instance, greedy), fitness(instance, polished), bound(instance)
    compiling = evolve(instance, generations=1, options=options).compile_seconds
    for seed in seeds:
        begin, busy = time.perf_counter(), time.process_time()
        found = evolve(instance, seed=seed, generations=generations, options=options)
        seconds, processor = time.perf_counter() - begin, time.process_time() - busy
        value = fitness(instance, found.best)
        LOGGER.info("%s, seed %d: %.4g in %.3g s", instance.name, seed, value, seconds)
        yield Run(
            instance.name, instance.num_jobs, instance.cluster.num_nodes, seed, seconds, processor,
            compiling, found.history[-1].iteration, value, *reference,
            gap=1.0 - value / reference[2],
        )  # fmt: skip
        compiling = 0.0


def write_rows(rows: Iterator[Run], stream: TextIO) -> None:
    """Write the runs as CSV, one by one as they come, numbers to six digits."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(Run._fields)
    for row in rows:
        writer.writerow([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row])
        stream.flush()


def _size(text: str) -> tuple[int, int]:
    """Jobs and nodes from a text such as 160x16."""
    jobs, _, nodes = text.partition("x")
    if not (jobs.isdecimal() and nodes.isdecimal() and int(jobs) and int(nodes)):
        raise argparse.ArgumentTypeError(f"size is '{text}'; expected JOBSxNODES, as 160x16.")
    return int(jobs), int(nodes)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line.

    Parameters
    ----------
    argv
        Arguments without the name of the programme; those of the process if None.
    """
    parser = argparse.ArgumentParser(prog="bench_genetic", description=main.__doc__)
    parser.add_argument("--sizes", nargs="+", type=_size, default=[_size(size) for size in SIZES])
    parser.add_argument("--gpus", type=int, default=4, help="GPUs a node")
    parser.add_argument("--states", nargs="+", choices=get_args(State), default=["running"])
    parser.add_argument("--instance-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=5, help="runs on each instance")
    parser.add_argument("--population", type=int, default=100)
    parser.add_argument("--generations", type=int, default=100)
    parser.add_argument("--output", type=Path, help="CSV file; standard output if not given")
    given = parser.parse_args(argv)
    for option in ("gpus", "seeds", "generations"):
        if getattr(given, option) < 1:
            parser.error(f"--{option} is {getattr(given, option)}; expected 1 or more.")
    options = GeneticOptions(population=given.population)
    rows = (
        row
        for jobs, nodes in given.sizes
        for state in given.states
        for row in run_instance(
            generate(given.instance_seed, jobs, nodes, given.gpus, state=state),
            range(given.seeds), options, given.generations,
        )
    )  # fmt: skip
    if given.output is None:
        write_rows(rows, sys.stdout)
    else:
        with given.output.open("w", encoding="utf-8", newline="") as stream:
            write_rows(rows, stream)
    return 0


if __name__ == "__main__":
    sys.exit(main())
