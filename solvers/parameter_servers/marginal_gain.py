r"""Greedy of Optimus: a server or a worker more, one at a time, for the job that gains most.

Every job begins at its present cell. Then, of all jobs and axes, the step with the largest gain

.. math:: \frac{V_j(c_j) - V_j(c_j + e_r)}{\max_k \; \Delta d_{jrk} / R_k}                    (1)

per dominant share of its further demand is taken, among the steps that still fit, until no gain is
above 0 (section 4.1 of Optimus; its code, github.com/pengyanghua/optimus, commit 8c43920). There
*V* is the remaining time and the axes are servers and workers. With a concave gain on one axis that
is optimal; with two that are coupled, as here by *w / p*, it is not.

References
----------
Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters", EuroSys
    2018, section 4.1. doi:10.1145/3190508.3190517
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.tolerances import SMALLEST_DIVISOR
from goodalloc.solvers.parameter_servers.exchange import left_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.parameter_servers.tabulated_service import Cell, ServiceTable
    from goodalloc.models.support.array_types import Floats


#: Axes of servers and workers, which Optimus decides on.
OPTIMUS_AXES = (0, 1)


def greedy_by_gain(
    tables: Sequence[ServiceTable],
    cells: Sequence[Cell],
    capacity: Floats,
    *,
    axes: Sequence[int] = OPTIMUS_AXES,
) -> tuple[Cell, ...]:
    """Return the cells where the steps (1) end.

    Parameters
    ----------
    tables
        Table of every job.
    cells
        Cell at which every job begins.
    capacity
        Amount of every resource, shape (resources,).
    axes
        Axes along which steps are taken.

    Raises
    ------
    ValueError
        If the cells do not fit in the cluster, or a job cannot be in its cell.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.parameter_servers import ServiceTable
    >>> from goodalloc.solvers.parameter_servers import greedy_by_gain
    >>> gpus = np.array([[1.0], [2.0], [3.0]])
    >>> quick = ServiceTable("quick", np.array([9.0, 3.0, 1.0]), gpus)  # on 1, 2 or 3 GPUs
    >>> slow = ServiceTable("slow", np.array([9.0, 8.0, 7.0]), gpus)
    >>> greedy_by_gain([quick, slow], [(0,), (0,)], np.array([3.0]), axes=(0,))
    ((1,), (0,))
    """
    where = [tuple(cell) for cell in cells]
    left = left_of(tables, where, capacity)
    size = np.maximum(np.asarray(capacity, dtype=float), SMALLEST_DIVISOR)
    waiting = [
        step for job in range(len(tables)) for step in _steps(tables, where, job, axes, size)
    ]
    heapq.heapify(waiting)
    while waiting:
        _, job, _, cell, further = heapq.heappop(waiting)
        if cell != where[job]:
            continue  # the job has moved since
        change = tables[job].demand[further] - tables[job].demand[cell]
        if (change <= left).all():
            left = left - change
            where[job] = further
            for step in _steps(tables, where, job, axes, size):
                heapq.heappush(waiting, step)
    return tuple(where)


def _steps(
    tables: Sequence[ServiceTable],
    where: Sequence[Cell],
    job: int,
    axes: Sequence[int],
    size: Floats,
) -> list[tuple[float, int, int, Cell, Cell]]:
    """Return a job's steps with a gain: negated gain (1), job, axis, cells before and after."""
    table, cell = tables[job], where[job]
    found = []
    for axis in axes:
        further = table.after(cell, axis, 1)
        if further is None:
            continue
        share = float(np.max((table.demand[further] - table.demand[cell]) / size))
        gain = float(table.service[cell] - table.service[further])
        if gain > 0:
            found.append((-gain / max(share, SMALLEST_DIVISOR), job, axis, cell, further))
    return found
