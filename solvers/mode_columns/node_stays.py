r"""Which jobs stay on each node, at prices of what nodes have.

A pool sees what a job that stays takes of all nodes, not on which node that is, and what it leaves
there to others. Node by node, the jobs that may stay on their one node have no price of their own:
at the best one each is indifferent. With :math:`\ell_j` the least cost and price of job *j* in any
other way, :math:`c_j` its cost where it is, :math:`d_j` what it takes, *g* what is left of a node
is worth to others (`formulations/mode_rounds/node_values.py`, (3), or (1) where a distributed job
is there already) and :math:`\lambda` the prices of GPUs, resources and nodes,

.. math::

    D = \sum_j \ell_j - \sum_v \Bigl( \lambda R_v + \max_{S \subseteq J_v} \Bigl\{ g\bigl(R_v -
    \sum_{j \in S} d_j\bigr) + \sum_{j \in S} (\ell_j - c_j - \lambda d_j) \Bigr\} \Bigr)       (1)

is a lower bound on the total cost, :math:`J_v` being the jobs that may stay on node *v*: whoever is
on it besides *S* pays no more than what *S* leaves is worth. A distributed job that stays pays for
its pieces as others do, which is one of its ways in :math:`\ell_j`. The bound is never below that
of pools, as :math:`f(x) + g(y) \le g(x + y)` with *f* of (1) there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.solvers.mode_columns.node_worth import left_worth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float, Int

    from goodalloc.formulations.mode_rounds.node_values import NodeValue
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.mode_columns.node_units import NodeUnits
    from goodalloc.solvers.mode_columns.seat_program import Room

#: In place of a job that may stay, where there is none.
NOBODY = -1


@dataclass(frozen=True)
class NodeWorth:
    """What is left of nodes is worth, by prices of the worth of nodes.

    Parameters
    ----------
    units
        Units of the round.
    worths
        Type of GPU and value function of a node of every further pool.
    prices
        Prices of these pools.
    """

    units: NodeUnits
    worths: Sequence[tuple[int, NodeValue]]
    prices: Float[Floats, " pools"]

    def of_room(
        self, nodes: Int[Indices, " some"], free: Int[Indices, "some demands"], closed: Flags
    ) -> Float[Floats, " some"]:
        """Return what others may pay for what is free on some nodes, with which are closed."""
        found = np.zeros(nodes.size)
        for (code, value), price in zip(self.worths, self.prices.tolist(), strict=True):
            if price > 0.0:
                here = np.flatnonzero(self.units.node_type[nodes] == code)
                worth = self.units.worth_of_nodes(code, value)
                each = price / (worth.total or 1.0)
                found[here] += each * left_worth(worth, free[here], closed[here])
        return found

    def of_pieces(
        self, nodes: Int[Indices, " some"], taken: Int[Indices, "some demands"], apart: Flags
    ) -> Float[Floats, " some"]:
        """Return what pieces on some nodes pay, with which are of distributed jobs."""
        return self.of_room(nodes, taken, ~apart)


class SingleStays(NamedTuple):
    """Jobs that may stay on their one node: job, node, and units that they take of it."""

    job: Int[Indices, " some"]
    node: Int[Indices, " some"]
    units: Int[Indices, "some demands"]


def best_stays(
    here: SingleStays,
    gain: Float[Floats, " some"],
    worth: NodeWorth,
    room: Room,
) -> tuple[Float[Floats, " nodes"], Bool[Flags, " some"]]:
    """Return the greatest value of every node, and which jobs stay there.

    Parameters
    ----------
    here
        Jobs that may stay.
    gain
        What it is worth that each stays, in (1) the last sum.
    worth
        What is left of nodes is worth.
    room
        What nodes have left for these jobs and for others.

    Examples
    --------
    A job that keeps three of four GPUs leaves one, which is worth nothing where pieces of two are:

    >>> import numpy as np
    >>> from goodalloc.data.rounds import generate_mode_columns
    >>> from goodalloc.formulations.mode_rounds import node_value
    >>> from goodalloc.models import Cluster, NodeGroup
    >>> from goodalloc.solvers.mode_columns import NodeUnits, NodeWorth, SingleStays, best_stays
    >>> from goodalloc.solvers.mode_columns.seat_program import Room
    >>> units = NodeUnits(generate_mode_columns(0, 8, Cluster((NodeGroup("n", 1, 4, "t4"),))))
    >>> pairs = node_value(np.array([[2]]), np.array([1.0]), (5,))
    >>> worth = NodeWorth(units, [(0, pairs)], np.array([2.0]))  # of all nodes, two pairs
    >>> one = SingleStays(np.array([5]), np.array([0]), np.array([[3]]))
    >>> room = Room(units.capacity, np.array([False]))
    >>> [best_stays(one, np.array([gain]), worth, room)[1].tolist() for gain in (1.5, 2.5)]
    [[False], [True]]
    """
    value = worth.of_room(np.arange(room.closed.size), room.free, room.closed)
    stays = np.zeros(gain.size, dtype=bool)
    some = np.flatnonzero(gain > 0.0)
    if not some.size:
        return value, stays
    some = some[np.lexsort((-gain[some], here.node[some]))]
    nodes, first, index = np.unique(here.node[some], return_index=True, return_inverse=True)
    rank = np.arange(some.size) - first[index.reshape(-1)]
    candidates = np.full((nodes.size, int(rank.max()) + 1), NOBODY)
    candidates[index.reshape(-1), rank] = some
    at, free, total = np.arange(nodes.size), room.free[nodes], np.zeros(nodes.size)
    steps = []
    for candidate in candidates.T:
        who = candidate[at]
        left = free - here.units[who]
        fits = np.flatnonzero((who != NOBODY) & (left >= 0).all(axis=1))
        parent = np.concatenate([np.arange(at.size), fits])
        taken = np.concatenate([np.full(at.size, NOBODY), who[fits]])
        total = total[parent] + np.where(taken == NOBODY, 0.0, gain[taken])
        at, free = at[parent], np.concatenate([free, left[fits]])
        # of ways that leave the same on a node the best alone
        order = np.lexsort((-total, *free.T, at))
        keys = np.column_stack([at, free])[order]
        order = order[np.append(True, (keys[1:] != keys[:-1]).any(axis=1))]
        at, free, total = at[order], free[order], total[order]
        steps.append((parent[order], taken[order]))
    total = total + worth.of_room(nodes[at], free, room.closed[nodes[at]])
    order = np.lexsort((total, at))
    state = order[np.append(at[order][1:] != at[order][:-1], True)]
    value[nodes] = total[state]
    for parent, taken in reversed(steps):
        found = taken[state]
        stays[found[found != NOBODY]] = True
        state = parent[state]
    return value, stays
