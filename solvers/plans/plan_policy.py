"""Policies for jobs with execution plans: what every job holds until the next round."""

from __future__ import annotations

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
