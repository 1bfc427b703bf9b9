"""Configurations of all jobs of a round as arrays, changed step by step by a greedy search.

Speeds are by type of GPU and by power of two of GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.plans.execution_plan import Configuration
from goodalloc.solvers.plans.plan_choices import unit_of

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.plans.plan_job import PlanRound
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.plans.plan_choices import Unit

#: Type of a job that holds nothing.
NOTHING = -1


@dataclass
class PooledState:
    """What the jobs hold.

    Parameters
    ----------
    types
        Names of the types.
    speed
        Speed of every job, -inf where it has no plan, shape (jobs, types, exponents).
    kind, exponent
        Type that each job holds (`NOTHING` for none), and the exponent of its number of GPUs.
    free
        GPUs of each type that nobody holds.
    """

    types: tuple[str, ...]
    speed: Float[Floats, "jobs types exponents"]
    kind: Int[Indices, " jobs"]
    exponent: Int[Indices, " jobs"]
    free: Int[Indices, " types"]

    @staticmethod
    def of(round_: PlanRound, unit: Unit) -> PooledState:
        """Return the state of a round, with the speeds in a unit.

        A job that waits has the number of GPUs of its request.
        """
        types = tuple(round_.capacity)
        column = {name: index for index, name in enumerate(types)}
        most = max((one.gpus for state in round_.jobs for one in state.speeds), default=1)
        shape = len(round_.jobs), len(types), most.bit_length()
        speed = np.full(shape, -np.inf)
        kind, exponent = np.full(shape[0], NOTHING), np.zeros(shape[0], dtype=np.int64)
        for index, state in enumerate(round_.jobs):
            scale = unit_of(state, unit)
            for one, value in state.speeds.items():
                if one.gpu_type in column:
                    place = index, column[one.gpu_type], one.gpus.bit_length() - 1
                    speed[place] = value * scale
            held = state.held or state.job.request
            exponent[index] = min(held.gpus.bit_length(), shape[2]) - 1
            if state.held is not None:
                kind[index] = column[held.gpu_type]
        free = np.array([*round_.free().values()], dtype=np.int64)
        return PooledState(types, speed, kind, exponent, free)

    def copy(self) -> PooledState:
        """Return a copy that can be changed."""
        return PooledState(
            self.types, self.speed, self.kind.copy(), self.exponent.copy(), self.free.copy()
        )

    def hold(self, job: int, kind: int, exponent: int) -> None:
        """Give a job another configuration, and back what it held."""
        if self.kind[job] != NOTHING:
            self.free[self.kind[job]] += 1 << int(self.exponent[job])
        self.kind[job], self.exponent[job] = kind, exponent
        self.free[kind] -= 1 << exponent

    def reached(self) -> Float[Floats, " jobs"]:
        """Return the speed of every job; 0 of those that hold nothing."""
        jobs = np.arange(self.kind.size)
        found = self.speed[jobs, np.maximum(self.kind, 0), self.exponent]
        return np.where(self.kind == NOTHING, 0.0, found)

    def gains(self) -> Float[Floats, "jobs ways"]:
        """Return what the speed of each running job gains by moving to each type, or by doubling.

        The last column is doubling on the type that it holds; what is not possible is -inf.
        """
        jobs, runs, reached = np.arange(self.kind.size), self.kind != NOTHING, self.reached()
        gpus, kind = 1 << self.exponent, np.maximum(self.kind, 0)
        moved = self.speed[jobs, :, self.exponent] - reached[:, None]
        moved[gpus[:, None] > self.free[None, :]] = -np.inf
        moved[jobs, kind] = -np.inf
        more = np.minimum(self.exponent + 1, self.speed.shape[2] - 1)
        doubled = self.speed[jobs, kind, more] - reached
        doubled[gpus > self.free[kind]] = -np.inf
        gains = np.concatenate([moved, doubled[:, None]], axis=1)
        gains[~runs] = -np.inf
        return gains

    def raise_to(self, job: int, way: int) -> None:
        """Move a job to a type, or double it, by the column of `gains`."""
        if way == len(self.types):
            self.hold(job, int(self.kind[job]), int(self.exponent[job]) + 1)
        else:
            self.hold(job, way, int(self.exponent[job]))

    def decision(self, round_: PlanRound) -> dict[str, Configuration]:
        """Return what every job holds that runs, by name."""
        return {
            state.job.name: Configuration(self.types[kind], 1 << exponent)
            for state, kind, exponent in zip(
                round_.jobs, self.kind.tolist(), self.exponent.tolist(), strict=True
            )
            if kind != NOTHING
        }
