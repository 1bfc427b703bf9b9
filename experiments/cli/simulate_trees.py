"""Option `--tree` of the command `simulate`: replays on clusters that are trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.data.topology.topology_file import read_wishes
from goodalloc.experiments.topology.tree_replay import TreeReplay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.experiments.replay.replay_task import ReplayTask


def on_tree(tasks: Sequence[ReplayTask], tree: str) -> list[ReplayTask]:
    """Return replays on a tree, of policies with their placings.

    Parameters
    ----------
    tasks
        The replays without the tree, of the same jobs on the same cluster.
    tree
        As in `goodalloc.data.topology.read_wishes`.

    Raises
    ------
    ValueError
        If the file is malformed or does not suit cluster and jobs, or a policy cannot decide on the
        tree.
    """
    cluster, jobs = tasks[0].setting.cluster, [job.name for job in tasks[0].workload]
    wishes = read_wishes(tree, cluster, jobs)
    found: list[ReplayTask] = []
    for task in tasks:
        replay = TreeReplay(**vars(task), wishes=wishes)
        replay.made_policy()  # refuses unknown names before anything is written
        found.append(replay)
    return found
