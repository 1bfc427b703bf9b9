r"""Schedules of one job alone at given prices: what no relaxation that is lifted can add more than.

At the prices of a bound, :math:`\min_\sigma [w (C_\sigma - r) + \int \lambda k_\sigma]` of a job is
above its bound (3) of `formulations/hindsight/price_bound.py`, which relaxes it, and below the cost
of any schedule of the job. Schedules are found by the multipliers of the bound: phase after phase,
the job is on the whole number of GPUs with the most :math:`\mu_q g_q(k) - \lambda k`, and the
cheapest of them is kept. So the sum of both over the jobs, less the worth of all GPUs, tells how
much the relaxations of the job's schedule lose at most, at these prices.

The schedules may have to keep their GPUs through a round, and to lose seconds of training in every
change of them, as in a replay, where the first GPUs are held for so long before the job begins.
With such losses a change has to be worth it over some time ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.hindsight.price_bound import unit_costs
from goodalloc.solvers.hindsight.phase_earnings import phase_earnings

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.models.hindsight.offline_problem import OfflineJob, OfflineProblem, Training
    from goodalloc.models.support.array_types import Flags, Floats, Indices
    from goodalloc.solvers.hindsight.best_prices import HindsightBound

#: Multipliers that are tried for each job: those with the greatest bound where it ends.
TRIED = 48

#: Constant prices of further multipliers, in weights of a job.
LEVELS = np.geomspace(1e-3, 6.0, 40)

#: Seconds over which a change of the GPUs has to be worth what it loses: one after the other.
AHEAD = (0.0, 100.0, 200.0, 400.0, 900.0)


def lone_job_costs(
    problem: OfflineProblem, bound: HindsightBound, *, clock: float = 0.0, delay: float = 0.0
) -> Float[Floats, " jobs"]:
    """Return the least cost of every job that is found, infinity if none ends within the prices.

    Parameters
    ----------
    problem
        The problem.
    bound
        Bound on its schedules: prices, and multipliers of every training.
    clock
        Seconds of a round, of which all changes of the prices are multiples; 0 if the GPUs may
        change whenever the price does or a phase ends.
    delay
        Seconds without training after each change of the GPUs; those before the begin of a job
        that trains from then on.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> from goodalloc.solvers.hindsight import hindsight_bound, lone_job_costs
    >>> training = Training("one", np.array([600.0]), np.array([1.0]), np.array([[[1.0]]]))
    >>> jobs = (OfflineJob("a", "one", 0.0, 0.0), OfflineJob("b", "one", 0.0, 0.0))
    >>> problem = OfflineProblem((training,), jobs, Supply.constant({"t4": 1.0}))
    >>> bound = hindsight_bound(problem)
    >>> bool((lone_job_costs(problem, bound) >= bound.job_bounds).all())
    True
    """
    found = np.full(len(problem.jobs), np.inf)
    for training in problem.trainings:
        rows = problem.jobs_of(training.name).tolist()
        if not rows:
            continue
        values = bound.multipliers[training.name].values
        earned = phase_earnings(training, values, bound.prices, slice(None))
        for row in rows:
            job, end = problem.jobs[row], float(bound.ends[row])
            until = np.clip(np.minimum(bound.edges[1:], end), job.begin, None)
            lengths = np.diff(until, prepend=job.begin)
            own = values[np.argsort(earned @ lengths - values @ training.work)[:TRIED]]
            own = np.concatenate([own, _of_constant_prices(training, job.weight)])
            for ahead in AHEAD if delay else (0.0,):
                run = _Run(job, training, own, bound)
                found[row] = min(found[row], run.least(clock, delay, ahead))
    return found


def _of_constant_prices(training: Training, weight: float) -> Float[Floats, "patterns phases"]:
    """Return what a unit of progress costs a job at constant prices, its own seconds included."""
    prices = np.repeat(weight * LEVELS[:, None], len(training.rates), axis=1)
    return unit_costs(training, prices, np.full(LEVELS.size, weight))


class _Run:
    """Schedules of a job, one for each row of multipliers, side by side."""

    def __init__(
        self, job: OfflineJob, training: Training, values: Floats, bound: HindsightBound
    ) -> None:
        number = len(values)
        self._job, self._training = job, training
        self._values, self._edges, self._prices = values, bound.edges, bound.prices
        self._columns = len(training.gpus)
        self._now = np.full(number, job.begin)
        self._phase = np.zeros(number, int)
        self._left = np.full(number, training.work[0])
        self._held = np.full(number, -1)  # of the options, type by type; -1 for none
        self._dead, self._paid = np.zeros(number), np.zeros(number)
        self._started = np.zeros(number, bool)

    def least(self, clock: float, delay: float, ahead: float) -> float:
        """Return the least cost of all of them."""
        best, last = np.inf, float(self._edges[-1])
        active = np.arange(len(self._values))
        while active.size:
            now = self._now[active]
            index = np.searchsorted(self._edges, now, side="right") - 1
            until = self._edges[index + 1]
            turn = np.ones(active.size, bool)
            if clock:
                tick = clock * np.floor(now / clock + 1e-9)
                turn = (now <= tick * (1 + 1e-12)) | (now == self._job.begin)
                until = np.minimum(tick + clock, until)
            self._choose(active[turn], index[turn], delay, ahead)
            ended = self._advance(active, index, until)
            cost = self._paid[active] + self._job.weight * (self._now[active] - self._job.release)
            if ended.any():
                best = min(best, float(cost[ended].min()))
            active = active[~ended & (cost < best) & (self._now[active] < last)]
        return best

    def _choose(
        self,
        rows: Int[Indices, " active"],
        index: Int[Indices, " active"],
        delay: float,
        ahead: float,
    ) -> None:
        """Change the GPUs of some schedules where that is better."""
        if not rows.size:
            return
        training, phase = self._training, self._phase[rows]
        worth = self._values[rows, phase][:, None]
        rates = training.rates.transpose(1, 0, 2).reshape(training.num_phases, -1)[phase]
        paid = (self._prices[index][:, :, None] * training.gpus).reshape(rows.size, -1)
        surplus = np.where(rates > 0, worth * rates - paid, -np.inf)
        each, held = np.arange(rows.size), self._held[rows]
        best = surplus.argmax(axis=1)
        best[surplus[each, best] <= 0] = -1
        gain = np.where(best >= 0, surplus[each, best], 0.0)
        gain -= np.where(held >= 0, surplus[each, held], 0.0)
        lost = np.where(best >= 0, delay * worth[:, 0] * rates[each, best], 0.0)
        change = (best != held) & ((gain * ahead > lost) | (delay == 0) | ~self._started[rows])
        chosen = rows[change]
        self._held[chosen] = best[change]
        starts, option = chosen[best[change] >= 0], best[change][best[change] >= 0]
        at_begin = ~self._started[starts] & (self._now[starts] <= self._job.begin)
        self._dead[starts] = np.where(at_begin, 0.0, delay)
        price = paid[change][best[change] >= 0, option]
        self._paid[starts] += np.where(at_begin, price * delay, 0.0)
        self._started[starts] = True

    def _advance(
        self,
        rows: Int[Indices, " active"],
        index: Int[Indices, " active"],
        until: Float[Floats, " active"],
    ) -> Bool[Flags, " active"]:
        """Go on until a time or the end of a phase; return which have done their last one."""
        training, held = self._training, self._held[rows]
        kind, column = np.divmod(held, self._columns)
        on = held >= 0
        dead, phase = self._dead[rows], self._phase[rows]
        trains = on & (dead <= 0)
        rate = np.where(trains, training.rates[kind.clip(0), phase, column], 0.0)
        needed = np.full(rows.size, np.inf)
        np.divide(self._left[rows], rate, out=needed, where=rate > 0)
        step = np.minimum(until - self._now[rows], needed)
        step = np.where(on & ~trains, np.minimum(step, dead), step)
        price = np.where(on, self._prices[index, kind.clip(0)] * training.gpus[column], 0.0)
        self._paid[rows] += price * step
        done = trains & (needed <= step)
        self._now[rows] = np.where(step < until - self._now[rows], self._now[rows] + step, until)
        self._dead[rows] = np.where(on, np.maximum(dead - step, 0.0), dead)
        self._left[rows] = np.where(done, 0.0, self._left[rows] - rate * step)
        following = phase + 1
        ended = done & (following == training.num_phases)
        more = rows[done & ~ended]
        self._phase[more] += 1
        self._left[more] = training.work[self._phase[more]]
        return np.asarray(ended)
