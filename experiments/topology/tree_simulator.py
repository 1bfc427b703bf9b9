"""Simulator of a cluster that is a tree: jobs slow down by level, decisions obey its rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goodalloc.experiments.replay.job_oracle import EstimatedOracle, TrueOracle
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.topology.tree_job import TreeJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.replay.simulated_job import SimulatedJob
    from goodalloc.models.topology.tree_wishes import TreeWishes
    from goodalloc.solvers.policies.policy import Decision, Round


@dataclass
class TreeSimulator(Simulator):
    """Replay on a tree; see `Simulator`.

    Parameters
    ----------
    wishes
        The tree, and what jobs ask of its levels.
    knows_tree
        Whether the agents of the jobs know the tree.

    Raises
    ------
    ValueError
        As `Simulator`; or if the policy shares GPUs, whose speeds on trees are not known.
    """

    wishes: TreeWishes = field(kw_only=True)
    knows_tree: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if getattr(self.policy, "sharing", None) is not None:
            raise ValueError(
                f"Policy of type {type(self.policy).__name__}: its jobs share GPUs; expected one "
                "whose jobs have GPUs of their own, on a tree."
            )
        super().__post_init__()

    def submit(self, submission: Submission) -> None:
        """Add a job that is not submitted before the last one; see `Simulator.submit`."""
        super().submit(submission)
        job = TreeJob(self.jobs[-1], self.wishes, knows_tree=self.knows_tree)
        self.jobs[-1] = job
        estimated = self.setting.oracle == "estimated"
        oracle = EstimatedOracle(job) if estimated else TrueOracle(job, speeds=self._speeds)
        self._oracles[submission.name] = oracle

    def _apply(self, active: Sequence[SimulatedJob], round_: Round, decision: Decision) -> int:
        """Apply `decision` to the active jobs; return the number of restarts."""
        for violation in self.wishes.broken_rules(round_.cluster, decision.placements):
            raise ValueError(f"Decision at {round_.time} s: {violation}")
        return super()._apply(active, round_, decision)
