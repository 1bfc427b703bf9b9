"""Pods: jobs of a fixed size on one node, and their demand.

The word is Kubernetes's. A job asks here for its fewest replicas, at least one, all on one node; in
which of its modes is open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.objective import mode_utilities

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtyping import Bool

    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags


@dataclass(frozen=True, slots=True)
class Demand:
    """Demand of a pod for the node that it is on.

    Parameters
    ----------
    share
        The part of a GPU that each replica takes.
    replicas
        Number of replicas.
    takes
        What all of them together take of every resource, in the order of the cluster's.
    gpu_types
        The types of GPU it runs on, in order; the empty string for any.
    """

    share: float
    replicas: int
    takes: tuple[float, ...]
    gpu_types: tuple[str, ...]

    @property
    def gpus(self) -> float:
        """GPUs of all replicas."""
        return self.share * self.replicas

    def nodes(self, node_types: Iterable[str]) -> Bool[Flags, " nodes"]:
        """Return which nodes of these types have GPUs of its types, shape (nodes,)."""
        return np.array(
            ["" in self.gpu_types or kind in self.gpu_types for kind in node_types], dtype=bool
        )


def pod_demands(instance: Instance) -> list[tuple[Demand, ...]]:
    """Return the demands of every job: one entry for each way to run, equal ones of several modes
    merged.

    Returns
    -------
    list
        For every job its demands, in the order of its modes.

    Examples
    --------
    >>> from goodalloc.data.pods import draw_machines, draw_pods, pods_instance
    >>> from goodalloc.formulations.pods import pod_demands
    >>> instance = pods_instance(draw_machines()[:8], draw_pods(0)[:20], name="pods")
    >>> len(pod_demands(instance)) == instance.num_jobs
    True
    """
    names = instance.cluster.resource_names
    known: dict[tuple[object, ...], tuple[Demand, ...]] = {}
    found = []
    for index, job in enumerate(instance.jobs):
        replicas = int(instance.min_replicas[index])
        modes = tuple((mode.gpu_share, mode.resources, mode.gpu_type) for mode in job.all_modes)
        key = (replicas, modes)
        if key not in known:
            types: dict[tuple[float, tuple[float, ...]], list[str]] = {}
            for share, resources, kind in modes:
                amounts = dict(resources)
                takes = tuple(replicas * amounts.get(name, 0.0) for name in names)
                types.setdefault((share, takes), []).append(kind)
            known[key] = tuple(
                Demand(share, replicas, takes, tuple(sorted(set(kinds))))
                for (share, takes), kinds in types.items()
            )
        found.append(known[key])
    return found


def pod_options(instance: Instance) -> list[tuple[tuple[Demand, float], ...]]:
    """Return the options of every job on one node, with the utility that each adds.

    Returns
    -------
    list
        For every job pairs of a demand and a gain over idling, for every number of replicas that
        it may have and every mode, those put together that differ in the type of GPU only; without
        those that add nothing.
    """
    table, names = mode_utilities(instance), instance.cluster.resource_names
    most = instance.most_in_group.max(axis=1)
    found = []
    for index, job in enumerate(instance.jobs):
        types: dict[tuple[float, int, tuple[float, ...], float], list[str]] = {}
        for row, mode in enumerate(job.all_modes, start=int(instance.first_mode[index])):
            amounts = dict(mode.resources)
            last = min(int(instance.max_replicas[index]), int(most[row]))
            for replicas in range(int(instance.min_replicas[index]), last + 1):
                gain = float(table.moved[row, 0, replicas]) - instance.rules.idle
                takes = tuple(replicas * amounts.get(name, 0.0) for name in names)
                if gain > 0:
                    key = (mode.gpu_share, replicas, takes, gain)
                    types.setdefault(key, []).append(mode.gpu_type)
        found.append(
            tuple(
                (Demand(share, replicas, takes, tuple(sorted(set(kinds)))), gain)
                for (share, replicas, takes, gain), kinds in types.items()
            )
        )
    return found


def mode_of(instance: Instance, job: int, demand: Demand, node: int) -> int:
    """Return the mode of greatest worth of a job that has that demand and runs on that node.

    Raises
    ------
    ValueError
        If there is none.

    Examples
    --------
    >>> from goodalloc.data.pods import draw_machines, draw_pods, pods_instance
    >>> from goodalloc.formulations.pods import mode_of, pod_demands
    >>> instance = pods_instance(draw_machines()[:8], draw_pods(0)[:20], name="pods")
    >>> demand = pod_demands(instance)[0][0]
    >>> mode_of(instance, 0, demand, node=0)
    0
    """
    names, kind = instance.cluster.resource_names, instance.cluster.node_types[node]
    worth = mode_utilities(instance).moved[:, 0, demand.replicas]
    best, first = -1, int(instance.first_mode[job])
    for index, mode in enumerate(instance.jobs[job].all_modes):
        amounts = dict(mode.resources)
        takes = tuple(demand.replicas * amounts.get(name, 0.0) for name in names)
        suits = (mode.gpu_share, takes) == (demand.share, demand.takes)
        if suits and mode.gpu_type in ("", kind):
            best = index if best < 0 or worth[first + index] > worth[first + best] else best
    if best < 0:
        raise ValueError(f"Job '{instance.jobs[job].name}' has no mode with this demand: {demand}.")
    return best
