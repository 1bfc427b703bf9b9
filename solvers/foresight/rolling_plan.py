"""Worths from plans that are made anew, with the arrivals of the time ahead: a rolling horizon.

At every arrival or departure, and after `every` seconds, the offline problem of the remaining work
of the active jobs, with the known arrivals of the time ahead, is solved (`schedule_search.py`). The
worths of the best plan decide until the next plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.hindsight.offline_problem import OfflineJob, OfflineProblem, Training
from goodalloc.models.support.validation import require_count, require_number
from goodalloc.solvers.hindsight.schedule_search import find_schedule
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.policies.policy import Round


@dataclass
class RollingWorths:
    """Worths of plans for the jobs that are there, and for those of the time ahead.

    Parameters
    ----------
    problem
        The offline problem of the whole trace, of which a plan is told the jobs until `ahead`.
    ahead
        Seconds of arrivals that are known; 0 for none.
    every
        Seconds after which a plan is made anew at the latest.
    steps
        Steps of the search of a plan.
    seed
        Seed of the search.

    Raises
    ------
    ValueError
        If a number is negative, or `every` or `steps` is 0.
    """

    problem: OfflineProblem
    ahead: float = 0.0
    every: float = 600.0
    steps: int = 10
    seed: int = 0
    _planned_at: float = field(default=-np.inf, init=False)
    _names: tuple[str, ...] = field(default=(), init=False)
    _plan: dict[str, tuple[int, Float[Floats, " phases"]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        require_number("Plan: ahead", self.ahead, minimum=0.0)
        require_number("Plan: every", self.every, minimum=0.0, strict=True)
        require_count("Plan: steps", self.steps, minimum=1)
        require_count("Plan: seed", self.seed, minimum=0)

    def worths(self, round_: Round, phases: Sequence[int]) -> list[float]:
        """Return the worths of the present plan, or of a new one where one is due."""
        names = tuple(job.name for job in round_.jobs)
        if names != self._names or round_.time >= self._planned_at + self.every:
            self._names, self._planned_at = names, float(round_.time)
            self._make_plan(round_, phases)
        told = []
        for job, phase in zip(round_.jobs, phases, strict=True):
            first, worths = self._plan[job.name]
            told.append(float(worths[phase - first]))
        return told

    def _make_plan(self, round_: Round, phases: Sequence[int]) -> None:
        """Plan from now on."""
        now = float(round_.time)
        trainings: dict[str, Training] = {}
        jobs = []
        for job, phase in zip(round_.jobs, phases, strict=True):
            name = f"{job.application} from {phase}"
            if name not in trainings:
                trainings[name] = _rest(self.problem.training(job.application), name, phase)
            jobs.append(OfflineJob(job.name, name, now, now))
        for ahead in self.problem.jobs:
            if now < ahead.release <= now + self.ahead:
                trainings.setdefault(ahead.training, self.problem.training(ahead.training))
                jobs.append(replace(ahead, weight=1.0))
        left = OfflineProblem(tuple(trainings.values()), tuple(jobs), self.problem.supply)
        found = find_schedule(left, seed=self.seed, stop=Stop(iterations=self.steps))
        self._plan = {
            job.name: (phase, worth)
            for job, phase, worth in zip(round_.jobs, phases, found.worth, strict=False)
        }


def _rest(training: Training, name: str, phase: int) -> Training:
    """Return what is left of a training from a phase on."""
    return Training(name, training.work[phase:], training.gpus, training.rates[:, phase:])
