"""Regions of a tree: sets of nodes in one of which a new job lies if a domain of a level holds it.

Without limits on uplinks the regions are the domains of the level. A domain below it whose uplink
is *full*, because as many jobs as may share it do so, holds all of the new job or nothing of it.
So the new job lies in the smallest domain that holds it and is full or of the level, and uses no
node of full domains inside of that one: each node is of exactly one region.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Int

    from goodalloc.models.support.array_types import Indices
    from goodalloc.models.topology.topology_round import TopologyRound


def job_regions(round_: TopologyRound, level: str) -> Int[Indices, " nodes"]:
    """Return the region of every node, shape (nodes,): a new job lies in one of them.

    Whenever one domain of the level holds the job and no uplink is shared by more jobs than may,
    all its nodes are of one region; and whenever they are, that is so, if each job that runs stays
    on its nodes or moves from one node to one node.

    Parameters
    ----------
    round_
        The round, whose present placements share the uplinks.
    level
        Name of the level, of those of `Topology.level_names`.

    Raises
    ------
    ValueError
        If there is no such level.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job
    >>> from goodalloc.models.topology import Level, Topology, TopologyRound, job_regions
    >>> wide = Job("wide", placement=((0, 1), (2, 1)))  # uses the uplinks of two racks of three
    >>> racks = Topology.regular(6, [(Level("rack", uplink_jobs=1), 2)])
    >>> round_ = TopologyRound(Instance(Cluster.uniform(6, 2), (wide,)), racks)
    >>> job_regions(round_, "rack").tolist()
    [0, 0, 1, 1, 2, 2]
    >>> job_regions(round_, "cluster").tolist()  # the third rack is the rest of the cluster
    [1, 1, 2, 2, 0, 0]
    """
    place = round_.topology.place_of("Level", level)
    region, first = round_.domain[place].copy(), int(round_.domain[place].max()) + 1
    limits = round_.topology.limited_levels
    for lower in range(place - 1, 0, -1):
        if lower not in limits:
            continue
        domain, domains = round_.domain[lower], int(round_.domain[lower].max()) + 1
        _, crossed = round_.crossings(round_.instance.current, lower)
        full = np.bincount(crossed, minlength=domains) >= limits[lower]
        region = np.where(full[domain], first + domain, region)
        first += domains
    return np.unique(region, return_inverse=True)[1]
