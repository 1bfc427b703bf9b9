"""First come, first served: jobs with plans hold what they asked for, from start to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.plans.execution_plan import Configuration
    from goodalloc.models.plans.plan_job import PlanRound


@dataclass
class FirstComePlans:
    """Policy that starts jobs in order, as requested; a waiting job blocks later jobs of its type.

    A job that cannot run as requested has the plan of its slowest configuration.

    Examples
    --------
    >>> from goodalloc.models.plans import PlanRound
    >>> from goodalloc.solvers.plans import FirstComePlans
    >>> FirstComePlans().decide(PlanRound(0.0, {"a100": 4}, ()))
    {}
    """

    def decide(self, round_: PlanRound) -> Mapping[str, Configuration]:
        """Decide a round."""
        free, blocked, found = round_.free(), set(), {}
        for state in round_.jobs:
            wanted = state.held or state.job.request
            if wanted not in state.speeds:
                wanted = min(state.speeds, key=lambda one: state.speeds[one])
            if state.held is not None:
                found[state.job.name] = wanted
            elif wanted.gpu_type not in blocked and free.get(wanted.gpu_type, 0) >= wanted.gpus:
                free[wanted.gpu_type] -= wanted.gpus
                found[state.job.name] = wanted
            else:
                blocked.add(wanted.gpu_type)
        return found
