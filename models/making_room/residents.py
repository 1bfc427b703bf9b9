"""Jobs on the nodes of a cluster that is running, and the GPUs that they hold there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.round.instance import Instance


class Resident(NamedTuple):
    """Job on a node, by its index, and the GPUs that it holds there."""

    job: int
    gpus: int


def residents_of(instance: Instance) -> list[list[Resident]]:
    """Return the jobs of each node, in order.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job
    >>> from goodalloc.models.making_room import residents_of
    >>> residents_of(Instance(Cluster.uniform(2, 4), (Job("a", placement=((1, 3),)),)))
    [[], [Resident(job=0, gpus=3)]]
    """
    current = instance.current
    found: list[list[Resident]] = [[] for _ in range(instance.cluster.num_nodes)]
    for job, node, gpus in zip(
        current.job.tolist(), current.node.tolist(), current.replicas.tolist(), strict=True
    ):
        found[node].append(Resident(job, gpus))
    return found


def gpus_beyond_quotas(
    instance: Instance, groups: Mapping[int, str], quotas: Mapping[str, int]
) -> dict[str, int]:
    """Return the GPUs that each group with a quota holds beyond it.

    Parameters
    ----------
    instance
        The round.
    groups
        Group of each job that belongs to one, by the job's index.
    quotas
        GPUs of each group that are its own.
    """
    usage = Counter[str]()
    for job, group in groups.items():
        usage[group] += int(instance.current.job_replicas[job])
    return {group: max(usage[group] - quota, 0) for group, quota in quotas.items()}
