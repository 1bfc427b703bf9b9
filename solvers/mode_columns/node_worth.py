r"""Pools of the worth of nodes, which see that some choices do not share nodes well.

With the value function *f* of a node at any prices of pieces (`formulations/mode_rounds/
node_values.py`), pieces :math:`y_i` that share a node of capacity *y* satisfy :math:`\sum_i f(y_i)
\le f(y)`. Over the nodes of a type of GPU this is a capacity like any other: a choice on one node
takes :math:`f(d_i)` of the pool :math:`\sum_v g(R_v)`, one on several the least total of
:math:`g(k d)` over all splits of its replicas into pieces *k*, *d* being the demand of a replica. A
pool is added where the choices of the best prices take more than there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.mode_rounds.replica_splits import least_splits
from goodalloc.solvers.mode_columns.seat_program import Room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float, Int

    from goodalloc.formulations.mode_rounds.node_values import NodeValue
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.mode_columns.choice_pools import PooledChoices
    from goodalloc.solvers.mode_columns.node_units import NodeUnits, WorthOfNodes
    from goodalloc.solvers.mode_columns.priced_classes import PricedClasses


def with_node_worth(
    classes: PricedClasses,
    units: NodeUnits,
    worths: Sequence[tuple[int, NodeValue]],
    room: Room | None = None,
) -> PricedClasses:
    """Return classes of jobs with further pools.

    Parameters
    ----------
    classes
        The classes of jobs.
    units
        Units of the round, exact, so that the pools hold for every allocation.
    worths
        Type of GPU and value function of a node of every further pool.
    room
        What nodes have left; all that they have if None.
    """
    if not worths:
        return classes
    further = np.zeros((len(classes.choices.demand), len(worths)))
    there = np.ones(len(worths))
    for pool, (code, value) in enumerate(worths):
        further[:, pool] = _shares(classes.choices, units, code, value)
        if room is not None:
            here = units.node_type == code
            worth = units.worth_of_nodes(code, value)
            left = np.maximum(left_worth(worth, room.free[here], room.closed[here]), 0.0)
            there[pool] = float(left.sum()) / (worth.total or 1.0)
    return classes.with_pools(further, there)


def _shares(choices: PooledChoices, units: NodeUnits, code: int, value: NodeValue) -> Floats:
    """Return the share of what all nodes of a type are worth that choices take, by code."""
    worth = units.worth_of_nodes(code, value)
    if worth.shares is not None:
        return worth.shares
    columns = choices.columns
    mode, several, replicas = choices.decode(np.arange(len(choices.demand)))
    taken = units.taken(mode, replicas)
    span = min(columns.rules.max_nodes_per_job, columns.cluster.num_nodes)
    width = choices.length.shape[1]
    piece = worth.shared.at(taken).reshape(-1, 2, width)[:, 0, 1:]
    piece = np.where(np.isfinite(piece), piece, np.inf)
    split = least_splits(piece, np.full(len(piece), span), width - 1)
    takes = np.where(several > 0, split[mode, replicas], value.at(taken))
    here = (units.mode_type[mode] == code) & np.isfinite(takes) & (worth.total > 0.0)
    worth.shares = np.where(here, takes, 0.0) / (worth.total or 1.0)
    return worth.shares


def left_worth(
    worth: WorthOfNodes, free: Int[Indices, "nodes demands"], closed: Bool[Flags, " nodes"]
) -> Float[Floats, " nodes"]:
    """Return what is left on nodes is worth, where closed ones hold no further distributed job."""
    return np.where(closed, worth.value.at(free), worth.shared.at(free))


def unit_prices(
    units: NodeUnits, prices: Float[Floats, " pools"]
) -> tuple[Float[Floats, "types demands"], Float[Floats, " types"]]:
    """Return the price of a unit by type of GPU, and that of being a node's one distributed job.

    Parameters
    ----------
    units
        Units of the round.
    prices
        Prices of whole pools, without further ones.
    """
    total, _ = _totals(units, Room(units.capacity, np.zeros(len(units.capacity), dtype=bool)))
    each = prices.reshape(total.shape) / np.where(total > 0.0, total, np.inf)
    amounts = units.capacity.shape[1]
    alone = each[:, amounts] if each.shape[1] > amounts else np.zeros(len(each))
    return each[:, :amounts] * units.grid.unit, alone


def room_of_pools(units: NodeUnits, room: Room) -> Float[Floats, " pools"]:
    """Return the share of every pool that is left.

    Parameters
    ----------
    units
        Units of the round.
    room
        What nodes have left.
    """
    total, left = _totals(units, room)
    return (left / np.where(total > 0.0, total, 1.0)).ravel()


def _totals(units: NodeUnits, room: Room) -> tuple[Floats, Floats]:
    """Return what all nodes of a type of GPU have and have left: shapes (types, 1 + resources, and
    one for nodes where interference is avoided).
    """
    cluster = units.columns.cluster
    has = np.column_stack([cluster.node_gpus, cluster.node_resources])
    left = room.free * units.grid.unit
    if units.columns.rules.interference_avoidance:
        has = np.column_stack([has, np.ones(len(has))])
        left = np.column_stack([left, ~room.closed])
    total = np.zeros((len(cluster.gpu_types), has.shape[1]))
    free = total.copy()
    np.add.at(total, units.node_type, has)
    np.add.at(free, units.node_type, left)
    return total, free
