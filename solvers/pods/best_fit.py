"""Best fit: each pod in turn on the node with the least remaining room.

References
----------
Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
    Descent", ATC 2023, section 6. https://www.usenix.org/conference/atc23/presentation/weng
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.tolerances import SMALLEST_DIVISOR
from goodalloc.solvers.interface.result import Answer
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.pods.node_room import NodeRoom

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.round.instance import Instance


def solve_best_fit(instance: Instance, *, stop: Stop | None = None) -> Answer:
    """Place the jobs in their order, each for its fewest replicas on one node, by best fit.

    Among the nodes with room a pod gets the one with the least remaining afterwards,

    ``score = sum_i (free_i - request_i) / (largest_i m)``

    over the *m* kinds of resource, GPUs among them, each relative to the most that any node has of
    it (one of the baselines of FGD, section 6, there with cores and GPUs); on the node it gets the
    fullest GPU that holds it. Ties go to the earlier mode and the earlier node. A job that fits
    nowhere gets nothing; jobs that run on one node stay.

    Parameters
    ----------
    instance
        The round.
    stop
        Limits on the time; the allocation at the limit is returned.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers.pods import solve_best_fit
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> jobs = (Job("a", table, min_replicas=2), Job("b", table, min_replicas=2))
    >>> solve_best_fit(Instance(Cluster.uniform(1, 4), jobs)).allocation.placements()
    [((0, 2),), ((0, 2),)]
    """
    watch, room = Watch(stop or Stop()), NodeRoom(instance)
    placed = place_by_best_fit(room, room.waiting, watch)
    return Answer(room.allocation(), limit=watch.limit, iterations=placed)


def place_by_best_fit(room: NodeRoom, jobs: Sequence[int], watch: Watch) -> int:
    """Place jobs in this order until the time is up; return the number placed.

    Parameters
    ----------
    room
        Free room on the nodes; changed in place.
    jobs
        Jobs that hold nothing.
    watch
        The clock.
    """
    largest = np.maximum(room.capacity.max(axis=0, initial=0.0), SMALLEST_DIVISOR)
    most_gpus, kinds = float(room.instance.cluster.node_gpus.max()), largest.size + 1
    placed = 0
    for job in jobs:
        if watch.limit is not None:
            break
        best = None
        free = room.gpus.sum(axis=1) / most_gpus + (room.resources / largest).sum(axis=1)
        for demand in room.demands[job]:
            asked = demand.gpus / most_gpus + float((np.array(demand.takes) / largest).sum())
            score = np.where(room.fits(demand), np.round((free - asked) / kinds, 12), np.inf)
            node = int(np.argmin(score))
            if score[node] < (np.inf if best is None else best[0]):
                best = (float(score[node]), demand, node)
        if best is not None:
            room.put(job, best[1], best[2])
            placed += 1
    return placed
