"""Benchmark of proofs with cores, memory and types of GPU, against the size.

Run as ``python -m goodalloc.experiments.benchmarks.nodes [--sets one_node,…] [--sizes 80x16,…]``.
Nodes have 8 GPUs and 48 cores, replicas 1 to 12 cores beside their GPU. The sets:

- ``one_node``: every job on one node; proved to 1e-9, the others to 1e-4;
- ``memory``: the same with memory, 512 GB per node, as a third resource;
- ``several_nodes``: jobs may spread over up to 16 nodes, one such job per node;
- ``kept``: the same while most jobs run and pay for a restart;
- ``three_kinds``: T4 nodes as above, A100 nodes of 64 cores, RTX nodes of 4 GPUs and 32 cores;
- ``awkward``: pieces that do not fill nodes (`goodalloc.data.rounds.awkward`).

With ``--naive`` the node-indexed program in Pyomo is solved as well, with its own time limit.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.rounds.awkward import awkward_round
from goodalloc.data.rounds.equipped import equip
from goodalloc.data.rounds.generator import generate
from goodalloc.data.rounds.typed import generate_typed
from goodalloc.experiments.benchmarks.measurements import (
    Table,
    by_commas,
    ended_by_control_c,
    one_of,
    peak_gib,
    size_of,
)
from goodalloc.experiments.reporting.plots import plot_scaling, save
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.objective import mode_utilities
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goodalloc.models.round.instance import Instance

#: Jobs x nodes.
SIZES = "80x16,160x32,500x100,2000x400"
#: Rules under which every job is on one node.
ONE_NODE = Rules(max_nodes_per_job=1)


def _one_node(seed: int, jobs: int, nodes: int) -> Instance:
    """Draw a round of the set `one_node`."""
    return equip(generate(seed, jobs, nodes, 8, rules=ONE_NODE), seed)


def _memory(seed: int, jobs: int, nodes: int) -> Instance:
    """Draw a round of the set `memory`."""
    return equip(generate(seed, jobs, nodes, 8, rules=ONE_NODE), seed, memory=512)


def _several_nodes(seed: int, jobs: int, nodes: int) -> Instance:
    """Draw a round of the set `several_nodes`."""
    return equip(generate(seed, jobs, nodes, 8), seed)


def _kept(seed: int, jobs: int, nodes: int) -> Instance:
    """Draw a round of the set `kept`."""
    return equip(generate(seed, jobs, nodes, 8, state="disturbed"), seed)


def _three_kinds(seed: int, jobs: int, nodes: int) -> Instance:
    """Draw a round of the set `three_kinds`."""
    third = max(nodes // 3, 1)
    groups = (
        NodeGroup("t4", nodes - 2 * third, 8, "t4"),
        NodeGroup("a100", third, 8, "a100"),
        NodeGroup("rtx", third, 4, "rtx2080ti"),
    )
    drawn = generate_typed(seed, jobs, cluster=Cluster(groups), rules=ONE_NODE)
    return equip(drawn, seed, cores=(48, 64, 32))


#: Function that draws a round of each set, and the gap to which it is proved.
SETS: dict[str, tuple[Callable[[int, int, int], Instance], float]] = {
    "one_node": (_one_node, 1e-9),
    "memory": (_memory, 1e-4),
    "several_nodes": (_several_nodes, 1e-4),
    "kept": (_kept, 1e-4),
    "three_kinds": (_three_kinds, 1e-4),
    "awkward": (awkward_round, 1e-4),
}


class Row(NamedTuple):
    """Row of one solve; times in seconds."""

    set: str
    size: str
    jobs: int
    nodes: int
    seed: int
    solver: str
    instance: str
    seconds: float
    processor_seconds: float
    table_seconds: float
    fitness: float
    bound: float
    gap: float
    bound_source: str
    evidence: str
    status: str
    peak_gib: float


def measure(name: str, size: str, seed: int, solver: str, seconds: float) -> Row:
    """Solve a round and return its row; the table of utilities is timed separately."""
    jobs, nodes = (int(part) for part in size.split("x"))
    draw, gap = SETS[name]
    instance = draw(seed, jobs, nodes)
    begin = time.perf_counter()
    mode_utilities(instance)
    table_seconds = time.perf_counter() - begin
    processor = time.process_time()
    result = solve(instance, solver, stop=Stop(seconds=seconds, gap=gap))
    return Row(
        set=name,
        size=size,
        jobs=jobs,
        nodes=nodes,
        seed=seed,
        solver=solver,
        instance=instance.name,
        seconds=result.solve_seconds,
        processor_seconds=time.process_time() - processor,
        table_seconds=table_seconds,
        fitness=result.fitness,
        bound=result.bound,
        gap=result.gap,
        bound_source=result.bound_source,
        evidence=str(result.evidence),
        status=str(result.status),
        peak_gib=peak_gib(),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write the CSV and a picture, and print medians and maxima by set and size."""
    parser = argparse.ArgumentParser(description=__doc__, prog="bench_nodes")
    sets, sizes = by_commas(one_of([*SETS])), by_commas(size_of(2))
    parser.add_argument("--sets", type=sets, default=",".join(SETS), help="by commas")
    parser.add_argument("--sizes", type=sizes, default=SIZES, help="jobs x nodes, by commas")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of one solve")
    parser.add_argument(
        "--naive", type=float, metavar="S", help="also the node-indexed program, for S seconds"
    )
    parser.add_argument("--out", type=Path, default=Path("results/bench_nodes.csv"))
    arguments = parser.parse_args(argv)
    solve(generate(seed=0, jobs=8, nodes=2), "highs", by_price=False)  # imports, and compiles
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    table: Table[Row] = Table(arguments.out, Row._fields)
    for name, size, seed, solver in _tasks(arguments):
        seconds = arguments.seconds if solver == "highs" else arguments.naive
        table.add(measure(name, size, seed, solver, seconds))
    _summarise(table.rows)
    picture = arguments.out.with_suffix(".png")
    save(plot_scaling(_curves(table.rows)), picture)
    sys.stdout.write(f"written: {arguments.out}, {picture}\n")
    return 0


