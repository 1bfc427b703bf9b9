"""Ideal schedules of one type of GPU, decided anew at every event, with arrays."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.hindsight.offline_schedule import Segment
from goodalloc.solvers.hindsight.active_jobs import hull_steps
from goodalloc.solvers.hindsight.priced_schedule import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.hindsight.offline_problem import OfflineProblem, Training


def plain_schedule(
    problem: OfflineProblem, worth: Sequence[np.ndarray], clock: float
) -> tuple[np.ndarray, dict[str, list[Segment]]]:
    """Return completion times and segments, one from each event to the next."""
    begin = [job.begin for job in problem.jobs]
    order = sorted(range(len(begin)), key=begin.__getitem__)
    ends = np.full(len(begin), np.nan)
    active: list[_Active] = []
    held: dict[str, list[Segment]] = {job.name: [] for job in problem.jobs}
    now, following = 0.0, 0
    while following < len(order) or active:
        if not active:
            now = max(now, begin[order[following]])
        while following < len(order) and begin[order[following]] <= now:
            row = order[following]
            training = problem.training(problem.jobs[row].training)
            active.append(_Active(row, training, problem.supply.gpus[-1, 0], worth[row]))
            following += 1
        number = int(np.searchsorted(problem.supply.times, now, side="right")) - 1
        given = _give_out(active, float(problem.supply.gpus[number, 0])).tolist()
        events = [*begin, *problem.supply.times, clock * (now // clock + 1)]
        for one, gpus in zip(active, given, strict=True):
            if gpus:
                events.append(copy(one).train(now, np.inf, gpus) + ROUNDING)
        after = min(event for event in events if event > now)
        for one, gpus in zip(active, given, strict=True):
            if gpus:
                held[problem.jobs[one.row].name].append(Segment(now, after, 0, gpus))
                ends[one.row] = one.train(now, after, gpus)
        active = [one for one in active if np.isnan(ends[one.row])]
        now = after
    return ends, held


class _Active:
    """Job under way."""

    def __init__(self, row: int, training: Training, there: float, worth: np.ndarray) -> None:
        self.row, self._training, self._there, self._worth = row, training, there, worth
        self._enter(0)

    def _enter(self, phase: int) -> None:
        self._phase = phase
        self._left = float(self._training.work[phase])
        fits = self._training.gpus <= self._there
        steps = hull_steps(self._training.gpus[fits], self._training.rates[0, phase, fits])
        self.more = steps.more
        self.value = steps.slope * self._worth[phase]

    def train(self, now: float, until: float, gpus: float) -> float:
        """Train until the next decision; return when it ended, not a number if it did not."""
        column = int(np.searchsorted(self._training.gpus, gpus))
        while now < until:
            rate = float(self._training.rates[0, self._phase, column])
            if rate * (until - now) < self._left:
                self._left -= rate * (until - now)
                break
            now += self._left / rate
            if self._phase + 1 == self._training.num_phases:
                return now
            self._enter(self._phase + 1)
        return np.nan


def _give_out(active: Sequence[_Active], gpus: float) -> np.ndarray:
    """Return the GPUs of every active job."""
    value = np.concatenate([one.value for one in active])
    more = np.concatenate([one.more for one in active]).tolist()
    owner = np.repeat(range(len(active)), [one.more.size for one in active]).tolist()
    given, closed = np.zeros(len(active)), [False] * len(active)
    for index in np.argsort(-value, kind="stable").tolist():
        job = owner[index]
        closed[job] = closed[job] or more[index] > gpus
        if not closed[job]:
            given[job] += more[index]
            gpus -= more[index]
    return given
