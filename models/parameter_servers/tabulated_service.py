r"""Tables of remaining service, and AITurbo's marginal table of a unit more or less.

AITurbo (HPDC'21) gives a job's parameter servers and workers one unit more or less of something at
a time: a server, a worker, a core for every server, a core for every worker, a GPU share for every
worker. Every such choice is a cell of a grid with one axis for each, and holds

- the *remaining service* :math:`V` of the job there (`remaining_service`), infinite
  where the job cannot be, and
- the demand of the job for every resource of the cluster.

The marginal table of a job at a cell *c* are the cells around it,

.. math:: V(c + e_r), \quad V(c - e_r) \quad \text{for every axis } r.                         (1)

The slides of the paper show such a table for two jobs (`slide_example`).

References
----------
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.tolerances import SMALLEST_DIVISOR
from goodalloc.models.support.validation import require_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int

    from goodalloc.models.support.array_types import Floats, Indices


#: Axes of a job's table, in order, along which AITurbo moves by the unit.
AXES = ("servers", "workers", "server_cores", "worker_cores", "worker_gpus")

#: A cell of a table: an index along every axis.
Cell = tuple[int, ...]


class Pods(NamedTuple):
    """Pods of one kind in every cell: their number, and the demand of each.

    Attributes
    ----------
    number
        Number of pods, of the shape of the service.
    each
        Demand of each pod, shape ``(*service.shape, resources)``.
    """

    number: Int[Indices, ...]
    each: Float[Floats, "... resources"]


@dataclass(frozen=True, eq=False)
class ServiceTable:
    """Remaining service and demand of a job in every configuration.

    Parameters
    ----------
    name
        Name of the job.
    service
        Remaining service in every cell, infinite where the job cannot be; one axis for each kind
        of unit.
    demand
        Demand of the job in every cell, shape ``(*service.shape, resources)``.
    pods
        Parts of the demand that must share a node: each pod of each kind, the kinds in the same
        order in all cells. The whole demand is one pod if none is given.

    Raises
    ------
    ValueError
        If the name is empty, shapes differ, a service or demand is negative or NaN, no service is
        finite, or the pods do not add up to the demand.
    """

    name: str
    service: Float[Floats, ...]
    demand: Float[Floats, "... resources"]
    pods: tuple[Pods, ...] = ()

    def __post_init__(self) -> None:
        if not self.pods:
            ones = np.ones(self.service.shape, dtype=np.int64)
            object.__setattr__(self, "pods", (Pods(ones, self.demand),))
        item = f"Job '{self.name}'"
        require_name("Job", self.name)
        if self.demand.shape[:-1] != self.service.shape:
            raise ValueError(
                f"{item}: demand has the shape {self.demand.shape}; expected that of the service, "
                f"{self.service.shape}, and one axis for the resources."
            )
        if np.isnan(self.service).any() or (self.service < 0).any():
            raise ValueError(f"{item}: service is negative or NaN; expected numbers of at least 0.")
        if not np.isfinite(self.service).any():
            raise ValueError(f"{item} can be nowhere; expected a finite service somewhere.")
        if not np.isfinite(self.demand).all() or (self.demand < 0).any():
            raise ValueError(f"{item}: demand is {self.demand.min()}; expected numbers from 0.")

        taken = sum(np.asarray(p.number)[..., None] * p.each for p in self.pods)
        if not np.allclose(taken, self.demand):
            raise ValueError(
                f"{item}: pods take something else than the demand; expected the same."
            )

    @property
    def least(self) -> Cell:
        """First of the feasible cells of least demand.

        Demand is the sum of the resources, each over the most that the job could take of it.
        """
        most = np.maximum(
            self.demand.reshape(-1, self.demand.shape[-1]).max(axis=0), SMALLEST_DIVISOR
        )
        taken = np.where(np.isfinite(self.service), (self.demand / most).sum(axis=-1), np.inf)
        return tuple(int(i) for i in np.unravel_index(int(np.argmin(taken)), taken.shape))

    def after(self, cell: Cell, axis: int, units: int) -> Cell | None:
        """Return the cell `units` further along an axis, None if it is infeasible."""
        moved = list(cell)
        moved[axis] += units
        if not 0 <= moved[axis] < self.service.shape[axis]:
            return None
        found = tuple(moved)
        return found if np.isfinite(self.service[found]) else None


def check_tables(tables: Sequence[ServiceTable], capacity: Float[Floats, " resources"]) -> None:
    """Validate that there are jobs and that the capacity is of the jobs' resources.

    Raises
    ------
    ValueError
        If there are no tables, or `capacity` is not of as many resources as the demand.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.parameter_servers import ServiceTable, check_tables
    >>> table = ServiceTable("job", np.array([4.0, 3.0]), np.array([[1.0], [2.0]]))
    >>> check_tables([table], capacity=np.array([2.0]))
    """
    if not tables:
        raise ValueError("Remaining service: there are no jobs; expected at least one.")
    size, expected = np.shape(capacity), tables[0].demand.shape[-1:]
    if size != expected:
        raise ValueError(f"Capacity has the shape {size}; expected {expected}, one a resource.")


class Marginal(NamedTuple):
    """Marginal table (1) of several jobs at their cells.

    Attributes
    ----------
    now
        Remaining service of every job, shape (jobs,).
    service
        Remaining service with a unit more (0) or less (1) along every axis, infinite where
        infeasible; shape (jobs, 2, axes).
    change
        Change of the demand for every resource, shape (jobs, 2, axes, resources).
    """

    now: Float[Floats, " jobs"]
    service: Float[Floats, "jobs 2 axes"]
    change: Float[Floats, "jobs 2 axes resources"]


def marginal_table(tables: Sequence[ServiceTable], cells: Sequence[Cell]) -> Marginal:
    """Return the marginal table (1) of `tables` at `cells`.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.parameter_servers import ServiceTable, marginal_table
    >>> table = ServiceTable("job", np.array([4.0, 3.0]), np.array([[1.0], [2.0]]))
    >>> marginal_table([table], [(0,)]).service  # a unit more, a unit less
    array([[[ 3.],
            [inf]]])
    """
    axes, resources = tables[0].service.ndim, tables[0].demand.shape[-1]
    service = np.full((len(tables), 2, axes), np.inf)
    change = np.zeros((len(tables), 2, axes, resources))
    for job, (table, cell) in enumerate(zip(tables, cells, strict=True)):
        for axis in range(axes):
            for sign, units in enumerate((1, -1)):
                further = table.after(cell, axis, units)
                if further is not None:
                    service[job, sign, axis] = table.service[further]
                    change[job, sign, axis] = table.demand[further] - table.demand[cell]
    now = np.array([table.service[cell] for table, cell in zip(tables, cells, strict=True)])
    return Marginal(now, service, change)
