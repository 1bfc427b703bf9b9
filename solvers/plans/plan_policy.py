"""Policies for jobs with execution plans: what every job holds until the next round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.plans.execution_plan import Configuration
    from goodalloc.models.plans.plan_job import PlanRound


class PlanPolicy(Protocol):
    """Decider of round after round."""

    def decide(self, round_: PlanRound) -> Mapping[str, Configuration]:
        """Return what every job holds that runs, by name; the others hold nothing."""
        ...


@dataclass
class LastRound:
    """Last round of a policy that decides at arrivals and departures.

    Parameters
    ----------
    names, capacity, decision
        Its jobs, GPUs by type, and what was decided.
    """

    names: frozenset[str] = frozenset()
    capacity: Mapping[str, int] = field(default_factory=dict)
    decision: Mapping[str, Configuration] = field(default_factory=dict)

    def precedes(self, round_: PlanRound) -> bool:
        """Return whether a round begins as this one ended, but for jobs that came or went."""
        held = {one.job.name: one.held for one in round_.jobs if one.held is not None}
        kept = {one.job.name for one in round_.jobs}
        decided = {name: one for name, one in self.decision.items() if name in kept}
        return dict(round_.capacity) == dict(self.capacity) and held == decided

    def remember(self, round_: PlanRound, decision: Mapping[str, Configuration]) -> None:
        """Keep a round and its decision."""
        self.names = frozenset(one.job.name for one in round_.jobs)
        self.capacity, self.decision = round_.capacity, decision
