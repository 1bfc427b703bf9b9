"""Goodput and speedup of all allocations of all jobs: section 4.2 of Pollux.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.goodput.batch_size import GRID_POINTS
from goodalloc.models.goodput.chunked import search_chunked
from goodalloc.models.goodput.model import BatchLimits, GoodputModel
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.support.namespace import leaves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float
    from numpy.typing import NDArray

    from goodalloc.models.goodput.chunked import Backend as Backend
    from goodalloc.models.goodput.chunked import Search
    from goodalloc.models.support.array_types import Floats, Numbers


def stack_models(models: Sequence[GoodputModel]) -> GoodputModel:
    """Stack models into one whose numbers are arrays of shape (jobs,).

    Examples
    --------
    >>> from goodalloc.models.goodput import BatchLimits, GoodputModel, GradientStatistics
    >>> from goodalloc.models.goodput import ThroughputParameters, stack_models
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> limits = BatchLimits(100, 1000, 10, 100)
    >>> model = GoodputModel(parameters, GradientStatistics(1.0, 3.0), limits)
    >>> stack_models([model, model]).batch.initial
    array([100., 100.])
    """
    columns = np.array([[*leaves(model)] for model in models], dtype=float).T
    return GoodputModel(
        ThroughputParameters(*columns[:7]),
        GradientStatistics(*columns[7:9]),
        BatchLimits(*columns[9:13])._replace(accumulation=columns[13] > 0.0),
    )


def goodput_table(
    models: GoodputModel,
    max_replicas: int,
    search: Search = "integer",
    grid_points: int = GRID_POINTS,
    backend: Backend = "jax",
) -> Float[Floats, "jobs 2 gpus"]:
    """Return goodput at the best batch size, of shape (jobs, 2, max_replicas + 1).

    Entry [j, 0, K] is job j on K GPUs of one node, [j, 1, K] on K GPUs of several. Speed depends
    on the nodes in no other way. Nothing runs on no GPU, nor a single GPU on several nodes.

    Parameters
    ----------
    models
        Stacked models; each number of shape (jobs,), or one for all.
    max_replicas
        Largest K.
    search, grid_points
        As in `best_batch_size`.
    backend
        "jax" compiles once for all sizes; "numpy" compiles nothing.

    Raises
    ------
    ValueError
        If `max_replicas` is negative, or `search` or `backend` is unknown.

    Examples
    --------
    >>> from goodalloc.models.goodput import BatchLimits, GoodputModel, GradientStatistics
    >>> from goodalloc.models.goodput import ThroughputParameters, goodput_table
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> limits = BatchLimits(100, 1000, 10, 100)
    >>> model = GoodputModel(parameters, GradientStatistics(1.0, 3.0), limits)
    >>> goodput_table(model, 2, backend="numpy").round(1)
    array([[[  0. ,  90.9, 153.8],
            [  0. ,   0. , 127.3]]])
    """
    if max_replicas < 0:
        raise ValueError(f"max_replicas is {max_replicas}; expected 0 or more.")
    if search not in ("integer", "grid"):
        raise ValueError(f"search is {search!r}; expected 'integer' or 'grid'.")
    if backend not in ("jax", "numpy"):
        raise ValueError(f"backend is {backend!r}; expected 'jax' or 'numpy'.")
    flat = [np.atleast_1d(np.asarray(leaf, dtype=float))[:, None, None] for leaf in leaves(models)]
    columns = GoodputModel(
        ThroughputParameters(*flat[:7]), GradientStatistics(*flat[7:9]), BatchLimits(*flat[9:])
    )
    nodes = np.array([1.0, 2.0])[:, None]
    replicas = np.arange(max_replicas + 1.0)
    found = search_chunked(columns, nodes, replicas, search, grid_points, backend)
    return np.asarray(found.goodput)


def speedups(table: Float[Floats, "jobs 2 gpus"], base: Numbers) -> NDArray[np.float64]:
    """Return goodput over the goodput of a base allocation, 0 for a base that cannot run.

    Parameters
    ----------
    table
        Goodputs of shape (jobs, 2, max_replicas + 1).
    base
        Goodput of the base allocation of each job, shape (jobs,).
    """
    column = np.broadcast_to(np.asarray(base, dtype=float), table.shape[:1])[:, None, None]
    runs = column > 0.0
    return np.where(runs, table / np.where(runs, column, 1.0), 0.0)
