"""Demand of an allocation on the resources of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats


def node_demand(instance: Instance, allocation: Allocation) -> Float[Floats, "nodes resources"]:
    """Return the demand on every node's resources beside GPUs, shape (nodes, resources).

    Examples
    --------
    >>> from goodalloc.models import Allocation, Cluster, Instance, Job, Mode, NodeGroup
    >>> from goodalloc.models.round import node_demand
    >>> cluster = Cluster((NodeGroup("node", 2, 4, resources=(("cpu", 16.0),)),))
    >>> job = Job("job", modes=(Mode("three", resources=(("cpu", 3.0),)),))
    >>> node_demand(Instance(cluster, (job,)), Allocation.from_matrix([[2, 0]]))
    array([[6.],
           [0.]])
    """
    row = instance.first_mode + allocation.mode
    taken = instance.mode_resources[row][allocation.job] * allocation.replicas[:, None]
    total = np.zeros(instance.cluster.node_resources.shape)
    np.add.at(total, allocation.node, taken)
    return total
