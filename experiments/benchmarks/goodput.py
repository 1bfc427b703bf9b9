r"""Benchmark of goodput and of the best batch size, beside the limits of the machine.

Run as `python -m goodalloc.experiments.benchmarks.goodput`; `--picture` also draws.

Each row of the CSV is one measure on one library: seconds of the first call (importing jax,
compiling and running), of the fastest repeat, the processor seconds of that repeat, and the rate
in goodput points, allocations or fits per second. Searches also have the mean and the largest
number of evaluations of the step time per allocation (the published grid takes 50), fits the mean
number of iterations, of all starts. Tables have growing numbers of allocations, to show from which
on compiling pays. Peak memory is that of the process so far, including the arguments.

A kernel that computes *t* transcendental functions (exp, log, log1p) for each item and moves *b*
bytes cannot do more items a second than

.. math:: \min(F / t, \; B / b)                                                               (1)

on a device that computes *F* of them and moves *B* bytes a second. Both are measured by kernels
that do nothing else: on all cores of a machine, the functions on arrays that stay in the cache, and
copies of arrays that do not; where JAX finds a GPU, on that GPU, with all functions of a number in
one kernel. *F* is that of the library that computes them faster on the device; beside it stands
what the kernel's own library can do. A step time takes 4 functions
(`models/goodput/throughput_model.py`). Searches take their arguments from the memory of the machine
and bring their results back there; on a GPU *B* is then the speed of that way.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.benchmarks.fitting import draw_jobs, drawn_tables, fitting_work
from goodalloc.experiments.benchmarks.measurements import (
    BYTES,
    PROCESSOR,
    Measurement,
    ended_by_control_c,
    jax_device,
    measure,
    measure_bytes,
    measure_functions,
    measure_gpu,
    measurement_parser,
    write_measurements,
)
from goodalloc.experiments.cli.types import whole
from goodalloc.experiments.support.machine_description import usable_cores
from goodalloc.models.fitting.fit import fit_throughput
from goodalloc.models.fitting.problem import pad_observations
from goodalloc.models.goodput.allocation_arrays import prepare_lanes
from goodalloc.models.goodput.batch_integer import find_optimum
from goodalloc.models.goodput.batch_size import GRID_POINTS
from goodalloc.models.goodput.chunked import search_chunked
from goodalloc.models.goodput.model import BatchLimits, GoodputModel, goodput
from goodalloc.models.goodput.speedup import goodput_table
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.support.namespace import leaves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from goodalloc.models.goodput.chunked import Backend, Search

#: Pairs (m, s) per allocation in the measure of goodput points.
POINTS_PER_ALLOCATION = 256

#: Transcendental functions of a step time; numbers that a search moves.
FUNCTIONS, SEARCH_NUMBERS = 4, 19

#: Libraries; JAX first, since its first call is measured.
BACKENDS: tuple[Backend, ...] = ("jax", "numpy")

#: Searches; measures of the bytes that a device moves, and that go to it and come back.
SEARCHES: tuple[Search, ...] = ("integer", "grid")
MOVING = ("bytes", "transfer")

#: Measurements of a job that is fitted.
OBSERVATIONS = 16

#: Size of the goodput table, that of the published workload at double load.
TABLE_JOBS, TABLE_REPLICAS = 160, 64


def sample_models(jobs: int, generator: np.random.Generator) -> GoodputModel:
    """Draw stacked models with parameters in the range of the published applications.

    Parameters
    ----------
    jobs
        Number of models.
    generator
        Random number generator.
    """

    def between(low: float, high: float) -> NDArray[np.float64]:
        return np.exp(generator.uniform(np.log(low), np.log(high), jobs))

    alpha = between(0.01, 0.3)
    parameters = ThroughputParameters(
        alpha_grad=alpha,
        beta_grad=alpha / between(8.0, 200.0),
        alpha_local=between(0.005, 0.2),
        beta_local=between(1e-4, 0.01),
        alpha_node=between(0.05, 0.5),
        beta_node=between(1e-3, 0.02),
        gamma=generator.uniform(1.0, 10.0, jobs),
    )
    limits = BatchLimits(
        initial=np.full(jobs, 128.0),
        maximum=np.full(jobs, 4096.0),
        atomic_minimum=np.full(jobs, 16.0),
        atomic_maximum=generator.choice([64.0, 128.0, 256.0, 1024.0], jobs),
        accumulation=np.full(jobs, True),
    )
    return GoodputModel(parameters, GradientStatistics(np.ones(jobs), between(1.0, 100.0)), limits)


def sample_allocations(
    size: int, seed: int
) -> tuple[GoodputModel, NDArray[np.float64], NDArray[np.float64]]:
    """Draw a model, a number of nodes and a number of replicas for each allocation."""
    generator = np.random.default_rng(seed)
    models = sample_models(min(size, 2000), generator)
    rows = np.arange(size) % min(size, 2000)
    flat = [np.asarray(leaf)[rows] for leaf in leaves(models)]
    wide = GoodputModel(
        ThroughputParameters(*flat[:7]), GradientStatistics(*flat[7:9]), BatchLimits(*flat[9:])
    )
    replicas = generator.integers(1, TABLE_REPLICAS + 1, size).astype(float)
    nodes = np.where(replicas > 1, generator.integers(1, 3, size), 1).astype(float)
    return wide, nodes, replicas


def measure_points(backend: Backend, allocations: int, repeats: int, seed: int) -> Measurement:
    """Measure goodput at single points (allocation, m, s)."""
    wide, nodes, replicas = sample_allocations(allocations, seed)
    columns = [np.asarray(leaf)[:, None] for leaf in (*leaves(wide), nodes, replicas)]
    model = GoodputModel(
        ThroughputParameters(*columns[:7]),
        GradientStatistics(*columns[7:9]),
        BatchLimits(*columns[9:14]),
    )
    atomic = np.tile(np.arange(1.0, POINTS_PER_ALLOCATION // 2 + 1), 2)
    steps = np.repeat([0.0, 1.0], POINTS_PER_ALLOCATION // 2)
    arguments = (model, columns[14], columns[15], atomic, steps)
    size = allocations * POINTS_PER_ALLOCATION
    moved = BYTES * (1.0 + len(columns) / POINTS_PER_ALLOCATION)
    if backend == "numpy":
        row = measure("points", backend, size, repeats, lambda: goodput(*arguments))
        return row._replace(functions_each=float(FUNCTIONS), bytes_each=moved)
    import jax

    with jax.enable_x64(True):
        compiled, placed = jax.jit(goodput), jax.device_put(arguments)
        row = measure(
            "points", backend, size, repeats, lambda: compiled(*placed).block_until_ready()
        )
    return row._replace(functions_each=float(FUNCTIONS), bytes_each=moved)


def measure_search(
    backend: Backend, search: Search, allocations: int, repeats: int, seed: int
) -> Measurement:
    """Measure the best batch size of many allocations, and count the evaluations."""
    wide, nodes, replicas = sample_allocations(allocations, seed)
    row = measure(
        search,
        backend,
        allocations,
        repeats,
        lambda: search_chunked(wide, nodes, replicas, search, GRID_POINTS, backend),
    )
    mean = most = float(GRID_POINTS)
    if search == "integer":
        wide, nodes, replicas = sample_allocations(min(allocations, 20_000), seed)
        visits = find_optimum(prepare_lanes(wide, nodes, replicas)).visits
        mean, most = float(visits.mean()), float(visits.max())
    return row._replace(
        mean_evaluations=mean,
        most_evaluations=most,
        functions_each=FUNCTIONS * mean,
        bytes_each=float(BYTES * SEARCH_NUMBERS),
    )


def measure_growth(backend: Backend, size: int, repeats: int, seed: int) -> Measurement:
    """Measure the best batch sizes of a number of allocations, NumPy or JAX with its first call."""
    wide, nodes, replicas = sample_allocations(size, seed)
    return measure(
        "growth",
        backend,
        size,
        repeats,
        lambda: search_chunked(wide, nodes, replicas, "integer", GRID_POINTS, backend),
    )


def measure_fits(jobs: int, repeats: int, seed: int) -> Measurement:
    """Measure fits of jobs side by side, and count their functions."""
    generator = np.random.default_rng(seed)
    drawn = draw_jobs(drawn_tables(generator), jobs, OBSERVATIONS, generator)
    observations = pad_observations(drawn)
    row = measure("fits", "jax", jobs, repeats, lambda: fit_throughput(observations))
    return row._replace(**fitting_work(observations)._asdict())


def with_shares(rows: Sequence[Measurement]) -> list[Measurement]:
    """Return the rows with their shares of (1), by the fastest functions and by their library's."""
    moved = {(row.device, row.measure): row.per_second for row in rows if row.measure in MOVING}
    own = {(row.device, row.backend): row.per_second for row in rows if row.measure == "functions"}
    found = []
    for row in rows:
        if row.functions_each is not None and row.bytes_each is not None:
            way = "transfer" if row.measure in SEARCHES else "bytes"
            there = moved.get((row.device, way), moved[row.device, "bytes"])
            by_functions, by_bytes = 1.0 / row.functions_each, there / row.bytes_each
            most = max(speed for (device, _), speed in own.items() if device == row.device)
            mine = own[row.device, row.backend]
            row = row._replace(
                share_of_limit=row.per_second / min(most * by_functions, by_bytes),
                share_of_library=row.per_second / min(mine * by_functions, by_bytes),
            )
        found.append(row)
    return found


