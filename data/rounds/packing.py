"""Simple packing of jobs onto nodes, as a sensible scheduler might have left it.

It values nothing: sizes follow the requests, scaled to the cluster, and pieces go where they fit
best. It is the starting state of generated instances, not a solver.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.allocation import Allocation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.rules import Rules
    from goodalloc.models.support.array_types import Indices


def pack(wanted: Indices, most: Indices, cluster: Cluster, rules: Rules) -> Allocation:
    """Place the jobs, earlier ones first where not all fit.

    Parameters
    ----------
    wanted
        GPUs every job asks for, shape (jobs,); 0 for a job that is not to be placed.
    most
        Most GPUs of every job, shape (jobs,).
    cluster, rules
        Where, and under which limits.

    Returns
    -------
    Allocation
        Feasible: no node overfull, no job above `most` or on too many nodes, and with interference
        avoidance at most one distributed job a node.
    """
    sizes = _scaled(wanted, most, cluster.num_gpus)
    nodes = _Nodes(cluster, rules)
    placements: list[list[tuple[int, int]]] = [[] for _ in range(wanted.size)]
    largest_first = np.lexsort((np.arange(sizes.size), -sizes))
    for job in largest_first[sizes[largest_first] > 0].tolist():
        size = int(sizes[job])
        while size and not placements[job]:
            placements[job] = nodes.take(size)
            size //= 2
    return Allocation.from_placements([tuple(pairs) for pairs in placements], cluster.num_nodes)


def _scaled(wanted: Indices, most: Indices, num_gpus: int) -> Indices:
    """Return sizes in proportion to the requests, at least 1, that together fit the cluster."""
    runs = wanted > 0
    runs &= np.cumsum(runs) <= num_gpus
    if not runs.any():
        return np.zeros_like(wanted)
    low, high = 0.0, float(num_gpus)
    for _ in range(60):
        middle = (low + high) / 2
        fits = _sizes(wanted, most, middle, runs).sum() <= num_gpus
        low, high = (middle, high) if fits else (low, middle)
    return _sizes(wanted, most, low, runs)


def _sizes(wanted: Indices, most: Indices, scale: float, runs: NDArray[np.bool_]) -> Indices:
    sizes = np.clip(np.floor(scale * wanted), 1, np.maximum(most, 1)).astype(np.int64)
    return np.where(runs, sizes, 0)


class _Nodes:
    """Free GPUs of the nodes, kept in buckets so that the best fit is found without a search."""

    def __init__(self, cluster: Cluster, rules: Rules) -> None:
        self.free = cluster.node_gpus.tolist()
        self.largest = max(self.free)
        self.rules = rules
        self.buckets: dict[int, list[int]] = defaultdict(list)
        for node in range(len(self.free) - 1, -1, -1):
            self.buckets[self.free[node]].append(node)
        self.undivided = sorted(range(len(self.free)), key=lambda node: (self.free[node], -node))

    def take(self, size: int) -> list[tuple[int, int]]:
        """Take GPUs for one job, on one node if that is possible; empty if they do not fit."""
        for free in range(size, self.largest + 1):
            bucket = self.buckets[free]
            while bucket:
                node = bucket.pop()
                if self.free[node] == free:
                    return [self._give(node, size)]
        return self._spread(size) if size > 1 else []

    def _give(self, node: int, gpus: int) -> tuple[int, int]:
        self.free[node] -= gpus
        self.buckets[self.free[node]].append(node)
        return node, gpus

    def _spread(self, size: int) -> list[tuple[int, int]]:
        """Return several nodes for one job, none with a part of another such job."""
        chosen: list[int] = []
        found = 0
        while found < size and self.undivided and len(chosen) < self.rules.max_nodes_per_job:
            node = self.undivided.pop()
            if self.free[node]:
                chosen.append(node)
                found += self.free[node]
        if found < size or not self.rules.interference_avoidance:
            self.undivided.extend(reversed(chosen))
        if found < size:
            return []
        pieces = []
        for node in chosen:
            gpus = min(self.free[node], size)
            size -= gpus
            pieces.append(self._give(node, gpus))
        return sorted(pieces)
