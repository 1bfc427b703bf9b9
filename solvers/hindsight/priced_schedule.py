r"""Schedules with hindsight: at every moment the GPUs go where they are worth most.

Every job has a worth :math:`\mu_q` of a unit of progress in each of its phases. When a job begins
or ends, and at every step of a clock, GPUs are given out one after the other to the largest
:math:`\mu_q (g_a(k') - g_a(k)) / (\pi_a (k' - k))`, the worth of more GPUs of a type by price,
until there are none left; with its first GPU a job is on a type. GPUs for which no job has a use
that is concave then go where they are worth most, be it to a job that leaves its type for them.
With the multipliers of the bound (`best_prices.py`) that is what the prices tell each job to take,
but for jobs that no longer go by their plan; multipliers that are better still are found by local
search (`schedule_search.py`).

Without restarts, and with GPUs that can be anywhere: *ideal* schedules, which a replay with
restarts cannot attain.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.hindsight.offline_schedule import Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineProblem, Training
    from goodalloc.models.hindsight.offline_schedule import OfflineSchedule
    from goodalloc.models.support.array_types import Floats


#: Seconds by which rounding cannot be wrong about the end of a job.
ROUNDING = 1e-6


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
    """Builder of ideal schedules.

    Parameters
    ----------
    problem
        The problem.
    clock
        Seconds between decisions, besides those when a job begins or ends or the supply changes.
    fill
        Whether GPUs that are left go to jobs for which so many are no corner of the concave hull,
        and jobs change to types that have some left.

    Raises
    ------
    ValueError
        If a job needs more GPUs than there are in the end.
    """

    problem: OfflineProblem
    clock: float = 60.0
    fill: bool = True

    def __post_init__(self) -> None:
        supply = self.problem.supply.gpus[-1]
        for job in self.problem.jobs:
            training = self.problem.training(job.training)
            runs = training.rates > 0
            if not (runs & (training.gpus <= supply[:, None])[:, None]).any(axis=(0, 2)).all():
                least = max(np.where(runs, training.gpus, np.inf).min(axis=(0, 2)))
                raise ValueError(
                    f"Job '{job.name}': it needs at least {least:g} GPUs; there are "
                    f"{supply.max():g}."
                )

    @cached_property
    def _kinds(self) -> dict[str, _Kind]:
        """What runs need of every training, up to the GPUs that are there in the end."""
        supply = self.problem.supply.gpus[-1].tolist()
        return {one.name: _Kind.of(one, supply) for one in self.problem.trainings}

    @cached_property
    def _order(self) -> list[int]:
        """Jobs in the order in which they begin."""
        begin = [job.begin for job in self.problem.jobs]
        return sorted(range(len(begin)), key=begin.__getitem__)

    def _tick_after(self, now: float) -> float:
        """Return the next time of the clock."""
        after = self.clock * (now // self.clock + 1.0)
        return after if after > now else after + self.clock

    def run(
        self,
        worth: Sequence[Float[Floats, " phases"]],
        keep: OfflineSchedule | None = None,
        *,
        prices: Sequence[float] = (),
    ) -> Float[Floats, " jobs"]:
        """Return the completion times of the schedule.

        Parameters
        ----------
        worth
            Worth of a unit of progress in each phase, for every job.
        keep
            Where the segments are put; None to build none.
        prices
            Price of a GPU of every type, in any unit; none for equal ones.
        """
        lists = [own.tolist() for own in worth]
        return self.run_lists(lists, [1.0] * len(lists), keep, prices=prices)

    def run_lists(
        self,
        worth: Sequence[Sequence[float]],
        factors: Sequence[float],
        keep: OfflineSchedule | None = None,
        *,
        prices: Sequence[float] = (),
    ) -> Float[Floats, " jobs"]:
        """Return what `run` does for worths times a factor of every job, as plain numbers.

        A search calls it thousands of times. Few jobs are under way at a time, so that plain lists
        are several times faster than arrays; GPUs are given out anew only if something changed.

        Parameters
        ----------
        worth, factors
            Worths before the factors, and the factor of every job.
        keep, prices
            As in `run`.
        """
        jobs, order = self.problem.jobs, self._order
        times, supply = self.problem.supply.times.tolist(), self.problem.supply.gpus.tolist()
        by_type = [1.0 / price for price in prices] or [1.0] * len(supply[0])
        ends = [math.nan] * len(jobs)
        held: list[list[Segment]] = [[] for _ in jobs]
        active: list[_Active] = []
        now, following, change, decide = 0.0, 0, 0, True
        begins = [jobs[row].begin for row in order] + [math.inf]
        times.append(math.inf)
        while following < len(order) or active:
            if not active:
                now = max(now, begins[following])
            while begins[following] <= now:
                row = order[following]
                kind = self._kinds[jobs[row].training]
                scale = [factors[row] * one for one in by_type]
                active.append(_Active(row, kind, worth[row], scale))
                following, decide = following + 1, True
            while times[change + 1] <= now:
                change, decide = change + 1, True
            if decide:
                _give_out(active, supply[change], fill=self.fill)
            after = min(self._tick_after(now), begins[following], times[change + 1])
            running = [one for one in active if one.gpus]
            for one in running:
                after = min(after, one.end(now) + ROUNDING)
            decide = False
            for one in running:
                if keep is not None:
                    held[one.row].append(Segment(now, after, one.type, one.gpus))
                phase = one.phase
                end = one.train(now, after)
                if end is not None:
                    ends[one.row] = end
                    decide = True
                elif one.phase != phase:
                    one.offer()
                    decide = True
            if decide:
                active = [one for one in active if math.isnan(ends[one.row])]
            now = after
        if keep is not None:
            keep |= {job.name: _merged(own) for job, own in zip(jobs, held, strict=True)}
        return np.array(ends)


class _Kind(NamedTuple):
    """Training as plain numbers.

    Attributes
    ----------
    work
        Of every phase.
    steps
        For every phase, slope, GPUs and type of the steps of all types.
    gpus
        For every type, numbers of GPUs up to those that are there in the end.
    rates
        For every type, by number of GPUs, the rate of every phase.
    rest
        For every type, by number of GPUs, seconds of all phases behind each.
    most
        For every type and phase, number of GPUs at which it is fastest, of the first ones each.
    """

    work: list[float]
    steps: list[list[tuple[float, float, int]]]
    gpus: list[list[float]]
    rates: list[dict[float, list[float]]]
    rest: list[dict[float, list[float]]]
    most: list[list[list[float]]]

    @classmethod
    def of(cls, training: Training, supply: Sequence[float]) -> _Kind:
        """Return a training on the GPUs of a supply."""
        steps: list[list[tuple[float, float, int]]] = [[] for _ in training.work]
        gpus, rates, rest, most = [], [], [], []
        for row, there in enumerate(supply):
            fits = training.gpus <= there
            numbers, own = training.gpus[fits], training.rates[row][:, fits]
            for phase, speed in enumerate(own):
                hull = hull_steps(numbers, speed)
                slopes, more = hull.slope.tolist(), hull.more.tolist()
                steps[phase] += [(*step, row) for step in zip(slopes, more, strict=True)]
            gpus.append(numbers.tolist())
            rates.append(dict(zip(gpus[-1], own.T.tolist(), strict=True)))
            seconds = np.full(own.shape, np.inf)
            np.divide(training.work[:, None], own, out=seconds, where=own > 0)
            seconds[0] = 0.0  # the first phase is behind none
            left = np.cumsum(np.roll(seconds, -1, axis=0)[::-1], axis=0)[::-1]
            rest.append(dict(zip(gpus[-1], left.T.tolist(), strict=True)))
            rises = np.diff(np.maximum.accumulate(own, axis=1), prepend=0.0) > 0
            best = np.maximum.accumulate(np.where(rises, np.arange(numbers.size), 0), axis=1)
            most.append(numbers[best].tolist())
        return cls(training.work.tolist(), steps, gpus, rates, rest, most)


class _Active:
    """Job under way."""

    def __init__(
        self, row: int, kind: _Kind, worth: Sequence[float], scale: Sequence[float]
    ) -> None:
        self.row, self.kind, self._worth, self._scale = row, kind, worth, scale
        self.gpus, self.type, self.closed = 0.0, 0, 0
        self.phase, self._left = 0, kind.work[0]
        self.offer()

    def offer(self) -> None:
        """Offer the steps of the phase: minus the worth of each of its GPUs, GPUs, and type."""
        worth = self._worth[self.phase]
        values = [worth * scale for scale in self._scale]
        self.offers = [
            (-slope * values[row], more, row, self)
            for slope, more, row in self.kind.steps[self.phase]
        ]

    def gain(self, row: int, free: float) -> tuple[float, float]:
        """Return by how much free GPUs of a type are worth more, and how many it takes of them."""
        kind = self.kind
        index = bisect_right(kind.gpus[row], free) - 1
        if index < 0:
            return 0.0, 0.0
        gpus = kind.most[row][self.phase][index]
        before = kind.rates[self.type][self.gpus][self.phase] if self.gpus else 0.0
        more = kind.rates[row][gpus][self.phase] - before
        return more * self._worth[self.phase] * self._scale[0], gpus

    def end(self, now: float) -> float:
        """Return when it would end on its GPUs."""
        phase, gpus = self.phase, self.gpus
        rate = self.kind.rates[self.type][gpus][phase]
        return (
            now + self._left / rate + self.kind.rest[self.type][gpus][phase] if rate else math.inf
        )

    def train(self, now: float, until: float) -> float | None:
        """Train until the next decision; return when it ended, if it did."""
        rates, work = self.kind.rates[self.type][self.gpus], self.kind.work
        phase, left = self.phase, self._left
        while now < until:
            done = rates[phase] * (until - now)
            if done < left:
                left -= done
                break
            now += left / rates[phase]
            phase += 1
            if phase == len(work):
                return now
            left = work[phase]
        self.phase, self._left = phase, left
        return None


#: Key of an offer; of equal offers the earlier one comes first.
_VALUE = itemgetter(0)


def _give_out(active: Sequence[_Active], supply: Sequence[float], *, fill: bool) -> None:
    """Set type and GPUs of every active job."""
    free, left = [*supply], sum(supply)
    offers: list[tuple[float, float, int, _Active]] = []
    for one in active:
        one.gpus, one.closed = 0.0, 0
        offers += one.offers
    offers.sort(key=_VALUE)
    for _, more, row, one in offers:
        bit = 1 << row
        if one.closed & bit:
            continue
        if more > free[row]:
            one.closed |= bit
            continue
        if not one.gpus:
            one.type, one.closed = row, ~bit
        one.gpus += more
        free[row] -= more
        left -= more
        if not left:
            return
    if fill:
        _fill(active, free)


def _fill(active: Sequence[_Active], free: list[float]) -> None:
    """Give out the GPUs that are left, one job after the other, where they are worth most."""
    for _ in range(2 * len(active)):
        most, taken = 0.0, None
        for one in active:
            for row, number in enumerate(free):
                if number:
                    own = one.gpus if one.gpus and one.type == row else 0.0
                    gain, gpus = one.gain(row, number + own)
                    if gain > most:
                        most, taken = gain, (one, row, gpus)
        if taken is None:
            return
        one, row, gpus = taken
        free[one.type] += one.gpus
        free[row] -= gpus
        one.type, one.gpus = row, gpus


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
