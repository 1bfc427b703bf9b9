"""Benchmark of proofs of a round, from instance to checked allocation, against the size.

Run as ``python -m goodalloc.experiments.benchmarks.round [--sizes 160x16x4,…] [--out FILE]``. Every
row is one instance: all powers, three states, several seeds. Solvers are imported and the utility
table compiled before the first row (its time is reported separately); the time of a row is that of
the table, the solve, the tie rule and the check. Beside it stands the time of the programs alone,
without the road by one price that comes first (`solvers/exact/by_price.py`), on the same instance.
Processor time is given beside wall time, as other work of the machine affects it less.

With ``--together 1,10,100`` a row is so many rounds of one size, power and state instead, decided
at once (`solve_many_columns`), one by one (`solve_columns`), and exactly (`highs`). With
``--following 500`` it is so many rounds one after the other, of which jobs end and begin
(`following_round`), each decided from nothing (`solve_columns`), and some exactly.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
import time
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from goodalloc.data.rounds.column_rounds import generate_columns
from goodalloc.data.rounds.drawn_jobs import State
from goodalloc.data.rounds.generator import generate
from goodalloc.data.rounds.round_sequence import following_round
from goodalloc.experiments.benchmarks.measurements import (
    by_commas,
    ended_by_control_c,
    one_of,
    peak_gib,
    size_of,
)
from goodalloc.experiments.cli.types import any_number, whole
from goodalloc.experiments.reporting.plots import plot_scaling, save
from goodalloc.models.columns.round_columns import NEVER_RAN, RoundColumns
from goodalloc.models.round.objective import speedup_table, utility_table
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.columns.solver import solve_columns, solve_many_columns
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goodalloc.models.round.instance import Instance

#: Jobs x nodes x GPUs per node.
SIZES = "160x16x4,160x64x4,160x16x8,500x128x4,500x128x8,2000x512x4,10000x2500x4"
#: Powers of the mean.
POWERS = (1.0, 0.0, -1.0, -10.0, -math.inf)
#: States of the generator.
STATES = ("cold", "disturbed", "settled")
#: Probabilities of a job to end in a round, deviations of models of jobs of their own, and one of
#: how many rounds that follow each other is decided exactly, too.
ENDS, OWN, EXACTLY = (0.01, 0.1), (0.0, 0.1), 25


def measure(instance: Instance, seconds: float, gap: float) -> dict[str, Any]:
    """Solve an instance and return its row: times, bound and gap."""
    wall, processor = time.perf_counter(), time.process_time()
    utility_table(instance)
    table_seconds = time.perf_counter() - wall
    stop = Stop(seconds=seconds, gap=gap)
    result = solve(instance, "highs", stop=stop)
    took, processor = time.perf_counter() - wall, time.process_time() - processor
    again = instance.replace()  # which has computed nothing yet
    begin = time.perf_counter()
    programs = solve(again, "highs", stop=stop, by_price=False)
    return {
        "instance": instance.name,
        "jobs": instance.num_jobs,
        "nodes": instance.cluster.num_nodes,
        "gpus": instance.cluster.num_gpus,
        "power": instance.rules.power,
        "seconds": took,
        "processor_seconds": processor,
        "table_seconds": table_seconds,
        "by_price": int(result.bound_source != "pattern program"),
        "programs_seconds": time.perf_counter() - begin,
        "programs_gap": programs.gap,
        "same": int(result.allocation == programs.allocation),
        "fitness": result.fitness,
        "bound": result.bound,
        "gap": result.gap,
        "bound_source": result.bound_source,
        "evidence": str(result.evidence),
        "status": str(result.status),
        "peak_gib": peak_gib(),
    }


def measure_together(instances: Sequence[Instance], seconds: float) -> dict[str, Any]:
    """Decide rounds at once, one by one, and exactly; return the row.

    Its milliseconds are of processor time and of one round on average, without making its columns.
    """
    columns = [RoundColumns.of(instance) for instance in instances]

    def timed(decide: Callable[[], list[Any]]) -> tuple[float, list[Any]]:
        begin = time.process_time()
        found = decide()
        return 1000.0 * (time.process_time() - begin) / len(found), found

    together, answers = timed(lambda: solve_many_columns(columns))
    alone, single = timed(lambda: [solve_columns(one) for one in columns])
    exactly, _ = timed(lambda: [solve(one, "highs", stop=Stop(seconds)) for one in instances])
    return {
        "rounds": len(instances),
        "jobs": instances[0].num_jobs,
        "power": instances[0].rules.power,
        "jobs_that_ran": sum(int((one.kind != NEVER_RAN).sum()) for one in columns),
        "models": len({model for one in columns for model in one.kind_models()}),
        "together_ms": together,
        "alone_ms": alone,
        "exactly_ms": exactly,
        "same": all(a.allocation == b.allocation for a, b in zip(answers, single, strict=True)),
        "mean_gap": statistics.fmean(answer.gap for answer in answers),
        "worst_gap": max(answer.gap for answer in answers),
    }


def measure_following(
    size: str, power: float, rounds: int, ends: float, own: float
) -> dict[str, Any]:
    """Decide rounds one after the other from nothing, some exactly, too; return the row.

    Its milliseconds are of one round, without making its columns.
    """
    jobs, nodes, gpus = (int(part) for part in size.split("x"))
    columns = generate_columns(
        0, jobs, nodes, gpus, state="running", rules=Rules(power=power), own=own
    )
    solve_columns(columns)  # compiles
    wall, processor, exactly, gaps, differences = [], [], [], [0.0], [0.0]
    for index in range(rounds):
        begin, clock = time.process_time(), time.perf_counter()
        answer = solve_columns(columns)
        processor.append(1000.0 * (time.process_time() - begin))
        wall.append(1000.0 * (time.perf_counter() - clock))
        gaps.append(answer.gap)
        if index % EXACTLY == 0:
            instance, begin = columns.instance(), time.process_time()
            best = solve(instance, "highs")
            exactly.append(1000.0 * (time.process_time() - begin))
            differences.append(1.0 - answer.fitness / best.fitness)
        columns = following_round(columns, answer.allocation, index, ends=ends, own=own)
    return {
        "size": size,
        "power": power,
        "ends": ends,
        "own": own,
        "rounds": rounds,
        "jobs": jobs,
        "models": columns.num_kinds,
        "median_ms": statistics.median(wall),
        "worst_ms": max(wall),
        "processor_median_ms": statistics.median(processor),
        "processor_worst_ms": max(processor),
        "worst_gap": max(gaps),
        "exact_rounds": len(exactly),
        "exact_median_ms": statistics.median(exactly),
        "exact_worst_ms": max(exactly),
        "worst_difference": max(differences),
    }


def _warm_up() -> float:
    """Import the solvers, and compile the utility table once; return the seconds."""
    begin = time.perf_counter()
    instance = generate(seed=0, jobs=20, nodes=4)
    speedup_table(instance, "jax")
    solve(instance, "highs", by_price=False)
    solve_many_columns([RoundColumns.of(instance)])
    return time.perf_counter() - begin


def _instances(arguments: argparse.Namespace) -> list[tuple[str, str, float, int]]:
    """Return size, state, power and seed of every row."""
    seeds = range(arguments.seeds)
    return list(product(arguments.sizes, arguments.states, arguments.powers, seeds))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write the CSV and a picture, and print medians and maxima by size and power."""
    parser = argparse.ArgumentParser(description=__doc__, prog="bench_round")
    sizes, powers = "jobs x nodes x GPUs per node, by commas", ",".join(f"{p:g}" for p in POWERS)
    parser.add_argument("--sizes", type=by_commas(size_of(3)), default=SIZES, help=sizes)
    parser.add_argument(
        "--states", type=by_commas(one_of(get_args(State))), default=",".join(STATES)
    )
    parser.add_argument("--powers", type=by_commas(any_number), default=powers)
    parser.add_argument("--seeds", type=whole(1), default=3)
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of one solve")
    parser.add_argument("--gap", type=float, default=1e-9)
    together = "numbers of rounds that are decided at once, by commas"
    parser.add_argument("--together", type=by_commas(whole(1)), help=together)
    parser.add_argument("--following", type=whole(1), help="rounds that follow each other")
    parser.add_argument("--out", type=Path, default=Path("results/bench_round.csv"))
    arguments = parser.parse_args(argv)
    sys.stdout.write(f"compilation: {_warm_up():.2f} s\n")
    rows: list[dict[str, Any]] = []
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    if arguments.together is not None:
        return _together(arguments)
    if arguments.following is not None:
        return _following(arguments)
    with arguments.out.open("w", newline="") as file:
        writer: csv.DictWriter[str] | None = None
        for size, state, power, seed in _instances(arguments):
            instance = _drawn(size, state, power, seed)
            row = {"size": size, "state": state, "seed": seed}
            row |= measure(instance, arguments.seconds, arguments.gap)
            if writer is None:
                writer = csv.DictWriter(file, list(row))
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            rows.append(row)
    _summarise(rows)
    picture = arguments.out.with_suffix(".png")
    save(plot_scaling(_curves(rows)), picture)
    sys.stdout.write(f"written: {arguments.out}, {picture}\n")
    return 0


