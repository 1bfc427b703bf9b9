r"""Schedules of :math:`\alpha`-points, from the fractional solution that stands behind a bound.

At its best prices a bound equals the least cost of *fractional* schedules, in which every job does
a part of its work by each of several whole schedules (Dantzig and Wolfe). Near them the smoothed
minimum of `solvers/hindsight/priced_jobs.py` tells these parts: a job ends in interval *t* with
probability

.. math:: p_t \propto e^{-v_t / \tau}                                                         (1)

where :math:`v_t` is its bound if it ends there. The :math:`\alpha`-point of a job is the first end
by which a part :math:`\alpha` of it is done. The multipliers of that end are worths of the job, by
which `solvers/hindsight/priced_schedule.py` makes a schedule; of several :math:`\alpha` and
:math:`\tau` the best is taken.

On one machine a list in the order of :math:`\alpha`-points is within a constant factor of the
optimum (Goemans et al. 2002). For jobs whose GPUs change no factor is known.

References
----------
Goemans et al., "Single machine scheduling with release dates", SIAM Journal on Discrete Mathematics
    15, 2002. doi:10.1137/S089548019936223X
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.validation import require_number
from goodalloc.solvers.hindsight.priced_schedule import WorthScheduler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int

    from goodalloc.formulations.hindsight.price_bound import Multipliers
    from goodalloc.models.hindsight.offline_problem import OfflineJob, OfflineProblem
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.hindsight.best_prices import HindsightBound
    from goodalloc.solvers.hindsight.schedule_search import Worths

#: Parts of the work, and parameters of (1) in seconds of a job of mean weight, that are tried.
ALPHAS, SMOOTHING = tuple(np.linspace(0.05, 0.95, 19).tolist()), (2.0, 10.0, 40.0, 100.0)


class EndChances(NamedTuple):
    """Intervals in which a job may end, in order of time.

    Attributes
    ----------
    patterns
        Row of the multipliers of the bound of the job if it ends there.
    chances
        The probabilities (1), of sum 1.
    """

    patterns: Int[Indices, " intervals"]
    chances: Float[Floats, " intervals"]

    def at(self, alpha: float) -> int:
        """Return the row of the multipliers of the end by which a part of the work is done.

        Parameters
        ----------
        alpha
            The part.
        """
        reached = np.searchsorted(np.cumsum(self.chances), alpha)
        return int(self.patterns[min(int(reached), self.patterns.size - 1)])


def end_chances(
    problem: OfflineProblem, bound: HindsightBound, smoothing: float
) -> list[EndChances]:
    """Return the probabilities (1) of every job, in the order of the problem.

    Parameters
    ----------
    problem
        The problem.
    bound
        Bound on its schedules.
    smoothing
        The parameter tau, in units of the objective; above 0.

    Raises
    ------
    ValueError
        If it is not.
    """
    require_number("Alpha-points: smoothing", smoothing, minimum=0.0, strict=True)
    found: list[EndChances | None] = [None] * len(problem.jobs)
    for training in problem.trainings:
        multipliers = bound.multipliers.get(training.name)
        if multipliers is None:
            continue
        earned = _Earned.of(multipliers, bound)
        for row in problem.jobs_of(training.name).tolist():
            found[row] = earned.chances(problem.jobs[row], smoothing)
    return [one for one in found if one is not None]


class _Earned(NamedTuple):
    """What jobs of a training earn by every pattern.

    Attributes
    ----------
    edges
        Seconds between the intervals.
    worth
        Worth of the whole work; shape (patterns,).
    rate, total
        Earnings of a second in each interval, and up to each edge; shape (.., patterns).
    """

    edges: Float[Floats, " edges"]
    worth: Float[Floats, " patterns"]
    rate: Float[Floats, "intervals patterns"]
    total: Float[Floats, "edges patterns"]

    @classmethod
    def of(cls, multipliers: Multipliers, bound: HindsightBound) -> _Earned:
        """Return the earnings at the prices of a bound."""
        rate, _ = multipliers.earnings_by_interval(bound.prices)
        total = np.zeros((bound.edges.size, rate.shape[1]))
        np.cumsum(rate * np.diff(bound.edges)[:, None], axis=0, out=total[1:])
        return cls(bound.edges, multipliers.work_worth, rate, total)

    def chances(self, job: OfflineJob, smoothing: float) -> EndChances:
        """Return the probabilities of a job."""
        last = len(self.rate) - 1
        first = min(int(np.searchsorted(self.edges, job.begin, side="right")) - 1, last)
        ends = np.maximum(self.edges[first:], job.begin)
        earned = self.total[first:] - self.total[first]
        earned -= self.rate[first] * (job.begin - self.edges[first])
        earned[0] = 0.0  # nothing before it begins
        cost = (job.weight * (ends - job.release))[:, None] + self.worth - earned
        least = np.minimum(cost[:-1], cost[1:])
        patterns = least.argmax(axis=1)
        values = least.max(axis=1)
        chances = np.exp((values.min() - values) / smoothing)
        return EndChances(patterns, chances / chances.sum())


def alpha_point_worths(
    problem: OfflineProblem,
    bound: HindsightBound,
    alphas: Sequence[float] = ALPHAS,
    *,
    clock: float = 60.0,
) -> Worths:
    """Return the worths of the alpha-points whose schedule has the least objective.

    GPUs of several types are compared at equal prices.

    Parameters
    ----------
    problem
        The problem.
    bound
        Bound on its schedules.
    alphas
        Parts of the work that are tried, each from 0 to 1.
    clock
        Seconds between decisions of the schedule.

    Raises
    ------
    ValueError
        If there is no part, or one is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> from goodalloc.solvers.hindsight import WorthScheduler, hindsight_bound
    >>> from goodalloc.solvers.hindsight_schedules import alpha_point_worths
    >>> training = Training("one", np.array([600.0]), np.array([1.0]), np.array([[[1.0]]]))
    >>> jobs = (OfflineJob("a", "one", 0.0, 0.0), OfflineJob("b", "one", 0.0, 0.0))
    >>> problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 1.0}))
    >>> worths = alpha_point_worths(problem, hindsight_bound(problem))
    >>> sorted(WorthScheduler(problem).run(worths).tolist())
    [600.0, 1200.0]
    """
    if not alphas:
        raise ValueError("Alpha-points: no part of the work is named; expected some.")
    for alpha in alphas:
        if not 0.0 <= alpha <= 1.0:
            raise ValueError(f"Alpha-points: a part of the work is {alpha:g}; expected 0 to 1.")
    scheduler, best, least = WorthScheduler(problem, clock), None, np.inf
    mean = float(np.mean([job.weight for job in problem.jobs]))
    for smoothing in SMOOTHING:
        chances = end_chances(problem, bound, smoothing * mean)
        tried = set()
        for alpha in alphas:
            rows = tuple(one.at(alpha) for one in chances)
            if rows in tried:
                continue
            tried.add(rows)
            worths = [
                bound.multipliers[job.training].values[row]
                for job, row in zip(problem.jobs, rows, strict=True)
            ]
            value = problem.total(scheduler.run(worths))
            if value < least:
                best, least = worths, value
    assert best is not None
    return best
