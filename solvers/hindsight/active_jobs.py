"""Jobs under way in an ideal schedule, and how GPUs are given out to them at a moment."""

from __future__ import annotations

import math
from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.hindsight.offline_problem import Training
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
    corners = hull_corners(gpus, rates)
    more = np.diff(gpus[corners], prepend=0.0)
    return Steps(more, np.diff(rates[corners], prepend=0.0) / more)


def hull_corners(gpus: Floats, rates: Floats) -> list[int]:
    """Return the columns of the corners of that hull, but for the one at none.

    Parameters
    ----------
    gpus, rates
        As in `hull_steps`.
    """
    found: list[int] = []
    start, x, y = 0, 0.0, 0.0
    while start < gpus.size:
        slope = (rates[start:] - y) / (gpus[start:] - x)
        if slope.max() <= 0:
            break
        best = start + int(slope.argmax())
        start, x, y = best + 1, float(gpus[best]), float(rates[best])
        found.append(best)
    return found


class JobKind(NamedTuple):
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
    def of(cls, training: Training, supply: Sequence[float]) -> JobKind:
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


class ActiveJob:
    """Job under way."""

    def __init__(
        self,
        row: int,
        kind: JobKind,
        worth: Sequence[float],
        scale: Sequence[float],
        phase: int,
        left: float | None,
    ) -> None:
        self.row, self.kind, self._worth, self._scale = row, kind, worth, scale
        self.gpus, self.type, self.closed = 0.0, 0, 0
        self.phase, self._left = phase, kind.work[phase] if left is None else left
        self.offer()

    @property
    def state(self) -> tuple[int, int, float]:
        """Job, phase and the work left in it."""
        return self.row, self.phase, self._left

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


def give_out(active: Sequence[ActiveJob], supply: Sequence[float], *, fill: bool) -> None:
    """Set type and GPUs of every active job."""
    free, left = [*supply], sum(supply)
    offers: list[tuple[float, float, int, ActiveJob]] = []
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


def _fill(active: Sequence[ActiveJob], free: list[float]) -> None:
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
