"""Command line, timing, tables and reference optima of benchmarks, and the limits of devices."""

from __future__ import annotations

import argparse
import csv
import io
import logging
import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from goodalloc.data.documents.append_lines import append_lines
from goodalloc.models.support.validation import did_you_mean
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.interface.result import Result

LOGGER = logging.getLogger(__name__)

#: Device of NumPy, and of JAX where there is no GPU.
PROCESSOR = "cpu"

#: Numbers of an array within the cache of a core, and beyond all caches.
INSIDE, OUTSIDE = 4096, 2**24

#: Times that each of three functions is computed on such an array, and on how many of them.
IN_A_ROW, ARRAYS = 16, 64

#: Bytes of a number.
BYTES = 8

#: Numbers of an array on a GPU.
ON_GPU = 2**27

#: Row of a table, and value of an option.
Row = TypeVar("Row", bound=tuple[Any, ...])
Value = TypeVar("Value")


def ended_by_control_c(main: Callable[[], int]) -> int:
    """Run a benchmark and return its exit code; on Ctrl-C end at once with one line and 130."""
    try:
        return main()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; rows that were written stay.\n")
        sys.stderr.flush()
        # a compilation of JAX may be running in a thread: it is not waited for, and the tracebacks
        # of its collection at the end of the interpreter are nobody's concern
        os._exit(130)


def peak_gib() -> float:
    """Return the peak memory of this process so far, in GiB."""
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kibibytes / (2**30 if sys.platform == "darwin" else 2**20)


def best_allocation(instance: Instance, seconds: float) -> tuple[Result, Allocation]:
    """Return the result of a proof by HiGHS with a time limit, and its allocation.

    Raises
    ------
    SolveError
        If no allocation was found.
    """
    from goodalloc.solvers.certificates.solve import solve  # not needed by most benchmarks
    from goodalloc.solvers.interface.result import SolveError

    found = solve(instance, "highs", stop=Stop(seconds=seconds))
    if found.allocation is None:
        raise SolveError(f"{found.solver} found no allocation of {instance.name}: {found.message}")
    return found, found.allocation


def measurement_parser(name: str, about: str | None) -> argparse.ArgumentParser:
    """Return a parser with the option `--out`.

    Parameters
    ----------
    name
        Name of the benchmark.
    about
        Its docstring, shown up to the first semicolon.
    """
    purpose, _, _ = (about or "").partition(";")
    parser = argparse.ArgumentParser(prog=name, description=f"{purpose}.")
    parser.add_argument("--out", type=Path, help="CSV file; standard output if not given")
    return parser


def by_commas(parse: Callable[[str], Value]) -> Callable[[str], list[Value]]:
    """Return what reads the words of an option, which are separated by commas; none if empty.

    Parameters
    ----------
    parse
        Reader of one word.
    """
    return lambda text: [parse(word) for word in text.split(",") if word]


def one_of(known: Sequence[str]) -> Callable[[str], str]:
    """Return what reads a word and refuses unknown ones.

    Parameters
    ----------
    known
        The words.
    """

    def parse(word: str) -> str:
        if word not in known:
            raise argparse.ArgumentTypeError(
                f"'{word}' does not exist{did_you_mean(word, known)}; expected some of "
                f"{', '.join(known)}"
            )
        return word

    return parse


def size_of(parts: int) -> Callable[[str], str]:
    """Return what reads a size, whole numbers with x between them, and refuses others.

    Parameters
    ----------
    parts
        How many numbers.
    """

    def parse(word: str) -> str:
        numbers = word.split("x")
        if len(numbers) != parts or not all(one.isdecimal() and int(one) for one in numbers):
            example = "x".join(["160", "16", "4"][:parts])
            raise argparse.ArgumentTypeError(
                f"size is '{word}'; expected {parts} whole numbers from 1, as {example}"
            )
        return word

    return parse


def write_measurements(
    fields: Sequence[str], rows: Sequence[tuple[Any, ...]], out: Path | None
) -> None:
    """Write rows as CSV, numbers to four digits.

    Parameters
    ----------
    fields
        Names of the columns.
    rows
        Tuples in the order of the columns.
    out
        The file; standard output if None.
    """
    cells = [[f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row] for row in rows]
    if out is None:
        csv.writer(sys.stdout, lineterminator="\n").writerows([fields, *cells])
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([fields, *cells])


