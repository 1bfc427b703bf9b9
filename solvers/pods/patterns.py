"""Patterns of nodes: from allocations and prices, and back to pods on nodes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.pods.packing import Pattern
from goodalloc.models.round.gpu_sharing import pack_shares
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from goodalloc.formulations.pods.demand import Demand
    from goodalloc.formulations.pods.packing import PodPacking
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats


def patterns_of(
    packing: PodPacking, instance: Instance, allocation: Allocation
) -> Iterable[Pattern]:
    """Return the pattern of every node under an allocation."""
    kind = {job: t for t, jobs in enumerate(packing.kinds) for job in jobs}
    class_of = {node: c for c, one in enumerate(packing.classes) for node in one.nodes}
    first = np.searchsorted(packing.kind, np.arange(len(packing.kinds) + 1))
    held: list[dict[int, int]] = [{} for _ in range(instance.cluster.num_nodes)]
    share = instance.mode_share[instance.first_mode + allocation.mode]
    takes = instance.mode_resources[instance.first_mode + allocation.mode]
    entries = (allocation.job.tolist(), allocation.node.tolist(), allocation.replicas.tolist())
    for job, node, replicas in zip(*entries, strict=True):
        wanted = (share[job], replicas, tuple((takes[job] * replicas).tolist()))
        options = [
            option
            for option in range(first[kind[job]], first[kind[job] + 1])
            if packing.most[option, class_of[node]] > 0
            and _takes(packing.options[option]) == wanted
        ]
        if options:
            best = max(options, key=lambda option: float(packing.gain[option]))
            held[node][best] = held[node].get(best, 0) + 1
    return (Pattern(class_of[node], tuple(sorted(pods.items()))) for node, pods in enumerate(held))


def _takes(demand: Demand) -> tuple[float, int, tuple[float, ...]]:
    """Return the amounts of a demand, whatever the type of GPU."""
    return demand.share, demand.replicas, demand.takes


def pattern_that_fits(
    packing: PodPacking, node_class: int, pods: dict[int, int], prices: Floats
) -> Pattern:
    """Return a pattern without its cheapest pods, as far as it exceeds the node."""
    one, left = packing.classes[node_class], dict(pods)
    while left:
        held = [(packing.options[option], number) for option, number in left.items()]
        if _holds(held, one.gpus, one.resources):
            break
        cheapest = min(left, key=lambda option: (prices[option], option))
        left[cheapest] -= 1
        left = {option: number for option, number in left.items() if number}
    return Pattern(node_class, tuple(sorted(left.items())))


def _holds(held: list[tuple[Demand, int]], gpus: int, resources: tuple[float, ...]) -> bool:
    """Return whether a node holds these pods, to half of the checker's tolerance."""
    for resource, has in enumerate(resources):
        used = math.fsum(number * demand.takes[resource] for demand, number in held)
        if used > has * (1 + RESOURCE_TOLERANCE / 2):
            return False
    shares = [d.share for d, number in held for _ in range(d.replicas * number)]
    return pack_shares(shares, gpus) is not None


def place_patterns(
    packing: PodPacking, chosen: Iterable[tuple[Pattern, int]], quota: NDArray[np.int64]
) -> dict[int, tuple[Demand, int]]:
    """Assign nodes and pods to whole patterns.

    Parameters
    ----------
    packing
        The batch.
    chosen
        Patterns, and the number of nodes of each.
    quota
        Pods by option, shape (options,); patterns may hold more.

    Returns
    -------
    dict
        The demand and the node of every job that is placed.
    """
    waiting = [list(reversed(jobs)) for jobs in packing.kinds]
    free = [list(reversed(one.nodes)) for one in packing.classes]
    left = quota.tolist()
    placed: dict[int, tuple[Demand, int]] = {}
    for pattern, nodes in chosen:
        for _ in range(nodes):
            node = free[pattern.node_class].pop()
            for option, number in pattern.pods:
                jobs = waiting[packing.kind[option]]
                taken = min(number, left[option], len(jobs))
                left[option] -= taken
                for _ in range(taken):
                    placed[jobs.pop()] = (packing.options[option], node)
    return placed
