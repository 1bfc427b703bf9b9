"""Benchmark of rounds of up to a million jobs, in columns, against the size.

Run as ``python -m goodalloc.experiments.benchmarks.scale [--sizes 1000,…]``. Each row of the CSV is
one round: seconds of the utility table, the prices, the packing and the check, the sum of them,
processor seconds, the certified gap, and the peak memory of the process so far. There are as many
GPUs as jobs. Jobs of one application and progress share a model, or (`--own`) each has its own. Up
to `--exact` jobs the exact solver of instances decides the same round; its seconds, its gap, and
how far this value is below its value stand beside.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.rounds.column_rounds import generate_columns
from goodalloc.experiments.benchmarks.measurements import (
    ended_by_control_c,
    measurement_parser,
    peak_gib,
    write_measurements,
)
from goodalloc.experiments.cli.types import whole
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.columns.solver import solve_columns
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.data.rounds.generator import State
    from goodalloc.models.columns.round_columns import RoundColumns

LOGGER = logging.getLogger(__name__)

#: Powers of the mean, states of the generator, and GPUs of a node.
POWERS = (1.0, 0.0, -1.0, -10.0, -math.inf)
STATES: tuple[State, ...] = ("cold", "disturbed", "settled")
GPUS = (4, 8)

#: Time limit in seconds of the exact solver.
PATIENCE = 600.0


class Measurement(NamedTuple):
    """Row of the table."""

    jobs: int
    nodes: int
    gpus_per_node: int
    state: str
    power: float
    own: float
    kinds: int
    generate_seconds: float
    table_seconds: float
    price_seconds: float
    packing_seconds: float
    check_seconds: float
    seconds: float
    processor_seconds: float
    gap: float
    peak_gib: float
    exact_seconds: float | None
    exact_gap: float | None
    below_exact: float | None


def measure(columns: RoundColumns, drawn: tuple[str, float, float], *, exact: bool) -> Measurement:
    """Decide a round, and by the exact solver too if `exact`.

    Parameters
    ----------
    columns
        The round.
    drawn
        Its state, how far models are jobs' own, and the seconds that drawing it took.
    exact
        Whether the exact solver decides it, too.
    """
    wall, processor = time.perf_counter(), time.process_time()
    answer = solve_columns(columns)
    seconds, busy = time.perf_counter() - wall, time.process_time() - processor
    LOGGER.info("%d jobs, p = %g: %.3g s", columns.num_jobs, columns.rules.power, seconds)
    exact_seconds = exact_gap = below = None
    if exact:
        instance, begin = columns.instance(), time.perf_counter()
        found = solve(instance, "highs", stop=Stop(seconds=PATIENCE), break_ties=False)
        exact_seconds = time.perf_counter() - begin
        if found.fitness is not None:
            exact_gap, below = found.gap, 1.0 - answer.fitness / found.fitness
    state, own, generate_seconds = drawn
    return Measurement(
        jobs=columns.num_jobs,
        nodes=columns.cluster.num_nodes,
        gpus_per_node=int(columns.cluster.node_gpus[0]),
        state=state,
        power=columns.rules.power,
        own=own,
        kinds=columns.num_kinds,
        generate_seconds=generate_seconds,
        table_seconds=answer.seconds["table"],
        price_seconds=answer.seconds["prices"],
        packing_seconds=answer.seconds["packing"],
        check_seconds=answer.seconds["check"],
        seconds=seconds,
        processor_seconds=busy,
        gap=answer.gap,
        peak_gib=peak_gib(),
        exact_seconds=exact_seconds,
        exact_gap=exact_gap,
        below_exact=below,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line.

    Parameters
    ----------
    argv
        Arguments without the name of the programme; those of the process if None.
    """
    parser = measurement_parser("bench_scale", __doc__)
    sizes = [1_000, 10_000, 100_000, 1_000_000]
    parser.add_argument("--sizes", type=whole(1), nargs="+", default=sizes, help="numbers of jobs")
    parser.add_argument("--powers", type=float, nargs="+", default=list(POWERS))
    parser.add_argument("--states", nargs="+", choices=STATES, default=list(STATES))
    parser.add_argument("--gpus", type=whole(1), nargs="+", default=list(GPUS), help="of a node")
    parser.add_argument("--exact", type=whole(0), default=10_000, help="most jobs for HiGHS, too")
    parser.add_argument(
        "--own", type=float, nargs="+", default=[0.0, 0.1], help="how far models are jobs' own"
    )
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--picture", type=Path, help="picture of the growth")
    given = parser.parse_args(argv)
    rows = []
    solve_columns(generate_columns(given.seed, 1000, 250, 4))  # imports and first calls
    for jobs, gpus, state, own in product(given.sizes, given.gpus, given.states, given.own):
        begin, nodes = time.perf_counter(), -(-jobs // gpus)
        drawn = generate_columns(given.seed, jobs, nodes, gpus, state=state, own=own)
        seconds = time.perf_counter() - begin
        for power in given.powers:
            columns = replace(drawn, rules=Rules(power=power))
            exact = jobs <= given.exact and own == 0.0
            rows.append(measure(columns, (state, own, seconds), exact=exact))
    write_measurements(Measurement._fields, rows, given.out)
    if given.picture is not None:
        from goodalloc.experiments.reporting.growth_plot import plot_growth
        from goodalloc.experiments.reporting.plots import save

        save(plot_growth(rows), given.picture)
    return 0


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
