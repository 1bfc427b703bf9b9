"""Sia and Gavel as Arena runs them: jobs are admitted one by one, and no job is ever stopped.

A job is admitted if the program still has a solution in which every job that was admitted before
holds something and at most so many of them change; it then decides them all. Sia's program chooses
types and numbers of GPUs for the largest sum of square roots of speeds over each job's least; in
Gavel's every job keeps the number of GPUs that it asked for, and the sum of examples a second is
largest. Decisions follow arrivals, and departures while jobs wait; between them nothing changes, so
that GPUs which a departure frees are left alone while nobody waits. (Sia as published decides all
jobs every round: `ExactPlans` with the unit ``"least"``.)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.plans.plan_job import PlanRound
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.exchange_core import decide_configurations
from goodalloc.solvers.plans.exact_plans import FREE
from goodalloc.solvers.plans.plan_choices import enumerate_plans
from goodalloc.solvers.plans.plan_policy import LastRound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.plans.execution_plan import Configuration
    from goodalloc.models.plans.plan_job import PlanRestarts, PlanState
    from goodalloc.solvers.plans.plan_choices import PlanChoices

#: Relative gap of a program.
GAP = 1e-4


@dataclass
class OneByOne:
    """Policy that admits jobs one by one.

    Parameters
    ----------
    elastic
        Whether numbers of GPUs are chosen (Sia) or kept as requested (Gavel).
    most_changes
        Most jobs that change when another is admitted.
    restarts
        Believed cost of another configuration.

    Examples
    --------
    >>> from goodalloc.models.plans import Configuration, PlanJob, PlanRound, PlanState, Training
    >>> from goodalloc.solvers.plans import OneByOne
    >>> one, two = Configuration("a100", 1), Configuration("a100", 2)
    >>> bert = Training("bert", "1.3B", 128)
    >>> job = PlanState(PlanJob("a", bert, 0.0, 9.0, two), {one: 1.0, two: 1.5}, None, 9.0, 0.0, -1)
    >>> OneByOne(elastic=False).decide(PlanRound(0.0, {"a100": 4}, (job,)))
    {'a': Configuration(gpu_type='a100', gpus=2)}
    """

    elastic: bool = True
    most_changes: int = 5
    restarts: PlanRestarts = FREE
    _last: LastRound = field(default_factory=LastRound, init=False, repr=False)

    def decide(self, round_: PlanRound) -> Mapping[str, Configuration]:
        """Decide a round."""
        held = {one.job.name: one.held for one in round_.jobs if one.held is not None}
        names = frozenset(one.job.name for one in round_.jobs)
        known = self._last.names if self._last.precedes(round_) else frozenset()
        left = bool(known - names)
        failed = set()
        for one in round_.jobs:
            key = one.job.training, one.job.request
            waits = one.job.name not in held and (left or one.job.name not in known)
            if not waits or key in failed:
                continue
            found = self._admitted(round_, held, one)
            if found is None:
                failed.add(key)
            else:
                held = found
        self._last.remember(round_, held)
        return held

    def _admitted(
        self, round_: PlanRound, held: Mapping[str, Configuration], new: PlanState
    ) -> dict[str, Configuration] | None:
        """Return what all hold after a job was admitted; None if it cannot be."""
        gpus = sum(round_.capacity.values()) - sum(one.gpus for one in held.values())
        if not self.elastic and gpus < new.job.request.gpus:
            return None
        jobs = tuple(
            replace(one, held=held.get(one.job.name))
            for one in round_.jobs
            if one.job.name in held or one is new
        )
        choices = self._allowed(PlanRound(round_.time, round_.capacity, jobs))
        if np.unique(choices.job).size < len(jobs):
            return None
        capacity = np.array([*round_.capacity.values(), self.most_changes])
        value = np.sqrt(choices.speed) if self.elastic else choices.speed
        gap = GAP * max(float(np.maximum.reduceat(value, choices.begins).sum()), 1e-9)
        found = decide_configurations(
            choices.job, -value, choices.demand, capacity, Watch(Stop()), gap=gap
        )
        if found.values is None:
            return None
        taken = np.flatnonzero(found.values > 0.5).tolist()
        configurations = [choices.configuration[index] for index in taken]
        return {
            state.job.name: one
            for state, one in zip(jobs, configurations, strict=True)
            if one is not None
        }

    def _allowed(self, round_: PlanRound) -> PlanChoices:
        """Return the choices that hold something, as many GPUs as requested where that is kept."""
        found = enumerate_plans(round_, self.restarts, "least" if self.elastic else "examples")
        requested = [state.job.request.gpus for state in round_.jobs]
        return found.where(
            np.array(
                [
                    index
                    for index, one in enumerate(found.configuration)
                    if one is not None
                    and (self.elastic or one.gpus == requested[int(found.job[index])])
                ],
                dtype=np.int64,
            )
        )
