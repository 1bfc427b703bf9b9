"""Synergy's view of every job: its GPUs, its ideal mode and its proportional mode.

Synergy takes the GPUs of a job as given and decides what stands beside them. Of any instance we
take, as that given number, the most GPUs that a job may have. Its *ideal* mode is the cheapest of
its fastest modes; its *proportional* mode the cheapest of the fastest that take, of every resource,
no more than a GPU's share of any node they may run on. Jobs in such modes fit wherever there are
GPUs.

References
----------
Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI 2022.
    https://www.usenix.org/conference/osdi22/presentation/mohan
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.mode_rounds.mode_choices import most_replicas, within_share
from goodalloc.models.round.mode import NO_MODE
from goodalloc.models.round.objective import mode_utilities
from goodalloc.models.support.tolerances import ROUNDING

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats, Indices


@dataclass(frozen=True)
class SynergyModes:
    """The demands of all jobs.

    Parameters
    ----------
    gpus
        GPUs of every job, shape (jobs,); 0 where it can never have as many as it asks for.
    utility
        Utility of every mode on these GPUs, on one node if any has so many, shape (modes,).
    ideal, proportional
        Row of these modes in `Instance.modes`, shape (jobs,); `NO_MODE` where there is none.
    """

    gpus: Int[Indices, " jobs"]
    utility: Float[Floats, " modes"]
    ideal: Int[Indices, " jobs"]
    proportional: Int[Indices, " jobs"]


def synergy_modes(instance: Instance) -> SynergyModes:
    """Return the demands of the jobs of an instance.

    A mode is ideal only if the job would fit with it into an empty cluster, on as few nodes as its
    GPUs alone take: the published simulator cuts what a job asks for to a server in the same way.

    Examples
    --------
    >>> from goodalloc.data.rounds import synergy_round
    >>> from goodalloc.formulations.sia_and_synergy import synergy_modes
    >>> instance = synergy_round(0, 1, 4)
    >>> synergy_modes(instance).gpus.tolist()  # jobs of one GPU
    [1, 1, 1, 1]
    """
    gpus = instance.max_replicas.copy()
    gpus[instance.min_replicas > gpus] = 0
    nodes = fewest_nodes(instance, gpus)
    table, rows = mode_utilities(instance).moved, np.arange(len(instance.modes))
    utility = table[rows, (nodes > 1).astype(np.int64), gpus[instance.mode_job]]
    price = _price(instance)
    possible = nodes > 0
    within = possible & within_share(instance)
    gpus[~np.logical_or.reduceat(possible, instance.first_mode)] = 0
    return SynergyModes(
        gpus,
        utility,
        _best(instance, utility, price, possible),
        _best(instance, utility, price, within),
    )


def fewest_nodes(instance: Instance, gpus: Int[Indices, " jobs"]) -> Int[Indices, " modes"]:
    """Return the nodes that a job takes in every mode with the cluster empty, shape (modes,).

    The fewest that have its GPUs, and 0 where these cannot hold what its replicas take as well.
    """
    found: dict[tuple[object, ...], int] = {}
    counts = np.zeros(len(instance.modes), dtype=np.int64)
    most = instance.rules.max_nodes_per_job
    for row, (mode, job) in enumerate(zip(instance.modes, instance.mode_job.tolist(), strict=True)):
        key = (mode.gpu_type, mode.resources, int(gpus[job]))
        if key not in found:
            found[key] = _fewest(instance, row, int(gpus[job]), most)
        counts[row] = found[key]
    return counts


def _fewest(instance: Instance, row: int, gpus: int, most: int) -> int:
    has = np.where(instance.mode_nodes[row], instance.cluster.node_gpus, 0)
    enough = np.flatnonzero(np.cumsum(np.sort(has)[::-1][:most]) >= gpus)
    if gpus == 0 or not enough.size:
        return 0
    count = int(enough[0]) + 1
    amounts = np.column_stack([has, instance.cluster.node_resources])
    room = most_replicas(amounts, np.insert(instance.mode_resources[row], 0, 1.0))
    return count if int(np.sort(room)[::-1][:count].sum()) >= gpus else 0


def _price(instance: Instance) -> Float[Floats, " modes"]:
    """Return the demand of a mode for the cluster, each resource as a share of its total:
    (modes,).
    """
    total = instance.cluster.node_resources.sum(axis=0)
    price: Floats = (instance.mode_resources / np.where(total > 0, total, 1.0)).sum(axis=1)
    return price


def _best(
    instance: Instance,
    utility: Float[Floats, " modes"],
    price: Float[Floats, " modes"],
    allowed: Bool[Flags, " modes"],
) -> Int[Indices, " jobs"]:
    """Return the cheapest of the fastest allowed modes of every job; of equals, the first."""
    start, job = instance.first_mode, instance.mode_job
    fastest = np.maximum.reduceat(np.where(allowed, utility, -np.inf), start)
    equal = allowed & (utility >= fastest[job] * (1 - ROUNDING))
    cheapest = np.minimum.reduceat(np.where(equal, price, np.inf), start)
    chosen = np.where(
        equal & (price <= cheapest[job] * (1 + ROUNDING)), np.arange(job.size), job.size
    )
    first = np.minimum.reduceat(chosen, start)
    return np.where(first < job.size, first, NO_MODE)
