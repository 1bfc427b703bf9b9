"""Benchmark of rounds of up to a million jobs, in columns, and of peers on the same rounds.

Run as ``python -m goodalloc.experiments.benchmarks.scale [--sizes 1000,…]``. Each row of the CSV is
one round decided in one way: seconds and processor seconds (of this process), the value, the
certified gap, and the peak memory of the process so far. Ways are ``price`` (one price, packing,
proof; with the seconds of its parts), and on jobs that share models up to `--split` jobs ``pop-4``
and ``pop-16`` (POP: as many parts decided for themselves, one after the other), ``price-greedy``
(the best responses to the price, as CvxCluster), ``dede`` (DeDe's alternating subproblems; both at
finite p of at least -1), with `--dede INTERPRETER` ``dede-package`` (the same by DeDe's own
package, in a Python that has dede==0.1.6 and scipy==1.11.4; its start is part of its time) and
``highs``, which decides instances; up to `--exact` jobs ``programs`` (``highs`` without the road by
one price) and ``greedy``, too. The bound of ``price`` certifies the gaps of the others. There are
as many GPUs as jobs. Jobs of one application and progress share a model, or (`--own`) each has its
own. Rounds of ten modes on three types of GPU with cores (`--mode-sizes`) come last, decided by
prices of pools (``pools``), with as many GPUs as jobs and with twice as many.
"""

from __future__ import annotations

import logging
import math
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.rounds.column_rounds import generate_columns
from goodalloc.data.rounds.mode_column_rounds import generate_mode_columns, three_types
from goodalloc.experiments.benchmarks.measurements import (
    ended_by_control_c,
    measurement_parser,
    peak_gib,
    write_measurements,
)
from goodalloc.experiments.cli.types import whole
from goodalloc.models.columns.utilities_by_kind import column_utilities
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.columns.decoupled import decouple
from goodalloc.solvers.columns.priced_greedy import price_then_greedy
from goodalloc.solvers.columns.solver import solve_columns
from goodalloc.solvers.columns.split import joined, split_round
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.mode_columns.solver import solve_mode_columns

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from goodalloc.data.rounds.drawn_jobs import State
    from goodalloc.models.columns.mode_columns import ModeColumns
    from goodalloc.models.columns.round_columns import RoundColumns
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.columns.round_utilities import RoundUtilities
    from goodalloc.solvers.columns.solver import ColumnAnswer
    from goodalloc.solvers.mode_columns.solver import ModeColumnAnswer

LOGGER = logging.getLogger(__name__)

#: Powers of the mean, states of the generator, and GPUs of a node.
POWERS = (1.0, 0.0, -1.0, -10.0, -math.inf)
STATES: tuple[State, ...] = ("cold", "disturbed", "settled")
GPUS = (4, 8)

#: Powers and jobs per GPU of rounds of modes, and the GPUs of their cluster of scale 1.
MODE_POWERS = (0.0, -1.0)
LOADS = (0.5, 1.0)
MODE_GPUS = 64

#: Time limit in seconds of the solvers of instances.
PATIENCE = 600.0

#: Least power at which the costs of heuristics by shares are of one order of magnitude.
LEAST_SHARED_POWER = -1.0

#: Program in which DeDe's package solves equations (1) and (2) of `decoupled.py`: a step is a share
#: of a job's next GPU. The solution is read from its actors, as it writes none into the variables.
DEDE = """
import sys
import dede
import numpy
import ray

sys.setrecursionlimit(100_000)  # for sums over thousands of jobs
given = numpy.load(sys.argv[1])
slope, gpus = given["slope"], given["gpus"]
jobs, blocks = len(slope), gpus.size
steps = numpy.maximum((slope < 0.0).sum(axis=1), 1)
share = dede.Variable((blocks, jobs), nonneg=True)
step = [dede.Variable(int(count), nonneg=True) for count in steps]
resources = [share[block, :].sum() <= gpus[block] for block in range(blocks)]
demands = []
for job in range(jobs):
    demands += [share[:, job].sum() - step[job].sum() == 0, step[job] <= 1]
cost = sum(slope[job, : steps[job]] @ step[job] for job in range(jobs))
problem = dede.Problem(dede.Minimize(cost), resources, demands)
problem.solve(solver=dede.ECOS)
found = numpy.zeros(blocks * jobs)
actors = problem._subprob_cache.probs
places = sum(ray.get([actor.get_solution_idx_r.remote() for actor in actors]), [])
for (variable, place), value in zip(places, problem.sol_r):
    if variable == share.id:
        found[place] = value
numpy.save(sys.argv[2], found.reshape(jobs, blocks).sum(axis=1))
"""


