r"""Forecast of a job's total steps from the losses known so far.

After every epoch the loss is known. From four epochs on the curve of Optimus
(`losses/loss_curve.py`) is fitted to what is known, anew whenever there is a tenth more of it; the
job is believed to end where the curve reaches the target loss, at most at the last epoch that is
allowed. Before there is a curve, 20 more epochs are assumed, the fallback of Optimus's code
(github.com/pengyanghua/optimus, commit 8c43920). How far to believe it, is half the interval of all
steps that the job needs, over their estimate,

.. math:: e = \frac{k_{high} - k_{low}}{2 \, \hat k},                                          (1)

infinite where the target may never be reached, and before a dozen losses: a curve with
three coefficients goes through so few points whatever they are, and its interval is too narrow.

References
----------
Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters", EuroSys
    2018. doi:10.1145/3190508.3190517
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from goodalloc.models.losses.curve_fitting import FEWEST_STEPS, fit_loss_curve
from goodalloc.models.losses.loss_curve import TargetLoss, remaining_steps
from goodalloc.models.losses.reduction import LossHistory
from goodalloc.models.support.tolerances import ROUNDING
from goodalloc.models.support.validation import require_number

#: Growth of the number of losses that makes a fit outdated.
OUTDATED = 1.1

#: Losses from which on an interval is trusted: four for every coefficient.
ENOUGH_LOSSES = 12

#: Remaining epochs assumed where nothing is known.
FALLBACK_EPOCHS = 20.0

#: Epochs that a user allows, as in Optimus's code.
MOST_EPOCHS = 100.0


@dataclass(frozen=True)
class LossRun:
    """Losses of a job, including future ones, and its target.

    Parameters
    ----------
    steps_per_epoch
        Steps of an epoch; the loss is measured after each.
    losses
        After every epoch.
    target
        The loss at which the job is to end.
    most_epochs
        Limit on the epochs.

    Raises
    ------
    ValueError
        If a number or a loss is not finite and above 0.
    """

    steps_per_epoch: float
    losses: tuple[float, ...]
    target: float
    most_epochs: float = MOST_EPOCHS

    def __post_init__(self) -> None:
        for name in ("steps_per_epoch", "target", "most_epochs"):
            require_number(f"Losses: {name}", getattr(self, name), 0.0, strict=True)
        object.__setattr__(self, "losses", tuple(self.losses))
        for number, loss in enumerate(self.losses, start=1):
            require_number(f"Losses: of epoch {number}", loss, 0.0, strict=True)

    def measured(self, done: float) -> int:
        """Return the number of losses known after `done` steps."""
        # Rounding may leave a completed epoch slightly short.
        epochs = math.floor(done / self.steps_per_epoch * (1 + ROUNDING))
        return min(epochs, len(self.losses))

    def history(self, done: float) -> LossHistory:
        """Return the losses known after `done` steps."""
        every = self.steps_per_epoch
        return LossHistory(every, every, np.array(self.losses[: self.measured(done)]), done)


class Forecast(NamedTuple):
    """Forecast of a job.

    Attributes
    ----------
    steps
        Total steps of the job.
    error
        Relative error (1), infinite where nothing is known.
    """

    steps: float
    error: float


def forecast(run: LossRun, done: float) -> Forecast:
    """Return the forecast after `done` steps.

    Parameters
    ----------
    run
        Losses; those after more steps are ignored.
    done
        Steps.

    Raises
    ------
    ValueError
        If `done` is negative or not finite.

    Examples
    --------
    >>> from goodalloc.models.losses import LossRun, forecast
    >>> run = LossRun(steps_per_epoch=10.0, losses=(4.0, 3.0), target=1.0)
    >>> forecast(run, done=20.0)  # too few losses for a curve: 20 more epochs
    Forecast(steps=220.0, error=inf)
    """
    require_number("Forecast: done", done, 0.0)
    epochs = run.measured(done)
    refits = _refits(len(run.losses))
    made = bisect.bisect_right(refits, epochs)
    if made:
        return _fitted(run, refits[made - 1])
    most = run.most_epochs * run.steps_per_epoch
    return Forecast(min(done + FALLBACK_EPOCHS * run.steps_per_epoch, most), math.inf)


@lru_cache(maxsize=64)
def _refits(epochs: int) -> tuple[int, ...]:
    """Return the numbers of losses at which the curve is fitted."""
    found, number = [], FEWEST_STEPS
    while number <= epochs:
        found.append(number)
        number = math.ceil(round(number * OUTDATED, 9))
    return tuple(found)


@lru_cache(maxsize=65536)
def _fitted(run: LossRun, epochs: int) -> Forecast:
    """Return the forecast by a curve fitted to the first `epochs` losses."""
    steps = run.steps_per_epoch * np.arange(1.0, epochs + 1.0)
    fit = fit_loss_curve(steps, np.array(run.losses[:epochs]))
    left = remaining_steps(fit, float(steps[-1]), TargetLoss(run.target))
    most = run.most_epochs * run.steps_per_epoch
    estimate = min(float(steps[-1]) + left.estimate, most)
    sure = math.isfinite(left.high) and epochs >= ENOUGH_LOSSES
    return Forecast(estimate, (left.high - left.low) / 2.0 / estimate if sure else math.inf)
