"""Benchmark of the program of Sia, on rounds with three types of GPU, and of large knapsacks.

Run as ``python -m goodalloc.experiments.benchmarks.sia [--sizes 160x1,…] [--knapsacks 100,…]``. A
size is jobs x multiples of the cluster of Sia with 64 GPUs. Every row is one program: a round in
one of two states, with coefficients rounded as published or not and the shapes of Sia, or a
knapsack of jobs with 100 choices each. The table of utilities (compiled once before the first row),
the configurations, the decision of the program, and the placement are timed separately, in wall and
processor time.

References
----------
Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling",
    SOSP 2023. doi:10.1145/3600006.3613175
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from goodalloc.data.rounds.typed import generate_typed, sia_cluster
from goodalloc.experiments.benchmarks.measurements import (
    Table,
    by_commas,
    ended_by_control_c,
    one_of,
    peak_gib,
    size_of,
)
from goodalloc.experiments.cli.types import whole
from goodalloc.formulations.sia_and_synergy.sia import enumerate_configurations
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import mode_utilities, speedup_table
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.exchange_core import decide_configurations
from goodalloc.solvers.sia_and_synergy.decoupled_placement import place_by_type
from goodalloc.solvers.sia_and_synergy.sia import decide_published, decide_unrounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.data.rounds.typed import TypedState
    from goodalloc.models.support.array_types import Floats, Indices

#: Jobs x multiples of the cluster of Sia.
SIZES = "40x1,160x1,160x8,500x16,1000x32,2000x64"
#: States of the generator.
STATES: tuple[TypedState, ...] = ("cold", "running")
#: Choices per job of a knapsack, number of types, and relative gap to which it is solved.
CHOICES, TYPES, KNAPSACK_GAP = 100, 3, 1e-6


class Row(NamedTuple):
    """Row of one program; times in seconds, the gap absolute in units of the objective."""

    kind: str
    jobs: int
    gpus: int
    state: str
    seed: int
    rounded: bool
    columns: int
    table_seconds: float
    build_seconds: float
    seconds: float
    processor_seconds: float
    place_seconds: float
    objective: float
    gap: float
    proven: bool
    unplaced: int
    peak_gib: float


def measure_round(
    jobs: int, scale: int, state: TypedState, seed: int, seconds: float, *, rounded: bool
) -> Row:
    """Decide and place one round, and return its row."""
    instance = generate_typed(seed, jobs, cluster=sia_cluster(scale), state=state)
    clock = [time.perf_counter()]
    mode_utilities(instance)
    clock.append(time.perf_counter())
    found = enumerate_configurations(instance)
    clock.append(time.perf_counter())
    watch, processor = Watch(Stop(seconds=seconds)), time.process_time()
    decide = decide_published if rounded else decide_unrounded
    decision, wanted, _ = decide(instance, found, watch)
    processor = time.process_time() - processor
    clock.append(time.perf_counter())
    unplaced, placed = -1, math.nan
    if decision.values is not None:
        chosen = found.where(decision.values > 0.5)
        allocation = place_by_type(instance, chosen)
        placed = time.perf_counter() - clock[-1]
        if violations(instance, allocation):
            raise RuntimeError(f"{instance.name}: the placement breaks a rule.")
        unplaced = int(np.count_nonzero((chosen.replicas > 0) & (allocation.job_replicas == 0)))
    table, build, solve = np.diff(clock).tolist()
    gap = decision.objective - decision.bound
    return Row(
        kind="round",
        jobs=jobs,
        gpus=instance.cluster.num_gpus,
        state=state,
        seed=seed,
        rounded=rounded,
        columns=len(found),
        table_seconds=table,
        build_seconds=build,
        seconds=solve,
        processor_seconds=processor,
        place_seconds=placed,
        objective=decision.objective,
        gap=gap,
        proven=gap <= wanted * (1 + 1e-6),
        unplaced=unplaced,
        peak_gib=peak_gib(),
    )


def draw_knapsack(
    seed: int, jobs: int, configurations: int = CHOICES
) -> tuple[Indices, Floats, Indices, Indices]:
    """Draw a knapsack in which each of three types has as many GPUs as there are jobs.

    Every job has `configurations` choices of 1 to 32 GPUs of one type, and may idle. The objective
    is the sum of weights times square roots of speedups, concave in the GPUs except for noise.

    Returns
    -------
    tuple
        Job, cost, demand and capacity, the arguments of `decide_configurations`.
    """
    generator = np.random.default_rng(seed)
    shape = (jobs, configurations)
    kind = np.tile(np.arange(configurations) % TYPES, (jobs, 1))
    gpus = generator.integers(1, 33, shape)
    speed = np.take_along_axis(generator.uniform(0.5, 2.0, (jobs, TYPES)), kind, axis=1)
    speedup = speed * gpus ** generator.uniform(0.4, 0.95, (jobs, 1))
    speedup *= generator.uniform(0.9, 1.1, shape)
    cost = np.zeros((jobs, configurations + 1))
    cost[:, 1:] = -generator.uniform(0.5, 2.0, (jobs, 1)) * np.sqrt(speedup)
    demand = np.zeros((jobs, configurations + 1, TYPES), dtype=np.int64)
    np.put_along_axis(demand[:, 1:], kind[:, :, None], gpus[:, :, None], axis=2)
    job = np.repeat(np.arange(jobs), configurations + 1)
    return job, cost.ravel(), demand.reshape(-1, TYPES), np.full(TYPES, jobs)


def measure_knapsack(jobs: int, seed: int, seconds: float) -> Row:
    """Decide one knapsack to a relative gap of `KNAPSACK_GAP`, and return its row."""
    job, cost, demand, capacity = draw_knapsack(seed, jobs)
    # the objective is about the number of jobs; the row has the gap reached
    gap = KNAPSACK_GAP * jobs
    begin, processor = time.perf_counter(), time.process_time()
    decision = decide_configurations(
        job, cost, demand, capacity, Watch(Stop(seconds=seconds)), gap=gap
    )
    wall, processor = time.perf_counter() - begin, time.process_time() - processor
    reached = decision.objective - decision.bound
    proven = reached <= KNAPSACK_GAP * abs(decision.bound)
    return Row(
        kind="knapsack",
        jobs=jobs,
        gpus=TYPES * jobs,
        state="cold",
        seed=seed,
        rounded=False,
        columns=job.size,
        table_seconds=0.0,
        build_seconds=0.0,
        seconds=wall,
        processor_seconds=processor,
        place_seconds=math.nan,
        objective=decision.objective,
        gap=reached,
        proven=proven,
        unplaced=0,
        peak_gib=peak_gib(),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write the CSV, and print medians and maxima by size."""
    parser = argparse.ArgumentParser(description=__doc__, prog="bench_sia")
    sizes, jobs_each = "jobs x multiples of Sia's cluster, by commas", "jobs, by commas"
    parser.add_argument("--sizes", type=by_commas(size_of(2)), default=SIZES, help=sizes)
    parser.add_argument("--states", type=by_commas(one_of(STATES)), default=",".join(STATES))
    knapsacks = [100, 1000, 10_000]
    parser.add_argument("--knapsacks", type=by_commas(whole(1)), default=knapsacks, help=jobs_each)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of one program")
    parser.add_argument("--out", type=Path, default=Path("results/bench_sia.csv"))
    arguments = parser.parse_args(argv)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    table: Table[Row] = Table(arguments.out, Row._fields)
    speedup_table(generate_typed(0, 20), "jax")
    for size in arguments.sizes:
        jobs, scale = (int(part) for part in size.split("x"))
        for state in arguments.states:
            for seed in range(arguments.seeds):
                for rounded in (True, False):
                    table.add(
                        measure_round(
                            jobs,
                            scale,
                            cast("TypedState", state),
                            seed,
                            arguments.seconds,
                            rounded=rounded,
                        )
                    )
    for jobs in arguments.knapsacks:
        for seed in range(arguments.seeds):
            table.add(measure_knapsack(jobs, seed, arguments.seconds))
    _summarise(table.rows)
    sys.stdout.write(f"written: {arguments.out}\n")
    return 0


def _summarise(rows: list[Row]) -> None:
    """Print medians and maxima by size."""
    sys.stdout.write(
        f"{'program':>9} {'jobs':>6} {'GPUs':>6} {'columns':>8} {'rounded':>7} {'median s':>9} "
        f"{'worst s':>8} {'processor':>9} {'worst':>7} {'proven':>7} {'unplaced':>8} {'GiB':>5}\n"
    )
    for key in dict.fromkeys((row.kind, row.jobs, row.gpus, row.rounded) for row in rows):
        group = [row for row in rows if (row.kind, row.jobs, row.gpus, row.rounded) == key]
        seconds = [row.seconds for row in group]
        processor = [row.processor_seconds for row in group]
        proven = f"{sum(row.proven for row in group)}/{len(group)}"
        sys.stdout.write(
            f"{key[0]:>9} {key[1]:>6} {key[2]:>6} {max(row.columns for row in group):>8} "
            f"{key[3]!s:>7} {statistics.median(seconds):>9.3f} {max(seconds):>8.3f} "
            f"{statistics.median(processor):>9.3f} {max(processor):>7.3f} {proven:>7} "
            f"{sum(row.unplaced for row in group):>8} {max(row.peak_gib for row in group):>5.2f}\n"
        )


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
