"""Rubick's heuristic: no job is slower than requested, and GPUs go where they raise speed most.

A job that starts keeps at least the speed of its request from then on, mostly on fewer GPUs by a
better plan. A waiting job starts in the smallest such configuration; where that is not free, jobs
of that type which have more than they need are halved, the one that loses the least speed a GPU
first. Then jobs are doubled or moved to another type where the gain of speed a GPU is largest.
Speeds count over that of the request. Decisions follow arrivals and departures. Written from the
description in Rubick's paper, where all GPUs are of one type.

References
----------
Zhang et al., "Rubick: Exploiting Job Reconfigurability for Deep Learning Cluster Scheduling", MLSys
    2025. arXiv:2408.08586
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.solvers.plans.plan_choices import SLACK
from goodalloc.solvers.plans.plan_policy import LastRound
from goodalloc.solvers.plans.pooled_state import PooledState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.plans.execution_plan import Configuration
    from goodalloc.models.plans.plan_job import PlanRound


@dataclass
class RubickPlans:
    """Policy by Rubick's heuristic.

    Parameters
    ----------
    upgrades
        Most jobs that are doubled or moved in a round.

    Examples
    --------
    >>> from goodalloc.models.plans import Configuration, PlanJob, PlanRound, PlanState, Training
    >>> from goodalloc.solvers.plans import RubickPlans
    >>> one, two = Configuration("a100", 1), Configuration("a100", 2)
    >>> bert = Training("bert", "1.3B", 128)
    >>> old = PlanState(PlanJob("a", bert, 0.0, 9.0, one), {one: 1.0, two: 1.5}, two, 9.0, 60.0, 0)
    >>> new = PlanState(PlanJob("b", bert, 60.0, 9.0, one), {one: 1.0}, None, 9.0, 0.0, -1)
    >>> decision = RubickPlans().decide(PlanRound(60.0, {"a100": 2}, (old, new)))
    >>> {name: held.gpus for name, held in decision.items()}
    {'a': 1, 'b': 1}
    """

    upgrades: int = 10
    _last: LastRound = field(default_factory=LastRound, init=False, repr=False)

    def decide(self, round_: PlanRound) -> Mapping[str, Configuration]:
        """Decide a round; without an arrival or departure everything stays."""
        state = PooledState.of(round_, "request")
        names = frozenset(one.job.name for one in round_.jobs)
        if names == self._last.names and self._last.precedes(round_):
            return state.decision(round_)
        state.speed[state.speed < 1.0 - SLACK] = -np.inf
        for job, one in enumerate(round_.jobs):
            if one.held is None:
                state = self._started(state, job)
        self._grow(state)
        decision = state.decision(round_)
        self._last.remember(round_, decision)
        return decision

    def _started(self, state: PooledState, job: int) -> PooledState:
        """Return the state in which a job starts; the same where it cannot."""
        kinds, exponents = np.nonzero(np.isfinite(state.speed[job]))
        order = np.lexsort((-state.speed[job, kinds, exponents], exponents))
        for kind, exponent in zip(kinds[order].tolist(), exponents[order].tolist(), strict=True):
            found = _room(state, kind, 1 << exponent)
            if found is not None:
                found.hold(job, kind, exponent)
                return found
        return state

    def _grow(self, state: PooledState) -> None:
        """Double or move jobs that run, the one that gains the most speed a GPU first."""
        for _ in range(self.upgrades):
            gains = state.gains()
            gains[:, -1] /= 1 << state.exponent  # the GPUs that doubling adds; moving adds none
            job, way = np.unravel_index(int(np.argmax(gains)), gains.shape)
            if not gains[job, way] > 0:
                return
            state.raise_to(int(job), int(way))


def _room(state: PooledState, kind: int, gpus: int) -> PooledState | None:
    """Return the state with so many GPUs of a type free, after halving jobs that have too many."""
    if state.free[kind] >= gpus:
        return state.copy()
    found = state.copy()
    jobs = np.arange(state.kind.size)
    while found.free[kind] < gpus:
        fewer = np.maximum(found.exponent - 1, 0)
        after = found.speed[jobs, kind, fewer]
        there = (found.kind == kind) & (found.exponent > 0) & np.isfinite(after)
        if not there.any():
            return None
        lost = np.where(there, (found.reached() - after) / (1 << fewer), np.inf)
        job = int(np.argmin(lost))
        found.hold(job, kind, int(found.exponent[job]) - 1)
    return found
