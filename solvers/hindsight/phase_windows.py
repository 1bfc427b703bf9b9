r"""Bounds of jobs at given prices whose phases have windows of time.

The bound (3) of `formulations/hindsight/price_bound.py` lets a job do any phase at any time. A job
that begins at *b* and ends at *C* can do phase *q* only

.. math:: \text{from } b + \sum_{p < q} d_p \text{ to } C - \sum_{p > q} d_p                     (1)

on, with :math:`d_p` the seconds that phase *p* takes at least. So *h* may be taken over those
phases whose windows meet an interval, which is a bound still, and no smaller. The windows are the
widest for any *C* in the interval where the job ends: what it earns is then linear in *C* there, as
before. Where both ends of the job are near, the smaller of the two earnings is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.solvers.hindsight.phase_earnings import FAR, intervals_that_count, phase_earnings

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineJob, OfflineProblem, Training
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.hindsight.best_prices import HindsightBound


def windowed_job_bounds(problem: OfflineProblem, bound: HindsightBound) -> Float[Floats, " jobs"]:
    """Return a bound of every job at the prices of a bound, no smaller than there.

    Parameters
    ----------
    problem
        The problem.
    bound
        Bound on its schedules: prices, and multipliers of every training.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> from goodalloc.solvers.hindsight import hindsight_bound, windowed_job_bounds
    >>> rates = np.array([[[1.0, 1.5], [1.0, 1.1]]])
    >>> training = Training("two", np.array([600.0, 900.0]), np.array([1.0, 2.0]), rates)
    >>> jobs = (OfflineJob("a", "two", 0.0, 0.0), OfflineJob("b", "two", 0.0, 0.0))
    >>> problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 2.0}))
    >>> bound = hindsight_bound(problem)
    >>> bool((windowed_job_bounds(problem, bound) >= bound.job_bounds).all())
    True
    """
    found = bound.job_bounds.copy()
    for training in problem.trainings:
        rows = problem.jobs_of(training.name)
        if not rows.size or training.num_phases < 2:
            continue
        windows = _Windows(training, bound)
        for row in rows.tolist():
            job = problem.jobs[row]
            found[row] = max(found[row], windows.bound(job, FAR * found[row] / job.weight))
    return found


class _Windows:
    """Earnings of a training near the end of a job, and what those near its begin need."""

    def __init__(self, training: Training, bound: HindsightBound) -> None:
        self._training, self._edges, self._prices = training, bound.edges, bound.prices
        values = bound.multipliers[training.name].values
        self._worth = values @ training.work
        least = training.least_phase_seconds
        self._before = np.cumsum(least) - least
        self._seconds = float(least.sum())
        after = self._seconds - np.cumsum(least)
        longest = float(np.diff(bound.edges).max())
        self._late = [phase_earnings(training, values, bound.prices, slice(None))]
        last = 0
        while (first := int(np.argmax(after <= (last + 1) * longest + 1e-9))) > 0:
            phases = slice(first, None)
            self._late.insert(last, phase_earnings(training, values, bound.prices, phases))
            last += 1
        earned = values[:, None, :, None] * training.rates[None]
        self._best = np.maximum.accumulate(earned, axis=2)  # patterns, types, phases, counts

    def bound(self, job: OfflineJob, far: float) -> float:
        """Return the bound of a job; behind so many seconds after its release it has ended."""
        edges = self._edges
        first, stop, least = intervals_that_count(job, edges, far)
        if first >= stop:
            return least
        starts = np.maximum(edges[first:stop], job.begin)
        ends = edges[first + 1 : stop + 1]
        lengths = ends - starts
        early = self._early(first, ends - job.begin)
        total = np.zeros((len(early), ends.size + 1))  # earned up to the start of each interval
        np.cumsum(early * lengths, axis=1, out=total[:, 1:])
        before, last = total[:, :-1].copy(), early.copy()
        for back, late in enumerate(self._late[:-1]):
            own = np.minimum(early, late[:, first:stop])
            if back == 0:
                last = own
            elif back < ends.size:
                before[:, back:] -= ((early - own) * lengths)[:, :-back]
        cost = job.weight * (np.stack([starts, ends]) - job.release)
        at_start = cost[0] + self._worth[:, None] - before
        at_end = cost[1] + self._worth[:, None] - before - last * lengths
        value = np.minimum(at_start, at_end).max(axis=0)
        value[ends < job.begin + self._seconds * (1 - 1e-9)] = np.inf
        return min(least, float(value.min()))

    def _early(self, first: int, elapsed: Floats) -> Float[Floats, "patterns intervals"]:
        """Return the earnings of phases that can have begun, so long after the begin of the job."""
        there = np.searchsorted(self._before, elapsed * (1 + 1e-9), side="right") - 1
        early = self._late[-1][:, first : first + elapsed.size].copy()
        gpus = self._training.gpus
        for index in np.flatnonzero(there + 1 < self._before.size).tolist():
            paid = self._prices[first + index][:, None] * gpus
            earned = self._best[:, :, there[index]] - paid
            early[:, index] = np.maximum(earned.max(axis=(1, 2)), 0.0)
        return early
