"""Chunked search of any number of allocations, with little memory and one compilation."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from goodalloc.models.goodput.allocation_arrays import BatchSize, prepare_lanes
from goodalloc.models.goodput.batch_grid import search_grid
from goodalloc.models.goodput.batch_integer import search_integer
from goodalloc.models.goodput.model import BatchLimits, GoodputModel
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.support.namespace import leaves

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from goodalloc.models.support.array_types import Array, Floats, Numbers


#: Search for the best batch size: the true best whole number, or the best of a grid of points.
Search = Literal["integer", "grid"]
#: Library that does the arithmetic. Both give the same to rounding.
Backend = Literal["jax", "numpy"]

CPU_CHUNK = 8192
"""Allocations at a time on a processor: the working set of a search stays within its cache."""

ACCELERATOR_CHUNK = 1 << 20
"""Allocations at a time on an accelerator, which needs many to be busy."""

FIELDS = 16
"""Numbers per allocation: those of the model, N and K."""


def search_fields(fields: tuple[Numbers, ...], search: Search, grid_points: int) -> BatchSize:
    """Search the batch sizes of allocations given as flat fields, on the library they live in."""
    model = GoodputModel(
        ThroughputParameters(*fields[:7]),
        GradientStatistics(*fields[7:9]),
        BatchLimits(*fields[9:14]),
    )
    lanes = prepare_lanes(model, fields[14], fields[15])
    return search_integer(lanes) if search == "integer" else search_grid(lanes, grid_points)


def search_chunked(
    model: GoodputModel,
    nodes: Numbers,
    replicas: Numbers,
    search: Search,
    grid_points: int,
    backend: Backend,
) -> BatchSize:
    """Search the batch sizes of any number of concrete allocations (not being traced).

    Every argument broadcasts; the fields are only expanded chunk by chunk. The last chunk is
    filled up, so that the compiled search serves any number of allocations, and chunks are
    shared out over the processor's cores.

    Examples
    --------
    >>> from goodalloc.models.goodput import BatchLimits, GoodputModel, GradientStatistics
    >>> from goodalloc.models.goodput import ThroughputParameters, search_chunked
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> limits = BatchLimits(100, 1000, 10, 100)
    >>> model = GoodputModel(parameters, GradientStatistics(1.0, 3.0), limits)
    >>> found = search_chunked(model, 1, 2, "integer", grid_points=50, backend="numpy")
    >>> int(found.atomic)
    50
    """
    sources = [np.asarray(leaf) for leaf in leaves((*model, nodes, replicas))]
    shape = np.broadcast_shapes(*(source.shape for source in sources))
    total = int(np.prod(shape))
    kernel, chunk, workers = _road(backend, search, grid_points)
    views = [_flat(source, shape) for source in sources]
    found = np.zeros((3, total))

    def work(start: int) -> None:
        stop = min(start + chunk, total)
        packed = np.empty((FIELDS, stop - start if backend == "numpy" else chunk))
        for row, view in zip(packed, views, strict=True):
            row[: stop - start] = view(start, stop)
            row[stop - start :] = row[0]
        found[:, start:stop] = kernel(packed)[:, : stop - start]

    starts = range(0, total, chunk)
    if len(starts) <= 1 or workers == 1:
        for start in starts:
            work(start)
    else:
        with ThreadPoolExecutor(min(workers, len(starts))) as pool:
            list(pool.map(work, starts))
    goodput, atomic, accumulation = (row.reshape(shape) for row in found)
    return BatchSize(goodput, atomic.astype(np.int64), accumulation.astype(np.int64))


def _flat(source: NDArray[np.generic], shape: tuple[int, ...]) -> Callable[[int, int], Array]:
    """Return a function for the part from start to stop of a source broadcast and flattened."""
    if source.size == 1:
        return lambda _start, _stop: source.reshape(())
    if source.shape == shape:
        flat = source.reshape(-1)
        return lambda start, stop: flat[start:stop]
    view = np.broadcast_to(source, shape)
    return lambda start, stop: view[np.unravel_index(np.arange(start, stop), shape)]


def _road(
    backend: Backend, search: Search, grid_points: int
) -> tuple[Callable[[Floats], Floats], int, int]:
    """Return the kernel, its chunk size and the number of chunks to run at once."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if backend == "numpy":

        def plain(packed: Floats) -> Floats:
            return np.stack(search_fields(tuple(packed), search, grid_points))

        return plain, CPU_CHUNK, cores or 1
    import jax

    if jax.default_backend() == "cpu":
        return _compiled(search, grid_points), CPU_CHUNK, cores or 1
    return _compiled(search, grid_points), ACCELERATOR_CHUNK, 1


@lru_cache(maxsize=16)
def _compiled(search: Search, grid_points: int) -> Callable[[Floats], Floats]:
    """Return the search as one jitted function in float64."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def traced(packed: Array) -> Array:
        return jnp.stack(search_fields(tuple(packed), search, grid_points))

    def kernel(packed: Floats) -> Floats:
        with jax.enable_x64(True):
            return np.asarray(traced(packed))

    return kernel
