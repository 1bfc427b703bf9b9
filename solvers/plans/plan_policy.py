"""Policies for jobs with execution plans: what every job holds until the next round."""

from __future__ import annotations

from dataclasses import dataclass
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
class KnownJobs:
    """Jobs of the last round, by which a policy knows that one has come or gone.

    Parameters
    ----------
    names
        Their names.
    """

    names: frozenset[str] = frozenset()

    def changed(self, round_: PlanRound) -> bool:
        """Return whether some job has come or gone since the last round, which this one becomes."""
        before, self.names = self.names, frozenset(one.job.name for one in round_.jobs)
        return self.names != before
