r"""Loss as a function of steps, and the remaining steps of a job (Optimus, AITurbo).

Stochastic gradient descent converges like the inverse of the number of steps *k*, so that both
systems predict

.. math:: l(k) = \frac{1}{b_0 k + b_1} + b_2, \qquad b_0, b_1, b_2 \ge 0.                      (1)

The loss *L* is reached at :math:`k = (1 / (L - b_2) - b_1) / b_0`; never, if it is not above the
asymptote :math:`b_2`. The code of Optimus (github.com/pengyanghua/optimus, commit 8c43920) trains
until the fitted loss falls by less than 0.05 over 10 epochs, and at most 100 epochs. With
*E* steps in these epochs, :math:`e = b_0 E` and :math:`\tau` = 0.05 that is *E* steps after

.. math:: b_0 k + b_1 = \frac{2 / \tau}{1 + \sqrt{1 + 4 / (e \tau)}},                           (2)

a documented reading: the epochs over which the loss hardly falls are trained, and the fall is in
the units of the loss. How sure the answer is comes from the covariance of the fitted coefficients.

References
----------
Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters", EuroSys
    2018. doi:10.1145/3190508.3190517

Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.support.array_types import Floats, Numbers


#: Least loss, and least part of the last step, of a drawn curve.
TINY_LOSS = 1e-12


class LossCurve(NamedTuple):
    """Loss curve (1), each coefficient a number or an array of many curves.

    Attributes
    ----------
    rate
        b0, per step and unit of loss.
    offset
        b1, per unit of loss; with 0 the loss is infinite before the first step.
    asymptote
        b2, the limit of the loss.
    """

    rate: Numbers
    offset: Numbers
    asymptote: Numbers

    def loss(self, step: Numbers) -> Any:
        """Return the loss after `step` steps."""
        with np.errstate(divide="ignore"):
            falling = np.divide(1.0, np.multiply(self.rate, step) + self.offset)
        return falling + self.asymptote

    def step_at(self, loss: Numbers) -> Any:
        """Return the first step with a loss of at most `loss`; infinite if there is none."""
        gap = np.subtract(loss, self.asymptote)
        reached = np.divide(1.0, gap, out=np.full_like(gap, np.inf, dtype=float), where=gap > 0)
        return self.step_with(reached)

    def step_with(self, inverse: Numbers) -> Any:
        """Return the first step k with b0 k + b1 of at least `inverse`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.subtract(inverse, self.offset) / np.asarray(self.rate, dtype=float)
        return np.where(np.asarray(inverse) <= self.offset, 0.0, step)


class Goal(Protocol):
    """Protocol for criteria of a job's end."""

    def step(self, curve: LossCurve) -> Any:
        """Return the step at which a job with this curve ends, of the shape of the curve."""


@dataclass(frozen=True, slots=True)
class TargetLoss:
    """Criterion that ends a job once its loss is at most `loss`.

    Parameters
    ----------
    loss
        Above 0.

    Raises
    ------
    ValueError
        If `loss` is not a finite number above 0.
    """

    loss: float

    def __post_init__(self) -> None:
        require_number("Target loss", self.loss, 0.0, strict=True)

    def step(self, curve: LossCurve) -> Any:
        """Return the step at which the curve reaches the loss; infinite if it never does."""
        return curve.step_at(self.loss)


@dataclass(frozen=True, slots=True)
class Convergence:
    """Criterion that ends a job once its loss hardly falls any more: Optimus, equation (2).

    Parameters
    ----------
    steps_per_epoch
        Steps of an epoch of the job.
    fall
        Least fall of the loss while the job continues, in units of the loss, tau of (2).
    epochs
        Number of epochs over which the fall is measured.
    most_epochs
        Limit on the epochs.

    Raises
    ------
    ValueError
        If a number is not finite and above 0.
    """

    steps_per_epoch: float
    fall: float = 0.05
    epochs: float = 10.0
    most_epochs: float = 100.0

    def __post_init__(self) -> None:
        for name in ("steps_per_epoch", "fall", "epochs", "most_epochs"):
            require_number(f"Convergence: {name}", getattr(self, name), 0.0, strict=True)

    def step(self, curve: LossCurve) -> Any:
        """Return the end of the first epochs over which the curve falls by less."""
        over = self.epochs * self.steps_per_epoch
        with np.errstate(divide="ignore"):
            ratio = np.divide(4.0 / self.fall, np.multiply(curve.rate, over))
        slow = 2.0 / self.fall / (1.0 + np.sqrt(1.0 + ratio))
        step = curve.step_with(slow) + over
        return np.minimum(step, self.most_epochs * self.steps_per_epoch)


class LossCurveFit(NamedTuple):
    """Fitted loss curve.

    Attributes
    ----------
    curve
        The fitted coefficients.
    covariance
        Covariance of the coefficients, of shape (3, 3).
    freedom
        Degrees of freedom that the covariance was estimated with.
    first, last
        Steps between which it was fitted.
    error
        Median of abs(fitted / measured - 1), a measure of the job's predictability.
    spikes
        Number of measurements ignored as spikes.
    """

    curve: LossCurve
    covariance: Float[Floats, "3 3"]
    freedom: float
    first: float
    last: float
    error: float
    spikes: int


