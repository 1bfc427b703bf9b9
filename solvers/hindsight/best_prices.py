"""Search for the prices whose bound on all schedules of an offline problem is greatest.

The bound is concave in the prices. Its smoothed version is maximised by L-BFGS-B (SciPy) over the
square roots of the prices, in which prices far apart move equally well, first on long intervals and
much smoothed, then on shorter intervals and less. Whatever the search returns, the bound is that of
the prices alone, without smoothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.hindsight.price_bound import Multipliers, unit_costs
from goodalloc.solvers.hindsight.price_climb import PriceScale, climb_prices
from goodalloc.solvers.hindsight.priced_jobs import price_jobs
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineProblem, Training
    from goodalloc.models.support.array_types import Floats

#: Worth of a second of a job, in prices of a GPU-second, of the patterns of multipliers.
SECONDS = (0.0, *np.geomspace(0.3, 600.0, 13).tolist())

#: Prices of a GPU-second of the patterns, and those of the table, in mean weights of the jobs.
LEVELS, POINTS = np.geomspace(1e-3, 6.0, 30), np.concatenate([[0.0], np.geomspace(1e-4, 8.0, 400)])

#: Greatest worth of a second of a job in a pattern, in weights of the heaviest job of a training.
MOST_WORTH = 60.0

#: Price at the start of the search, in mean weights of the jobs.
FIRST_PRICE = 0.03


#: How much farther than intervals that counted a stage goes.
SLACK = 1.2


class Stage(NamedTuple):
    """Stage of the search.

    Attributes
    ----------
    interval
        Seconds of an interval of constant prices.
    smoothing
        Parameters of the smoothed minimum, one after the other, in seconds of a job.
    steps
        Most steps with each.
    """

    interval: float
    smoothing: tuple[float, ...]
    steps: int


NO_LIMIT = Stop()

#: The search, from long intervals to short ones.
STAGES = (Stage(1200.0, (200.0, 60.0), 25), Stage(300.0, (40.0, 10.0, 2.0), 40))


#: Parameters of the smoothed minimum of a stage on shorter intervals than those of `STAGES`.
FINER = (5.0, 2.0)


def stages_to(interval: float) -> tuple[Stage, ...]:
    """Return the stages of a search that ends with intervals of a length.

    Parameters
    ----------
    interval
        Seconds of an interval of constant prices in the last stage, above 0.

    Examples
    --------
    >>> from goodalloc.solvers.hindsight import stages_to
    >>> [[stage.interval for stage in stages_to(last)] for last in (60.0, 900.0)]
    [[1200.0, 300.0, 60.0], [1200.0, 900.0]]
    """
    longer = tuple(stage for stage in STAGES if stage.interval > interval)
    last = STAGES[-1]
    smoothing = last.smoothing if interval >= last.interval else FINER
    return (*longer, Stage(interval, smoothing, last.steps))


@dataclass(frozen=True)
class HindsightBound:
    """Bound on every schedule of an offline problem, and the prices that prove it.

    Parameters
    ----------
    value
        The bound on the weighted sum of completion times.
    edges
        Seconds between intervals of constant prices.
    prices
        Price of a GPU-second of every type in every interval.
    job_bounds
        Bound of every job, in the order of the problem: its weighted completion time and what it
        pays for GPUs; the sum less the worth of all GPUs is `value`.
    multipliers
        Multipliers of every training, by its name.
    patterns
        Row of the multipliers of every job at its bound; -1 if it ends behind the last edge.
    ends
        Seconds at which every job ends at its bound.
    """

    value: float
    edges: Float[Floats, " edges"]
    prices: Float[Floats, "intervals types"]
    job_bounds: Float[Floats, " jobs"]
    multipliers: Mapping[str, Multipliers]
    patterns: tuple[int, ...]
    ends: Float[Floats, " jobs"]


def horizon_of(problem: OfflineProblem) -> float:
    """Return seconds by which all jobs can end: twice the time of their work on all GPUs at once.

    Any number would be safe: a job that ends behind it counts as ending there.

    Parameters
    ----------
    problem
        The problem.

    Raises
    ------
    ValueError
        If a training cannot run on the GPUs that are there in the end.
    """
    gpus, load, longest = problem.supply.gpus[-1], 0.0, 0.0
    for training in problem.trainings:
        if not (number := len(problem.jobs_of(training.name))):
            continue
        there = (training.gpus <= gpus[:, None])[:, None, :] & (training.rates > 0)
        part = (training.gpus / gpus[:, None])[:, None, :]  # of the GPUs of the type
        share = np.full(training.rates.shape, np.inf)
        np.divide(part, training.rates, out=share, where=there)
        least = share.min(axis=(0, 2))
        if not np.isfinite(least).all():
            raise ValueError(
                f"Training '{training.name}': it cannot run on the GPUs of the supply; expected a "
                "number of GPUs that is there in the end."
            )
        load += number * float(training.work @ least)
        longest = max(longest, training.least_seconds)
    last = max(float(problem.supply.times[-1]), *(job.begin for job in problem.jobs))
    return last + 2.0 * max(load, longest)


def patterns_of(
    training: Training, scale: float, heaviest: float = 1.0
) -> Float[Floats, "patterns phases"]:
    """Return the multipliers (4) of `formulations/hindsight/price_bound.py` for a range of prices.

    Prices are equal for all types of GPU.

    Parameters
    ----------
    training
        Work and rates.
    scale
        Mean weight of the jobs.
    heaviest
        Greatest weight of the jobs of the training, in mean weights.
    """
    level, second = (
        array.ravel() for array in np.meshgrid(LEVELS, np.array(SECONDS), indexing="ij")
    )
    kept = level * second <= MOST_WORTH * heaviest
    level, second = level[kept], second[kept]
    costs = unit_costs(training, np.ones((level.size, len(training.rates))), second)
    return np.asarray(scale * level[:, None] * costs)


def hindsight_bound(
    problem: OfflineProblem,
    stages: tuple[Stage, ...] = STAGES,
    *,
    stop: Stop = NO_LIMIT,
    report: Callable[[float, float], None] = lambda _share, _bound: None,
) -> HindsightBound:
    """Return the greatest bound that the search finds within its limits.

    Parameters
    ----------
    problem
        The problem.
    stages
        Stages of the search.
    stop
        Limits; at the first of them the best bound so far is returned.
    report
        Callback for the share of the search that is done, and the bound so far.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> from goodalloc.solvers.hindsight import hindsight_bound
    >>> training = Training("one", np.array([600.0]), np.array([1.0]), np.array([[[1.0]]]))
    >>> jobs = (OfflineJob("a", "one", 0.0, 0.0), OfflineJob("b", "one", 0.0, 0.0))
    >>> problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 1.0}))
    >>> 1700 < hindsight_bound(problem).value <= 1800  # 600 and 1,200
    True
    """
    search = _Search(problem, Watch(stop))
    scale, types = search.scale, len(problem.supply.types)
    last = horizon_of(problem)
    edges = np.array([0.0, last])
    prices = np.full((1, types), FIRST_PRICE * scale)
    total = sum(stage.steps * len(stage.smoothing) for stage in stages)
    done = 0
    for stage in stages:
        last = min(last, SLACK * search.until)
        finer = np.arange(0.0, last + stage.interval, stage.interval)
        middle = np.minimum((finer[:-1] + finer[1:]) / 2, edges[-1])
        prices = prices[np.searchsorted(edges, middle, side="right").clip(1, len(prices)) - 1]
        edges = finer
        for smoothing in stage.smoothing:
            prices = search.improve(edges, prices, smoothing * scale, stage.steps)
            done += stage.steps
            report(done / total, search.best.value)
            if search.watch.limit is not None:
                return search.best
    return search.best


class _Search:
    """Evaluations of prices, of which the best is kept."""

    def __init__(self, problem: OfflineProblem, watch: Watch) -> None:
        self.problem, self.watch = problem, watch
        self.scale = float(np.mean([job.weight for job in problem.jobs]))
        self._groups = [
            (rows, jobs, self._multipliers(training, max(job.weight for job in jobs)))
            for training in problem.trainings
            if (rows := problem.jobs_of(training.name)).size
            and (jobs := [problem.jobs[row] for row in rows.tolist()])
        ]
        self._until = np.full(len(problem.jobs), np.inf)
        self._best: HindsightBound | None = None

    def _multipliers(self, training: Training, heaviest: float) -> Multipliers:
        """Return the multipliers of a training whose heaviest job has a weight."""
        patterns = patterns_of(training, self.scale, heaviest / self.scale)
        return Multipliers.of(training, patterns, self.scale * POINTS)

    @property
    def until(self) -> float:
        """Seconds behind which no interval counts at the last prices; infinity before any."""
        return float(self._until.max())

    @property
    def best(self) -> HindsightBound:
        """The greatest bound so far."""
        assert self._best is not None
        return self._best

    def improve(
        self,
        edges: Float[Floats, " edges"],
        prices: Float[Floats, "intervals types"],
        smoothing: float,
        steps: int,
    ) -> Float[Floats, "intervals types"]:
        """Return better prices, by at most so many steps with one smoothing."""
        return climb_prices(
            lambda now: self.evaluate(edges, now, smoothing),
            prices,
            PriceScale(self.scale, self.scale * len(self.problem.jobs)),
            steps,
            self.watch,
        )

    def evaluate(
        self,
        edges: Float[Floats, " edges"],
        prices: Float[Floats, "intervals types"],
        smoothing: float,
    ) -> tuple[float, Float[Floats, "intervals types"]]:
        """Return the smoothed bound and its gradient; keep the bound if it is the best."""
        problem = self.problem
        there = problem.supply.mean(edges) * np.diff(edges)[:, None]
        worth = float((there * prices).sum())
        bounds, patterns = np.empty(len(problem.jobs)), np.empty(len(problem.jobs), int)
        stops = np.empty(len(problem.jobs), int)
        smoothed, slope = -worth, -there
        for rows, jobs, multipliers in self._groups:
            found = price_jobs(jobs, multipliers, edges, prices, smoothing, self._until[rows])
            self._until[rows] = found.until
            smoothed += float(found.smoothed.sum())
            slope = slope + found.gpu_seconds
            bounds[rows], patterns[rows], stops[rows] = found.bounds, found.patterns, found.ends
        value = float(bounds.sum()) - worth
        if self._best is None or value > self._best.value:
            ends = edges[np.minimum(stops + 1, len(edges) - 1)]
            told = {jobs[0].training: multipliers for _, jobs, multipliers in self._groups}
            self._best = HindsightBound(
                value, edges, prices, bounds, told, tuple(patterns.tolist()), ends
            )
        return smoothed, slope
