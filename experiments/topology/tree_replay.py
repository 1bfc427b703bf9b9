"""Replays on trees as plain data, run alone or several at a time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.replay.replay import Replay
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.support.records import digest
from goodalloc.solvers.policies.policy_table import POLICIES
from goodalloc.solvers.policies.registry import require_types_known
from goodalloc.solvers.topology.tree_policy import PlacedOnTree, PolluxOnTree, placed_by

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.topology.tree_wishes import TreeWishes
    from goodalloc.solvers.policies.policy import Policy, Terms


@dataclass(frozen=True)
class TreeReplay(ReplayTask):
    """Replay on a tree; see `ReplayTask`.

    The policy may have a placing, as ``tiresias@best_fit`` or ``pollux@exact``
    (`goodalloc.solvers.topology.tree_policy.placed_by`). Decisions are judged where the agents of
    the jobs know the tree: the models of others mix the speeds of the levels that they saw.

    Parameters
    ----------
    wishes
        The tree, and what jobs ask of its levels.
    """

    wishes: TreeWishes = field(kw_only=True)

    def __post_init__(self) -> None:
        refuse_unplaceable(self)

    @property
    def knows_tree(self) -> bool:
        """Whether the policy and the agents of the jobs know the tree."""
        return placed_by(self.policy)[1] == "exact"

    @property
    def judged(self) -> bool:
        """Whether decisions are judged."""
        return self.gaps and self.knows_tree

    @property
    def terms(self) -> Terms:
        """What the policy is told, and who chooses the batch sizes."""
        return replace(self._unplaced, gaps=False).terms

    @property
    def _unplaced(self) -> ReplayTask:
        """The replay of the policy without its placing, and without the tree."""
        given: dict[str, Any] = {name: getattr(self, name) for name in ReplayTask.__match_args__}
        given["policy"] = placed_by(self.policy)[0]
        return ReplayTask(**given)

    @property
    def _exact(self) -> PolluxOnTree:
        """Pollux on the tree."""
        return PolluxOnTree(self.wishes, self.rules, self.seconds)

    def made_policy(self) -> Policy:
        """Return a new policy, with its placing."""
        name, placing = placed_by(self.policy)
        if placing == "exact":
            return self._exact
        policy = self._unplaced.made_policy()
        if placing is None:
            return policy
        known = POLICIES.get(name)
        pollux = known is not None and known.is_pollux
        return PlacedOnTree(
            policy,
            self.wishes,
            placing,
            rigid=known is not None and known.rigid,
            interference_avoidance=pollux and self.interference_avoidance,
        )

    def description(self) -> dict[str, Any]:
        """Return the description for `Replay`: all inputs on which the records depend."""
        wishes, topology = self.wishes, self.wishes.topology
        return self._unplaced.description() | {
            "format": "goodalloc-tree-replay",
            "policy": self.policy,
            "gaps": self.judged,
            "tree": {
                "levels": [
                    [level.name, level.slowdown, level.uplink_jobs, *domains]
                    for level, domains in zip(topology.levels, topology.domains, strict=True)
                ],
                "slowdown": topology.slowdown,
                "requires": dict(wishes.requires),
                "prefers": dict(wishes.prefers),
                "discount": wishes.discount,
            },
        }

    def among(self, folder: Path) -> TreeReplay:
        """Return the replay in a folder of its own, named for its inputs.

        Parameters
        ----------
        folder
            Folder of several replays.
        """
        return replace(self, folder=folder / "replays" / f"tree-{digest(self.description())}")

    def run(self, report: Report = lambda _: None) -> None:
        """Replay the workload, from the last checkpoint if there is one.

        Raises
        ------
        ValueError
            As `ReplayTask.run`, or if a decision breaks a rule of the tree.
        """
        from goodalloc.experiments.topology.tree_judge import TreeJudge
        from goodalloc.experiments.topology.tree_simulator import (
            TreeSimulator,
        )  # neither is needed to describe a replay

        require_types_known(placed_by(self.policy)[0], self.setting.cluster)
        simulator = TreeSimulator(
            self.workload,
            self.applications,
            self.made_policy(),
            self.setting,
            wishes=self.wishes,
            knows_tree=self.knows_tree,
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        judge = TreeJudge(self._exact) if self.judged else None
        replay = Replay(simulator, self.folder, self.description(), judge)
        replay.run(lambda simulator: report(simulator.share_done))


def refuse_unplaceable(task: TreeReplay) -> None:
    """Refuse a replay whose policy cannot decide on its tree.

    Parameters
    ----------
    task
        The replay.

    Raises
    ------
    ValueError
        If the placing is unknown, nodes have cores or GPUs of several types, the policy changes the
        number of nodes, the tree forbids placements and the policy does not know it, or Pollux is
        to decide exactly without interference avoidance.
    """
    name, placing = placed_by(task.policy)
    item, cluster = f"Policy '{task.policy}'", task.setting.cluster
    if len(cluster.gpu_types) > 1 or cluster.resource_names:
        what = ", ".join(filter(None, (*cluster.gpu_types, *cluster.resource_names)))
        raise ValueError(f"Cluster: its nodes have {what}; expected equal GPUs only, on a tree.")
    if name.startswith("autoscaling"):
        raise ValueError(f"{item} changes the number of nodes; expected one that does not.")
    if placing is None and task.wishes.restricts:
        raise ValueError(
            f"{item} does not know the tree, which forbids placements; expected pollux@exact, or a "
            f"placing, as {name}@best_fit."
        )
    if placing == "exact" and not task.interference_avoidance:
        raise ValueError(f"{item} decides with interference avoidance only; expected it.")
