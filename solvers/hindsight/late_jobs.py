r"""Search for the prices whose bound on late jobs is greatest, and for the longest makespan proved.

Bound (1) of `formulations/hindsight/late_bound.py` is smoothed, both the maximum over multipliers
and the minimum with the weight of a job, and climbed as that of completion times
(`price_climb.py`). A makespan *T* is refuted if all jobs are due at *T* and the bound is above 0;
the greatest such *T* is found by bisection.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp, softmax

from goodalloc.formulations.hindsight.price_bound import Multipliers, unit_costs
from goodalloc.models.hindsight.deadlines import require_due
from goodalloc.models.support.validation import require_number
from goodalloc.solvers.hindsight.best_prices import SECONDS
from goodalloc.solvers.hindsight.price_climb import PriceScale, climb_prices
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineProblem, Training
    from goodalloc.models.support.array_types import Floats

#: Prices of a GPU-second of the multipliers of a training, in those at which its heaviest job pays
#: its weight for the fewest GPU-seconds that it can take; and worths of a second of the job alone.
LEVELS, ALONE = np.geomspace(1e-3, 10.0, 81), np.geomspace(1e-4, 30.0, 12)

#: Prices of the table, in units of the scale.
POINTS = np.concatenate([[0.0], np.geomspace(1e-5, 20.0, 500)])

#: Parameters of the smoothing one after the other, in mean weights of the jobs, and most steps.
SMOOTHING, STEPS = (0.1, 0.03, 0.01), 60

#: Part of it for the maximum over multipliers, which are many.
FINER = 0.01

#: Prices of which the best is the start, in units of the scale.
FIRST_PRICES = (0.0, *np.geomspace(1e-4, 1.0, 9).tolist())

#: Relative error of a makespan that is not proved.
PRECISION = 1e-3

#: Part of the summed magnitudes that a bound is lowered by, for rounding errors: a sum of some
#: thousand terms, added in blocks, errs by less.
ROUNDING = 1e-13

NO_LIMIT = Stop()


@dataclass(frozen=True)
class LateBound:
    """Bound on the weight of late jobs of every schedule, and the prices that prove it.

    Parameters
    ----------
    value
        The bound.
    due
        Seconds by which every job is due, in the order of the problem.
    edges
        Seconds between intervals of constant prices.
    prices
        Price of a GPU-second of every type in every interval.
    multipliers
        Multipliers of every training, by its name.
    """

    value: float
    due: Float[Floats, " jobs"]
    edges: Float[Floats, " edges"]
    prices: Float[Floats, "intervals types"]
    multipliers: Mapping[str, Multipliers]


def late_jobs_bound(
    problem: OfflineProblem,
    due: Float[Floats, " jobs"],
    *,
    interval: float = 300.0,
    start: Float[Floats, "intervals types"] | None = None,
    stop: Stop = NO_LIMIT,
) -> LateBound:
    """Return the greatest bound on the weight of late jobs that the search finds.

    Parameters
    ----------
    problem
        The problem.
    due
        Seconds by which every job is due, in the order of the problem.
    interval
        Seconds of constant prices, above 0; at most 1 / 8 of the time until the last job is due.
    start
        Prices from which the search starts; those behind its last row are 0.
    stop
        Limits; at the first of them the best bound so far is returned.

    Raises
    ------
    ValueError
        If deadlines make no sense, or the interval is not above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> from goodalloc.solvers.hindsight import late_jobs_bound
    >>> training = Training("one", np.array([600.0]), np.array([1.0]), np.array([[[1.0]]]))
    >>> jobs = tuple(OfflineJob(name, "one", 0.0, 0.0) for name in "abc")
    >>> problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 1.0}))
    >>> 1.9 < late_jobs_bound(problem, np.array([600.0, 600.0, 600.0])).value <= 2.0
    True
    """
    due = np.asarray(due, dtype=float)
    require_due(problem, due)
    require_number("Bound: interval", interval, minimum=0.0, strict=True)
    last = float(due.max()) or interval  # where all are due at the start, any grid will do
    intervals = max(int(np.ceil(last / interval)), 8)
    edges = np.linspace(0.0, last, intervals + 1)
    search = _Search(problem, due, edges, Watch(stop))
    types = len(problem.supply.types)
    starts = [np.full((intervals, types), price * search.scale) for price in FIRST_PRICES]
    if start is not None:
        starts.append(np.zeros((intervals, types)))
        starts[-1][: len(start)] = start[:intervals]
    first = SMOOTHING[0] * search.weight
    prices = max(starts, key=lambda tried: search.evaluate(tried, first)[0])
    scale = PriceScale(search.scale, search.weight * len(problem.jobs))
    for smoothing in SMOOTHING:
        evaluate = partial(search.evaluate, smoothing=smoothing * search.weight)
        prices = climb_prices(evaluate, prices, scale, STEPS, search.watch)
    return search.best


def makespan_bound(
    problem: OfflineProblem,
    most: float,
    *,
    interval: float = 300.0,
    report: Callable[[float], None] = lambda _share: None,
) -> LateBound:
    """Return a bound that proves that no schedule ends all jobs by a time, the latest one found.

    The time is `due` of all jobs.

    Parameters
    ----------
    problem
        The problem.
    most
        Makespan of a schedule, beyond the last release.
    interval
        Seconds of constant prices.
    report
        Callback for the share that is done.

    Raises
    ------
    ValueError
        If `most` is not beyond the last release, or no time is refuted.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> from goodalloc.solvers.hindsight import makespan_bound
    >>> training = Training("one", np.array([600.0]), np.array([1.0]), np.array([[[1.0]]]))
    >>> jobs = (OfflineJob("a", "one", 0.0, 0.0), OfflineJob("b", "one", 0.0, 0.0))
    >>> problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 1.0}))
    >>> 1190 < float(makespan_bound(problem, 1200.0).due[0]) < 1200
    True
    """
    lone = max(job.begin + problem.training(job.training).least_seconds for job in problem.jobs)
    low, high = max(job.release for job in problem.jobs), most
    if not low < most < np.inf:
        raise ValueError(
            f"Makespan: most is {most:g} s; expected a finite time above {low:g} s, the last "
            "release."
        )
    found: LateBound | None = None
    tried = lone * (1.0 - PRECISION)  # most traces end with one long job
    steps = max(int(np.ceil(np.log2((high - low) / (PRECISION * high)))), 1)
    for step in range(steps + 1):
        bound = late_jobs_bound(
            problem,
            np.full(len(problem.jobs), tried),
            interval=interval,
            start=None if found is None else found.prices,
        )
        if bound.value > 0:
            low, found = tried, bound
        else:
            high = tried
        tried = (low + high) / 2
        report((step + 1) / (steps + 1))
    if found is None:
        raise ValueError(f"Makespan: nothing is proved below {most:g} s; expected jobs that wait.")
    return found


class _Search:
    """Evaluations of prices, of which the best is kept."""

    def __init__(
        self,
        problem: OfflineProblem,
        due: Float[Floats, " jobs"],
        edges: Float[Floats, " edges"],
        watch: Watch,
    ) -> None:
        self.problem, self.due, self.edges, self.watch = problem, due, edges, watch
        self.weights = np.array([job.weight for job in problem.jobs])
        self.weight = float(self.weights.mean())
        begins = np.array([[job.begin] for job in problem.jobs])
        overlaps = np.minimum(edges[1:], due[:, None]) - np.maximum(edges[:-1], begins)
        self._seconds = np.clip(overlaps, 0.0, None)
        self._there = problem.supply.mean(edges) * np.diff(edges)[:, None]
        rows = {one.name: problem.jobs_of(one.name) for one in problem.trainings}
        trainings = [one for one in problem.trainings if rows[one.name].size]
        costs = [least_gpu_seconds(one) for one in trainings]
        self.scale = self.weight / float(np.median(costs))
        self._groups = [
            (
                rows[one.name],
                one.name,
                Multipliers.of(
                    one,
                    patterns_until(one, float(self.weights[rows[one.name]].max())),
                    self.scale * POINTS,
                ),
            )
            for one in trainings
        ]
        self._best: LateBound | None = None

    @property
    def best(self) -> LateBound:
        """The greatest bound so far."""
        assert self._best is not None
        return self._best

    def evaluate(
        self, prices: Float[Floats, "intervals types"], smoothing: float
    ) -> tuple[float, Float[Floats, "intervals types"]]:
        """Return the smoothed bound and its gradient; keep the bound if it is the best."""
        worth = float((self._there * prices).sum())
        paid, smoothed, slope = 0.0, -worth, -self._there
        for rows, _, multipliers in self._groups:
            weights, seconds = self.weights[rows, None], self._seconds[rows]
            earned, used = multipliers.earnings_by_interval(prices)
            refund = seconds @ earned
            value = multipliers.work_worth - refund
            safe = value - ROUNDING * (np.abs(value) + 2.0 * np.abs(refund))
            paid += float(np.clip(safe.max(axis=1), 0.0, weights[:, 0]).sum())
            finer = FINER * smoothing
            greatest = finer * logsumexp(value / finer, axis=1)[:, None]
            both = -np.concatenate([greatest, weights], axis=1) / smoothing
            smoothed -= smoothing * float(logsumexp(both, axis=1).sum())
            ends = softmax(both, axis=1)[:, :1] * softmax(value / finer, axis=1)
            slope = slope + np.einsum("tp,atp->ta", seconds.T @ ends, used)
        exact = max(paid - worth - ROUNDING * (paid + worth), 0.0)
        if self._best is None or exact > self._best.value:
            told = {name: multipliers for _, name, multipliers in self._groups}
            self._best = LateBound(exact, self.due, self.edges, prices, told)
        return smoothed, slope


def least_gpu_seconds(training: Training) -> float:
    """Return the fewest GPU-seconds that a job of a training can take.

    Parameters
    ----------
    training
        Work and rates.
    """
    (cost,) = unit_costs(training, np.ones((1, len(training.rates))), np.zeros(1))
    return float(cost @ training.work)


def patterns_until(training: Training, weight: float) -> Float[Floats, "patterns phases"]:
    """Return multipliers for jobs that are due: those of constant prices, and those of time alone.

    Parameters
    ----------
    training
        Work and rates.
    weight
        Greatest weight of its jobs.
    """
    price = weight / least_gpu_seconds(training)
    level, second = (
        array.ravel() for array in np.meshgrid(price * LEVELS, np.array(SECONDS), indexing="ij")
    )
    costs = level[:, None] * unit_costs(
        training, np.ones((level.size, len(training.rates))), second
    )
    alone = training.least_phase_seconds / (training.work * training.least_seconds)
    return np.concatenate([costs, weight * ALONE[:, None] * alone])
