"""Statistical efficiency of a batch size: section 3.1 of Pollux.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 3.1. https://www.usenix.org/conference/osdi21/presentation/qiao

McCandlish et al., "An Empirical Model of Large-Batch Training", arXiv:1812.06162.

Johnson et al., "AdaScale SGD: A User-Friendly Algorithm for Distributed Training", ICML 2020.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goodalloc.models.support.namespace import namespace

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Array, Numbers


class GradientStatistics(NamedTuple):
    """First two moments of the gradient, each a float or an array of one shape.

    Attributes
    ----------
    square
        Squared norm of the true gradient.
    variance
        Trace of the gradient's covariance at the initial batch size.
    """

    square: Numbers
    variance: Numbers


def noise_scale(gradient: GradientStatistics, initial: Numbers) -> Array:
    """Return the gradient noise scale in examples: M0 variance / square.

    Infinite where the true gradient vanishes, 0 where the variance vanishes too.

    Parameters
    ----------
    gradient
        Gradient statistics.
    initial
        Initial batch size M0 in examples.

    Examples
    --------
    >>> from goodalloc.models.goodput import GradientStatistics, noise_scale
    >>> gradient = GradientStatistics(square=1.0, variance=3.0)
    >>> float(noise_scale(gradient, 100))
    300.0
    """
    xp = namespace(gradient, initial)
    positive = xp.asarray(gradient.square) > 0.0
    finite = initial * gradient.variance / xp.where(positive, gradient.square, 1.0)
    vanishing = xp.where(xp.asarray(gradient.variance) > 0.0, xp.inf, 0.0)
    scale: Array = xp.where(positive, finite, vanishing)
    return scale


def adascale_gain(gradient: GradientStatistics, initial: Numbers, batch: Numbers) -> Array:
    """Return the number of steps at M0 with the progress of one step at batch M.

    With r = M / M0: (variance + square) / (variance / r + square), and 1 where the denominator
    is not positive.

    Parameters
    ----------
    gradient
        Gradient statistics.
    initial, batch
        M0 and M in examples.

    Examples
    --------
    >>> from goodalloc.models.goodput import GradientStatistics, adascale_gain
    >>> gradient = GradientStatistics(square=1.0, variance=3.0)
    >>> float(adascale_gain(gradient, 100, 300))
    2.0
    """
    xp = namespace(gradient, initial, batch)
    denominator = gradient.variance * (initial / batch) + gradient.square
    defined = denominator > 0.0
    ratio = (gradient.variance + gradient.square) / xp.where(defined, denominator, 1.0)
    gain: Array = xp.where(defined, ratio, 1.0)
    return gain


def efficiency(gradient: GradientStatistics, initial: Numbers, batch: Numbers) -> Array:
    """Return the progress per example relative to M0: gain / r = (phi + M0) / (phi + M).

    Parameters
    ----------
    gradient
        Gradient statistics.
    initial, batch
        M0 and M in examples.

    Examples
    --------
    >>> from goodalloc.models.goodput import GradientStatistics, efficiency
    >>> gradient = GradientStatistics(square=1.0, variance=3.0)
    >>> round(float(efficiency(gradient, 100, 300)), 3)
    0.667
    """
    return adascale_gain(gradient, initial, batch) * (initial / batch)
