"""Generalised mean of utilities, and the discount of a restart.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from goodalloc.models.support.namespace import namespace

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import ArrayLike

    from goodalloc.models.support.array_types import Array, Numbers

GEOMETRIC = 1e-100
"""Size of a power below which the power mean is the geometric mean to double precision."""


def power_mean(values: ArrayLike, power: float, axis: int = -1) -> Array:
    r"""Return the generalised mean :math:`(\frac1n \sum_i x_i^p)^{1/p}`: section 4.2 of Pollux.

    Every real p is allowed, and the limits: 0 gives the geometric mean, infinity the maximum,
    minus infinity the minimum. A zero among the values makes the mean zero for p <= 0. The value
    that dominates the sum is taken out of the root first, so no power overflows.

    Parameters
    ----------
    values
        Non-negative numbers.
    power
        p; -1 is the harmonic mean that Pollux uses, 1 the arithmetic mean.
    axis
        The axis to reduce.

    Raises
    ------
    ValueError
        If `power` is NaN, or there are no values along `axis`.

    Examples
    --------
    >>> from goodalloc.models.round import power_mean
    >>> round(float(power_mean([1.0, 4.0], -1)), 3)  # harmonic
    1.6
    """
    if math.isnan(power):
        raise ValueError("power is nan; expected a real number or an infinity.")
    xp = namespace(values)
    array: Array = xp.asarray(values, dtype=float)
    if array.shape[axis] == 0:
        raise ValueError(f"values has no entries along axis {axis}; expected at least one.")
    least, greatest = array.min(axis=axis), array.max(axis=axis)
    if math.isinf(power):
        return greatest if power > 0 else least
    scale = greatest if power > 0 else least
    positive = scale > 0.0
    safe = xp.where(positive, scale, 1.0)
    logarithms = _logarithm(xp, xp.where(xp.expand_dims(positive, axis), array, 1.0))
    ratios = logarithms - xp.expand_dims(xp.log(safe), axis)
    if abs(power) < GEOMETRIC:
        mean = xp.exp(ratios.mean(axis=axis))
    else:
        # each power is at most 1 and one of them is 1; log1p(mean(expm1)) keeps small p accurate
        mean = xp.exp(xp.log1p(xp.expm1(ratios * power).mean(axis=axis)) / power)
    result: Array = xp.where(positive, safe * mean, 0.0)
    return result


def _logarithm(xp: ModuleType, values: Array) -> Array:
    """Return the natural logarithm, minus infinity for 0, without a warning."""
    positive = values > 0.0
    result: Array = xp.where(positive, xp.log(xp.where(positive, values, 1.0)), -xp.inf)
    return result


def restart_factor(age: Numbers, restarts: Numbers, delay: Numbers) -> Array:
    """Return the discount on the speedup of a restarted job: section 4.2.1 of Pollux.

    max(age - delay restarts, 0) / (age + delay), the share of its life so far that a job would
    have kept had it been restarted once more.

    Parameters
    ----------
    age
        Seconds since submission, not negative.
    restarts
        Restarts so far.
    delay
        Seconds a restart costs; 0 makes restarts free.
    """
    xp = namespace(age, restarts, delay)
    age = xp.asarray(age, dtype=float)
    total = age + delay
    kept = xp.maximum(age - delay * restarts, 0.0) / xp.where(total > 0.0, total, 1.0)
    factor: Array = xp.where(total > 0.0, kept, 1.0)
    return factor