def _drawn(size: str, state: str, power: float, seed: int) -> Instance:
    jobs, nodes, gpus = (int(part) for part in size.split("x"))
    return generate(
        seed=seed,
        jobs=jobs,
        nodes=nodes,
        gpus_per_node=gpus,
        state=cast("State", state),
        rules=Rules(power=power),
    )


def _together(arguments: argparse.Namespace) -> int:
    """Measure rounds decided at once, and write the CSV."""
    rows = []
    options = arguments.sizes, arguments.states, arguments.powers, arguments.together
    for size, state, power, count in product(*options):
        drawn = [_drawn(size, state, power, seed) for seed in range(count)]
        row = {"size": size, "state": state}
        rows.append(row | measure_together(drawn, arguments.seconds))
        _tell(rows[-1])
    return _written(rows, arguments.out)


def _following(arguments: argparse.Namespace) -> int:
    """Measure rounds that follow each other, and write the CSV."""
    rows = []
    for size, power, ends, own in product(arguments.sizes, arguments.powers, ENDS, OWN):
        rows.append(measure_following(size, power, arguments.following, ends, own))
        _tell(rows[-1])
    return _written(rows, arguments.out)


def _tell(row: dict[str, Any]) -> None:
    """Print a row."""
    sys.stdout.write(" ".join(f"{name}={value}" for name, value in row.items()) + "\n")


