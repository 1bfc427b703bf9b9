r"""Schedules with hindsight: at every moment the GPUs go where they are worth most.

Every job has a worth :math:`\mu_q` of a unit of progress in each of its phases. In each step of the
clock GPUs are given out one after the other to the largest :math:`\mu_q (g(k') - g(k)) / (k' - k)`,
the worth of more GPUs a GPU, until there are none left. With the multipliers of the bound
(`best_prices.py`) that is what the prices tell each job to take, but for jobs that no longer go by
their plan; multipliers that are better still are found by local search (`schedule_search.py`).

Without restarts, and with GPUs that can be anywhere: *ideal* schedules, which a replay with
restarts cannot attain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.hindsight.offline_schedule import Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineProblem, Training
    from goodalloc.models.hindsight.offline_schedule import OfflineSchedule
    from goodalloc.models.support.array_types import Floats


class Steps(NamedTuple):
    """Numbers of GPUs that are worth having in a phase: the corners of its concave hull.

    Attributes
    ----------
    more
        GPUs more than before, in order.
    slope
        Progress a second for each of them; descends.
    """

    more: Floats
    slope: Floats


def hull_steps(gpus: Floats, rates: Floats) -> Steps:
    """Return the steps of the concave hull of rates over numbers of GPUs, from none.

    Parameters
    ----------
    gpus, rates
        Numbers of GPUs, ascending from above 0, and the rate on each; shape (counts,).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.solvers.hindsight import hull_steps
    >>> hull_steps(np.array([1.0, 2.0, 4.0]), np.array([1.0, 1.2, 3.0])).more.tolist()
    [1.0, 3.0]
    """
    x, y = np.concatenate([[0.0], gpus]), np.concatenate([[0.0], rates])
    corners = [0]
    while corners[-1] < gpus.size:
        last = corners[-1]
        slope = (y[last + 1 :] - y[last]) / (x[last + 1 :] - x[last])
        if slope.max() <= 0:
            break
        corners.append(last + 1 + int(slope.argmax()))
    more = np.diff(x[corners])
    return Steps(more, np.diff(y[corners]) / more)


@dataclass(frozen=True)
class WorthScheduler:
    """Builder of ideal schedules of a problem with one type of GPU.

    Parameters
    ----------
    problem
        The problem.
    clock
        Seconds between decisions.

    Raises
    ------
    ValueError
        If the problem has several types of GPU, or a job needs more than there are in the end.
    """

    problem: OfflineProblem
    clock: float = 60.0

    def __post_init__(self) -> None:
        if len(self.problem.supply.types) > 1:
            types = ", ".join(self.problem.supply.types)
            raise ValueError(f"Schedule: the GPUs are of types {types}; expected one type.")
        there = float(self.problem.supply.gpus[-1, 0])
        for job in self.problem.jobs:
            least = self.problem.training(job.training).gpus[0]
            if least > there:
                raise ValueError(
                    f"Job '{job.name}': it needs at least {least:g} GPUs; there are {there:g}."
                )

    @cached_property
    def _steps(self) -> dict[str, list[Steps]]:
        """Steps of every phase of every training, up to the GPUs that are there in the end."""
        found = {}
        for training in self.problem.trainings:
            fits = training.gpus <= self.problem.supply.gpus[-1, 0]
            gpus = training.gpus[fits]
            found[training.name] = [hull_steps(gpus, own[fits]) for own in training.rates[0]]
        return found

    def run(
        self, worth: Sequence[Float[Floats, " phases"]], keep: OfflineSchedule | None = None
    ) -> Float[Floats, " jobs"]:
        """Return the completion times of the schedule.

        Parameters
        ----------
        worth
            Worth of a unit of progress in each phase, for every job.
        keep
            Where the segments are put; None to build none.
        """
        problem = self.problem
        begin = [job.begin for job in problem.jobs]
        order = sorted(range(len(begin)), key=begin.__getitem__)
        ends = np.full(len(begin), np.nan)
        active: list[_Active] = []
        held: list[list[Segment]] = [[] for _ in problem.jobs]
        now, following = 0.0, 0
        while following < len(order) or active:
            if not active:
                now = max(now, self.clock * (begin[order[following]] // self.clock))
            after = now + self.clock
            while following < len(order) and begin[order[following]] < after:
                row = order[following]
                job = problem.jobs[row]
                training = problem.training(job.training)
                active.append(_Active(row, training, self._steps[training.name], worth[row]))
                following += 1
            number = int(np.searchsorted(problem.supply.times, now, side="right")) - 1
            given = _give_out(active, float(problem.supply.gpus[number, 0]))
            for one, gpus in zip(active, given.tolist(), strict=True):
                if gpus:
                    start = max(now, begin[one.row])
                    end = one.train(start, after, gpus)
                    if keep is not None:
                        held[one.row].append(Segment(start, after, 0, gpus))
                    if end is not None:
                        ends[one.row] = end
            active = [one for one in active if np.isnan(ends[one.row])]
            now = after
        if keep is not None:
            keep |= {job.name: _merged(own) for job, own in zip(problem.jobs, held, strict=True)}
        return ends


class _Active:
    """Job under way."""

    def __init__(self, row: int, training: Training, steps: Sequence[Steps], worth: Floats) -> None:
        self.row, self._training, self._steps, self._worth = row, training, steps, worth
        self._enter(0)

    def _enter(self, phase: int) -> None:
        self._phase = phase
        self._left = float(self._training.work[phase])
        self.more = self._steps[phase].more
        self.value = self._steps[phase].slope * self._worth[phase]

    def train(self, now: float, until: float, gpus: float) -> float | None:
        """Train until the next decision; return when it ended, if it did."""
        training = self._training
        column = int(np.searchsorted(training.gpus, gpus))
        while now < until:
            rate = float(training.rates[0, self._phase, column])
            if rate * (until - now) < self._left:
                self._left -= rate * (until - now)
                return None
            now += self._left / rate
            if self._phase + 1 == training.num_phases:
                return now
            self._enter(self._phase + 1)
        return None


def _give_out(active: Sequence[_Active], gpus: float) -> Float[Floats, " active"]:
    """Return the GPUs of every active job."""
    value = np.concatenate([one.value for one in active])
    more: list[float] = np.concatenate([one.more for one in active]).tolist()
    owner: list[int] = np.repeat(range(len(active)), [one.more.size for one in active]).tolist()
    given, closed = np.zeros(len(active)), [False] * len(active)
    for index in np.argsort(-value, kind="stable").tolist():
        job = owner[index]
        if closed[job]:
            continue
        if more[index] > gpus:
            closed[job] = True
            continue
        given[job] += more[index]
        gpus -= more[index]
        if not gpus:
            break
    return given


def _merged(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return segments of which no two that touch have equal GPUs."""
    merged: list[Segment] = []
    for segment in segments:
        last = merged[-1] if merged else None
        if last and last.end == segment.start and last[2:] == segment[2:]:
            merged[-1] = last._replace(end=segment.end)
        else:
            merged.append(segment)
    return tuple(merged)
