"""Least total remaining service, exactly: prices and exchanges that can matter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.parameter_servers.service_knapsack import service_choices
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.exchange_core import decide_configurations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.parameter_servers.tabulated_service import Cell, ServiceTable
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.interface.result import Limit


#: Mean service of a job in the program, well above the solver's tolerances.
SCALE = 1e3


@dataclass(frozen=True)
class ServiceOptimum:
    """Cells of the least remaining service found, and a proven lower bound.

    Parameters
    ----------
    cells
        Cell of every job; None where none were found in time, or the jobs do not fit.
    total, bound
        Remaining service of all jobs together, and a proven lower bound on it; both infinite where
        the jobs do not fit.
    limit
        Limit that ended the search before a proof, or None.
    seconds
        Time of the search.
    pods
        Pods of every kind on every node, shape (jobs, kinds, nodes); None without nodes.
    """

    cells: tuple[Cell, ...] | None
    total: float
    bound: float
    limit: Limit | None
    seconds: float
    pods: Indices | None = None

    @property
    def gap(self) -> float:
        """``(total - bound) / total``, 0 where both are 0 and NaN without a total."""
        if not math.isfinite(self.total):
            return math.nan
        return max(self.total - self.bound, 0.0) / self.total if self.total > 0 else 0.0


def least_service(
    tables: Sequence[ServiceTable], capacity: Floats, *, stop: Stop | None = None
) -> ServiceOptimum:
    """Decide the program (1) of `service_knapsack`.

    Parameters
    ----------
    tables
        Table of every job.
    capacity
        Amount of every resource, shape (resources,).
    stop
        Limits; when time runs out the best so far is returned, with its bound.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.parameter_servers import ServiceTable
    >>> from goodalloc.solvers.parameter_servers import least_service
    >>> gpus = np.array([[1.0], [2.0], [3.0]])
    >>> quick = ServiceTable("quick", np.array([9.0, 3.0, 1.0]), gpus)  # on 1, 2 or 3 GPUs
    >>> slow = ServiceTable("slow", np.array([9.0, 8.0, 7.0]), gpus)
    >>> found = least_service([quick, slow], np.array([3.0]))
    >>> found.cells, found.total
    (((1,), (0,)), 12.0)
    """
    stop = stop or Stop()
    watch = Watch(stop)
    choices = service_choices(tables, capacity)
    scale = program_scale(choices.job, choices.service)
    try:
        decision = decide_configurations(
            choices.job,
            choices.service * scale,
            choices.demand,
            choices.capacity,
            watch,
            gap=stop.gap * SCALE * len(tables),
        )
    except KeyboardInterrupt:
        watch.interrupted = True
        return ServiceOptimum(None, math.inf, -math.inf, watch.limit, watch.seconds)
    bound = max(decision.bound / scale, 0.0)
    if decision.values is None:
        return ServiceOptimum(None, math.inf, bound, watch.limit, watch.seconds)
    taken = np.flatnonzero(decision.values > 0.5)
    total = float(choices.service[taken].sum())
    cells = tuple(choices.cell[index] for index in taken.tolist())
    return ServiceOptimum(cells, total, min(bound, total), watch.limit, watch.seconds)


def program_scale(job: Indices, service: Floats) -> float:
    """Return the factor at which the mean of every job's least service is `SCALE`; jobs ascend."""
    first = np.flatnonzero(np.diff(job, prepend=-1))
    mean = float(np.minimum.reduceat(service, first).mean()) if first.size else 0.0
    return SCALE / mean if mean > 0 else 1.0
