"""Benchmark of back ends on the programs of rounds: their relaxations, and the whole programs.

Run as ``python -m goodalloc.experiments.benchmarks.back_ends [--rounds cold:160x64x4,…]``; a round
is a set and jobs x nodes x GPUs per node. Sets are the states of the generator, whose program is
that of patterns, ``node``, a cold round as the node-indexed program, and those of the benchmark
`nodes` (8 GPUs per node), whose program is the aggregate. Each row of the CSV is one program given
to one back end:

- the relaxation to HiGHS (dual ``simplex``; its interior-point methods ``ipx`` and ``hipo``, with
  and without crossover; ``pdlp``), to SCIP, to OR-tools (GLOP, PDLP), to MPAX (PDLP in JAX), and to
  the way of the exact road (``as needed``: columns join the simplex method when prices ask);
- the whole program to HiGHS with one thread and with two, and to SCIP; beside these the exact road
  decides the round itself (``goodalloc``; ``any optimum``: without the rule between equal optima;
  ``programs``: without the road by one price, either).

``difference`` is relative: that of objectives to the one of the dual simplex method or of HiGHS
with one thread, and how much less the fitness of the exact road is than the one that the objective
stands for, which bounds it in relaxations of the round (patterns, aggregate). Seconds are those
from the program, in memory or in a file, to the solution; only the exact road begins with the
round, whose table and program take ``build_seconds`` otherwise. Compiling is timed apart. A back
end that is not installed has a row that says so (HiPO and MPAX: the extra ``back-ends``).
"""

from __future__ import annotations

import argparse
import importlib
import logging
import math
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np

