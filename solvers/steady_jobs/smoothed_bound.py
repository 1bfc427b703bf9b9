r"""Smoothed bound of jobs whose rates stay the same, and its gradient in the prices (JAX).

The minimum over the intervals in which a job may end has corners in the prices. It is replaced by
:math:`-\tau \log \sum_t e^{-v_t / \tau}`, which is never above it. The rest is bound (2) of
`formulations/hindsight/steady_price_bound.py`, one jitted function of all jobs, intervals and
multipliers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from goodalloc.formulations.hindsight.steady_price_bound import steady_multipliers

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float, Int
    from numpy.typing import NDArray

    from goodalloc.models.hindsight.steady_jobs import SteadyJobs

#: Jobs that are looked at together.
TOGETHER = 8

#: Fewest intervals in which the end of a job is looked for; others are twice as many, and so on.
SHORTEST = 8


class _Kinds(NamedTuple):
    """Multipliers, rates and uses of every kind, of one shape."""

    multipliers: Array
    rates: Array
    uses: Array


class _Jobs(NamedTuple):
    """Kind, work, times and weight of jobs, and the intervals in which each begins and may end.

    Those in which it may end are looked at from `window` on.
    """

    kind: Array
    work: Array
    release: Array
    begin: Array
    alone: Array
    weight: Array
    first: Array
    window: Array


class _Arrays(NamedTuple):
    """Kinds, jobs by the number of intervals in which their ends are looked for, and the rest."""

    kinds: _Kinds
    groups: tuple[_Jobs, ...]
    edges: Array
    supply: Array


@dataclass(frozen=True)
class SmoothedBound:
    """Smoothed bound on intervals of constant prices.

    Parameters
    ----------
    problem
        The problem.
    edges
        Seconds between the intervals, ascending from 0.
    multipliers
        Number of multipliers of every kind.
    until
        Seconds up to which the ends of every job are looked at, at least; behind them it costs its
        time alone. Infinity for all intervals.
    """

    problem: SteadyJobs
    edges: Float[NDArray[np.float64], " edges"]
    multipliers: int
    until: Float[NDArray[np.float64], " jobs"]

    def __call__(
        self, prices: Float[NDArray[np.float64], "intervals resources"], smoothing: float
    ) -> tuple[float, Float[NDArray[np.float64], "intervals resources"]]:
        """Return the smoothed bound of prices, and its gradient.

        Parameters
        ----------
        prices
            Prices of a unit of every resource for a second, at least 0.
        smoothing
            The parameter tau, in units of the objective; above 0.
        """
        with jax.enable_x64(True):
            value, slope = _bound_and_slope(prices, smoothing, self._arrays, self._counts)
            return float(value), np.asarray(slope, dtype=float)

    @cached_property
    def _arrays(self) -> _Arrays:
        """The problem; a configuration that is none has rate 0."""
        problem, count = self.problem, max(kind.rates.size for kind in self.problem.kinds)
        rates = np.zeros((len(problem.kinds), count))
        uses = np.zeros((len(problem.kinds), count, problem.supply.size))
        for index, kind in enumerate(problem.kinds):
            rates[index, : kind.rates.size] = kind.rates
            uses[index, : kind.rates.size] = kind.uses
        kinds: Any = steady_multipliers(problem, self.multipliers), rates, uses
        begin, alone = problem.first_work, problem.first_end
        intervals = self.edges.size - 1
        columns = (
            problem.kind,
            problem.work,
            problem.release,
            begin,
            alone,
            problem.weight,
            self._interval_of(begin),
            np.minimum(self._interval_of(alone), intervals - self._looked_at),
        )
        groups: Any = (
            _Jobs(*(column[self._looked_at == count] for column in columns))  # pyright: ignore
            for count in self._counts
        )
        there: Any = self.edges, problem.supply
        return _Arrays(_Kinds(*kinds), tuple(groups), *there)

    def _interval_of(
        self, times: Float[NDArray[np.float64], " jobs"]
    ) -> Int[NDArray[np.int64], " jobs"]:
        """Return the interval of each time, the last one for times behind it."""
        found = np.searchsorted(self.edges, times, side="right") - 1
        return np.asarray(np.minimum(found, self.edges.size - 2))

    @cached_property
    def _looked_at(self) -> Int[NDArray[np.int64], " jobs"]:
        """In how many intervals the end of each job is looked for."""
        alone = self._interval_of(self.problem.first_end)
        wanted = self._interval_of(self.until) - alone + 1
        doublings = np.ceil(np.log2(np.maximum(wanted / SHORTEST, 1.0))).astype(int)
        return np.asarray(np.minimum(SHORTEST * 2**doublings, self.edges.size - 1))

    @property
    def _counts(self) -> tuple[int, ...]:
        """The numbers of intervals that occur."""
        return tuple(np.unique(self._looked_at).tolist())


@partial(jax.jit, static_argnums=3)
@partial(jax.value_and_grad, argnums=0)
def _bound_and_slope(
    prices: Array, smoothing: Array, problem: _Arrays, counts: tuple[int, ...]
) -> Array:
    """Return the smoothed bound; its gradient comes by `value_and_grad`."""
    kinds, groups, edges, supply = problem
    seconds = jnp.diff(edges)

    def earnings(kind: _Kinds) -> Array:
        pays = prices @ kind.uses.T
        gains = kind.multipliers[:, None] * kind.rates
        return jnp.maximum((gains[None] - pays[:, None]).max(axis=2), 0.0)

    earned = jax.lax.map(earnings, kinds)
    before = jnp.zeros_like(earned[:, :1])
    total = jnp.concatenate([before, jnp.cumsum(earned * seconds[:, None], axis=1)], axis=1)

    def of_job(job: _Jobs, length: int) -> Array:
        count = earned.shape[2]
        own = jax.lax.dynamic_slice(earned, (job.kind, job.window, 0), (1, length, count))[0]
        sums = jax.lax.dynamic_slice(total, (job.kind, job.window, 0), (1, length + 1, count))[0]
        times = jax.lax.dynamic_slice(edges, (job.window,), (length + 1,))
        begun = job.begin - edges[job.first]
        at_begin = total[job.kind, job.first] + earned[job.kind, job.first] * begun
        base = kinds.multipliers[job.kind] * job.work + at_begin
        starts = jnp.maximum(times[:-1], job.alone)
        at_start = sums[:-1] + own * (starts - times[:-1])[:, None]
        early = (job.weight * (starts - job.release))[:, None] + base - at_start
        late = (job.weight * (times[1:] - job.release))[:, None] + base - sums[1:]
        least = jnp.minimum(early, late).max(axis=1)
        least = jnp.where(times[1:] > job.alone, least, jnp.inf)
        behind = job.weight * (jnp.maximum(times[-1], job.alone) - job.release)
        ends = jnp.append(least, behind)
        return -smoothing * jax.nn.logsumexp(-ends / smoothing)

    value = -jnp.sum(seconds @ prices * supply)
    for jobs, length in zip(groups, counts, strict=True):
        value += jnp.sum(jax.lax.map(partial(of_job, length=length), jobs, batch_size=TOGETHER))
    return value
