r"""Moves and victims that make room for a gang within one of several regions, such as racks.

The gang lies in one region *d* of nodes; jobs that move may go to any node. The nodes of a class
*c* of program (1), (2) of `moves_program` are alike for these jobs; only a node of the region can
hold a piece of the gang. Of the :math:`n_{cd}` that a region has, :math:`u_{cr}` keep *r* and do
so:

.. math::

    \min_d \min_{x,y,u} \sum_{c,r} w_{cr} x_{cr} \quad \text{s.t.} \quad \text{(1), (2)}, \quad
    & \sum_{p:\, p_0 = 1} y_{fp} \le \sum_{c,r:\, f_{cr} = f} u_{cr} \;\; \forall f, \qquad
      u_{cr} \le x_{cr} \;\; \forall c, r,                                                  (3) \\
    & \sum_r u_{cr} \le n_{cd} \;\; \forall c.                                              (4)

Any *u* nodes of a class within the region will do, so that every solution is a plan and every plan
a solution. Only the right-hand sides of (4) differ between regions: those with equal :math:`n_{cd}`
have equal optima. No plan in *d* costs less than

.. math::

    B_d = \min_k \Big\{ \sum_c k_c \min_{r:\, f_{cr} \ge g} w_{cr} :\; \sum_c k_c = F,\;
          0 \le k_c \le n_{cd} \Big\},                                                      (5)

what leaves *F* nodes for a piece of *g* GPUs each, wherever it goes: the least *F* of these costs.

Victims are decided by the columns of `preemption_program` of nodes in the region. There the loss
:math:`L_j` of a distributed job is divided among the :math:`h_{jd}` nodes of the region that it can
free: no plan loses less than the *F* least, over nodes *n* of the region, of

.. math::  \min_s \sum_{j \in s} L_j / h_{jd}.                                                (6)
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.making_room.moves_program import MovesProgram
    from goodalloc.formulations.making_room.preemption_program import Freeing
    from goodalloc.models.making_room.room_plan import Gang


@dataclass(frozen=True)
class RegionMoves:
    """Program (1)-(4) of all regions, whose right-hand sides `within` sets.

    Parameters
    ----------
    moves
        The program without regions, whose columns come first.
    program
        The program of a region, or of all nodes as one region.
    holders
        Positions of the keepings whose nodes can hold a piece of the gang, one for each *u*, which
        are the last columns.
    """

    moves: MovesProgram
    program: Program
    holders: tuple[int, ...]

    def counts(self, regions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the nodes of each class, if the gang may use them; shape (regions, classes).

        Parameters
        ----------
        regions
            Number of the region of every node, from 0; shape (nodes,).
        """
        table = np.zeros((int(regions.max()) + 1, len(self.moves.classes)), dtype=np.int64)
        for index, group in enumerate(self.moves.classes):
            if not group.barred:
                np.add.at(table[:, index], regions[[*group.nodes]], 1)
        return table

    def within(self, counts: NDArray[np.int64]) -> RegionMoves:
        """Return the program of a region.

        Parameters
        ----------
        counts
            Its nodes by class, a row of `counts`; shape (classes,).
        """
        upper = self.program.row_upper.copy()
        upper[self.program.rows_of("within")] = counts
        return replace(self, program=replace(self.program, row_upper=upper))

    @cached_property
    def least_costs(self) -> NDArray[np.float64]:
        """Least cost of room for a piece on a node, infinite without any; shape (classes,)."""
        least = np.full(len(self.moves.classes), np.inf)
        for one in (self.moves.keepings[place] for place in self.holders):
            least[one.group] = min(one.cost, float(least[one.group]))
        return least

    def bound(self, counts: NDArray[np.int64], gang: Gang) -> float:
        """Return a lower bound (5) on the cost in a region; infinite if its nodes are too few.

        Parameters
        ----------
        counts, gang
            The nodes of the region by class, and the gang.
        """
        return _least(np.repeat(self.least_costs, counts).tolist(), gang.nodes)