class Measurement(NamedTuple):
    """Row of the table; `gpus_per_node` is the most that a node has, `load` jobs per GPU, and
    `growth` the power of ten by which processor seconds exceed those of a tenth of the jobs.
    """

    jobs: int
    nodes: int
    gpus_per_node: int
    state: str
    power: float
    own: float
    kinds: int
    way: str
    seconds: float
    processor_seconds: float
    fitness: float
    gap: float
    peak_gib: float
    table_seconds: float | None = None
    price_seconds: float | None = None
    packing_seconds: float | None = None
    check_seconds: float | None = None
    choice_seconds: float | None = None
    modes: int = 1
    load: float = 1.0
    growth: float | None = None


class Way(NamedTuple):
    """Way to decide a round: its name, and a function that returns the value it reaches."""

    name: str
    decide: Callable[[RoundColumns], float]


def by_parts(parts: int) -> Way:
    """Return POP with a number of parts."""

    def decide(columns: RoundColumns) -> float:
        found = list(split_round(columns, parts, seed=0))
        answers = [solve_columns(part.columns).allocation for part in found]
        return column_utilities(columns).fitness(joined(columns, found, answers))

    return Way(f"pop-{parts}", decide)


def by_shares(name: str, allocate: Callable[[RoundUtilities], Allocation]) -> Way:
    """Return a heuristic that reads the utilities of a round in columns."""

    def decide(columns: RoundColumns) -> float:
        utilities = column_utilities(columns)
        return utilities.fitness(allocate(utilities))

    return Way(name, decide)


