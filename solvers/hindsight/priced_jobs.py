r"""Bound (3) of `formulations/hindsight/price_bound.py` for all jobs at once, and its slope.

The minimum of a job over the intervals in which it may end has corners in the prices. For the
search of prices it is smoothed: :math:`-\tau \log \sum_t e^{-v_t / \tau}`, which is below the
minimum by at most :math:`\tau` times the logarithm of the number of intervals, and whose gradient
is a mean over schedules: with what probability the job ends when, and on how many GPUs it is.

A job that ends behind any edge *T* costs at least :math:`w_j (T - r_j)`, even with no multipliers.
So its intervals need to be looked at only up to an edge at which that is far above its minimum; all
in all they are about as many as the jobs under way, added up over the intervals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int

    from goodalloc.formulations.hindsight.price_bound import Multipliers
    from goodalloc.models.hindsight.offline_problem import OfflineJob
    from goodalloc.models.support.array_types import Floats, Indices

#: Probability of a schedule that counts as none.
NEVER = 1e-9

#: By how many parameters of the smoothing the cost at the end of the intervals that are looked at
#: is to be above the minimum, and for how many the next evaluation looks farther.
CLEAR, NEXT = 25.0, 35.0


class PricedJobs(NamedTuple):
    """Jobs of one training under given prices.

    Attributes
    ----------
    bounds
        Bound (3) of every job.
    smoothed
        The smoothed bound.
    gpu_seconds
        GPU-seconds of all of them in every interval, mean over the schedules of the smoothed bound.
    ends
        Index of the interval in which the schedule of the bound ends; the number of intervals for
        one that ends behind them.
    patterns
        Its multipliers; -1 where it ends behind the intervals.
    until
        Seconds up to which the intervals of every job count at prices like these.
    """

    bounds: Float[Floats, " jobs"]
    smoothed: Float[Floats, " jobs"]
    gpu_seconds: Float[Floats, "intervals types"]
    ends: Int[Indices, " jobs"]
    patterns: Int[Indices, " jobs"]
    until: Float[Floats, " jobs"]


def price_jobs(
    jobs: Sequence[OfflineJob],
    multipliers: Multipliers,
    edges: Float[Floats, " edges"],
    prices: Float[Floats, "intervals types"],
    smoothing: float,
    until: Float[Floats, " jobs"] | None = None,
) -> PricedJobs:
    """Return the bounds of jobs of one training, and what they take of the GPUs.

    Parameters
    ----------
    jobs
        The jobs.
    multipliers
        Multipliers of their training.
    edges, prices
        Seconds between intervals, and prices of a GPU-second in each.
    smoothing
        The parameter tau of the smoothed minimum, in units of the objective; above 0.
    until
        Seconds up to which intervals are looked at first, and behind which only as far as they
        count; None to look at all.
    """
    lengths = np.diff(edges)
    earned, used = multipliers.earnings_by_interval(prices)
    total = np.zeros((edges.size, earned.shape[1]))
    np.cumsum(earned * lengths[:, None], axis=0, out=total[1:])
    release, begin, weight = (
        np.array([getattr(job, name) for job in jobs]) for name in ("release", "begin", "weight")
    )
    first = np.clip(np.searchsorted(edges, begin, side="right") - 1, 0, lengths.size - 1)
    at_begin = total[first] + earned[first] * (begin - edges[first])[:, None]
    lines = _Lines(edges, total, multipliers.work_worth, at_begin, release, begin, weight, first)
    last = np.full(len(jobs), lengths.size)
    if until is not None:
        last = np.searchsorted(edges, until).clip(first + 1, lengths.size)
    ends = [lines.ends(row, stop) for row, stop in enumerate(last.tolist())]
    while True:
        inside = np.array([own.value.min() for own in ends])
        behind = weight * (edges[last] - release)
        short = (last < lengths.size) & (behind < np.minimum(inside, behind) + CLEAR * smoothing)
        if not short.any():
            break
        last = np.where(short, np.minimum(2 * last - first, lengths.size), last)
        for row in np.flatnonzero(short).tolist():
            ends[row] = lines.ends(row, int(last[row]))
    bounds = np.minimum(inside, behind)
    return _priced(lines, _Ends.joined(ends), _Least(last, behind, bounds, smoothing), used)


class _Lines(NamedTuple):
    """Lines (2) of jobs of one training, for every pattern linear in each interval.

    Attributes
    ----------
    edges
        Seconds between the intervals.
    total
        Earnings up to each edge; shape (edges, patterns).
    worth
        Worth of the work; shape (patterns,).
    at_begin
        Earnings up to the begin of each job; shape (jobs, patterns).
    release, begin, weight
        Of the jobs.
    first
        Interval in which each begins.
    """

    edges: Float[Floats, " edges"]
    total: Float[Floats, "edges patterns"]
    worth: Float[Floats, " patterns"]
    at_begin: Float[Floats, "jobs patterns"]
    release: Float[Floats, " jobs"]
    begin: Float[Floats, " jobs"]
    weight: Float[Floats, " jobs"]
    first: Int[Indices, " jobs"]

    def ends(self, row: int, last: int) -> _Ends:
        """Return the ends of a job in its intervals before one."""
        first = int(self.first[row])
        time = self.edges[first : last + 1].copy()
        time[0] = self.begin[row]
        line = (self.worth + self.at_begin[row]) - self.total[first : last + 1]
        line[0] = self.worth
        line += (self.weight[row] * (time - self.release[row]))[:, None]
        least = np.minimum(line[:-1], line[1:])
        pattern = least.argmax(axis=1)
        interval = np.arange(pattern.size)
        later = line[interval + 1, pattern] < line[interval, pattern]
        rows, column = np.full(pattern.size, row), first + interval
        return _Ends(rows, column, least[interval, pattern], pattern, column + later)


class _Ends(NamedTuple):
    """Pairs of a job and an interval in which it may end, for each job in order of time.

    Attributes
    ----------
    row, column
        Job and interval.
    value
        Bound of the job if it ends there.
    pattern, stop
        Multipliers of this bound, and the edge at which its schedule ends.
    """

    row: Int[Indices, " pairs"]
    column: Int[Indices, " pairs"]
    value: Float[Floats, " pairs"]
    pattern: Int[Indices, " pairs"]
    stop: Int[Indices, " pairs"]

    def at(self, pairs: Int[Indices, " some"]) -> _Ends:
        """Return some of the pairs."""
        row, column, value, pattern, stop = self
        return _Ends(row[pairs], column[pairs], value[pairs], pattern[pairs], stop[pairs])

    @classmethod
    def joined(cls, parts: Sequence[_Ends]) -> _Ends:
        """Return the ends of several jobs, one after the other."""
        return cls._make(np.concatenate(own) for own in zip(*parts, strict=True))


class _Least(NamedTuple):
    """Minimum of every job over its intervals.

    Attributes
    ----------
    last
        Number of the interval behind those that were looked at.
    behind
        Cost of ending there or later.
    bounds
        The bound.
    smoothing
        Parameter of the smoothed minimum.
    """

    last: Int[Indices, " jobs"]
    behind: Float[Floats, " jobs"]
    bounds: Float[Floats, " jobs"]
    smoothing: float


def _priced(
    lines: _Lines, ends: _Ends, least: _Least, used: Float[Floats, "types intervals patterns"]
) -> PricedJobs:
    """Return the jobs with the smoothed minimum and its gradient."""
    bounds, smoothing, jobs = least.bounds, least.smoothing, least.bounds.size
    chance = np.exp((bounds[ends.row] - ends.value) / smoothing)
    whole = np.bincount(ends.row, chance, jobs) + np.exp((bounds - least.behind) / smoothing)
    chance /= whole[ends.row]
    likely = np.flatnonzero(chance > NEVER)
    taken, covered = _covered(lines, ends.at(likely), chance[likely])
    seconds = np.einsum("tp,atp->ta", covered, used[:, :, taken])
    seconds *= np.diff(lines.edges)[:, None]
    stops, best = least.last.copy(), np.full(jobs, -1)
    found = np.flatnonzero(ends.value == bounds[ends.row])[::-1]  # of several the first one
    stops[ends.row[found]], best[ends.row[found]] = ends.column[found], ends.pattern[found]
    until = lines.release + (bounds + NEXT * smoothing) / lines.weight
    return PricedJobs(bounds, bounds - smoothing * np.log(whole), seconds, stops, best, until)


def _covered(
    lines: _Lines, ends: _Ends, chance: Float[Floats, " pairs"]
) -> tuple[Int[Indices, " taken"], Float[Floats, "intervals taken"]]:
    """Return patterns, and how many jobs train with each in each interval, on the mean."""
    taken, pattern = np.unique(ends.pattern, return_inverse=True)
    begin, shape = lines.first[ends.row], (lines.edges.size, taken.size)
    size = lines.edges.size * taken.size
    weight = np.where(ends.stop > begin, chance, 0.0)
    missed = (lines.begin - lines.edges[lines.first]) / np.diff(lines.edges)[lines.first]
    starts = np.bincount(begin * taken.size + pattern, weight, size)
    stops = np.bincount(ends.stop * taken.size + pattern, weight, size)
    late = np.bincount(begin * taken.size + pattern, weight * missed[ends.row], size)
    covered = np.cumsum((starts - stops).reshape(shape), axis=0) - late.reshape(shape)
    return taken, np.asarray(covered[:-1], dtype=np.float64)