from goodalloc.data.rounds.drawn_jobs import State
from goodalloc.data.rounds.generator import generate
from goodalloc.experiments.benchmarks.measurements import (
    ended_by_control_c,
    measurement_parser,
    write_measurements,
)
from goodalloc.experiments.benchmarks.nodes import SETS
from goodalloc.experiments.cli.types import number, whole
from goodalloc.formulations.basics import program_fitness
from goodalloc.formulations.exported import build_program
from goodalloc.formulations.gpu_rounds import Kind, enumerate_choices
from goodalloc.models.support.validation import did_you_mean, literal
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact import run_scip
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import DUAL, PRESOLVED, run_relaxation
from goodalloc.solvers.milp.other_solvers import (
    MPAX,
    OPTIMAL,
    TOLERANCE,
    Solved,
    by_highs,
    by_mpax,
    by_or_tools,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goodalloc.formulations.basics import Program
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags

LOGGER = logging.getLogger(__name__)

#: Rounds that are measured if none are named.
ROUNDS = (
    "cold:160x64x4,disturbed:500x128x8,settled:2000x512x4,disturbed:2000x512x4,node:40x16x4,"
    "one_node:160x32x8,kept:160x32x8,three_kinds:500x100x8,awkward:160x32x8"
)

#: States of the generator; the set of rounds as node-indexed programs; GPUs per node of `SETS`.
STATES: dict[str, State] = {state: state for state in get_args(State)}
NODE = "node"
GPUS_OF_SETS = 8

#: Statuses beside `OPTIMAL`, and what some back ends call them.
TIME, ABSENT = "time limit", "not installed"
WORDS = {"timelimit": TIME, "time limit reached": TIME}


class Named(NamedTuple):
    """Round to be drawn: its set, jobs, nodes and GPUs per node."""

    set: str
    jobs: int
    nodes: int
    gpus: int

    @property
    def formulation(self) -> str:
        """Name of its program, a key of `goodalloc.formulations.exported.round_program.CLAIMS`."""
        return NODE if self.set == NODE else "pattern" if self.set in STATES else "aggregate"

    def draw(self, seed: int) -> Instance:
        """Draw the round."""
        if self.set in SETS:
            return SETS[self.set][0](seed, self.jobs, self.nodes)
        state = STATES.get(self.set, "cold")
        return generate(seed, self.jobs, self.nodes, self.gpus, state=state)


def round_named(text: str) -> Named:
    """Return the round of a text ``SET:JOBSxNODESxGPUS``.

    Raises
    ------
    argparse.ArgumentTypeError
        If the text is none, the set is unknown, or its nodes have another number of GPUs.
    """
    name, _, size = text.partition(":")
    known = (*STATES, NODE, *SETS)
    if name not in known:
        raise argparse.ArgumentTypeError(
            f"set '{name}' does not exist{did_you_mean(name, known)}; expected one of "
            f"{', '.join(known)}"
        )
    parts = size.split("x")
    whole_numbers = all(part.isascii() and part.isdecimal() and int(part) > 0 for part in parts)
    if len(parts) != 3 or not whole_numbers:
        raise argparse.ArgumentTypeError(
            f"got {literal(text)}; expected SET:JOBSxNODESxGPUS, as in cold:160x64x4"
        )
    jobs, nodes, gpus = map(int, parts)
    if name in SETS and gpus != GPUS_OF_SETS:
        raise argparse.ArgumentTypeError(
            f"got {literal(text)}; expected {GPUS_OF_SETS} GPUs per node in set '{name}'"
        )
    return Named(name, jobs, nodes, gpus)


@dataclass(frozen=True)
class Task:
    """Program for a back end.

    Parameters
    ----------
    program
        The program; its relaxation has no integer columns.
    path
        The same in an MPS file.
    priced
        Columns that the exact road's relaxation starts with, shape (columns,).
    seconds, gap
        Time limit, and relative gap at which to stop.
    """

    program: Program
    path: Path
    priced: Flags
    seconds: float
    gap: float


class BackEnd(NamedTuple):
    """Back end: how it solves, its threads, and the module that it needs, if any."""

    solve: Callable[[Task], Solved]
    threads: int = 1
    module: str = ""


class Measurement(NamedTuple):
    """Row of the table."""

    round: str
    formulation: str
    jobs: int
    columns: int
    rows: int
    entries: int
    program: str
    back_end: str
    threads: int
    status: str
    solved: int
    objective: float | None
    difference: float | None
    seconds: float | None
    processor_seconds: float | None
    compile_seconds: float | None
    build_seconds: float


def by_method(task: Task, *, threads: int = 1, **options: Any) -> Solved:
    """Solve with HiGHS and these options."""
    return by_highs(task.program, task.seconds, threads=threads, **options)


def by_branching(task: Task, *, threads: int) -> Solved:
    """Solve with HiGHS's branch and bound, in parallel on more than one thread."""
    parallel = "on" if threads > 1 else "off"
    options = {**PRESOLVED, "mip_rel_gap": task.gap, "parallel": parallel}
    return by_method(task, threads=threads, **options)


def as_needed(task: Task) -> Solved:
    """Solve the relaxation as the exact road does."""
    watch, processor = Watch(Stop(seconds=task.seconds)), time.process_time()
    found = run_relaxation(task.program, task.priced, watch)
    status = OPTIMAL if found.finished else TIME
    return Solved(status, found.objective, watch.seconds, time.process_time() - processor)


def by_scip(task: Task) -> Solved:
    """Solve with SCIP."""
    processor = time.process_time()
    found = run_scip(task.path, seconds=task.seconds, gap=task.gap)
    spent = time.process_time() - processor
    status = OPTIMAL if found.status == "gaplimit" else found.status
    return Solved(status, found.objective, found.seconds, spent)


def by_or_tools_on(task: Task, *, solver: str) -> Solved:
    """Solve with a linear solver of OR-tools."""
    return by_or_tools(task.path, task.seconds, solver=solver)


#: Modules of other optional back ends.
HIPO, SCIP, OR_TOOLS = "highspy_extras", "pyscipopt", "ortools"

#: Options of HiGHS for its interior-point and first-order methods.
INTERIOR: dict[str, Any] = {"run_crossover": "off"}
FIRST_ORDER: dict[str, Any] = {
    "pdlp_optimality_tolerance": TOLERANCE,
    "primal_feasibility_tolerance": TOLERANCE,
    "dual_feasibility_tolerance": TOLERANCE,
}

#: Back ends of relaxations and of whole programs; the others are compared with the first of each.
RELAXATION = {
    "simplex": BackEnd(partial(by_method, solver="simplex", simplex_strategy=DUAL)),
    "as needed": BackEnd(as_needed),
    "ipx": BackEnd(partial(by_method, solver="ipx")),
    "ipx, no crossover": BackEnd(partial(by_method, solver="ipx", **INTERIOR)),
    "hipo": BackEnd(partial(by_method, solver="hipo"), module=HIPO),
    "hipo, no crossover": BackEnd(partial(by_method, solver="hipo", **INTERIOR), module=HIPO),
    "hipo, 2 threads": BackEnd(
        partial(by_method, solver="hipo", threads=2, parallel="on"), threads=2, module=HIPO
    ),
    "pdlp": BackEnd(partial(by_method, solver="pdlp", **FIRST_ORDER)),
    "scip": BackEnd(by_scip, module=SCIP),
    "ortools glop": BackEnd(partial(by_or_tools_on, solver="glop"), module=OR_TOOLS),
    "ortools pdlp": BackEnd(partial(by_or_tools_on, solver="pdlp"), module=OR_TOOLS),
    "mpax": BackEnd(lambda task: by_mpax(task.program), module=MPAX),
}
WHOLE = {
    "highs": BackEnd(partial(by_branching, threads=1)),
    "highs, 2 threads": BackEnd(partial(by_branching, threads=2), threads=2),
    "scip": BackEnd(by_scip, module=SCIP),
}

#: The exact road, without its rule between equal optima, and without the road by one price, too:
#: options of `solve_highs`.
ROADS: dict[str, dict[str, Any]] = {
    "goodalloc": {},
    "any optimum": {"break_ties": False},
    "programs": {"break_ties": False, "by_price": False},
}


def row_of(name: str, back_end: BackEnd, task: Task, first: Measurement) -> Measurement:
    """Return a row like another one, with what a back end makes of a program."""
    row = first._replace(back_end=name, threads=back_end.threads)
    try:
        importlib.import_module(back_end.module or __name__)  # not part of the time
    except ImportError:
        return row._replace(status=ABSENT)
    found = back_end.solve(task)
    status = WORDS.get(found.status, found.status)
    solved = status == OPTIMAL
    LOGGER.info("%s, %s by %s: %s, %.3g s", row.round, row.program, name, status, found.seconds)
    return row._replace(
        status=status,
        solved=int(solved),
        objective=found.objective if solved else None,
        seconds=found.seconds,
        processor_seconds=found.processor_seconds,
        compile_seconds=found.compile_seconds or None,
    )


def compared(rows: Sequence[Measurement]) -> list[Measurement]:
    """Return rows with the sizes of the relative differences of their objectives to the first."""
    basis = rows[0].objective  # relative to at least 1: sums of costs may be anywhere near 0
    return [
        row
        if basis is None or row.objective is None
        else row._replace(difference=abs(row.objective - basis) / max(abs(basis), 1.0))
        for row in rows
    ]


def row_of_road(
    name: str, instance: Instance, stop: Stop, worth: float, first: Measurement
) -> Measurement:
    """Return the row of the exact road, compared with the fitness that an objective stands for."""
    wall, processor = time.perf_counter(), time.process_time()
    found = solve(instance, "highs", stop=stop, **ROADS[name])
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    difference = 1.0 - found.fitness / worth
    LOGGER.info("%s by %s: %s, %.3g s", first.round, name, found.status, wall)
    return first._replace(
        back_end=name,
        threads=1,
        status=str(found.status),
        solved=int(found.status == OPTIMAL),
        objective=None,
        difference=None if math.isnan(difference) else difference,
        seconds=wall,
        processor_seconds=processor,
        compile_seconds=None,
    )


def measure(named: Named, seed: int, seconds: float, gap: float) -> list[Measurement]:
    """Give the programs of a round to all back ends, and the round to the exact road."""
    instance = named.draw(seed)
    begin = time.perf_counter()
    program, reference = build_program(instance, named.formulation)
    built = time.perf_counter() - begin
    priced = np.ones(program.num_columns, dtype=bool)
    if named.formulation == "pattern":
        kinds = enumerate_choices(instance).kind
        priced[: len(kinds)] = kinds != Kind.SEVERAL_NODES
    first = Measurement(
        round=f"{named.set} {named.jobs}x{named.nodes}x{named.gpus}",
        formulation=named.formulation,
        jobs=named.jobs,
        columns=program.num_columns,
        rows=program.num_rows,
        entries=int(program.value.size),
        program="relaxation",
        back_end="",
        threads=1,
        status="",
        solved=0,
        objective=None,
        difference=None,
        seconds=None,
        processor_seconds=None,
        compile_seconds=None,
        build_seconds=built,
    )
    rows: list[Measurement] = []
    relaxed = replace(program, integer=np.zeros(program.num_columns, dtype=bool))
    with tempfile.TemporaryDirectory() as folder:
        for name, given, back_ends in (
            ("relaxation", relaxed, RELAXATION),
            ("whole", program, WHOLE),
        ):
            task = Task(given, Path(folder) / f"{name}.mps", priced, seconds, gap)
            given.write(task.path)
            row = first._replace(program=name)
            rows += compared([row_of(*one, task, row) for one in back_ends.items()])
    first = next(row for row in rows if row.program == "whole")
    total, power = first.objective, instance.rules.power
    worth = math.nan if total is None else program_fitness(total, named.jobs, power, reference)
    stop = Stop(seconds=seconds, gap=gap)
    rows += [row_of_road(name, named.draw(seed), stop, worth, first) for name in ROADS]
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and write the CSV."""
    parser = measurement_parser("bench_back_ends", __doc__)
    parser.add_argument(
        "--rounds",
        type=lambda text: [round_named(part) for part in text.split(",")],
        default=ROUNDS,
        help="SET:JOBSxNODESxGPUS, by commas",
    )
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--seconds", type=number(0.0), default=60.0, help="limit of one solve")
    parser.add_argument("--gap", type=number(0.0), default=1e-6, help="relative, of whole programs")
    given = parser.parse_args(argv)
    rows: list[Measurement] = []
    for options in ROADS.values():  # imports and first calls
        solve(generate(given.seed, 8, 2, 4), "highs", **options)
    for named in given.rounds:
        rows += measure(named, given.seed, given.seconds, given.gap)
    write_measurements(Measurement._fields, rows, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
