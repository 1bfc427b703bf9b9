"""Shapes of a job: the number of GPUs of one type, on one node or on several.

Sia restricts them to *whole-node* shapes: on one node a power of two, or all of it; on
several nodes all of each. So (nodes, GPUs) are (1, 1), (1, 2), (1, 4), (2, 8), (3, 12) and so on
where nodes have 4 GPUs, and (1, 1), (1, 2), (1, 4), (1, 8), (2, 16) and so on where they have 8. If
nodes have a power of two of GPUs, jobs of such shapes that need no more than there are always fit.

References
----------
Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling", SOSP
    2023. doi:10.1145/3600006.3613175
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool
    from numpy.typing import NDArray

    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags


def allowed_shapes(instance: Instance, *, whole_nodes: bool) -> Bool[Flags, "modes types 2 gpus"]:
    """Return flags of the allowed shapes, (modes, types, 2, most GPUs + 1).

    Types are those of `Cluster.gpu_types`; the third axis is 0 for one node and 1 for several, the
    last the number of GPUs, as in `UtilityTable.moved`. Limits of the job, its mode's type, the
    available nodes and the most nodes of a job are observed; other resources are not.

    Parameters
    ----------
    instance
        Instance of the round.
    whole_nodes
        Only Sia's shapes; otherwise every number of GPUs.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.models.round import allowed_shapes
    >>> cluster = Cluster.uniform(nodes=2, gpus=4)
    >>> job = Job("job", SpeedupTable((1.0, 1.8), ()), max_replicas=2)
    >>> instance = Instance(cluster, (job,))
    >>> allowed_shapes(instance, whole_nodes=True)[0, 0, 0]  # 0, 1 and 2 GPUs of one node
    array([False,  True,  True])
    """
    cluster, limit = instance.cluster, instance.rules.max_nodes_per_job
    most = max(int(instance.max_replicas.max()), 1)
    shapes = _whole_nodes if whole_nodes else _any_count
    node_types = np.array(cluster.node_types)
    by_type = np.array(
        [shapes(cluster.node_gpus[node_types == name], limit, most) for name in cluster.gpu_types]
    )
    wanted = np.array([mode.gpu_type for mode in instance.modes])[:, None]
    fits = (wanted == "") | (wanted == np.array(cluster.gpu_types))
    replicas, job = np.arange(most + 1), instance.mode_job
    within = (replicas >= instance.min_replicas[job, None]) & (
        replicas <= instance.max_replicas[job, None]
    )
    allowed: Flags = fits[:, :, None, None] & by_type & within[:, None, None, :]
    return allowed


def _whole_nodes(gpus: NDArray[np.int64], most_nodes: int, most: int) -> Flags:
    """Return powers of two on one node, and whole nodes of each size, up to `most` GPUs."""
    shapes = np.zeros((2, most + 1), dtype=bool)
    for size, count in zip(*np.unique(gpus, return_counts=True), strict=True):
        halved = 2 ** np.arange(int(size).bit_length())
        one_node = np.append(halved, size)
        shapes[0, one_node[one_node <= most]] = True
        several = size * np.arange(2, min(count, most_nodes) + 1)
        shapes[1, several[several <= most]] = True
    return shapes


def _any_count(gpus: NDArray[np.int64], most_nodes: int, most: int) -> Flags:
    """Return every number of GPUs that fits, up to `most`."""
    largest = np.sort(gpus)[::-1][:most_nodes]
    replicas = np.arange(most + 1)
    one_node = (replicas >= 1) & (replicas <= largest[0])
    several = (replicas >= 2) & (replicas <= largest.sum()) & (largest.size > 1)
    return np.stack([one_node, several])
