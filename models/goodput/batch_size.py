"""Best batch size of an allocation: section 3.3 of Pollux.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 3.3. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.goodput.allocation_arrays import BatchSize as BatchSize
from goodalloc.models.goodput.chunked import search_chunked, search_fields
from goodalloc.models.support.namespace import leaves, namespace

if TYPE_CHECKING:
    from types import ModuleType

    from goodalloc.models.goodput.chunked import Search
    from goodalloc.models.goodput.model import GoodputModel
    from goodalloc.models.support.array_types import Numbers

GRID_POINTS = 50
"""Total batch sizes on the published grid."""


def best_batch_size(
    model: GoodputModel,
    nodes: Numbers,
    replicas: Numbers,
    search: Search = "integer",
    grid_points: int = GRID_POINTS,
) -> BatchSize:
    """Return the batch size of the highest goodput for each allocation.

    Parameters
    ----------
    model
        Goodput model, one or many; every argument broadcasts against the others.
    nodes, replicas
        N and K of the allocations.
    search
        "integer" for the true optimum over whole m and s, "grid" for the published search.
    grid_points
        Size of the published grid; 50 in the artifact.

    Raises
    ------
    ValueError
        If the search is unknown, the grid is empty or the caller traces in float32.

    Notes
    -----
    Arrays of numpy are searched by numpy, without compiling anything; jax arrays by jax, in
    float64 and in chunks of one shape. Inside a jitted function of the caller's the search
    becomes part of it; float64 must then be on.

    Examples
    --------
    >>> from goodalloc.models.goodput import BatchLimits, GoodputModel, GradientStatistics
    >>> from goodalloc.models.goodput import ThroughputParameters, best_batch_size
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> limits = BatchLimits(100, 1000, 10, 100)
    >>> model = GoodputModel(parameters, GradientStatistics(1.0, 3.0), limits)
    >>> best = best_batch_size(model, 1, 2)
    >>> int(best.atomic), int(best.accumulation_steps), round(float(best.goodput), 2)
    (50, 0, 153.85)
    """
    if search not in ("integer", "grid"):
        raise ValueError(f"search is {search!r}; expected 'integer' or 'grid'.")
    if grid_points < 1:
        raise ValueError(f"grid_points is {grid_points}; expected 1 or more.")
    xp = namespace(model, nodes, replicas)
    if xp.__name__ == "numpy":
        return search_chunked(model, nodes, replicas, search, grid_points, "numpy")
    jax = sys.modules["jax"]
    fields = tuple(leaves((*model, nodes, replicas)))
    if any(isinstance(field, jax.core.Tracer) for field in fields):
        return _traced(xp, fields, search, grid_points)
    found = search_chunked(model, nodes, replicas, search, grid_points, "jax")
    with jax.enable_x64(True):
        return BatchSize(*(xp.asarray(part) for part in found))


def _traced(
    xp: ModuleType, fields: tuple[object, ...], search: Search, grid_points: int
) -> BatchSize:
    """Search as part of a function that jax is tracing."""
    wide = xp.broadcast_arrays(*(xp.asarray(field, dtype=float) for field in fields))
    if wide[0].dtype != np.float64:
        raise ValueError(
            f"best_batch_size is traced in {wide[0].dtype}; expected float64, "
            "that is `with jax.enable_x64(True)` around the compiled function."
        )
    found = search_fields(tuple(field.reshape(-1) for field in wide), search, grid_points)
    goodput, *sizes = (part.reshape(wide[0].shape) for part in found)
    return BatchSize(goodput, *(size.astype(np.int64) for size in sizes))
