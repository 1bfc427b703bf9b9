r"""Gradient statistics from the gradients that training computes anyway, and their averages.

With :math:`G` the true gradient and :math:`\Sigma` the covariance of the gradient of one example,
the mean gradient :math:`g` of :math:`m` examples has :math:`E|g|^2 = |G|^2 + tr \Sigma / m`. Two
batch sizes therefore tell the two terms apart (McCandlish et al., arXiv:1812.06162, appendix A.1):
of batches :math:`b < B`,

.. math::

    |G|^2 \approx \frac{B |g_B|^2 - b |g_b|^2}{B - b}, \qquad
    tr \Sigma \approx \frac{|g_b|^2 - |g_B|^2}{1/b - 1/B}.                                (1)

Data-parallel training has both sizes in every step: the :math:`c` local gradients :math:`g_i` of
:math:`m` examples (replicas times passes) and their mean :math:`\bar g` of :math:`M = c m`. With
:math:`S = M / M_0` and the variance stated at the initial batch size (Pollux, OSDI'21, section 3.1;
AdaScale, ICML'20), (1) becomes

.. math::

    |G|^2 \approx \frac{c |\bar g|^2 - \overline{|g_i|^2}}{c - 1}, \qquad
    \frac{tr \Sigma}{M_0} \approx \frac{S}{c - 1}
    \bigl(\overline{|g_i|^2} - |\bar g|^2\bigr).                                          (2)

Where a step has one gradient, that of the step before stands in for a second one of the same batch
size (the difference estimate of Pollux's agent). (2) with :math:`c = 2` and twice the scale is then

.. math::

    |G|^2 \approx g \cdot g', \qquad
    \frac{tr \Sigma}{M_0} \approx \frac{S}{2} |g - g'|^2.                                 (3)

All three are unbiased, (3) as far as the gradient has not moved in between: a step at learning rate
:math:`\eta` lowers its first estimate by about :math:`\eta \, tr(H \Sigma) / M`, with :math:`H` the
Hessian, which near a minimum may be all of it; two passes a step avoid that. For an optimiser that
scales the gradient by a preconditioner :math:`P` (Adam), every norm is that of :math:`P g`, which
gives :math:`\varphi = tr(P \Sigma P^T) / |P G|^2` (Pollux, section 3.1).

References
----------
McCandlish et al., "An Empirical Model of Large-Batch Training", arXiv:1812.06162.

Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 3.1. https://www.usenix.org/conference/osdi21/presentation/qiao

Johnson et al., "AdaScale SGD: A User-Friendly Algorithm for Distributed Training", ICML 2020.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.support.validation import require_count, require_number, require_share

DECAY = 0.999
"""Theta, the decay of the moving averages for one step at M0 (Pollux's agent)."""

LEAST_SQUARE, LEAST_VARIANCE = 0.0, 1e-6
"""Lower bounds at which the averages are clipped (Pollux's agent)."""

ADAM_STEPS = 5
"""Steps of Adam before which its second moment says too little to precondition by (Pollux's)."""


class Tensor(Protocol):
    """Array of any library: NumPy, JAX or PyTorch."""

    def __mul__(self, other: Any, /) -> Any:
        """Return the product."""

    def __truediv__(self, other: Any, /) -> Any:
        """Return the quotient."""


class GradientAverage(NamedTuple):
    """Moving averages of estimates; the first one is empty.

    Attributes
    ----------
    square, variance
        Weighted sums of the estimates, not yet corrected for having begun at 0.
    weight
        Sum of the weights so far: 0 at the beginning, towards 1.
    """

    square: float = 0.0
    variance: float = 0.0
    weight: float = 0.0


def from_local_gradients(
    local_square: float, mean_square: float, count: int, scale: float
) -> GradientStatistics:
    """Estimate from the local gradients of one step, by (2); either may come out negative.

    Parameters
    ----------
    local_square
        Mean of the squared norms of the local gradients.
    mean_square
        Squared norm of their mean.
    count
        Number of local gradients, c: replicas times passes, at least 2.
    scale
        S, examples of all of them over M0.

    Raises
    ------
    ValueError
        If a number is negative or not finite, or the count is below 2.

    Examples
    --------
    >>> from goodalloc.models.adaptation import from_local_gradients
    >>> from_local_gradients(4.0, 2.5, count=2, scale=1.0)
    GradientStatistics(square=1.0, variance=1.5)
    """
    require_number("Gradient noise: local_square", local_square, 0.0)
    require_number("Gradient noise: mean_square", mean_square, 0.0)
    require_count("Gradient noise: count", count, 2)
    require_number("Gradient noise: scale", scale, 0.0, strict=True)
    square = (count * mean_square - local_square) / (count - 1)
    return GradientStatistics(square, (local_square - mean_square) * scale / (count - 1))


def from_consecutive_gradients(
    previous_square: float, square: float, product: float, scale: float
) -> GradientStatistics:
    """Estimate from the gradients of two consecutive steps, by (3); the square may be negative.

    Parameters
    ----------
    previous_square, square
        Squared norms of the two gradients.
    product
        Their inner product.
    scale
        S, examples of one of them over M0.

    Raises
    ------
    ValueError
        If a number is not finite, or a squared norm or the scale is negative.

    Examples
    --------
    >>> from goodalloc.models.adaptation import from_consecutive_gradients
    >>> from_consecutive_gradients(4.0, 4.0, 1.0, scale=1.0)
    GradientStatistics(square=1.0, variance=3.0)
    """
    require_number("Gradient noise: previous_square", previous_square, 0.0)
    require_number("Gradient noise: square", square, 0.0)
    require_number("Gradient noise: product", product)
    require_number("Gradient noise: scale", scale, 0.0, strict=True)
    difference = max(previous_square + square - 2.0 * product, 0.0)  # rounding may go below
    return GradientStatistics(product, 0.5 * scale * difference)


def from_two_batches(
    small_square: float, small: int, large_square: float, large: int, initial: int
) -> GradientStatistics:
    """Estimate from gradients of two batch sizes, by (1), as KungFu does.

    Parameters
    ----------
    small_square, large_square
        Squared norms of the two gradients (of the smaller, perhaps a mean over several).
    small, large
        Their batch sizes, b < B.
    initial
        M0, at which the variance is stated.

    Raises
    ------
    ValueError
        If a squared norm is negative or not finite, or the batch sizes are out of order.
    """
    require_number("Gradient noise: small_square", small_square, 0.0)
    require_number("Gradient noise: large_square", large_square, 0.0)
    require_count("Gradient noise: small", small, 1)
    require_count("Gradient noise: large", large, small + 1)
    require_count("Gradient noise: initial", initial, 1)
    square = (large * large_square - small * small_square) / (large - small)
    trace = (small_square - large_square) / (1.0 / small - 1.0 / large)
    return GradientStatistics(square, trace / initial)


def averaged(
    average: GradientAverage, estimate: GradientStatistics, scale: float, decay: float = DECAY
) -> GradientAverage:
    """Update the averages with one more estimate, decaying them by theta^S for scale S.

    Parameters
    ----------
    average
        Present averages.
    estimate
        Of one step.
    scale
        S = M / M0 of that step.
    decay
        Theta, from 0 (only the last estimate counts) to below 1.

    Raises
    ------
    ValueError
        If a number is not finite, the scale is not above 0, or theta is out of range.

    Examples
    --------
    >>> from goodalloc.models.adaptation import GradientAverage, averaged
    >>> from goodalloc.models.goodput import GradientStatistics
    >>> averaged(GradientAverage(), GradientStatistics(1.0, 3.0), scale=1.0, decay=0.5)
    GradientAverage(square=0.5, variance=1.5, weight=0.5)
    """
    require_number("Gradient average: square", estimate.square)
    require_number("Gradient average: variance", estimate.variance)
    require_number("Gradient average: scale", scale, 0.0, strict=True)
    require_share("Gradient average: decay", decay)
    if decay == 1.0:
        raise ValueError(f"Gradient average: decay is {decay!r}; expected 0 to below 1.")
    kept = decay**scale
    taken = 1.0 - kept
    return GradientAverage(
        kept * average.square + taken * float(estimate.square),
        kept * average.variance + taken * float(estimate.variance),
        kept * average.weight + taken,
    )


def statistics_of(
    average: GradientAverage,
    least_square: float = LEAST_SQUARE,
    least_variance: float = LEAST_VARIANCE,
) -> GradientStatistics | None:
    """Return the averages, bias-corrected and clipped; None before any estimate.

    Parameters
    ----------
    average
        Moving averages.
    least_square, least_variance
        Lower bounds. The published floors are absolute: with gradients so small that
        their variance is below 1e-6, they say nothing about the noise.

    Raises
    ------
    ValueError
        If a floor is negative or not finite.

    Examples
    --------
    >>> from goodalloc.models.adaptation import GradientAverage, statistics_of
    >>> statistics_of(GradientAverage(square=0.5, variance=1.5, weight=0.5))
    GradientStatistics(square=1.0, variance=3.0)
    """
    require_number("Gradient average: least_square", least_square, 0.0)
    require_number("Gradient average: least_variance", least_variance, 0.0)
    if average.weight <= 0.0:
        return None
    return GradientStatistics(
        max(average.square / average.weight, least_square),
        max(average.variance / average.weight, least_variance),
    )


def adam_preconditioner(second_moment: Tensor, steps: int, decay: float, epsilon: float) -> Any:
    """Return the diagonal of P for Adam, 1 / (sqrt(v / (1 - beta2^t)) + epsilon).

    It is 1 in the first `ADAM_STEPS` steps, and 0 where v is, a departure: there Adam has seen no
    gradient, and 1 / epsilon would let the first one that is not 0 (of a rare feature) outweigh all
    the others.

    Parameters
    ----------
    second_moment
        v, the moving average of the squared gradient; an array of any library.
    steps
        t, the steps that Adam has made.
    decay, epsilon
        Adam's beta2 and epsilon.

    Raises
    ------
    ValueError
        If `steps` is not a count, `decay` is outside [0, 1], or `epsilon` is negative or not
        finite.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.adaptation import adam_preconditioner
    >>> adam_preconditioner(np.array([4.0, 0.0]), steps=10, decay=0.0, epsilon=0.0)
    array([0.5, 0. ])
    """
    require_count("Adam: steps", steps, 0)
    require_share("Adam: decay", decay)
    require_number("Adam: epsilon", epsilon, 0.0)
    if steps < ADAM_STEPS or decay == 1.0:
        return second_moment * 0.0 + 1.0
    root = (second_moment / (1.0 - decay**steps)) ** 0.5
    unseen = root == 0.0
    return (1.0 - 1.0 * unseen) / (root + epsilon + 1.0 * unseen)