def _written(rows: list[dict[str, Any]], path: Path) -> int:
    """Write the CSV."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    sys.stdout.write(f"written: {path}\n")
    return 0


def _curves(rows: list[dict[str, Any]]) -> dict[str, dict[int, list[float]]]:
    """Return seconds by power and number of jobs, over all shapes, states and seeds."""
    curves: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        curve = curves.setdefault(f"p = {row['power']:g}", {})
        curve.setdefault(row["jobs"], []).append(row["seconds"])
    return curves


def _summarise(rows: list[dict[str, Any]]) -> None:
    """Print medians and maxima by size and power."""
    columns = (("size", 14), ("power", 6), ("median s", 9), ("worst s", 8), ("processor", 9))
    header = " ".join(f"{name:>{width}}" for name, width in (*columns, ("worst gap", 9)))
    sys.stdout.write(header + "\n")
    for size in dict.fromkeys(row["size"] for row in rows):
        for power in dict.fromkeys(row["power"] for row in rows):
            group = [r for r in rows if (r["size"], r["power"]) == (size, power)]
            seconds = [r["seconds"] for r in group]
            processor = statistics.median(r["processor_seconds"] for r in group)
            sys.stdout.write(
                f"{size:>14} {power:>6g} {statistics.median(seconds):>9.3f} {max(seconds):>8.3f} "
                f"{processor:>9.3f} {max(r['gap'] for r in group):>9.1e}\n"
            )


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
