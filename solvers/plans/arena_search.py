"""Arena's heuristic: jobs are admitted in order, at the expense of those that lose least by it.

Decisions follow arrivals and departures. A waiting job gets what it asked for if that is free.
Otherwise up to `depth` steps make room, each of which halves the GPUs of one job (of each type the
one that loses the fewest examples a second, among those with at least half as many GPUs as the
largest there), or moves one job to another type; of the ways that let the new job start the one
with the most examples a second in all is taken. Then jobs that run are doubled or moved, one after
the other, while that raises the sum of examples a second, at most `upgrades` in a round. Written
from the description in Arena's paper and the behaviour of its published simulator.

References
----------
Xue et al., "Arena: Efficiently Training Large Models via Dynamic Scheduling and Adaptive
    Parallelism Co-Design", EuroSys 2026. arXiv:2403.16125
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.solvers.plans.plan_policy import LastRound
from goodalloc.solvers.plans.pooled_state import PooledState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from goodalloc.models.plans.execution_plan import Configuration
    from goodalloc.models.plans.plan_job import PlanRound


class _Way(NamedTuple):
    """State after some steps, what the new job is to have, and the examples a second gained."""

    state: PooledState
    kind: int
    exponent: int
    gain: float


@dataclass
class ArenaPlans:
    """Policy by Arena's heuristic.

    Parameters
    ----------
    depth
        Most steps that make room for a job.
    upgrades
        Most jobs that are doubled or moved in a round.

    Examples
    --------
    >>> from goodalloc.models.plans import Configuration, PlanJob, PlanRound, PlanState, Training
    >>> from goodalloc.solvers.plans import ArenaPlans
    >>> one, two = Configuration("a100", 1), Configuration("a100", 2)
    >>> bert = Training("bert", "1.3B", 128)
    >>> old = PlanState(PlanJob("a", bert, 0.0, 9.0, two), {one: 1.0, two: 1.5}, two, 9.0, 60.0, 0)
    >>> new = PlanState(PlanJob("b", bert, 60.0, 9.0, one), {one: 1.0}, None, 9.0, 0.0, -1)
    >>> decision = ArenaPlans().decide(PlanRound(60.0, {"a100": 2}, (old, new)))
    >>> {name: held.gpus for name, held in decision.items()}
    {'a': 1, 'b': 1}
    """

    depth: int = 2
    upgrades: int = 10
    _last: LastRound = field(default_factory=LastRound, init=False, repr=False)

    def decide(self, round_: PlanRound) -> Mapping[str, Configuration]:
        """Decide a round; without an arrival or departure everything stays."""
        state = PooledState.of(round_, "examples")
        names = frozenset(one.job.name for one in round_.jobs)
        if names == self._last.names and self._last.precedes(round_):
            return state.decision(round_)
        failed = set()
        for job, one in enumerate(round_.jobs):
            key = one.job.training, one.job.request
            if one.held is not None or key in failed:
                continue
            wanted = one.job.request.gpu_type
            kind = state.types.index(wanted) if wanted in state.types else 0
            found = self._admitted(state, job, kind)
            if found is None:
                failed.add(key)
            else:
                state = found
        self._upgrade(state)
        decision = state.decision(round_)
        self._last.remember(round_, decision)
        return decision

    def _admitted(self, state: PooledState, job: int, kind: int) -> PooledState | None:
        """Return the state in which a job was admitted; None if no way lets it start."""
        start = _Way(state, kind, int(state.exponent[job]), 0.0)
        if _starts(start, job):
            return _started(start, job)
        ways, ends = [start], []
        for _ in range(self.depth):
            ways = [after for way in ways for after in _steps(way, job)]
            ends += [way for way in ways if _starts(way, job)]
        if not ends:
            return None
        best = max(ends, key=lambda way: way.gain + way.state.speed[job, way.kind, way.exponent])
        return _started(best, job)

    def _upgrade(self, state: PooledState) -> None:
        """Double or move jobs that run, the one that gains most first."""
        for _ in range(self.upgrades):
            gains = state.gains()
            job, way = np.unravel_index(int(np.argmax(gains)), gains.shape)
            if not gains[job, way] > 0:
                return
            state.raise_to(int(job), int(way))


def _starts(way: _Way, job: int) -> bool:
    """Return whether the new job can start now."""
    possible = np.isfinite(way.state.speed[job, way.kind, way.exponent])
    return bool(possible and way.state.free[way.kind] >= 1 << way.exponent)


def _started(way: _Way, job: int) -> PooledState:
    state = way.state.copy()
    state.hold(job, way.kind, way.exponent)
    return state


def _steps(way: _Way, job: int) -> Iterator[_Way]:
    """Yield the states after one more step: a job of each type halved, or one job moved."""
    for kind in range(len(way.state.types)):
        if (halved := _halved(way, job, kind)) is not None:
            yield halved
    if (moved := _moved(way, job)) is not None:
        yield moved


def _halved(way: _Way, job: int, kind: int) -> _Way | None:
    """Return the state with the job of a type halved that loses least, which may be the new one."""
    state = way.state
    exponent = state.exponent.copy()
    exponent[job] = way.exponent
    there = state.kind == kind
    there[job] = way.kind == kind
    if not there.any():
        return None
    large = there & (exponent >= max(int(exponent[there].max()) - 1, 1))
    jobs = np.arange(exponent.size)
    fewer = state.speed[jobs, kind, np.maximum(exponent - 1, 0)]
    now = np.maximum(state.speed[jobs, kind, exponent], 0.0)  # the request may be impossible
    change = np.where(large, fewer - now, -np.inf)
    best = int(np.argmax(change))
    if not np.isfinite(change[best]):
        return None
    if best == job:
        return way._replace(exponent=way.exponent - 1)
    after = state.copy()
    after.hold(best, kind, int(exponent[best]) - 1)
    return way._replace(state=after, gain=way.gain + float(change[best]))


def _moved(way: _Way, job: int) -> _Way | None:
    """Return the state with the job moved to another type that gains most, or loses least."""
    state = way.state
    change = state.gains()[:, :-1]
    now = max(float(state.speed[job, way.kind, way.exponent]), 0.0)
    change[job] = state.speed[job, :, way.exponent] - now
    change[job, way.kind] = -np.inf
    best, kind = np.unravel_index(int(np.argmax(change)), change.shape)
    if not np.isfinite(change[best, kind]):
        return None
    if best == job:
        return way._replace(kind=int(kind))
    after = state.copy()
    after.hold(int(best), int(kind), int(state.exponent[best]))
    return way._replace(state=after, gain=way.gain + float(change[best, kind]))