class Table(Generic[Row]):
    """CSV file that is written row by row.

    Parameters
    ----------
    path
        The file.
    columns
        Names of the columns.

    Attributes
    ----------
    rows
        The rows so far.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.rows: list[Row] = []
        self._path = path
        path.write_text(",".join(columns) + "\n", encoding="utf-8")

    def add(self, row: Row) -> None:
        """Add a row and write it at once, numbers to six digits."""
        self.rows.append(row)
        cells = [f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row]
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(cells)
        append_lines(self._path, line.getvalue())


class Measurement(NamedTuple):
    """Row of the table."""

    measure: str
    backend: str
    size: int
    first_call_seconds: float
    run_seconds: float
    processor_seconds: float
    per_second: float
    peak_gib: float
    mean_evaluations: float | None = None
    most_evaluations: float | None = None
    functions_each: float | None = None
    bytes_each: float | None = None
    share_of_limit: float | None = None
    share_of_library: float | None = None
    device: str = PROCESSOR


def jax_device() -> str:
    """Return the name of the device that JAX computes on: ``"cpu"``, or a GPU by its product."""
    import jax

    return PROCESSOR if jax.default_backend() == PROCESSOR else jax.devices()[0].device_kind


def measure(
    name: str, backend: str, size: int, repeats: int, call: Callable[[], object]
) -> Measurement:
    """Time the first call and the fastest of the repeats separately."""
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    timings = []
    for _ in range(repeats):
        start, busy = time.perf_counter(), time.process_time()
        call()
        timings.append((time.perf_counter() - start, time.process_time() - busy))
    seconds, processor = min(timings)
    LOGGER.info("%s on %s: %.3g per second", name, backend, size / seconds)
    return Measurement(
        measure=name,
        backend=backend,
        size=size,
        first_call_seconds=first,
        run_seconds=seconds,
        processor_seconds=processor,
        per_second=size / seconds,
        peak_gib=peak_gib(),
    )


def measure_functions(backend: str, cores: int, repeats: int) -> Measurement:
    """Measure exp, log and log1p in turn on all cores, within their caches."""
    work = np.random.default_rng(0).uniform(0.5, 1.5, (cores, INSIDE))

    def plain(values: NDArray[np.float64]) -> object:
        for _ in range(IN_A_ROW):
            values = np.log1p(np.log(np.exp(values) + 1e-3) + 0.5)
        return values

    run: Callable[[NDArray[np.float64]], object] = plain
    if backend == "jax":
        import jax
        import jax.numpy as jnp

        def once(_: int, values: jax.Array) -> jax.Array:
            found: jax.Array = jnp.log1p(jnp.log(jnp.exp(values) + 1e-3) + 0.5)
            return found

        compiled = jax.jit(lambda values: jax.lax.fori_loop(0, IN_A_ROW, once, values))

        def traced(values: NDArray[np.float64]) -> object:
            with jax.enable_x64(True):
                return compiled(values).block_until_ready()

        run = traced

    def repeatedly(core: int) -> None:
        for _ in range(ARRAYS):
            run(work[core])

    with ThreadPoolExecutor(cores) as pool:
        size = 3 * IN_A_ROW * ARRAYS * cores * INSIDE
        return measure(
            "functions", backend, size, repeats, lambda: list(pool.map(repeatedly, range(cores)))
        )


def measure_gpu(repeats: int) -> list[Measurement]:
    """Measure exp, log and log1p in turn on a GPU, and the bytes that it moves and that reach it.

    These are bytes that its memory reads and writes, and bytes that go there and come back.
    """
    import jax
    import jax.numpy as jnp

    def compute(values: jax.Array) -> jax.Array:
        for _ in range(IN_A_ROW):  # not `fori_loop`, of which every round would be a kernel
            values = jnp.log1p(jnp.log(jnp.exp(values) + 1e-3) + 0.5)
        return values

    computed, added = jax.jit(compute), jax.jit(lambda values: values + 1.0)
    host = np.random.default_rng(0).random(OUTSIDE)
    with jax.enable_x64(True):
        there = jax.random.uniform(jax.random.key(0), (ON_GPU,), jnp.float64, 0.5, 1.5)
        calls: dict[str, tuple[int, Callable[[], object]]] = {
            "functions": (3 * IN_A_ROW * ON_GPU, lambda: computed(there).block_until_ready()),
            "bytes": (2 * BYTES * ON_GPU, lambda: added(there).block_until_ready()),
            "transfer": (2 * BYTES * OUTSIDE, lambda: np.asarray(jax.device_put(host) + 1.0)),
        }
        return [measure(name, "jax", size, repeats, call) for name, (size, call) in calls.items()]


def measure_bytes(cores: int, repeats: int) -> Measurement:
    """Measure the bytes that all cores read and write by copying, beyond their caches."""
    source = np.random.default_rng(0).random((cores, OUTSIDE // cores))
    target = np.empty_like(source)

    def copy(core: int) -> None:
        np.copyto(target[core], source[core])

    with ThreadPoolExecutor(cores) as pool:
        return measure(
            "bytes",
            "numpy",
            2 * BYTES * source.size,
            repeats,
            lambda: list(pool.map(copy, range(cores))),
        )
