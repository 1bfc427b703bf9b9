r"""Bound on every schedule of the offline problem, from prices of a GPU over time.

For any prices :math:`\lambda_a(t) \ge 0` of a GPU of type *a*, the constraint on the GPUs that are
there can be relaxed (weak duality). What is left falls apart into the jobs:

.. math::

    \sum_j \min_{\sigma} \Bigl[ w_j (C_\sigma - r_j)
        + \sum_a \int \lambda_a(t) \, k_{\sigma a}(t) \, dt \Bigr]
        - \sum_a \int \lambda_a(t) \, G_a(t) \, dt
    \;\le\; \sum_j w_j (C_j - r_j)                                                            (1)

where :math:`\sigma` is any schedule of job *j* alone that ends at :math:`C_\sigma` and is on
:math:`k_{\sigma a}(t)` GPUs. The best prices give the value of the relaxation over whole schedules
of Dantzig and Wolfe: completion times stay true, which they do not in a time-indexed relaxation.

The minimum over the schedules of a job that end at *C* has one multiplier :math:`\mu_q \ge 0` for
the work of each phase. Relaxed by it, the job earns :math:`\mu_q g_{aq}(k)` and pays
:math:`\lambda_a k` a second; hence, for any :math:`\mu`,

.. math::

    w_j (C - r_j) + \sum_q \mu_q W_q - \int_{b_j}^{C} h_\mu(\lambda(t)) \, dt, \qquad
    h_\mu(\lambda) = \max_a \phi_{\mu a}(\lambda_a), \quad
    \phi_{\mu a}(\lambda) = \max_{q, k} \bigl( \mu_q g_{aq}(k) - \lambda k \bigr)^+           (2)

is a bound on it, in which the order of the phases is relaxed. Within an interval of constant prices
(2) is linear in *C*, and least at one of its ends. So

.. math::

    \min_t \max_\mu \min \{ (2) \text{ at the start of } t, (2) \text{ at its end} \}         (3)

bounds the whole minimum of a job, with another :math:`\mu` for every interval *t* in which it may
end, out of any set. A job that ends behind the last edge *T* costs at least :math:`w_j (T - r_j)`.

:math:`\phi` is convex and falls in :math:`\lambda`: a table with chords between its points is never
below it, so that (3) with the table is never above (3) without.

Multipliers that do well are those of constant prices :math:`\bar\lambda` under which a second of
the job is worth :math:`\theta` on top of its GPUs, where a unit of work in phase *q* costs

.. math:: \mu_q = \min_{a, k} \frac{\bar\lambda_a k + \theta}{g_{aq}(k)}                      (4)

from the least GPU-seconds (:math:`\theta = 0`) to the least time (:math:`\theta \to \infty`).

References
----------
Dyer and Wolsey, "Formulating the single machine sequencing problem with release dates as a mixed
    integer program", Discrete Applied Mathematics 26, 1990. doi:10.1016/0166-218X(90)90104-K
Goemans et al., "Single machine scheduling with release dates", SIAM Journal on Discrete Mathematics
    15, 2002. doi:10.1137/S089548019936223X
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineJob, Training
    from goodalloc.models.support.array_types import Floats


def unit_costs(
    training: Training, prices: Float[Floats, "patterns types"], seconds: Float[Floats, " patterns"]
) -> Float[Floats, "patterns phases"]:
    """Return the multipliers (4), shape (patterns, phases).

    Parameters
    ----------
    training
        Work and rates.
    prices
        Constant prices of a GPU-second of every type.
    seconds
        Worth of a second of the job.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.hindsight import unit_costs
    >>> from goodalloc.models.hindsight import Training
    >>> training = Training("one", np.array([60.0]), np.array([1.0, 2.0]), np.array([[[1.0, 1.5]]]))
    >>> unit_costs(training, np.array([[1.0], [1.0]]), np.array([0.0, 4.0]))
    array([[1.],
           [4.]])
    """
    cost = np.full((len(seconds), training.num_phases), np.inf)
    for column, gpus in enumerate(training.gpus.tolist()):
        a_second = (prices * gpus + seconds[:, None])[:, :, None]
        rates = training.rates[None, :, :, column]
        cells = np.full((len(seconds), *rates.shape[1:]), np.inf)
        np.divide(a_second, rates, out=cells, where=rates > 0)
        np.minimum(cost, cells.min(axis=1), out=cost)
    return cost


@dataclass(frozen=True)
class Multipliers:
    """Multipliers of a training, with what the bound takes of them.

    Parameters
    ----------
    values
        Multipliers of the phases; shape (patterns, phases).
    work_worth
        Sum over the phases of multiplier times work; shape (patterns,).
    grid
        Prices of the table, ascending from 0; shape (points,).
    table
        The function phi of (2); shape (types, patterns, points).
    slopes
        Its slope from each point to the next, and 0 behind the last.
    """

    values: Float[Floats, "patterns phases"]
    work_worth: Float[Floats, " patterns"]
    grid: Float[Floats, " points"]
    table: Float[Floats, "types patterns points"]
    slopes: Float[Floats, "types patterns points"]

    @classmethod
    def of(
        cls,
        training: Training,
        values: Float[Floats, "patterns phases"],
        grid: Float[Floats, " points"],
    ) -> Multipliers:
        """Tabulate phi for given multipliers.

        Parameters
        ----------
        training
            Work and rates.
        values
            Multipliers, at least 0.
        grid
            Prices of the table, ascending from 0.
        """
        types, phases, counts = training.rates.shape
        best = np.zeros((types, len(values), counts))
        for phase in range(phases):
            earned = values[None, :, phase, None] * training.rates[:, phase, None, :]
            np.maximum(best, earned, out=best)
        table = np.zeros((types, len(values), grid.size))
        for column, gpus in enumerate(training.gpus.tolist()):
            np.maximum(table, best[:, :, column, None] - gpus * grid, out=table)
        slopes = np.zeros_like(table)
        slopes[:, :, :-1] = np.diff(table) / np.diff(grid)
        return cls(values, values @ training.work, grid, table, slopes)

    def earnings(
        self, prices: Float[Floats, "intervals types"]
    ) -> tuple[Float[Floats, "patterns intervals"], Float[Floats, "types patterns intervals"]]:
        """Return h of (2) in every interval, and the GPUs of every type at which it is earned.

        Parameters
        ----------
        prices
            Prices of a GPU-second, at least 0.
        """
        earned, used = self.earnings_by_interval(prices)
        return earned.T, used.transpose(0, 2, 1)

    def earnings_by_interval(
        self, prices: Float[Floats, "intervals types"]
    ) -> tuple[Float[Floats, "intervals patterns"], Float[Floats, "types intervals patterns"]]:
        """Return what `earnings` does, with the intervals before the patterns.

        Parameters
        ----------
        prices
            Prices of a GPU-second, at least 0.
        """
        point = np.clip(np.searchsorted(self.grid, prices.T, side="right") - 1, 0, None)
        beyond = np.where(point + 1 < self.grid.size, prices.T - self.grid[point], 0.0)
        table, slopes = self._by_point
        row = np.arange(len(point))[:, None]
        slope = slopes[row, point]
        each = slope * beyond[:, :, None]
        each += table[row, point]
        np.negative(slope, out=slope)
        if len(each) == 1:
            return each[0], slope
        best = each.argmax(axis=0)
        used = np.where(np.arange(len(each))[:, None, None] == best, slope, 0.0)
        return each.max(axis=0), used

    @cached_property
    def _by_point(
        self,
    ) -> tuple[Float[Floats, "types points patterns"], Float[Floats, "types points patterns"]]:
        """Table and slopes, a row of all patterns for each point."""
        return (
            np.ascontiguousarray(self.table.transpose(0, 2, 1)),
            np.ascontiguousarray(self.slopes.transpose(0, 2, 1)),
        )


def job_bound(
    job: OfflineJob,
    multipliers: Multipliers,
    edges: Float[Floats, " edges"],
    prices: Float[Floats, "intervals types"],
) -> float:
    """Return the bound (3) of a job.

    Plain and slow; `solvers/hindsight/priced_jobs.py` does the same for many jobs at once.

    Parameters
    ----------
    job
        The job.
    multipliers
        Multipliers of its training.
    edges
        Seconds between intervals, ascending from 0.
    prices
        Prices of a GPU-second in every interval.
    """
    earned, _ = multipliers.earnings(prices)
    least = job.weight * (float(edges[-1]) - job.release)
    total = np.zeros(len(earned))
    for index, (start, end) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        if end <= job.begin:
            continue
        start = max(start, job.begin)
        at_start = job.weight * (start - job.release) + multipliers.work_worth - total
        total = total + earned[:, index] * (end - start)
        at_end = job.weight * (end - job.release) + multipliers.work_worth - total
        least = min(least, float(np.minimum(at_start, at_end).max()))
    return least