def _tasks(arguments: argparse.Namespace) -> list[tuple[str, str, int, str]]:
    """Return set, size, seed and solver of every row."""
    solvers = ("highs",) if arguments.naive is None else ("highs", "pyomo")
    seeds = range(arguments.seeds)
    rows = product(arguments.sets, arguments.sizes, solvers, seeds)
    return [(name, size, seed, solver) for name, size, solver, seed in rows]


def _curves(rows: list[Row]) -> dict[str, dict[int, list[float]]]:
    """Return seconds by set, solver and number of jobs, over all seeds."""
    curves: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        label = row.set.replace("_", " ")
        curve = curves.setdefault(label if row.solver == "highs" else f"{label}, naive", {})
        curve.setdefault(row.jobs, []).append(row.seconds)
    return curves


def _summarise(rows: list[Row]) -> None:
    """Print medians and maxima by set, size and solver."""
    columns = (
        ("set", 14),
        ("size", 9),
        ("solver", 7),
        ("proved", 7),
        ("median s", 9),
        ("worst s", 8),
        ("table s", 8),
        ("worst gap", 9),
    )
    sys.stdout.write(" ".join(f"{name:>{width}}" for name, width in columns) + "\n")
    for key in dict.fromkeys((row.set, row.size, row.solver) for row in rows):
        group = [row for row in rows if (row.set, row.size, row.solver) == key]
        seconds = [row.seconds for row in group]
        proved = sum(row.status == "optimal" for row in group)
        sys.stdout.write(
            f"{key[0]:>14} {key[1]:>9} {key[2]:>7} {f'{proved}/{len(group)}':>7} "
            f"{statistics.median(seconds):>9.3f} {max(seconds):>8.3f} "
            f"{statistics.median(row.table_seconds for row in group):>8.3f} "
            f"{max(row.gap for row in group):>9.1e}\n"
        )


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