def shares_of_package(interpreter: str, slope: Floats, gpus: Floats) -> Floats:
    """Return the GPUs of every job that DeDe's package finds, by a Python that has it.

    Raises
    ------
    ValueError
        If the Python cannot be run, or fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "round.npz", Path(folder) / "shares.npy"
        np.savez(given, slope=slope, gpus=gpus)
        # not resolved, as Python finds a virtual environment by its link
        python = str(Path(shutil.which(interpreter) or interpreter).absolute())
        command = [python, "-W", "ignore", "-c", DEDE, str(given), str(found)]
        complaint = ""
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            complaint = done.stderr.strip().split("\n")[-1]
            return np.asarray(np.load(found, allow_pickle=False), dtype=np.float64)
        except OSError as error:
            raise ValueError(
                f"--dede: '{interpreter}' found no shares ({complaint or error.strerror}); "
                "expected a Python with dede==0.1.6 and scipy==1.11.4."
            ) from error


def by_instance(name: str, solver: str, **options: Any) -> Way:
    """Return a solver of instances; to make the instance is part of its time."""

    def decide(columns: RoundColumns) -> float:
        found = solve(columns.instance(), solver, stop=Stop(seconds=PATIENCE), **options)
        return math.nan if found.fitness is None else found.fitness

    return Way(name, decide)


def peers_of(jobs: int, power: float, given: argparse.Namespace) -> list[Way]:
    """Return the peers that decide rounds of this size and power."""
    if jobs > given.split:
        return []
    peers = [by_parts(parts) for parts in given.parts]
    if power >= LEAST_SHARED_POWER:
        peers += [by_shares("price-greedy", price_then_greedy), by_shares("dede", decouple)]
        if given.dede is not None:
            package = partial(shares_of_package, given.dede)
            peers.append(by_shares("dede-package", partial(decouple, alternate=package)))
    peers.append(by_instance("highs", "highs"))
    if jobs <= given.exact:
        peers += [
            by_instance("programs", "highs", by_price=False),
            by_instance("greedy", "greedy"),
        ]
    return peers


def row_of(
    columns: RoundColumns,
    answer: ColumnAnswer | ModeColumnAnswer,
    way: str,
    wall: float,
    processor: float,
) -> Measurement:
    """Return the row of an answer of our own, begun at these readings of the clocks."""
    return Measurement(
        jobs=columns.num_jobs,
        nodes=columns.cluster.num_nodes,
        gpus_per_node=int(columns.cluster.node_gpus.max()),
        state="",
        power=columns.rules.power,
        own=0.0,
        kinds=columns.num_kinds,
        way=way,
        seconds=time.perf_counter() - wall,
        processor_seconds=time.process_time() - processor,
        fitness=answer.fitness,
        gap=answer.gap,
        peak_gib=peak_gib(),
        table_seconds=answer.seconds["table"],
        price_seconds=answer.seconds["prices"],
        packing_seconds=answer.seconds["packing"],
        check_seconds=answer.seconds["check"],
    )


def measure(
    columns: RoundColumns, state: str, own: float, peers: Sequence[Way]
) -> list[Measurement]:
    """Decide a round by prices and by peers; a row each."""
    wall, processor = time.perf_counter(), time.process_time()
    answer = solve_columns(columns)
    first = row_of(columns, answer, "price", wall, processor)._replace(state=state, own=own)
    LOGGER.info("%d jobs, p = %g: %.3g s", columns.num_jobs, columns.rules.power, first.seconds)
    rows = [first]
    for peer in peers:
        wall, processor = time.perf_counter(), time.process_time()
        value = peer.decide(columns)
        rows.append(
            first._replace(
                way=peer.name,
                seconds=time.perf_counter() - wall,
                processor_seconds=time.process_time() - processor,
                fitness=value,
                gap=max(1.0 - value / answer.bound, 0.0),
                peak_gib=peak_gib(),
                table_seconds=None,
                price_seconds=None,
                packing_seconds=None,
                check_seconds=None,
            )
        )
    return rows


def measure_modes(columns: ModeColumns, state: str, load: float) -> Measurement:
    """Decide a round of modes by prices of pools."""
    wall, processor = time.perf_counter(), time.process_time()
    answer = solve_mode_columns(columns)
    row = row_of(columns, answer, "pools", wall, processor)._replace(
        state=state,
        choice_seconds=answer.seconds["choices"],
        modes=len(columns.modes),
        load=load,
    )
    LOGGER.info("%d jobs of modes, p = %g: %.3g s", row.jobs, row.power, row.seconds)
    return row


def with_growth(rows: Sequence[Measurement]) -> list[Measurement]:
    """Return the rows with their growth, where a tenth of the jobs was decided in the same way."""

    def key(row: Measurement, jobs: int) -> tuple[object, ...]:
        return jobs, row.gpus_per_node, row.state, row.power, row.own, row.way

    seconds = {key(row, row.jobs): row.processor_seconds for row in rows}
    tenths = [seconds.get(key(row, row.jobs // 10)) for row in rows]
    return [
        row._replace(growth=math.log10(row.processor_seconds / tenth)) if tenth else row
        for row, tenth in zip(rows, tenths, strict=True)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line.

    Parameters
    ----------
    argv
        Arguments without the name of the programme; those of the process if None.
    """
    parser = measurement_parser("bench_scale", __doc__)
    sizes = [1_000, 10_000, 100_000, 1_000_000]
    parser.add_argument("--sizes", type=whole(1), nargs="*", default=sizes, help="numbers of jobs")
    parser.add_argument("--powers", type=float, nargs="+", default=list(POWERS))
    parser.add_argument("--states", nargs="+", choices=STATES, default=list(STATES))
    parser.add_argument("--gpus", type=whole(1), nargs="+", default=list(GPUS), help="of a node")
    parser.add_argument("--exact", type=whole(0), default=1_000, help="most jobs for greedy, too")
    parser.add_argument("--split", type=whole(0), default=100_000, help="most jobs for peers")
    parser.add_argument("--parts", type=whole(1), nargs="+", default=[4, 16], help="of POP")
    parser.add_argument("--dede", metavar="INTERPRETER", help="a Python that has DeDe's package")
    parser.add_argument(
        "--own", type=float, nargs="+", default=[0.0, 0.1], help="how far models are jobs' own"
    )
    parser.add_argument(
        "--mode-sizes",
        type=whole(1),
        nargs="*",
        default=[1_000, 10_000, 100_000],
        help="numbers of jobs of rounds of modes",
    )
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--picture", type=Path, help="picture of the growth")
    given = parser.parse_args(argv)
    if given.picture is not None and not given.sizes:
        parser.error("--picture draws rounds without modes; expected --sizes.")
    rows: list[Measurement] = []
    solve_columns(generate_columns(given.seed, 1000, 250, 4))  # imports and first calls
    for jobs, gpus, state, own in product(given.sizes, given.gpus, given.states, given.own):
        nodes = -(-jobs // gpus)
        drawn = generate_columns(given.seed, jobs, nodes, gpus, state=state, own=own)
        for power in given.powers:
            peers = peers_of(jobs, power, given) if own == 0.0 else []
            try:
                rows += measure(replace(drawn, rules=Rules(power=power)), state, own, peers)
            except ValueError as error:
                parser.error(str(error))
    plain = rows = with_growth(rows)
    for jobs, load, state in product(given.mode_sizes, LOADS, given.states):
        scale = max(round(jobs / load / MODE_GPUS), 1)
        drawn_modes = generate_mode_columns(given.seed, jobs, three_types(scale), state=state)
        for power in MODE_POWERS:
            columns = replace(drawn_modes, rules=Rules(power=power))
            rows = [*rows, measure_modes(columns, state, load)]
    write_measurements(Measurement._fields, rows, given.out)
    if given.picture is not None:
        from goodalloc.experiments.reporting.growth_plot import plot_growth
        from goodalloc.experiments.reporting.plots import save

        save(plot_growth(plain), given.picture)
    return 0


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