def build_region_moves(moves: MovesProgram, gang: Gang) -> RegionMoves:
    """Add rows (3) and (4) to a program of moves.

    Parameters
    ----------
    moves, gang
        The program without regions, and its gang.

    Examples
    --------
    Six nodes of two GPUs, of which three hold a job: a region of two of these costs two moves.

    >>> import numpy as np
    >>> from goodalloc.formulations.making_room import build_moves_program, build_region_moves
    >>> from goodalloc.models import Cluster, Instance, Job
    >>> from goodalloc.models.making_room import Gang
    >>> jobs = tuple(Job(f"job{node}", placement=((node, 1),)) for node in range(3))
    >>> gang, costs = Gang(2, 2), {job: 1.0 for job in range(3)}
    >>> moves = build_moves_program(Instance(Cluster.uniform(6, 2), jobs), gang, costs)
    >>> found = build_region_moves(moves, gang)
    >>> [found.bound(counts, gang) for counts in found.counts(np.array([0, 0, 1, 1, 2, 2]))]
    [2.0, 1.0, 0.0]
    """
    keepings, takings, classes = moves.keepings, moves.takings, moves.classes
    holders = [
        place
        for place, one in enumerate(keepings)
        if one.free >= gang.gpus_per_node and not classes[one.group].barred
    ]
    holding = [(place, one) for place, one in enumerate(takings) if one.gang]
    builder = ProgramBuilder.extending(moves.program)
    most = np.array([float(len(classes[keepings[place].group].nodes)) for place in holders])
    u = builder.add_columns("hold", len(holders), upper=most)
    frees = sorted({keepings[place].free for place in holders})
    row = {free: index for index, free in enumerate(frees)}
    held = builder.add_rows("held", len(frees), upper=0.0)
    pieces = [len(keepings) + place for place, _ in holding]
    builder.add_entries(held[[row[one.free] for _, one in holding]], pieces, 1.0)
    builder.add_entries(held[[row[keepings[place].free] for place in holders]], u, -1.0)
    kept = builder.add_rows("kept", len(holders), upper=0.0)
    builder.add_entries(kept, u, 1.0)
    builder.add_entries(kept, np.array(holders, dtype=np.int64), -1.0)
    sizes = [0.0 if group.barred else float(len(group.nodes)) for group in classes]
    within = builder.add_rows("within", len(classes), upper=np.array(sizes))
    builder.add_entries(within[[keepings[place].group for place in holders]], u, 1.0)
    return RegionMoves(moves, builder.build(), tuple(holders))


def least_loss_within(
    freeings: Iterable[Freeing], losses: Mapping[int, float], gang: Gang
) -> float:
    """Return a lower bound (6) on the loss in a region; infinite if its nodes are too few.

    Parameters
    ----------
    freeings
        The columns of nodes in the region.
    losses
        Loss of each job that may be stopped, by its index.
    gang
        The gang.

    Examples
    --------
    >>> from goodalloc.formulations.making_room import Freeing, least_loss_within
    >>> from goodalloc.models.making_room import Gang
    >>> freeings = [Freeing(0, (7,)), Freeing(1, (7,)), Freeing(2, (8,))]
    >>> least_loss_within(freeings, {7: 6.0, 8: 4.0}, Gang(2, 4))  # two halves of job 7
    6.0
    """
    of_node: dict[int, list[Freeing]] = defaultdict(list)
    for one in freeings:
        of_node[one.node].append(one)
    freed = Counter(
        job
        for columns in of_node.values()
        for job in {job for one in columns for job in one.victims}
    )
    return _least(
        (
            min(sum(losses[job] / freed[job] for job in one.victims) for one in columns)
            for columns in of_node.values()
        ),
        gang.nodes,
    )


def _least(costs: Iterable[float], number: int) -> float:
    """Return the sum of the least costs; infinite if there are not so many."""
    chosen = sorted(costs)[:number]
    return math.fsum(chosen) if len(chosen) == number else math.inf
