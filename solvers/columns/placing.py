"""Placement of whole numbers of GPUs: jobs that stay, packing, room for the rest, or fewer GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import power_cost
from goodalloc.solvers.columns.column_choices import chunks
from goodalloc.solvers.columns.consolidation import make_room
from goodalloc.solvers.columns.node_packing import NodePacking

if TYPE_CHECKING:
    from jaxtyping import Int

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.columns.round_utilities import RoundUtilities

#: Least power by which losses are weighed where room is made: beyond, they do not fit float64.
LEAST_POWER = -10.0

#: Times that jobs without a place are offered fewer GPUs.
MOST_OFFERS = 8


def place_replicas(utilities: RoundUtilities, replicas: Int[Indices, " jobs"]) -> Allocation:
    """Return an allocation that gives jobs these GPUs as far as they fit.

    Parameters
    ----------
    utilities
        Utilities of a round.
    replicas
        GPUs that every job is to have.
    """
    stays, spread, moved = _ways(utilities, replicas)
    packing = NodePacking(utilities.columns, replicas)
    stays = packing.keep(stays)
    waiting = packing.unplaced
    packing.spread(waiting[spread[waiting]])
    waiting = packing.unplaced
    packing.single(waiting[~spread[waiting]])
    if packing.unplaced.size:
        power, idle = max(utilities.columns.rules.power, LEAST_POWER), utilities.columns.rules.idle
        now = power_cost(np.where(stays, utilities.kept, moved), power)
        loss = np.where(stays, power_cost(moved, power) - now, 0.0)
        make_room(packing, loss, power_cost(idle, power) - now)
    for _ in range(MOST_OFFERS):
        waiting = packing.unplaced
        if not waiting.size or not packing.largest:
            break
        packing.replicas[waiting] = _on_one_node(utilities, waiting, packing.largest)
        packing.single(waiting)
    return packing.allocation()


def _ways(utilities: RoundUtilities, replicas: Indices) -> tuple[Flags, Flags, Floats]:
    """Return how every job is to run, and what that is worth.

    Returns
    -------
    tuple
        Jobs that keep their placement; those for which several nodes are better than one; their
        utility on the better of the two, placed anew.
    """
    columns, current = utilities.columns, utilities.columns.current
    largest = int(columns.cluster.node_gpus.max())
    spread, worth = np.zeros(columns.num_jobs, dtype=bool), np.empty(columns.num_jobs)
    for part in chunks(columns.num_jobs):
        moved, given = utilities.moved(part), replicas[part, None, None]
        one, several = np.take_along_axis(moved, given, axis=2)[:, :, 0].T
        one = np.where(replicas[part] <= largest, one, -np.inf)
        several = np.where(replicas[part] > 1, several, -np.inf)
        spread[part], worth[part] = several > one, np.maximum(one, several)
    stays = (replicas > 0) & (replicas == current.job_replicas) & (utilities.kept >= worth)
    stays &= current.job_nodes <= columns.rules.max_nodes_per_job
    return stays, spread, worth


def _on_one_node(utilities: RoundUtilities, jobs: Indices, most: int) -> Indices:
    """Return the best numbers of GPUs of jobs on one node, up to a number."""
    width = np.arange(min(most, utilities.width - 1) + 1)
    rows = utilities.moved(jobs)[:, 0, : width.size]
    allowed = width <= utilities.columns.max_replicas[jobs, None]
    best: Indices = np.argmax(np.where(allowed, rows, -np.inf), axis=1)
    return best