def measure_table(backend: Backend, search: Search, repeats: int, seed: int) -> Measurement:
    """Measure the goodput table of a round of the published workload at double load."""
    models = sample_models(TABLE_JOBS, np.random.default_rng(seed))
    return measure(
        f"table-{search}",
        backend,
        TABLE_JOBS * 2 * (TABLE_REPLICAS + 1),
        repeats,
        lambda: goodput_table(models, TABLE_REPLICAS, search=search, backend=backend),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line.

    Parameters
    ----------
    argv
        Arguments without the name of the programme; those of the process if None.
    """
    parser = measurement_parser("bench_goodput", __doc__)
    parser.add_argument("--allocations", type=whole(1), default=1_000_000, help="for the searches")
    parser.add_argument("--points", type=whole(1), default=16_384, help="for single points")
    parser.add_argument("--fits", type=whole(1), default=1024, help="jobs fitted side by side")
    parser.add_argument("--repeats", type=whole(1), default=5)
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    sizes = [1_000, 10_000, 100_000, 1_000_000, 4_000_000, 8_000_000]
    parser.add_argument(
        "--sizes", type=whole(1), nargs="+", default=sizes, help="of growing tables"
    )
    parser.add_argument("--picture", type=Path, help="picture of limits and growth")
    given = parser.parse_args(argv)
    cores = usable_cores()
    rows = [measure_bytes(cores, given.repeats)]
    for backend in given.backends:
        # growth first: the first call of the first one imports and compiles
        own = [measure_growth(backend, size, given.repeats, given.seed) for size in given.sizes]
        device = jax_device() if backend == "jax" else PROCESSOR
        if device == PROCESSOR:
            own.append(measure_functions(backend, cores, given.repeats))
        else:
            own += measure_gpu(given.repeats)
        own.append(measure_points(backend, given.points, given.repeats, given.seed))
        for search in SEARCHES:
            own.append(
                measure_search(backend, search, given.allocations, given.repeats, given.seed)
            )
            own.append(measure_table(backend, search, given.repeats, given.seed))
        if backend == "jax":
            own.append(measure_fits(given.fits, given.repeats, given.seed))
        rows += [row._replace(device=device) for row in own]
    rows = with_shares(rows)
    write_measurements(Measurement._fields, rows, given.out)
    if given.picture is not None:
        from goodalloc.experiments.reporting.plots import save
        from goodalloc.experiments.reporting.roofline_plot import plot_limits

        # a roof is that of one device
        device = jax_device() if "jax" in given.backends else PROCESSOR
        save(plot_limits([row for row in rows if row.device == device]), given.picture)
    return 0


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
