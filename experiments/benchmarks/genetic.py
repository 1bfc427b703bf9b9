"""Benchmark of the genetic algorithm: its gaps, its run time, and the budget it would need.

Run as ``python -m goodalloc.experiments.benchmarks.genetic --out results/genetic``. On every
generated round the optimum is proved first; gaps are relative to it (to the proven bound if the
proof exceeded its time limit). `runs.csv` has a row per run at the published budget (population
100, 100 generations), from three starts: the current placements (``none``), these and the greedy
allocation (``greedy``), and the final non-dominated members of such a run on the same round
(``population``, as Pollux starts its next round). `budget.csv` has longer runs, and the generations
that they needed to reach a gap of `NEAR`; `curves.csv` has all their improvements. With ``--cores
C`` nodes have C cores, and jobs choose the number of cores of each replica.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from goodalloc.data.rounds.drawn_jobs import State
from goodalloc.data.rounds.equipped import equip
from goodalloc.data.rounds.generator import generate
from goodalloc.experiments.benchmarks.measurements import (
    Table,
    best_allocation,
    by_commas,
    ended_by_control_c,
    one_of,
    size_of,
)
from goodalloc.experiments.reporting.genetic_plot import plot_genetic
from goodalloc.experiments.reporting.plots import save
from goodalloc.models.round.objective import mode_utilities
from goodalloc.models.round.starved_jobs import starvation_of
from goodalloc.solvers.genetic.solver import evolve
from goodalloc.solvers.interface.base import find_solver
from goodalloc.solvers.interface.result import relative_gap
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.round.starved_jobs import Starvation
    from goodalloc.solvers.genetic.solver import Evolution

#: Jobs and nodes of the instances.
SIZES = "40x16,160x16,160x64,500x128"

#: States of the generator.
STATES = "cold,disturbed"

#: Gap that longer runs should reach.
NEAR = 0.01


@dataclass(frozen=True)
class Round:
    """Instance with its greedy allocation, its best known allocation and its bound."""

    size: str
    state: str
    instance: Instance
    greedy: Allocation | None
    bound: float
    proven: bool
    proof_seconds: float
    best: Starvation

    def gap(self, fitness: float) -> float:
        """Return the relative gap of a fitness to the bound."""
        return relative_gap(fitness, self.bound)


class Run(NamedTuple):
    """Row of `runs.csv`; seconds exclude compilation."""

    size: str
    state: str
    start: str
    seed: int
    seconds: float
    processor_seconds: float
    last_improvement: int
    fitness: float
    bound: float
    proven: bool
    gap: float
    starved: int
    more_starved: int
    served_over_best: float
    proof_seconds: float


class Budget(NamedTuple):
    """Row of `budget.csv`; generations and seconds up to a gap of `NEAR` are None if never."""

    size: str
    state: str
    start: str
    seed: int
    generations: int
    seconds: float
    gap: float
    near_generations: int | None
    near_seconds: float | None


class Point(NamedTuple):
    """Row of `curves.csv`: the gap from a generation on."""

    size: str
    state: str
    start: str
    seed: int
    generation: int
    seconds: float
    gap: float


def prepare(
    size: str, state: State, seed: int, *, proof_limit: float, gpus: int, cores: float | None
) -> Round:
    """Generate a round, prove its optimum, and compile the genetic algorithm for it."""
    jobs, nodes = (int(part) for part in size.split("x"))
    instance = generate(seed, jobs, nodes, gpus, state=state)
    if cores is not None:
        instance = equip(instance, seed, cores=cores)
    mode_utilities(instance)
    begin = time.perf_counter()
    optimum, allocation = best_allocation(instance, proof_limit)
    proof_seconds = time.perf_counter() - begin
    compiling = evolve(instance, generations=1).compile_seconds
    sys.stderr.write(
        f"{size} {state}: optimum {optimum.fitness:.6g}, gap {optimum.gap:.1e}, "
        f"proof {proof_seconds:.2f} s, compilation {compiling:.1f} s\n"
    )
    return Round(
        size=size,
        state=state,
        instance=instance,
        greedy=find_solver("greedy")(instance).allocation,
        bound=optimum.bound,
        proven=optimum.gap <= 1e-6,
        proof_seconds=proof_seconds,
        best=starvation_of(instance, allocation),
    )


def published_runs(round_: Round, seeds: Sequence[int]) -> Iterator[Run]:
    """Generate runs at the published budget, every seed from every start."""
    for seed in seeds:
        yield _measure(round_, "greedy", seed, start=round_.greedy)[0]
        run, cold = _measure(round_, "none", seed)
        yield run
        yield _measure(round_, "population", seed, warm_population=cold.non_dominated())[0]


def _measure(round_: Round, name: str, seed: int, **given: Any) -> tuple[Run, Evolution]:
    """Return a run at the published budget; a warm one has another seed than the first."""
    begin, busy = time.perf_counter(), time.process_time()
    later = 10_000 if name == "population" else 0
    found = evolve(round_.instance, seed=seed + later, **given)
    seconds, processor = time.perf_counter() - begin, time.process_time() - busy
    value = float(found.fitness[0])
    last, parts = found.history[-1].iteration, starvation_of(round_.instance, found.best)
    run = Run(
        size=round_.size,
        state=round_.state,
        start=name,
        seed=seed,
        seconds=seconds,
        processor_seconds=processor,
        last_improvement=last,
        fitness=value,
        bound=round_.bound,
        proven=round_.proven,
        gap=round_.gap(value),
        starved=parts.starved,
        more_starved=parts.starved - round_.best.starved,
        served_over_best=parts.served / round_.best.served,
        proof_seconds=round_.proof_seconds,
    )
    return run, found


def longer_runs(
    round_: Round, seeds: Sequence[int], stop: Stop
) -> Iterator[tuple[Budget, list[Point]]]:
    """Generate runs up to a limit, from the current placements and the greedy allocation."""
    for seed in seeds:
        for start, given in (("none", None), ("greedy", round_.greedy)):
            label = (round_.size, round_.state, start, seed)
            begin = time.perf_counter()
            found = evolve(round_.instance, seed=seed, start=given, generations=None, stop=stop)
            seconds = time.perf_counter() - begin
            points = [
                Point(*label, step.iteration, step.seconds, round_.gap(step.fitness))
                for step in found.history
            ]
            near = next((point for point in points if point.gap <= NEAR), None)
            reached = (near.generation, near.seconds) if near else (None, None)
            yield Budget(*label, found.generations, seconds, points[-1].gap, *reached), points


def summary(runs: Sequence[Run], budgets: Sequence[Budget]) -> str:
    """Return a table of medians and maxima, by size, state and start.

    Beside the gaps of the fitness are the excess of starved jobs over the optimum, and the ratio of
    the fitness of the served jobs to that of the optimum (`goodalloc.models.round.starved_jobs`).
    """
    lines = [
        f"{'size':>8} {'state':>9} {'start':>10} {'runs':>4} {'more starved':>12} "
        f"{'served over best':>16} {'median gap':>10} {'worst':>8} {'median s':>8} {'cpu s':>6}   "
        f"generations to {NEAR:.0%} (reached; median gap at the end)"
    ]
    for key in dict.fromkeys((run.size, run.state, run.start) for run in runs):
        group = [run for run in runs if run[:3] == key]
        gaps = [run.gap for run in group]
        line = (
            f"{key[0]:>8} {key[1]:>9} {key[2]:>10} {len(group):>4} "
            f"{statistics.median(run.more_starved for run in group):>12g} "
            f"{statistics.median(run.served_over_best for run in group):>16.3f} "
            f"{statistics.median(gaps):>10.3%} {max(gaps):>8.3%} "
            f"{statistics.median(run.seconds for run in group):>8.2f} "
            f"{statistics.median(run.processor_seconds for run in group):>6.2f}"
        )
        longer = [budget for budget in budgets if budget[:3] == key]
        if longer:
            near = [b.near_generations for b in longer if b.near_generations is not None]
            text = f"{statistics.median(near):g}" if near else "never"
            most = max(budget.generations for budget in longer)
            end = statistics.median(budget.gap for budget in longer)
            line += f"   {text} ({len(near)} of {len(longer)} within {most}; {end:.3%})"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="bench_genetic", description=__doc__)
    states, told = by_commas(one_of(get_args(State))), "states of the generator, by commas"
    sizes = by_commas(size_of(2))
    parser.add_argument("--sizes", type=sizes, default=SIZES, help="jobs x nodes, by commas")
    parser.add_argument("--states", type=states, default=STATES, help=told)
    parser.add_argument("--gpus-per-node", type=int, default=4)
    parser.add_argument("--cores", type=float, help="of every node; without it they do not count")
    parser.add_argument("--instance-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=20, help="runs at the published budget")
    parser.add_argument("--budget-seeds", type=int, default=3, help="longer runs")
    parser.add_argument("--generations", type=int, default=2000, help="most, of a longer run")
    parser.add_argument("--seconds", type=float, default=30.0, help="limit of a longer run")
    parser.add_argument("--proof-seconds", type=float, default=60.0, help="limit of a proof")
    parser.add_argument("--out", type=Path, default=Path("results/genetic"), help="folder")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; write three tables and a picture, and print a summary."""
    given = _parser().parse_args(argv)
    given.out.mkdir(parents=True, exist_ok=True)
    runs = Table[Run](given.out / "runs.csv", Run._fields)
    budgets = Table[Budget](given.out / "budget.csv", Budget._fields)
    curves = Table[Point](given.out / "curves.csv", Point._fields)
    stop = Stop(seconds=given.seconds, iterations=given.generations)
    for size in given.sizes:
        for state in given.states:
            round_ = prepare(
                size,
                state,
                given.instance_seed,
                proof_limit=given.proof_seconds,
                gpus=given.gpus_per_node,
                cores=given.cores,
            )
            for run in published_runs(round_, range(given.seeds)):
                runs.add(run)
            for budget, points in longer_runs(round_, range(given.budget_seeds), stop):
                budgets.add(budget)
                for point in points:
                    curves.add(point)
    sys.stdout.write(summary(runs.rows, budgets.rows))
    save(plot_genetic(runs.rows, curves.rows, budgets.rows), given.out / "genetic.png")
    return 0


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