class RemainingSteps(NamedTuple):
    """Remaining steps of a job.

    Attributes
    ----------
    estimate
        Remaining steps by the fitted curve; infinite if the goal is never reached.
    low, high
        Bounds of the confidence interval.
    """

    estimate: float
    low: float
    high: float


def remaining_steps(
    fit: LossCurveFit,
    done: float,
    goal: Goal,
    *,
    confidence: float = 0.9,
    draws: int = 1000,
    seed: int = 0,
) -> RemainingSteps:
    """Return the remaining steps until a goal is reached, with a confidence interval.

    The interval is between quantiles of the answers of curves that are drawn around the fitted one.
    The draws are of their losses at the first, the last and a middle step, which are nearly linear
    in the measurements, and so by Student's distribution. An interval has no upper end where the
    goal may be below the asymptote.

    Parameters
    ----------
    fit
        The fitted curve.
    done
        Steps that are done.
    goal
        Criterion of the job's end.
    confidence
        Above 0 and below 1.
    draws, seed
        Number of drawn curves, and seed of the draws.

    Raises
    ------
    ValueError
        If `done` is negative, `confidence` is not between 0 and 1, `draws` is below 2, or `seed`
        is not a count.
    """
    require_number("Remaining steps: done", done, 0.0)
    require_number("Remaining steps: confidence", confidence, 0.0, strict=True)
    if confidence >= 1:
        raise ValueError(f"Remaining steps: confidence is {confidence}; expected below 1.")
    require_count("Remaining steps: draws", draws, 2)
    require_count("Remaining steps: seed", seed, 0)
    estimate = max(float(goal.step(fit.curve)) - done, 0.0)
    answers = np.maximum(goal.step(_drawn(fit, draws, seed)) - done, 0.0)
    tail = (1.0 - confidence) / 2.0
    low = float(np.quantile(answers, tail, method="lower"))
    high = float(np.quantile(answers, 1.0 - tail, method="higher"))
    return RemainingSteps(estimate, min(low, estimate), max(high, estimate))


def _drawn(fit: LossCurveFit, draws: int, seed: int) -> LossCurve:
    """Draw curves around the fitted one."""
    steps = np.array([fit.first, _middle(fit), fit.last])
    slopes = loss_slopes(fit.curve, steps)
    covariance = slopes @ fit.covariance @ slopes.T
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    unit = np.where(deviation > 0, deviation, 1.0)  # so that the scale makes no difference
    values, vectors = np.linalg.eigh(covariance / np.outer(unit, unit))
    generator = np.random.default_rng(seed)
    normal = generator.standard_normal((draws, 3))
    wider = np.sqrt(fit.freedom / generator.chisquare(fit.freedom, (draws, 1)))
    away = (normal * wider) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T * unit
    return curves_through(steps, fit.curve.loss(steps) + away)


def _middle(fit: LossCurveFit) -> float:
    """Return the step at which half of the fall from the first to the last step is reached."""
    half = float(fit.curve.loss(np.array([fit.first, fit.last])).mean())
    step = float(fit.curve.step_at(half))
    return step if fit.first < step < fit.last else (fit.first + fit.last) / 2.0


def loss_slopes(curve: LossCurve, steps: Floats) -> Float[Floats, "steps 3"]:
    """Return the derivatives of the loss by the three coefficients, of shape (steps, 3)."""
    square = 1.0 / (curve.rate * steps + curve.offset) ** 2
    return np.stack([-steps * square, -square, np.ones_like(steps)], axis=1)


def curves_through(steps: Float[Floats, " 3"], losses: Float[Floats, "curves 3"]) -> LossCurve:
    r"""Return curves through three points each.

    With :math:`B = b_1 / b_0` the losses at three steps give :math:`\frac{l_1 - l_2}{l_2 - l_3}
    \frac{x_3 - x_2}{x_2 - x_1} = \frac{x_3 + B}{x_1 + B}`. Where no coefficients of at least 0 fit,
    the middle point counts for nothing and the asymptote is 0, and where the last loss is not below
    the first, it stays as it is.

    Parameters
    ----------
    steps
        Ascending, of shape (3,).
    losses
        At these steps, of shape (curves, 3).
    """
    x1, x2, x3 = steps
    l1, l2, l3 = np.maximum(losses, TINY_LOSS).T
    falls = l1 > l3
    drop = np.where(falls, l1 - l3, 1.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bend = (l1 - l2) / (l2 - l3) * ((x3 - x2) / (x2 - x1))
        before = np.maximum((x3 - bend * x1) / (bend - 1.0), TINY_LOSS * x3)
        height = drop * (x1 + before) * (x3 + before) / (x3 - x1)
        asymptote = l3 - height / (x3 + before)
        bent = (l1 > l2) & (l2 > l3) & (bend > 1.0) & (asymptote >= 0.0)
        straight = np.where(falls, (1.0 / l3 - 1.0 / l1) / (x3 - x1), 0.0)
        return LossCurve(
            np.where(bent, 1.0 / height, straight),
            np.where(bent, before / height, np.maximum(1.0 / l3 - straight * x3, 0.0)),
            np.where(bent, asymptote, 0.0),
        )
