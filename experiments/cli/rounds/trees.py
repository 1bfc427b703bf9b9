"""Tree of a round, as the commands take it: a file, or the standard one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from goodalloc.models.round.instance import Instance
    from goodalloc.models.topology.topology_round import TopologyRound


def read_tree(path: str | os.PathLike[str], instance: Instance) -> TopologyRound:
    """Return a round on a tree.

    Parameters
    ----------
    path, instance
        A topology file, or ``standard`` for islands, racks and pods of equal nodes; and the round.

    Raises
    ------
    ValueError
        As `goodalloc.data.topology.read_topology`.
    """
    from goodalloc.data.topology.topology_file import STANDARD, read_topology, read_wishes

    if path != STANDARD:
        return read_topology(path, instance)
    names = [job.name for job in instance.jobs]
    return read_wishes(path, instance.cluster, names).round_of(instance)
