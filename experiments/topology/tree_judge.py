"""Quality of a decision on a tree by the objective of Pollux with speeds by level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.replay.judge import OPTIMAL, Judge, Verdict

if TYPE_CHECKING:
    from goodalloc.solvers.policies.policy import Decision, Round
    from goodalloc.solvers.topology.tree_policy import PolluxOnTree


class TreeJudge(Judge):
    """Judge of decisions on a tree, as the models of agents that know it predict it; see `Judge`.

    The bound that the policy proved for the round is taken over, unless the decision refutes it;
    where it has none, the round is decided to a relative gap of 1e-4.

    Parameters
    ----------
    exact
        Policy that decides on the tree, by whose rules and in whose time limit decisions are
        judged.
    """

    def __init__(self, exact: PolluxOnTree) -> None:
        super().__init__(exact.rules, exact.seconds, trusting=True)
        self.wishes = exact.wishes

    def __call__(self, round_: Round, decision: Decision) -> Verdict:
        """Return the verdict on `decision` in `round_`."""
        from goodalloc.solvers.topology.tree_quality import tree_quality  # a long chain of imports

        on_tree = self.wishes.round_of(self._instance(round_, decision))
        held = [decision.placements.get(job.name, ()) for job in round_.jobs]
        found = tree_quality(on_tree, held, decision, self.stop.seconds)
        own = found.starved, found.served_fitness
        gap = max(1.0 - found.fitness / found.bound.value, 0.0)
        best = own if gap <= OPTIMAL else (found.best_starved, found.best_served_fitness)
        source, evidence = found.bound.source, found.bound.evidence
        return Verdict(found.fitness, found.bound.value, gap, source, evidence, *own, *best)
