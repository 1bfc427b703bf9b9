r"""Seeded jobs whose losses fall by SLAQ's two laws (SoCC'17), on cores that they share.

Jobs arrive by a Poisson process, 15 s apart on average as in the paper. The remaining
fraction of the loss reduction after *k* of *n* iterations is, for half of the jobs each (sublinear
and linear convergence),

.. math:: \varphi(k) = \frac{1}{1 + \beta k + \alpha k^2} \quad \text{or} \quad \mu^k, \qquad
    \varphi(n) = \varepsilon,                                                                  (1)

and the loss is measured after every iteration, with noise. On *a* cores an iteration takes

.. math:: t(a) = s + w / a + v [a > m]                                                         (2)

seconds: *w* core-seconds that are divided, *s* seconds that are not, and *v* seconds of exchange
where the cores are on several machines of *m*. With *v* = 0 returns diminish mildly; otherwise the
first core beyond a machine slows a job down, and it takes several to make up for it. The sizes are
ours: the paper trains models of Spark's library on 100 MB to GBs of data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.losses.reduction import LossHistory
from goodalloc.models.support.tolerances import WHOLE_TOLERANCE
from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Floats


#: Mean seconds between arrivals.
APART = 15.0

#: Iterations of a job; core-seconds of one, and seconds of it that are not divided; exchange in
#: parts of what an iteration takes on one machine: from and to, the first two geometrically.
ITERATIONS, WORK, SERIAL, EXCHANGE = (50.0, 500.0), (12.0, 120.0), (0.02, 0.2), (0.1, 0.5)

#: Remaining fraction at the end, first loss, and asymptote as a fraction of it: from and to.
LEFT, START, ASYMPTOTE = (0.005, 0.02), (0.5, 8.0), (0.05, 0.6)

#: Cores of a machine.
MACHINE = 32


@dataclass(frozen=True, eq=False)
class LossJob:
    """Job whose loss falls by one of SLAQ's two laws.

    Parameters
    ----------
    arrival
        Seconds from the start.
    work, serial, exchange
        w, s and v of (2), in core-seconds and seconds.
    left
        Remaining fraction of the loss reduction after 0, 1, …, n iterations, from 1 to 0.
    losses
        Measured loss after each of these iterations.
    """

    arrival: float
    work: float
    serial: float
    exchange: float
    left: Floats
    losses: Floats

    @property
    def iterations(self) -> int:
        """Number of iterations n."""
        return len(self.left) - 1

    def rate(self, cores: Floats) -> Floats:
        """Return the iterations per second on these numbers of cores."""
        with np.errstate(divide="ignore"):
            return np.asarray(
                1.0 / (self.serial + self.work / cores + self.exchange * (cores > MACHINE))
            )

    def left_after(self, done: float) -> float:
        """Return the remaining fraction of the loss reduction after `done` iterations."""
        return float(np.interp(done, np.arange(len(self.left)), self.left))

    def history(self, done: float) -> LossHistory:
        """Return the measured losses after `done` iterations."""
        return LossHistory(0.0, 1.0, self.losses[: int(done + WHOLE_TOLERANCE) + 1], done)


def draw_loss_jobs(
    seed: int, jobs: int, *, machines: bool = False, noise: float = 0.001, apart: float = APART
) -> tuple[LossJob, ...]:
    """Draw the jobs in order of arrival.

    Parameters
    ----------
    seed, jobs
        Seed, and number of jobs.
    machines
        Whether exchange between machines takes time.
    noise
        Standard deviation of the logarithm of a measured loss.
    apart
        Mean seconds between arrivals.

    Raises
    ------
    ValueError
        If `seed` < 0, `jobs` < 1, `noise` < 0 or `apart` <= 0.

    Examples
    --------
    >>> from goodalloc.data.classical import draw_loss_jobs
    >>> jobs = draw_loss_jobs(0, jobs=3)
    >>> [job.left_after(0.0) for job in jobs]  # the whole reduction is ahead
    [1.0, 1.0, 1.0]
    """
    require_count("Jobs: seed", seed, 0)
    require_count("Jobs: jobs", jobs, 1)
    require_number("Jobs: noise", noise, 0.0)
    require_number("Jobs: apart", apart, 0.0, strict=True)
    random = np.random.default_rng([seed, 5])
    arrivals = np.cumsum(random.exponential(apart, jobs))
    return tuple(_draw(random, arrival, machines, noise) for arrival in arrivals.tolist())


def _draw(random: np.random.Generator, arrival: float, machines: bool, noise: float) -> LossJob:
    """Draw one job; `machines` affects its exchange only."""
    number = round(float(np.exp(random.uniform(*np.log(ITERATIONS)))))
    work = float(np.exp(random.uniform(*np.log(WORK))))
    serial = random.uniform(*SERIAL)
    exchange = random.uniform(*EXCHANGE) * (serial + work / MACHINE)
    end, steps = random.uniform(*LEFT), np.arange(number + 1) / number
    if random.random() < 0.5:
        bend = random.random()
        fraction = 1.0 / (1.0 + (1.0 / end - 1.0) * ((1.0 - bend) * steps + bend * steps**2))
    else:
        fraction = end**steps
    start = random.uniform(*START)
    asymptote = start * random.uniform(*ASYMPTOTE)
    losses = asymptote + (start - asymptote) * fraction
    measured = losses * np.exp(noise * random.standard_normal(losses.size))
    left = (fraction - fraction[-1]) / (1.0 - fraction[-1])
    return LossJob(arrival, work, serial, exchange if machines else 0.0, left, measured)
