r"""Bound on every schedule of the offline problem: all GPUs as one machine.

A GPU-second of type *a* has the worth :math:`\rho_a \ge 0`. A job needs at least

.. math:: E_j = \sum_q W_q \min_{a, k} \frac{\rho_a k}{g_{aq}(k)}                              (1)

of it, and what is left of that falls no faster than the worth of the GPUs that it is on. So every
schedule is one of a single machine that does :math:`\sum_a \rho_a G_a(t)` a second, shared by jobs
of sizes :math:`E_j` that are there from :math:`b_j` on. Let :math:`R_k(t)` be what is left of all
jobs that have come but the *k* − 1 with most left. An arrival of size *x* makes it
:math:`\min(R_{k-1}, R_k + x)`, which is monotone in both, and nothing lowers it faster than the
machine works, which is what the shortest remaining processing time first does. Hence by induction
that has, of all schedules, the least :math:`R_k` for all *k* and *t*, therefore most jobs done at
every moment (Schrage 1968), whatever the machine's speed over time. In order of time its
completions are :math:`S_{(1)} \le S_{(2)} \le \dots`.

Nor can job *j* end before :math:`A_j = b_j + \sum_q W_q / \max_{a, k} g_{aq}(k)`. By *t* no more
jobs are done than by either count; so the *i*-th completion is not before the *i*-th of each:

.. math:: \sum_j (C_j - r_j) \ge \sum_i \max(S_{(i)}, A_{(i)}) - \sum_j r_j.                  (2)

(The sum over jobs of :math:`\max(S_j, A_j)` would be no bound: the order of the jobs may be another
one.) With equal weights only. *Exact* for one machine, and for speed-ups that are linear up to all
GPUs.

References
----------
Schrage, "A proof of the optimality of the shortest remaining processing time discipline",
    Operations Research 16, 1968. doi:10.1287/opre.16.3.687
Grosof, Scully, Harchol-Balter and Scheller-Wolf, "Optimal scheduling in the multiserver-job model
    under heavy traffic", Proceedings of the ACM on Measurement and Analysis of Computing Systems 6,
    2022. doi:10.1145/3570612
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineProblem, Supply, Training
    from goodalloc.models.support.array_types import Floats


def equal_weight(problem: OfflineProblem) -> float:
    """Return the weight that all jobs have.

    Parameters
    ----------
    problem
        The problem.

    Raises
    ------
    ValueError
        If they have different ones.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.hindsight import equal_weight
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> training = Training("one", np.array([6.0]), np.array([1.0]), np.array([[[1.0]]]))
    >>> jobs = (OfflineJob("a", "one", 0.0, 0.0, 0.5), OfflineJob("b", "one", 0.0, 0.0, 0.5))
    >>> equal_weight(OfflineProblem((training,), jobs, Supply.constant({"t4": 1.0})))
    0.5
    """
    weight = problem.jobs[0].weight
    for job in problem.jobs:
        if job.weight != weight:
            raise ValueError(
                f"Job '{job.name}': weight is {job.weight:g}; expected {weight:g}, that of job "
                f"'{problem.jobs[0].name}', since closed forms have equal weights."
            )
    return weight


def pooled_bound(problem: OfflineProblem) -> float:
    """Return the bound (2), times the weight of a job.

    The worth of a GPU of each type is how fast the jobs are on it, on average, over the fastest.

    Parameters
    ----------
    problem
        The problem; its supply may change, and have several types.

    Raises
    ------
    ValueError
        If the jobs have different weights, or one cannot run on the GPUs that are ever there.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.hindsight import pooled_bound
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> training = Training("one", np.array([6.0]), np.array([1.0, 2.0]), np.array([[[1.0, 2.0]]]))
    >>> jobs = (OfflineJob("a", "one", 0.0, 0.0), OfflineJob("b", "one", 0.0, 2.0))
    >>> pooled_bound(OfflineProblem((training,), jobs, Supply.constant({"t4": 2.0})))  # 3 + 6
    9.0
    """
    weight = equal_weight(problem)
    most = problem.supply.gpus.max(axis=0)
    trainings = {job.training: problem.training(job.training) for job in problem.jobs}
    rates = {name: _fitting(training, most) for name, training in trainings.items()}
    for name, own in rates.items():
        if not (own > 0).any(axis=(0, 2)).all():
            raise ValueError(
                f"Training '{name}': it cannot run on the GPUs of the supply; expected "
                "numbers of GPUs that are there."
            )
    per_gpu = {name: (own / trainings[name].gpus).max(axis=2) for name, own in rates.items()}
    shares = [per_gpu[job.training] / per_gpu[job.training].max(axis=0) for job in problem.jobs]
    worth = np.mean([share.mean(axis=1) for share in shares], axis=0)
    needed, alone = {}, {}
    for name, training in trainings.items():
        cost = np.full(per_gpu[name].shape, np.inf)
        np.divide(worth[:, None], per_gpu[name], out=cost, where=per_gpu[name] > 0)
        needed[name] = float(training.work @ cost.min(axis=0))
        alone[name] = float((training.work / rates[name].max(axis=(0, 2))).sum())
    clock = _WorkClock(problem.supply, worth)
    begin = np.array([job.begin for job in problem.jobs])
    sizes = np.array([needed[job.training] for job in problem.jobs])
    pooled = clock.seconds(shortest_remaining_first(clock.work(begin), sizes))
    least = begin + np.array([alone[job.training] for job in problem.jobs])
    ends = np.maximum(np.sort(pooled), np.sort(least))
    return weight * math.fsum([*ends.tolist(), *(-job.release for job in problem.jobs)])


def shortest_remaining_first(
    begin: Float[Floats, " jobs"], sizes: Float[Floats, " jobs"]
) -> Float[Floats, " jobs"]:
    """Return when jobs end on one machine of speed 1, the shortest remaining time first.

    Parameters
    ----------
    begin
        Seconds from which on each is there.
    sizes
        Seconds that each takes, above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.hindsight import shortest_remaining_first
    >>> shortest_remaining_first(np.array([0.0, 1.0]), np.array([5.0, 2.0])).tolist()
    [7.0, 3.0]
    """
    order: list[int] = np.argsort(begin, kind="stable").tolist()
    arrivals = [float(begin[row]) for row in order]
    waiting: list[tuple[float, int]] = []
    ends, now, following = np.empty(len(order)), 0.0, 0
    while following < len(order) or waiting:
        if not waiting:
            now = max(now, arrivals[following])
        while following < len(order) and arrivals[following] <= now:
            heapq.heappush(waiting, (float(sizes[order[following]]), order[following]))
            following += 1
        left, row = heapq.heappop(waiting)
        until = arrivals[following] if following < len(order) else math.inf
        if now + left <= until:
            now += left
            ends[row] = now
        else:
            heapq.heappush(waiting, (left - (until - now), row))
            now = until
    return ends


def _fitting(training: Training, most: Float[Floats, " types"]) -> Floats:
    """Return its rates, 0 on more GPUs than there ever are; shape (types, phases, counts)."""
    return np.where((training.gpus <= most[:, None])[:, None, :], training.rates, 0.0)


class _WorkClock:
    """Time in which one machine of all GPUs has speed 1."""

    def __init__(self, supply: Supply, worth: Float[Floats, " types"]) -> None:
        self._times, self._speed = supply.times, supply.gpus @ worth
        done = np.cumsum(np.diff(self._times) * self._speed[:-1])
        self._done = np.concatenate([[0.0], done])

    def work(self, seconds: Floats) -> Floats:
        """Return what the machine can do by given seconds."""
        at = np.searchsorted(self._times, seconds, side="right") - 1
        return np.asarray(self._done[at] + self._speed[at] * (seconds - self._times[at]))

    def seconds(self, work: Floats) -> Floats:
        """Return the first moments by which it can have done so much, above 0."""
        at = np.searchsorted(self._done, work, side="left") - 1
        return np.asarray(self._times[at] + (work - self._done[at]) / self._speed[at])
