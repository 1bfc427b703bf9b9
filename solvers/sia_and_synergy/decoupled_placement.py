"""Decoupled placement: nodes for jobs whose types and numbers of GPUs are decided already.

Sia places after it has decided: type by type, jobs in decreasing size take whole nodes first, then
the remaining GPUs. If nodes have a power of two of GPUs, all equal within a type, and jobs
whole-node shapes of these that need no more GPUs than there are, that always succeeds: when a job's
turn comes every free piece is a multiple of its size.

The placement here differs where Sia's would move jobs without need. A job that is to keep its GPUs
stays where it is, unless a larger one needs the node; larger ones prefer nodes that no job is to
keep. In Sia's artifact a job that changes nodes but not the GPUs on each goes on without a restart;
here that is a change like any other. A job whose CPUs, memory or other resources fit nowhere is
left idle, and so is one that the odd sizes of nodes and jobs, or interference avoidance, leave no
room.

References
----------
Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling", SOSP
    2023. doi:10.1145/3600006.3613175
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.models.round.objective import mode_utilities
from goodalloc.solvers.heuristics.mode_occupancy import ModeOccupancy

if TYPE_CHECKING:
    from goodalloc.formulations.sia_and_synergy.sia import Configurations
    from goodalloc.models.round.allocation import Allocation, Placement
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Indices


def place_by_type(instance: Instance, chosen: Configurations) -> Allocation:
    """Return a feasible allocation with these configurations, as far as they fit.

    Parameters
    ----------
    instance
        The round.
    chosen
        One configuration for every job.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.sia_and_synergy import enumerate_configurations
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers.sia_and_synergy import place_by_type
    >>> job = Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5)), age=3600.0)
    >>> instance = Instance(Cluster.uniform(1, 2), (job,))
    >>> found = enumerate_configurations(instance)
    >>> two = np.flatnonzero(found.replicas == 2)[:1]
    >>> place_by_type(instance, found.where(two)).placements()
    [((0, 2),)]
    """
    nodes = ModeOccupancy(instance)
    of_type = instance.cluster.node_type == np.arange(len(instance.cluster.gpu_types))[:, None]
    keeps = (chosen.kind == Kind.KEEP) & (chosen.replicas > 0) & ~instance.pinned
    reserved = np.zeros_like(instance.cluster.node_gpus)
    for job in np.flatnonzero(keeps).tolist():
        _reserve(reserved, instance.jobs[job].placement, 1)
    for job in np.lexsort((~keeps, -chosen.replicas)).tolist():
        if chosen.replicas[job] == 0 or instance.pinned[job]:
            continue
        mode, row = int(chosen.mode[job]), instance.jobs[job].placement
        if keeps[job]:
            _reserve(reserved, row, -1)
        if not (keeps[job] and nodes.fits(mode, row)):
            room = nodes.room(mode) * of_type[chosen.gpu_type[job]]
            row = _best_row(nodes, room, reserved, mode, int(chosen.replicas[job]))
        if row:
            nodes.put(job, mode, row)
    return nodes.allocation()


def _reserve(reserved: Indices, row: Placement, sign: int) -> None:
    """Add or remove the reservation of the GPUs of a job that is to stay."""
    for node, gpus in row:
        reserved[node] += sign * gpus


def _best_row(
    nodes: ModeOccupancy, room: Indices, reserved: Indices, mode: int, gpus: int
) -> Placement:
    """Return the better of one node and several that fits and beats idling, if any."""
    worth = mode_utilities(nodes.instance).moved[mode, :, gpus]
    for spread in sorted((0, 1), key=lambda at: -worth[at]):
        if worth[spread] > nodes.instance.rules.idle:
            if spread:
                row = _on_several(nodes, room, reserved, gpus)
            else:
                row = nodes.best_fit(room, gpus, _rank(nodes, reserved, gpus))
            if row:
                return row
    return ()


def _on_several(nodes: ModeOccupancy, room: Indices, reserved: Indices, gpus: int) -> Placement:
    """Return whole nodes first, the rest on the best that holds it; empty if it does not fit."""
    room = np.where(nodes.distributed > 0, 0, room) if nodes.exclusive else room.copy()
    row: Placement = ()
    left = gpus
    while left and len(row) < nodes.most_nodes:
        wanted = min(left, int(room.max()), gpus - 1)  # at least one GPU is on another node
        if wanted == 0:
            break
        row += nodes.best_fit(room, wanted, _rank(nodes, reserved, wanted))
        room[row[-1][0]] = 0
        left -= wanted
    return () if left else tuple(sorted(row))


def _rank(nodes: ModeOccupancy, reserved: Indices, wanted: int) -> Indices:
    """Return one rank of a node: the reserved GPUs it would lose, then its free GPUs; (nodes,)."""
    free = nodes.free_gpus
    lost = np.maximum(wanted - free + reserved, 0)
    return np.asarray(lost * (nodes.instance.cluster.num_gpus + 1) + free)
