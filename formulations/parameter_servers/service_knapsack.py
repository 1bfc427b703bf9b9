r"""The least total remaining service that a cluster allows: a multiple-choice knapsack.

With the cells *c* of every job's table (`models/parameter_servers/tabulated_service.py`), where it
needs :math:`V_{jc}` and takes :math:`d_{jcr}` of resource *r*, of which there are :math:`R_r`,

.. math::

    \min_x \sum_j \sum_c V_{jc} x_{jc}
    \quad \text{s.t.} \quad \sum_c x_{jc} = 1 \;\; \forall j, \qquad
    \sum_j \sum_c d_{jcr} x_{jc} \le R_r \;\; \forall r, \qquad x \in \{0, 1\}.               (1)

It is the program that AITurbo's exchange is a local search on. It forgets the nodes, as the
exchange does: exact for one pool, a relaxation for nodes. A cell goes if another one of the job
needs no more service and no more of any resource.

References
----------
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters", EuroSys
    2018. doi:10.1145/3190508.3190517
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.mode_rounds.resource_units import MOST_WHOLE, common_unit
from goodalloc.models.parameter_servers.tabulated_service import check_tables
from goodalloc.models.support.tolerances import WHOLE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int

    from goodalloc.models.parameter_servers.tabulated_service import Cell, ServiceTable
    from goodalloc.models.support.array_types import Floats, Indices


class ServiceChoices(NamedTuple):
    """The cells that matter, sorted by job; one entry of each array is a cell.

    Attributes
    ----------
    job, cell
        Job of every cell, and the cell.
    service
        Remaining service.
    demand
        Units of every resource that it takes, shape (cells, resources).
    capacity
        Units that there are, shape (resources,).
    """

    job: Int[Indices, " cells"]
    cell: tuple[Cell, ...]
    service: Float[Floats, " cells"]
    demand: Int[Indices, "cells resources"]
    capacity: Int[Indices, " resources"]


def service_choices(
    tables: Sequence[ServiceTable], capacity: Float[Floats, " resources"]
) -> ServiceChoices:
    """Return the cells of all jobs, without those that another one of the job beats.

    Raises
    ------
    ValueError
        If what jobs take has no common unit that is worth the name, or there are no jobs.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.parameter_servers import service_choices
    >>> from goodalloc.models.parameter_servers import ServiceTable
    >>> service, demand = np.array([4.0, 3.0, 3.5]), np.array([[1.0], [2.0], [2.0]])
    >>> tables = [ServiceTable(name, service, demand) for name in "ab"]
    >>> service_choices(tables, capacity=np.array([3.0])).job.tolist()  # without the third cells
    [0, 0, 1, 1]
    """
    check_tables(tables, capacity)
    unit = common_units([table.demand for table in tables])
    job: list[Indices] = []
    cells: list[Cell] = []
    service: list[Floats] = []
    demand: list[Indices] = []
    for index, table in enumerate(tables):
        units = np.rint(table.demand.reshape(-1, unit.size) / unit).astype(np.int64)
        rows = undominated(table.service.ravel(), units)
        job.append(np.full(rows.size, index))
        cells += cells_of(table, rows)
        service.append(table.service.ravel()[rows])
        demand.append(units[rows])
    there = np.floor(np.asarray(capacity, dtype=float) / unit + WHOLE_TOLERANCE).astype(np.int64)
    return ServiceChoices(
        np.concatenate(job), tuple(cells), np.concatenate(service), np.concatenate(demand), there
    )


def common_units(demands: Sequence[Float[Floats, "... resources"]]) -> Float[Floats, " resources"]:
    """Return the unit of every resource: the largest of which all demands are multiples.

    Parameters
    ----------
    demands
        Demands, each of shape (…, resources).

    Raises
    ------
    ValueError
        If there is none that is worth the name.
    """
    amounts = [
        np.unique(np.concatenate([np.unique(demand[..., resource]) for demand in demands]))
        for resource in range(demands[0].shape[-1])
    ]
    unit = np.array([common_unit(values) or 1.0 for values in amounts])
    for values, size in zip(amounts, unit.tolist(), strict=True):
        if values.max() > MOST_WHOLE * size:
            raise ValueError(
                f"What jobs take of a resource, up to {values.max():g}, has no common unit; "
                "expected multiples of a core or of a part of a GPU."
            )
    return unit


def cells_of(table: ServiceTable, rows: Int[Indices, " cells"]) -> list[Cell]:
    """Return the cells of a table with these running numbers."""
    places = np.unravel_index(rows, table.service.shape)
    return list(zip(*(place.tolist() for place in places), strict=True))


def undominated(
    service: Float[Floats, " cells"], units: Int[Indices, "cells things"]
) -> Int[Indices, " undominated"]:
    """Return the cells that no other one beats in service and in every demand, by service.

    Parameters
    ----------
    service
        Of every cell, infinite where the job cannot be; shape (cells,).
    units
        Demand of every cell, shape (cells, things).
    """
    able = np.flatnonzero(np.isfinite(service))
    order = able[np.lexsort((*units[able].T[::-1], service[able]))]
    _, first = np.unique(units[order], axis=0, return_index=True)
    order = order[np.sort(first)]  # the best of every demand, still by service
    taken = units[order]
    beaten = np.zeros(order.size, dtype=bool)
    for place in range(order.size):
        if not beaten[place]:
            worse = (taken[place + 1 :] >= taken[place]).all(axis=1)
            beaten[place + 1 :] |= worse
    return order[~beaten]
