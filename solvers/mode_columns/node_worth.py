r"""Pools of the worth of nodes, which see that some choices do not share nodes well.

With the value function *f* of a node at any prices of pieces (`formulations/mode_rounds/
node_values.py`), pieces :math:`y_i` that share a node of capacity *y* satisfy :math:`\sum_i f(y_i)
\le f(y)`. Over the nodes of a type of GPU this is a capacity like any other: a choice on one node
takes :math:`f(d_i)` of the pool :math:`\sum_v g(R_v)`, one on several the least total of
:math:`g(k d)` over all splits of its replicas into pieces *k*, *d* being the demand of a replica. A
pool is added where the choices of the best prices take more than there is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.mode_rounds.replica_splits import least_splits
from goodalloc.models.support.tolerances import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.formulations.mode_rounds.node_values import NodeValue
    from goodalloc.solvers.mode_columns.node_units import NodeUnits
    from goodalloc.solvers.mode_columns.priced_classes import PricedClasses


def with_node_worth(
    classes: PricedClasses, units: NodeUnits, worths: Sequence[tuple[int, NodeValue]]
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
    """
    if not worths:
        return classes
    choices, columns = classes.choices, classes.choices.columns
    mode, several, replicas = choices.decode(np.arange(len(choices.demand)))
    taken = units.taken(mode, replicas)
    span = min(columns.rules.max_nodes_per_job, columns.cluster.num_nodes)
    width = choices.length.shape[1]
    further = np.zeros((len(choices.demand), len(worths)))
    for pool, (code, value) in enumerate(worths):
        own = units.capacity[units.node_type == code]
        worth = float(value.shared(own).sum()) * (1.0 + ROUNDING)
        piece = value.shared(taken).reshape(-1, 2, width)[:, 0, 1:]
        piece = np.where(np.isfinite(piece), piece, np.inf)
        split = least_splits(piece, np.full(len(piece), span), width - 1)
        takes = np.where(several > 0, split[mode, replicas], value.at(taken))
        here = (units.mode_type[mode] == code) & np.isfinite(takes) & (worth > 0.0)
        further[:, pool] = np.where(here, takes, 0.0) / (worth or 1.0)
    pools = replace(
        choices,
        demand=np.hstack([choices.demand, further]),
        kept_demand=np.hstack([choices.kept_demand, further[choices.kept_code]]),
    )
    return replace(classes, choices=pools)
