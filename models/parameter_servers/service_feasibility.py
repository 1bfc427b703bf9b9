"""Independent checker of pods on nodes: they match the cells and fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int

    from goodalloc.models.parameter_servers.tabulated_service import Cell, ServiceTable
    from goodalloc.models.support.array_types import Floats, Indices


def pod_violations(
    tables: Sequence[ServiceTable],
    cells: Sequence[Cell],
    pods: Int[Indices, "jobs kinds nodes"],
    nodes: Float[Floats, "nodes resources"],
) -> tuple[str, ...]:
    """Return a sentence for each fault of pods on nodes; none if they are feasible.

    Parameters
    ----------
    tables, cells
        Table of every job, and its cell.
    pods
        Pods of every kind on every node, shape (jobs, kinds, nodes).
    nodes
        Resources of every node, shape (nodes, resources).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.parameter_servers import ServiceTable, pod_violations
    >>> table = ServiceTable("job", np.array([4.0, 3.0]), np.array([[1.0], [2.0]]))
    >>> pod_violations([table], [(1,)], np.array([[[1, 0]]]), np.array([[2.0], [2.0]]))
    ()
    """
    found = []
    taken = np.zeros(np.shape(nodes))
    for job, (table, cell) in enumerate(zip(tables, cells, strict=True)):
        if not np.isfinite(table.service[cell]):
            found.append(f"Job '{table.name}' is in cell {cell}, where it cannot be.")
        for kind, wanted in enumerate(table.pods):
            placed = pods[job, kind]
            if (placed < 0).any() or placed.sum() != wanted.number[cell]:
                found.append(
                    f"Job '{table.name}' has {placed.tolist()} pods of kind {kind} on the nodes; "
                    f"expected {wanted.number[cell]} in all."
                )
            taken += placed[:, None] * wanted.each[cell]
    most = nodes * (1 + RESOURCE_TOLERANCE) + RESOURCE_TOLERANCE
    for node, resource in np.argwhere(taken > most).tolist():
        found.append(
            f"Node {node}: {taken[node, resource]:g} of resource {resource} are taken; expected at "
            f"most {nodes[node, resource]:g}."
        )
    return tuple(found)
