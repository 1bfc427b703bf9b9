"""Placements that waste no part of a node: several nodes only as a whole, and fewer GPUs in all.

Where jobs are few and large, the whole numbers of GPUs that one price prescribes often do not fit
the nodes: a job on several nodes leaves a part of its last one, and whoever finds no place then
falls back to one node. So all jobs are asked again, with multiples of a node's GPUs alone beyond
one node, and with as many GPUs fewer in all as found no place, until all are placed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.solvers.columns.column_choices import column_costs
from goodalloc.solvers.columns.placing import place_replicas
from goodalloc.solvers.columns.price_search import search_price

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Flags, Indices
    from goodalloc.solvers.columns.price_search import BestPrice
    from goodalloc.solvers.columns.round_utilities import RoundUtilities

#: Times that the GPUs without a place are left out, at most.
MOST_BUDGETS = 6


def whole_node_placements(
    utilities: RoundUtilities, reference: float, power: float
) -> Iterator[tuple[Indices, Allocation]]:
    """Generate numbers of GPUs by one price in which jobs on several nodes have whole nodes.

    Parameters
    ----------
    utilities
        Utilities of a round.
    reference
        Utility near the best mean, as `Wanted.reference`.
    power
        Power of the mean, finite.

    Yields
    ------
    tuple
        The GPUs that every job is to have, shape (jobs,), and what was placed of them.

    Examples
    --------
    Of six GPUs two jobs could have three each, and so a part of one node. Of whole nodes they have
    one each, and one is left for best responses (`solvers/columns/best_responses.py`):

    >>> from goodalloc.models import Cluster, Instance, Job, Rules
    >>> from goodalloc.models.columns import RoundColumns, column_utilities
    >>> from goodalloc.solvers.columns.whole_nodes import whole_node_placements
    >>> jobs = tuple(Job(name, max_replicas=6) for name in ("a", "b"))
    >>> rules = Rules(power=1.0, restart_delay=0.0)
    >>> columns = RoundColumns.of(Instance(Cluster.uniform(3, 2), jobs, rules))
    >>> found = whole_node_placements(column_utilities(columns), 1.0, power=1.0)
    >>> next(found)[0].tolist()
    [2, 2]
    """
    cost = column_costs(utilities, reference, power)
    cost[~_whole(utilities)] = np.inf
    gpus = utilities.columns.cluster.num_gpus
    for _ in range(MOST_BUDGETS):
        replicas = _filled(search_price(cost, gpus), gpus)
        allocation = place_replicas(utilities, replicas)
        yield replicas, allocation
        homeless = int(np.maximum(replicas - allocation.job_replicas, 0).sum())
        gpus -= homeless
        if not homeless or gpus <= 0:
            return


def _whole(utilities: RoundUtilities) -> Bool[Flags, "jobs gpus"]:
    """Return the numbers of GPUs on one node, of whole nodes, or that a job has now."""
    columns, replicas = utilities.columns, np.arange(utilities.width)
    node = int(columns.cluster.node_gpus.max())
    allowed = np.tile((replicas <= node) | (replicas % node == 0), (columns.num_jobs, 1))
    held = np.minimum(columns.current.job_replicas, utilities.width - 1)
    allowed[np.arange(columns.num_jobs), held] = True
    return allowed


def _filled(found: BestPrice, gpus: int) -> Indices:
    """Return the fewest GPUs at a price, and what jobs are indifferent to while it fits."""
    replicas, raises = found.fewest.copy(), found.most - found.fewest
    left = gpus - int(replicas.sum())
    for job in np.argsort(-raises, kind="stable")[: np.count_nonzero(raises > 0)].tolist():
        if raises[job] <= left:
            replicas[job] += raises[job]
            left -= int(raises[job])
    return replicas
