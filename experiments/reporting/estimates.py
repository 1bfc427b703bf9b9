"""Means of independent values with their confidence intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.experiments.reporting.table_numbers import rounded

if TYPE_CHECKING:
    from collections.abc import Sequence


class Estimate(NamedTuple):
    """Mean of independent values and half the width of its 95 % confidence interval.

    Attributes
    ----------
    mean
        Sample mean.
    half_width
        Half the width of the interval (Student's t); NaN where there is one value only.
    """

    mean: float
    half_width: float

    def text(self, form: str = ".1f") -> str:
        """Return the estimate as `shown_estimate` does."""
        return shown_estimate(self.mean, self.half_width, form)


#: Estimate of a quantity that a row does not have; blank in tables.
NO_ESTIMATE = Estimate(float("nan"), float("nan"))


def estimate_of(values: Sequence[float]) -> Estimate:
    """Return the mean of independent values with its 95 % confidence interval.

    The interval is that of Student's t; with one value the half-width is NaN.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import estimate_of
    >>> estimate_of([1.0, 2.0, 3.0])  # 4.3027 * 1 / sqrt(3)
    Estimate(mean=2.0, half_width=2.4841)
    """
    from scipy.stats import t

    found = np.asarray(values, dtype=float)
    half = float("nan")
    if found.size > 1:
        error = found.std(ddof=1) / np.sqrt(found.size)
        half = float(t.ppf(0.975, found.size - 1) * error)
    return Estimate(rounded(float(found.mean())), rounded(half))


def shown_estimate(mean: float, half_width: float, form: str = ".1f") -> str:
    """Return an estimate as text, or the mean alone where no interval is known.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import shown_estimate
    >>> shown_estimate(5.0, 0.3)
    '5.0 ± 0.3'
    """
    text = format(mean, form)
    return text if np.isnan(half_width) else f"{text} ± {format(half_width, form.lstrip('+'))}"
