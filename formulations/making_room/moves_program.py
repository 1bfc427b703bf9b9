r"""Fewest moves that make room for a gang, without an index for nodes that are alike.

Jobs on one node may move, each to one other node; all others stay. Nodes of equal size, contents
and costs are a class *c* of :math:`n_c` nodes. A node of the class keeps a part *r* of what it
holds; then *f* of its GPUs are free, and it takes a pattern *p* of pieces, :math:`p_k` of *k* GPUs,
and at most one piece of the gang:

.. math::

    \min \sum_{c,r} w_{cr} x_{cr} \quad \text{s.t.} \quad
    & \sum_r x_{cr} = n_c \;\; \forall c, \qquad
      \sum_p y_{fp} \le \sum_{c,r:\, f_{cr} = f} x_{cr} \;\; \forall f,                      (1) \\
    & \sum_{f,p} p_k y_{fp} \ge \sum_{c,r} (m_{ck} - r_k) x_{cr} \;\; \forall k, \qquad
      \sum_{f,p} p_0 y_{fp} \ge F,                                                           (2)

with whole numbers :math:`x_{cr}` of nodes that keep *r* and :math:`y_{fp}` of nodes that take *p*,
the numbers :math:`m_{ck}` of movable jobs of *k* GPUs, the costs :math:`w_{cr}` of the cheapest
jobs that leave, and :math:`p_0 = 1` where the pattern holds a piece of the gang. Every plan is a
solution of (1) and (2) and every solution is a plan, so that the optimum is exact. Nodes that the
gang must not share are of classes, and of numbers *f*, of their own.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.models.making_room.residents import residents_of
from goodalloc.models.making_room.room_plan import barred_nodes, usable_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.formulations.basics.program import Program
    from goodalloc.models.making_room.room_plan import Gang
    from goodalloc.models.round.instance import Instance

#: Numbers by size: entry *k - 1* is how many of *k* GPUs.
Counts = tuple[int, ...]


class NodeClass(NamedTuple):
    """Nodes that are alike.

    Attributes
    ----------
    nodes
        Their indices.
    movable
        GPUs that are free if all movable jobs leave.
    contents
        Number of movable jobs of each size.
    costs
        Costs of the movable jobs of each size, ascending.
    barred
        Whether the gang must not use them.
    """

    nodes: tuple[int, ...]
    movable: int
    contents: Counts
    costs: tuple[tuple[float, ...], ...]
    barred: bool


class Keeping(NamedTuple):
    """Column of a class: what its nodes keep, what is free then, and what the leaving costs."""

    group: int
    kept: Counts
    free: int
    cost: float


class Taking(NamedTuple):
    """Column of nodes with so many free GPUs: what they take, and whether a piece of the gang."""

    free: int
    barred: bool
    taken: Counts
    gang: bool


@dataclass(frozen=True)
class MovesProgram:
    """Program (1), (2) with what its columns stand for.

    Parameters
    ----------
    program
        The program; its first columns are `keepings`, the others `takings`.
    classes, keepings, takings
        Classes of nodes, and the columns.
    """

    program: Program
    classes: tuple[NodeClass, ...]
    keepings: tuple[Keeping, ...]
    takings: tuple[Taking, ...]


def node_classes(
    instance: Instance, gang: Gang, costs: Mapping[int, float]
) -> tuple[NodeClass, ...]:
    """Return the nodes of the gang's type by what they hold.

    Parameters
    ----------
    instance, gang
        The round, and the gang.
    costs
        Cost of moving each job that may move, by its index.
    """
    cluster, current = instance.cluster, instance.current
    of_type = np.flatnonzero(np.array(cluster.node_types) == _type(instance, gang)).tolist()
    free = cluster.node_gpus - instance.current.node_replicas
    large, barred = usable_nodes(instance, gang), barred_nodes(instance, gang)
    residents, nodes_of = residents_of(instance), current.job_nodes
    most = int(cluster.node_gpus[of_type].max())
    found: dict[tuple[int, tuple[tuple[float, ...], ...], bool], list[int]] = {}
    for node in of_type:
        jobs = [
            (one.gpus, costs[one.job])
            for one in residents[node]
            if one.job in costs and nodes_of[one.job] == 1
        ]
        by_size = tuple(
            tuple(sorted(cost for gpus, cost in jobs if gpus == size))
            for size in range(1, most + 1)
        )
        movable = int(free[node]) + sum(gpus for gpus, _ in jobs)
        key = movable, by_size, node in barred or not bool(large[node])
        found.setdefault(key, []).append(node)
    return tuple(
        NodeClass(tuple(nodes), movable, tuple(map(len, by_size)), by_size, no_gang)
        for (movable, by_size, no_gang), nodes in found.items()
    )


def movable_jobs(instance: Instance) -> list[int]:
    """Return the jobs that may move: those that run on one node and are preemptible."""
    nodes = instance.current.job_nodes
    return [j for j, job in enumerate(instance.jobs) if nodes[j] == 1 and job.preemptible]


def build_moves_program(instance: Instance, gang: Gang, costs: Mapping[int, float]) -> MovesProgram:
    """Build the program.

    Parameters
    ----------
    instance, gang, costs
        As of `node_classes`.

    Examples
    --------
    >>> from goodalloc.formulations.making_room import build_moves_program
    >>> from goodalloc.models import Cluster, Instance, Job
    >>> from goodalloc.models.making_room import Gang
    >>> jobs = tuple(Job(f"job{node}", placement=((node, 1),)) for node in range(4))
    >>> instance = Instance(Cluster.uniform(4, 2), jobs)
    >>> found = build_moves_program(instance, Gang(2, 2), {job: 1.0 for job in range(4)})
    >>> [group.nodes for group in found.classes]  # all nodes are alike
    [(0, 1, 2, 3)]
    """
    classes = node_classes(instance, gang, costs)
    keepings = [
        Keeping(index, kept, group.movable - _gpus(kept), _cost(group, kept))
        for index, group in enumerate(classes)
        for kept in itertools.product(*(range(count + 1) for count in group.contents))
    ]
    frees = sorted({(one.free, classes[one.group].barred) for one in keepings})
    sizes = len(classes[0].contents)
    takings = [
        Taking(free, barred, taken, with_gang)
        for free, barred in frees
        for with_gang in (False, True)
        if not with_gang or (not barred and free >= gang.gpus_per_node)
        for taken in maximal_fillings(free - gang.gpus_per_node * with_gang, sizes)
    ]
    builder = ProgramBuilder()
    upper = [float(len(classes[one.group].nodes)) for one in keepings]
    cost = np.array([one.cost for one in keepings])
    x = builder.add_columns("keep", len(keepings), cost=cost, upper=np.array(upper), integer=True)
    total = float(sum(len(group.nodes) for group in classes))
    y = builder.add_columns("take", len(takings), cost=0.0, upper=total, integer=True)
    counts = np.array([float(len(group.nodes)) for group in classes])
    nodes = builder.add_rows("nodes", len(classes), lower=counts, upper=counts)
    builder.add_entries(nodes[[one.group for one in keepings]], x, 1.0)
    row = {key: index for index, key in enumerate(frees)}
    free = builder.add_rows("free", len(frees), upper=0.0)
    keys = [row[one.free, classes[one.group].barred] for one in keepings]
    builder.add_entries(free[keys], x, -1.0)
    builder.add_entries(free[[row[one.free, one.barred] for one in takings]], y, 1.0)
    pieces = builder.add_rows("pieces", sizes, lower=0.0)
    for size in range(sizes):
        left = [classes[one.group].contents[size] - one.kept[size] for one in keepings]
        builder.add_entries(np.full(len(x), pieces[size]), x, -np.array(left, dtype=float))
        taken = np.array([one.taken[size] for one in takings], dtype=float)
        builder.add_entries(np.full(len(y), pieces[size]), y, taken)
    room = builder.add_rows("gang", 1, lower=float(gang.nodes))
    gangs = np.array([float(one.gang) for one in takings])
    builder.add_entries(np.full(len(y), room[0]), y, gangs)
    return MovesProgram(builder.build(), classes, tuple(keepings), tuple(takings))


@cache
def maximal_fillings(free: int, sizes: int) -> tuple[Counts, ...]:
    """Return the numbers of pieces of each size that fit into some GPUs, none of which can grow.

    A filling with pieces of one GPU leaves none free, so these are all that fill them exactly.

    Parameters
    ----------
    free
        Number of GPUs, at least 0.
    sizes
        Largest piece.

    Examples
    --------
    >>> from goodalloc.formulations.making_room import maximal_fillings
    >>> maximal_fillings(3, sizes=2)
    ((3, 0), (1, 1))
    """
    if sizes == 1:
        return ((free,),)
    return tuple(
        (*smaller, count)
        for count in range(free // sizes + 1)
        for smaller in maximal_fillings(free - count * sizes, sizes - 1)
    )


def _type(instance: Instance, gang: Gang) -> str:
    return gang.gpu_type or instance.cluster.gpu_types[0]


def _gpus(counts: Counts) -> int:
    return sum(size * count for size, count in enumerate(counts, start=1))


def _cost(group: NodeClass, kept: Counts) -> float:
    """Return the cost of the cheapest jobs that leave, if so many of each size stay."""
    return float(
        sum(sum(costs[: len(costs) - stay]) for costs, stay in zip(group.costs, kept, strict=True))
    )
