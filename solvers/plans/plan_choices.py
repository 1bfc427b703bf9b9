"""Choices of the jobs of a round with plans: what each may hold, and how fast it would be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.models.round.generalised_mean import restart_factor
from goodalloc.models.support.validation import require_choice

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.plans.execution_plan import Configuration
    from goodalloc.models.plans.plan_job import PlanRestarts, PlanRound, PlanState
    from goodalloc.models.support.array_types import Floats, Indices

#: Relative slack with which a job counts as fast as it was requested.
SLACK = 1e-9

#: Unit of a job's speed: that of its request; that of its slowest configuration over the fewest
#: GPUs on which it runs (Sia); or examples a second, which compares jobs of all models (Arena).
Unit = Literal["request", "least", "examples"]


@dataclass(frozen=True)
class PlanChoices:
    """Choices sorted by job, the first of each job being none.

    Parameters
    ----------
    job
        Job of every choice.
    configuration
        What it holds; None for nothing.
    speed
        Its speed in the unit, discounted where the job would restart; 0 where it holds nothing.
    demand
        GPUs of each type, and a last column that is 1 where a running job would change, shape
        (choices, types + 1).
    """

    job: Int[Indices, " choices"]
    configuration: tuple[Configuration | None, ...]
    speed: Float[Floats, " choices"]
    demand: Int[Indices, "choices resources"]

    def __len__(self) -> int:
        return self.job.size

    @property
    def begins(self) -> Int[Indices, " jobs"]:
        """Index of the first choice of every job."""
        return np.flatnonzero(np.diff(self.job, prepend=-1))

    def where(self, chosen: Indices) -> PlanChoices:
        """Return the choices of these indices, which name every job."""
        return PlanChoices(
            self.job[chosen],
            tuple(self.configuration[index] for index in chosen.tolist()),
            self.speed[chosen],
            self.demand[chosen],
        )


def enumerate_plans(round_: PlanRound, restarts: PlanRestarts, unit: Unit) -> PlanChoices:
    """Return every configuration of every job for which it has a plan, and holding nothing.

    Parameters
    ----------
    round_
        The round.
    restarts
        Cost of another configuration.
    unit
        Unit of the speeds.

    Raises
    ------
    ValueError
        If the unit is none of those.
    """
    require_choice("Plans: unit", unit, get_args(Unit))
    types = {name: index for index, name in enumerate(round_.capacity)}
    job, configurations, speed, demand = [], [], [], []
    for index, state in enumerate(round_.jobs):
        scale = unit_of(state, unit)
        options = [None, *sorted(state.speeds)]
        for one in options:
            row = [0] * (len(types) + 1)
            value = 0.0
            if one is not None:
                if round_.capacity.get(one.gpu_type, 0) < one.gpus:
                    continue
                row[types[one.gpu_type]] = one.gpus
                value = state.speeds[one] * scale * kept_share(state, one, restarts)
            row[-1] = int(state.held is not None and one != state.held)
            job.append(index)
            configurations.append(one)
            speed.append(value)
            demand.append(row)
    return PlanChoices(np.array(job), tuple(configurations), np.array(speed), np.array(demand))


def kept_share(state: PlanState, new: Configuration, restarts: PlanRestarts) -> float:
    """Return the share of its speed that a job keeps under a configuration.

    That is 1 where it holds it or never ran, and otherwise the restart factor of Pollux, section
    4.2.1, by its age and restarts.
    """
    if new == state.held or state.restarts < 0:
        return 1.0
    return float(restart_factor(state.age, state.restarts, restarts.seconds(new.gpus)))


def unit_of(state: PlanState, unit: Unit) -> float:
    """Return the speed in a unit of a step a second of a job.

    Parameters
    ----------
    state, unit
        The job, and the unit.
    """
    if unit == "examples":
        return float(state.job.training.global_batch)
    if unit == "request":
        return 1.0 / state.requested_speed
    fewest = min(one.gpus for one in state.speeds)
    return fewest / min(state.speeds.values())
