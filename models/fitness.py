"""How a scheduler weighs the jobs: generalised mean of speedups and the price of a restart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from goodalloc.models.namespace import Array, namespace

if TYPE_CHECKING:
    from types import ModuleType


def power_mean(values: Array, power: float, axis: int = -1) -> Array:
    r"""Return the generalised mean :math:`(\frac1n \sum_i x_i^p)^{1/p}`: Pollux, section 4.2.

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
        If the power is not a number.
    """
    if math.isnan(power):
        raise ValueError("power is nan; expected a real number or an infinity.")
    xp = namespace(values)
    values = xp.asarray(values, dtype=float)
    least, greatest = values.min(axis=axis), values.max(axis=axis)
    if math.isinf(power):
        return greatest if power > 0 else least
    scale = greatest if power > 0 else least
    safe = xp.where(scale > 0.0, scale, 1.0)
    logarithms = _log_ratio(xp, values, xp.expand_dims(safe, axis))
    if power == 0:
        mean = xp.exp(logarithms.mean(axis=axis))
    else:
        # log-mean-exp: the terms are at most 1 and one of them is 1
        mean = xp.exp(_log_mean_power(xp, logarithms * power, axis) / power)
    return xp.where(scale > 0.0, safe * mean, 0.0)


def _log_ratio(xp: ModuleType, values: Array, scale: Array) -> Array:
    """Logarithm of values / scale, a large negative number for a zero."""
    return xp.where(values > 0.0, xp.log(xp.where(values > 0.0, values, 1.0) / scale), -1e300)


def _log_mean_power(xp: ModuleType, exponents: Array, axis: int) -> Array:
    """log(mean(exp(exponents))) for exponents at most 0, accurate for a mean near 1."""
    return xp.log1p(xp.expm1(exponents).mean(axis=axis))


def restart_factor(age: Array, restarts: Array, delay: Array) -> Array:
    """Discount on the speedup of a job that would be restarted: Pollux, section 4.2.1.

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
    return xp.where(total > 0.0, kept, 1.0)
