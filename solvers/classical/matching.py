r"""AlloX: the least total completion time on unrelated machines, by a matching.

The matching (1) of `formulations/classical/allox.py` is found by a shortest-augmenting-path method,
akin to the Hungarian one. Its proof are prices :math:`v_s \le 0` of the places *s*:

.. math:: \sum_j a_j + \sum_j \min_s (c_{js} - v_s) + \sum_s v_s                              (4)

is a lower bound at any prices, and equals the total at those of the optimum.

References
----------
Le et al., "AlloX: Compute Allocation in Hybrid Clusters", EuroSys 2020. doi:10.1145/3342195.3387547
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment

from goodalloc.formulations.classical.allox import place_costs, places_of, schedule_of
from goodalloc.models.classical.unrelated_machines import total_completion
from goodalloc.models.support.tolerances import WHOLE_TOLERANCE
from goodalloc.models.support.validation import require_share

if TYPE_CHECKING:
    from goodalloc.models.classical.unrelated_machines import MachineSchedule, UnrelatedMachines
    from goodalloc.models.support.array_types import Floats, Indices


@dataclass(frozen=True)
class LeastCompletion:
    """Schedule, its total completion time and a proven lower bound.

    Parameters
    ----------
    schedule
        The machine and the position of every job.
    total, bound
        The total completion time of the schedule, and a proven lower bound on that of any, in
        seconds.
    seconds
        Time of the computation.
    """

    schedule: MachineSchedule
    total: float
    bound: float
    seconds: float

    @property
    def gap(self) -> float:
        """``(total - bound) / total``; at rounding, as a matching is optimal."""
        return max(self.total - self.bound, 0.0) / self.total


def least_total_completion(problem: UnrelatedMachines) -> LeastCompletion:
    """Decide (1) exactly, with the proof (4).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import UnrelatedMachines
    >>> from goodalloc.solvers.classical import least_total_completion
    >>> times, one, zero = np.array([[2.0], [1.0]]), np.zeros(1, dtype=int), np.zeros
    >>> problem = UnrelatedMachines(times, one, zero(1), zero(2))
    >>> result = least_total_completion(problem)  # the shorter job first: 1 + (1 + 2)
    >>> result.total, result.bound
    (4.0, 4.0)
    """
    begin = time.perf_counter()
    places = places_of(problem)
    cost = place_costs(problem, places)
    taken = _match(cost)
    schedule = schedule_of(problem, places, taken)
    total = total_completion(problem, schedule)
    bound = float(problem.waited.sum()) + bound_at(cost, prices_of(cost, taken))
    return LeastCompletion(schedule, total, min(bound, total), time.perf_counter() - begin)


def match_jobs(problem: UnrelatedMachines) -> MachineSchedule:
    """Return the schedule of `least_total_completion` without its proof.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import UnrelatedMachines
    >>> from goodalloc.solvers.classical import match_jobs
    >>> times, one, zero = np.array([[2.0], [1.0]]), np.zeros(1, dtype=int), np.zeros
    >>> match_jobs(UnrelatedMachines(times, one, zero(1), zero(2))).position.tolist()
    [1, 0]
    """
    places = places_of(problem)
    return schedule_of(problem, places, _match(place_costs(problem, places)))


def _match(cost: Floats) -> Indices:
    """Return the place of every job."""
    _, taken = linear_sum_assignment(cost)
    return np.asarray(taken, dtype=np.int64)


def prices_of(cost: Floats, taken: Indices) -> Floats:
    """Return the greatest prices at which no job prefers another's place; shape (places,).

    A place that is free costs nothing. From there on a price falls as long as a job gains by
    moving to it, which is Bellman's and Ford's recursion over the jobs.
    """
    jobs = np.arange(taken.size)
    change = cost[:, taken] - cost[jobs, taken][:, None]
    price = np.zeros(taken.size)
    for _ in jobs:
        lower = np.minimum(price, (price[:, None] + change).min(axis=0))
        if np.array_equal(lower, price):
            break
        price = lower
    prices = np.zeros(cost.shape[1])
    prices[taken] = price
    return prices


def bound_at(cost: Floats, prices: Floats) -> float:
    """Return the bound (4) at any prices of at most 0, without the jobs' waiting times."""
    return float((cost - prices).min(axis=1).sum() + prices.sum())


def longest_waiting(waited: Floats, share: float, least: int) -> Indices:
    """Return the given share of the jobs, those that waited longest, and at least `least`.

    Raises
    ------
    ValueError
        If `share` is outside [0, 1].
    """
    require_share("AlloX: alpha", share)
    number = min(max(math.ceil(share * waited.size - WHOLE_TOLERANCE), least), waited.size)
    return np.sort(np.argsort(-waited, kind="stable")[:number])


def start_now(
    problem: UnrelatedMachines, alpha: float = 1.0, *, busy: bool = True
) -> tuple[tuple[int, int], ...]:
    """Return the (job, machine) pairs that AlloX starts on free machines, by job.

    Parameters
    ----------
    problem
        The waiting jobs and all machines.
    alpha
        Share of the jobs that take part, those that waited longest, but at least as many as there
        are free machines: 1 for the least completion time, less for fairness.
    busy
        Whether a job may be matched with a machine that is not free yet, and wait for it; otherwise
        only free machines take part.

    Raises
    ------
    ValueError
        If `alpha` is outside [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import UnrelatedMachines
    >>> from goodalloc.solvers.classical import start_now
    >>> times, one, zero = np.array([[2.0], [1.0]]), np.zeros(1, dtype=int), np.zeros
    >>> start_now(UnrelatedMachines(times, one, zero(1), zero(2)))  # the shorter job
    ((1, 0),)
    """
    free = np.flatnonzero(problem.ready <= 0)
    machines = np.arange(problem.num_machines) if busy else free
    jobs = longest_waiting(problem.waited, alpha, free.size)
    jobs = jobs[np.isfinite(problem.machine_times[jobs][:, machines]).any(axis=1)]
    if not free.size or not jobs.size:
        return ()
    schedule = match_jobs(problem.of(jobs, machines))
    now = (schedule.position == 0) & (problem.ready[machines[schedule.machine]] <= 0)
    return tuple(zip(jobs[now].tolist(), machines[schedule.machine[now]].tolist(), strict=True))
