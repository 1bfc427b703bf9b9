"""Replays of the command `simulate` that are no plain ones: with foresight, and on trees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from goodalloc.experiments.studies.hindsight.known_task import KnownTask
from goodalloc.solvers.policies.policy import Terms
from goodalloc.solvers.policies.registry import make_policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.experiments.hindsight.known_replay import Foresight
    from goodalloc.experiments.replay.replay_task import ReplayTask

#: Policies that know more than a scheduler can, and what each of them knows.
FORESIGHT: Mapping[str, Foresight] = {
    "foresight-work": "remaining work",
    "foresight-plans": "plans",
    "foresight-hour": "arrivals of an hour",
}


def require_policies(names: Sequence[str]) -> None:
    """Refuse policies of a replay without a tree that do not exist, or need one.

    Raises
    ------
    ValueError
        If a name is unknown, or that of a policy with a placing on a tree.
    """
    for name in names:
        if "@" in name:
            raise ValueError(f"Policy '{name}' places jobs on a tree; expected --tree with it.")
        if name not in FORESIGHT:
            make_policy(name)


@dataclass(frozen=True)
class ForesightTask(KnownTask):
    """Replay under a policy with foresight, by its name here; see `KnownTask`."""

    @property
    def terms(self) -> Terms:
        """What the policy is told, and who chooses the batch sizes."""
        own = self.setting.batch_sizes
        return Terms("true remaining", "adaptive" if own == "policy" else own)


def with_foresight(task: ReplayTask) -> ReplayTask:
    """Return a replay under the policy with foresight that it names, or as it is.

    Jobs know their speed when they start. Decisions are not judged, which follow another objective.

    Parameters
    ----------
    task
        The replay.

    Raises
    ------
    ValueError
        If nodes have several types of GPU or other resources, or as `replayed_problem`.
    """
    if task.policy not in FORESIGHT:
        return task
    cluster = task.setting.cluster
    if len(cluster.gpu_types) > 1:
        raise ValueError(
            f"Policy '{task.policy}' knows one type of GPU and the cluster has "
            f"{', '.join(cluster.gpu_types)}; expected one."
        )
    told = {"setting": replace(task.setting, knowledge="profiled"), "gaps": False}
    known = ForesightTask(**vars(task) | told, foresight=FORESIGHT[task.policy])
    known.made_policy()  # refuses what it cannot serve before anything is written
    return known


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
    from goodalloc.data.topology.topology_file import read_wishes  # few replays need these
    from goodalloc.experiments.topology.tree_replay import TreeReplay

    cluster, jobs = tasks[0].setting.cluster, [job.name for job in tasks[0].workload]
    wishes = read_wishes(tree, cluster, jobs)
    found: list[ReplayTask] = []
    for task in tasks:
        replay = TreeReplay(**vars(task), wishes=wishes)
        replay.made_policy()  # refuses unknown names before anything is written
        found.append(replay)
    return found
