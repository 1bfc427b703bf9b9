"""Nodes for parameter servers and workers as Optimus places them: on as few as possible.

Jobs are placed in increasing order of their dominant shares. A job's servers and workers are dealt
evenly to the *k* nodes with the most room, for the least *k* at which each of these holds its part:
most of their traffic then stays on a node (section 4.2 of Optimus; its code,
github.com/pengyanghua/optimus, commit 8c43920). Where no even deal fits, pods go one after the
other, the largest first, where there is the most room; a job is not placed if some pod fits
nowhere.

References
----------
Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters", EuroSys
    2018, section 4.2. doi:10.1145/3190508.3190517
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from goodalloc.models.parameter_servers.tabulated_service import Cell, ServiceTable
    from goodalloc.models.support.array_types import Floats, Indices


def place_together(
    tables: Sequence[ServiceTable], cells: Sequence[Cell | None], nodes: Floats
) -> tuple[Indices, NDArray[np.bool_]]:
    """Return the pods on nodes, and which jobs are placed.

    Parameters
    ----------
    tables, cells
        Table of every job, and its cell; None for a job that is not to run.
    nodes
        Free resources of every node, shape (nodes, resources).

    Returns
    -------
    Pods of every kind on every node, shape (jobs, kinds, nodes), 0 of jobs that are not placed; and
    whether a job is, shape (jobs,).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.parameter_servers import ServiceTable
    >>> from goodalloc.solvers.parameter_servers import place_together
    >>> gpus = np.array([[1.0], [2.0]])  # in one pod
    >>> jobs = [ServiceTable(name, np.array([9.0, 3.0]), gpus) for name in "ab"]
    >>> pods, placed = place_together(jobs, [(1,), (1,)], np.array([[2.0], [3.0]]))
    >>> placed.tolist(), pods[0, 0].tolist(), pods[1, 0].tolist()
    ([True, True], [0, 1], [1, 0])
    """
    left = np.asarray(nodes, dtype=float) * (1 + RESOURCE_TOLERANCE) + RESOURCE_TOLERANCE
    size = np.maximum(np.max(nodes, axis=0), RESOURCE_TOLERANCE)
    kinds = max(len(table.pods) for table in tables) if tables else 0
    pods = np.zeros((len(tables), kinds, len(nodes)), dtype=np.int64)
    placed = np.zeros(len(tables), dtype=bool)

    def takes(job: int) -> float:
        cell = cells[job]
        return 0.0 if cell is None else float((tables[job].demand[cell] / size).max())

    for job in sorted(range(len(tables)), key=takes):
        cell = cells[job]
        if cell is None:
            continue
        number = np.array([kind.number[cell] for kind in tables[job].pods])
        each = np.array([kind.each[cell] for kind in tables[job].pods])
        found = _evenly(number, each, left, size)
        if found is None:
            found = _one_by_one(number, each, left, size)
        if found is not None:
            pods[job, : len(number)] = found
            left = left - np.einsum("kn,kr->nr", found, each)
            placed[job] = True
    return pods, placed


def _evenly(number: Indices, each: Floats, left: Floats, size: Floats) -> Indices | None:
    """Return pods dealt evenly to the fewest nodes that hold them, (kinds, nodes); or None."""
    order = np.argsort(-(left / size).sum(axis=1), kind="stable")
    for count in range(1, min(len(left), int(number.max())) + 1):
        chosen = order[:count]
        share = number[:, None] // count + (np.arange(count) < number[:, None] % count)
        if (np.einsum("kn,kr->nr", share, each) <= left[chosen]).all():
            found = np.zeros((number.size, len(left)), dtype=np.int64)
            found[:, chosen] = share
            return found
    return None


def _one_by_one(number: Indices, each: Floats, left: Floats, size: Floats) -> Indices | None:
    """Return pods placed in turn where there is the most room, (kinds, nodes); or None."""
    left = left.copy()
    found = np.zeros((number.size, len(left)), dtype=np.int64)
    for kind in np.argsort(-(each / size).max(axis=1), kind="stable").tolist():
        for _ in range(int(number[kind])):
            fits = np.flatnonzero((left >= each[kind]).all(axis=1))
            if not fits.size:
                return None
            node = int(fits[np.argmax((left[fits] / size).sum(axis=1))])
            left[node] -= each[kind]
            found[kind, node] += 1
    return found


def share_between_nodes(servers: Indices, workers: Indices) -> float:
    """Return the part of the traffic of servers and workers that crosses between nodes.

    Every worker sends each server the same amount, and the traffic of pairs on one node stays: ``1
    - sum_v p_v w_v / (p w)``; 0 without servers or workers.

    Parameters
    ----------
    servers, workers
        Numbers on every node, shape (nodes,).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.solvers.parameter_servers import share_between_nodes
    >>> share_between_nodes(np.array([1, 0]), np.array([1, 1]))  # one worker is apart
    0.5
    """
    pairs = float(servers.sum()) * float(workers.sum())
    return 1.0 - float(servers @ workers) / pairs if pairs > 0 else 0.0
