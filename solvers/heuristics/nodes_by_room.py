"""Nodes by the number of their free GPUs, at a cost that does not grow with their number."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.support.array_types import Indices

    #: Nodes with levels.
    Changes = Sequence[tuple[int, int]]

#: Level of a node that is not among the nodes.
ABSENT = -1


class NodesByRoom:
    """Set of nodes, each with its number of free GPUs, its level.

    Every level keeps a heap of nodes from which those that have left it are dropped when they come
    up: a node that changes costs the logarithm of the nodes, a question the number of levels.

    Parameters
    ----------
    free
        Free GPUs of every node, or `ABSENT`; shape (nodes,).
    most_nodes
        Number of nodes that a distributed job may use.
    enough
        Number of GPUs beyond which its room is not counted.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.solvers.heuristics.nodes_by_room import NodesByRoom
    >>> nodes = NodesByRoom(np.array([4, 1, 2, 4]), most_nodes=3, enough=100)
    >>> nodes.most, nodes.tightest(2), nodes.room()
    (4, 2, 10)
    >>> nodes.move(2, 0)
    >>> nodes.tightest(2), nodes.room()
    (0, 9)
    """

    def __init__(self, free: Indices, most_nodes: int, enough: int) -> None:
        self.most_nodes, self.enough = most_nodes, enough
        self._room: int | None = None
        levels = range(int(free.max(initial=0)) + 1)
        self._level: list[int] = free.tolist()
        self._heaps = [np.flatnonzero(free == level).tolist() for level in levels]
        self._queued = [set(heap) for heap in self._heaps]
        self._count = [len(heap) for heap in self._heaps]
        self._most = len(levels) - 1

    def level(self, node: int) -> int:
        """Return the free GPUs of a node, or `ABSENT`."""
        return self._level[node]

    @property
    def most(self) -> int:
        """Most free GPUs of a node."""
        while self._most and not self._count[self._most]:
            self._most -= 1
        return self._most

    def move(self, node: int, level: int) -> None:
        """Give a node another number of free GPUs, or take it out with `ABSENT`."""
        old = self._level[node]
        if old == level:
            return
        self._room = None
        if old != ABSENT:
            self._count[old] -= 1
        self._level[node] = level
        if level == ABSENT:
            return
        self._count[level] += 1
        self._most = max(self._most, level)
        if node not in self._queued[level]:
            self._queued[level].add(node)
            heapq.heappush(self._heaps[level], node)

    def room(self, changes: Changes = ()) -> int:
        """Return the free GPUs on the nodes with the most, `most_nodes` at most.

        Parameters
        ----------
        changes
            Pairs of a node and the level that it is to count with.

        Returns
        -------
        int
            The GPUs, `enough` at most; zero where fewer than two nodes have any.
        """
        if not changes:
            if self._room is None:
                self._room = self._total(self._count, self.most)
            return self._room
        count, greatest = self._count.copy(), self.most
        for node, level in changes:
            if self._level[node] != ABSENT:
                count[self._level[node]] -= 1
            if level != ABSENT:
                count[level] += 1
                greatest = max(greatest, level)
        return self._total(count, greatest)

    def _total(self, count: list[int], greatest: int) -> int:
        """Return the same for nodes counted by level, up to the greatest."""
        nodes, total = 0, 0
        for level in range(greatest, 0, -1):
            if not count[level]:
                continue
            several = min(count[level], self.most_nodes - nodes)
            nodes += several
            total += several * level
            if nodes == self.most_nodes or (nodes > 1 and total >= self.enough):
                break
        return min(total, self.enough) if nodes > 1 else 0

    def tightest(self, replicas: int) -> int:
        """Return the first of the nodes with the fewest free GPUs of those that have so many."""
        level = replicas
        while not self._count[level]:
            level += 1
        return self._first(level)

    def several(self, replicas: int) -> dict[int, int]:
        """Return GPUs on two nodes or more: nodes with the most room first, the tightest last.

        Parameters
        ----------
        replicas
            The GPUs; at most `room`.
        """
        found: dict[int, int] = {}
        left = replicas
        while left:
            level, node = self._next(found)
            if level >= left and found:
                found[self._tightest_below(left, level, node)] = left
                break
            found[node] = min(level, left - 1) if not found else level
            left -= found[node]
        return found

    def _next(self, taken: dict[int, int]) -> tuple[int, int]:
        """Return the level and the node after those taken, in order of room."""
        level, before = self.most, list(taken)
        while level:
            skipped = [node for node in before if self._level[node] == level]
            if self._count[level] > len(skipped):
                return level, self._after(level, len(skipped))
            level -= 1
        raise ValueError("There is no further node with free GPUs.")

    def _after(self, level: int, skipped: int) -> int:
        """Return the node of a level after its first few."""
        passed = []
        for _ in range(skipped):
            passed.append(self._first(level))
            heapq.heappop(self._heaps[level])
        node = self._first(level)
        for one in passed:
            heapq.heappush(self._heaps[level], one)
        return node

    def _tightest_below(self, replicas: int, level: int, node: int) -> int:
        """Return the first of the tightest nodes below a level, else the node itself.

        Only the `most_nodes` nodes with the most room count.
        """
        above = sum(self._count[level:])
        found = node
        for lower in range(level - 1, replicas - 1, -1):
            if above >= self.most_nodes:
                break
            if self._count[lower]:
                found = self._first(lower)
                above += self._count[lower]
        return found

    def _first(self, level: int) -> int:
        """Return the first node of a level, which has one."""
        heap = self._heaps[level]
        while self._level[heap[0]] != level:
            self._queued[level].discard(heapq.heappop(heap))
        return heap[0]
