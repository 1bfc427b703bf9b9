r"""The least total remaining service on nodes: the knapsack, and cuts where its pods do not pack.

The program (1) of `service_knapsack`, its cells told apart by their *pods*, parameter servers and
workers, each of which has to be on one node. As cuts, with the value function *f* of a node at any
prices (`node_value`), pods of demand :math:`a_{jck}`, :math:`n_{jck}` of kind *k* in a cell,

.. math:: \sum_j \sum_c \Bigl( \sum_k n_{jck} f(a_{jck}) \Bigr) x_{jc} \le \sum_v f(R_v),      (1)

which no allocation violates, *f* being superadditive. Without cuts it is a *relaxation*, and for
that the cells of `service_knapsack` are enough; where what it chooses packs, that is the optimum on
nodes. With cuts, a cell goes only if another one of the job needs no more service and has no more
pods of any kind, none of them larger.

References
----------
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.formulations.parameter_servers.service_knapsack import (
    cells_of,
    common_units,
    undominated,
)
from goodalloc.models.support.tolerances import WHOLE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int

    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.mode_rounds.node_values import NodeValue
    from goodalloc.models.parameter_servers.tabulated_service import Cell, ServiceTable
    from goodalloc.models.support.array_types import Floats, Indices


@dataclass(frozen=True)
class PodChoices:
    """The cells that matter, sorted by job; one entry of each array is a cell.

    Parameters
    ----------
    job, cell
        Job of every cell, and the cell.
    service
        Remaining service.
    count
        Pods of every kind, shape (cells, kinds).
    each
        Units of every resource that a pod takes, shape (cells, kinds, resources).
    nodes
        Units that every node has, shape (nodes, resources).
    """

    job: Int[Indices, " cells"]
    cell: tuple[Cell, ...]
    service: Float[Floats, " cells"]
    count: Int[Indices, "cells kinds"]
    each: Int[Indices, "cells kinds resources"]
    nodes: Int[Indices, "nodes resources"]

    @property
    def demand(self) -> Int[Indices, "cells resources"]:
        """Units of every resource that a cell takes, shape (cells, resources)."""
        return np.asarray((self.count[..., None] * self.each).sum(axis=1))

    def worth(self, value: NodeValue) -> Float[Floats, " cells"]:
        """The coefficients of (1), shape (cells,)."""
        return np.asarray(
            (value.alone[tuple(np.moveaxis(self.each, -1, 0))] * self.count).sum(axis=1)
        )


class PodCut(NamedTuple):
    """The cut (1): coefficients, shape (cells,), and the upper bound on their sum."""

    coefficient: Float[Floats, " cells"]
    upper: float


def pod_choices(
    tables: Sequence[ServiceTable], nodes: Float[Floats, "nodes resources"], *, pooled: bool = False
) -> PodChoices:
    """Return the cells of all jobs whose pods fit on some node, without those that another one
    beats.

    Parameters
    ----------
    tables
        Table of every job, all with the same number of kinds of pods.
    nodes
        Capacity of every node, shape (nodes, resources).
    pooled
        Whether it is enough to take no more in all, as for the program without cuts.

    Raises
    ------
    ValueError
        If what pods take has no common unit that is worth the name.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.parameter_servers import pod_choices
    >>> from goodalloc.models.parameter_servers import ServiceTable
    >>> table = ServiceTable("a", np.array([4.0, 3.0]), np.array([[1.0], [2.0]]))
    >>> len(pod_choices([table], nodes=np.array([[1.0], [1.0]])).job)
    1
    """
    unit = common_units([pods.each for table in tables for pods in table.pods])
    room = np.floor(np.asarray(nodes, dtype=float) / unit + WHOLE_TOLERANCE).astype(np.int64)
    kinds_of_node = np.unique(room, axis=0)
    job: list[Indices] = []
    cells: list[Cell] = []
    service, count, each = [], [], []
    for index, table in enumerate(tables):
        counts = np.stack([pods.number.ravel() for pods in table.pods], axis=1)
        units = np.stack(
            [np.rint(pods.each.reshape(-1, unit.size) / unit) for pods in table.pods], axis=1
        ).astype(np.int64)
        units[counts == 0] = 0  # of pods that there are none of, it does not matter
        fits = np.all(units[:, :, None] <= kinds_of_node, axis=3).any(axis=2)
        needed = np.where(np.all(fits, axis=1), table.service.ravel(), np.inf)
        taken = [(counts[..., None] * units).sum(axis=1)]
        rows = undominated(
            needed, np.hstack(taken if pooled else [counts, units.reshape(needed.size, -1)])
        )
        job.append(np.full(rows.size, index))
        cells += cells_of(table, rows)
        service.append(needed[rows])
        count.append(counts[rows])
        each.append(units[rows])
    return PodChoices(
        np.concatenate(job),
        tuple(cells),
        np.concatenate(service),
        np.concatenate(count),
        np.concatenate(each),
        room,
    )


def build_service_program(
    choices: PodChoices,
    cost: Float[Floats, " cells"],
    *,
    cuts: Sequence[PodCut] = (),
    spare: float = 0.0,
) -> Program:
    """Build the program with cuts; its columns are the choices.

    Parameters
    ----------
    choices
        Choices of the jobs, at least one for each.
    cost
        Cost of every choice, shape (choices,).
    cuts
        Cuts (1).
    spare
        Share of everything to leave unused: what is chosen then packs more easily.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.parameter_servers import build_service_program, pod_choices
    >>> from goodalloc.models.parameter_servers import ServiceTable
    >>> table = ServiceTable("a", np.array([4.0, 3.0]), np.array([[1.0], [2.0]]))
    >>> choices = pod_choices([table], nodes=np.array([[2.0]]))
    >>> build_service_program(choices, cost=np.array([4.0, 3.0])).num_columns
    2
    """
    builder = ProgramBuilder()
    columns = builder.add_columns("choice", choices.job.size, cost=cost, upper=1.0)
    one_each = builder.add_rows("one_each", int(choices.job[-1]) + 1, lower=1.0, upper=1.0)
    builder.add_entries(one_each[choices.job], columns, 1.0)
    capacity = choices.nodes.sum(axis=0) * (1.0 - spare)
    rows = builder.add_rows("capacity", capacity.size, upper=capacity)
    demand = choices.demand
    column, resource = np.nonzero(demand)
    builder.add_entries(rows[resource], columns[column], demand[column, resource])
    for row, cut in zip(
        builder.add_rows("cut", len(cuts), upper=[cut.upper * (1.0 - spare) for cut in cuts]),
        cuts,
        strict=True,
    ):
        used = np.flatnonzero(cut.coefficient)
        builder.add_entries(row, columns[used], cut.coefficient[used])
    return builder.build()
