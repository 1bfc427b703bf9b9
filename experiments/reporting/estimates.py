"""Means of independent values with their confidence intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.reporting.table_numbers import rounded

if TYPE_CHECKING:
    from collections.abc import Sequence


def estimate(values: Sequence[float]) -> dict[str, float]:
    """Mean of independent values and half the width of its 95 % confidence interval (Student's t).

    With one value the half-width is NaN.
    """
    from scipy.stats import t

    found = np.asarray(values, dtype=float)
    half = float("nan")
    if found.size > 1:
        error = found.std(ddof=1) / np.sqrt(found.size)
        half = float(t.ppf(0.975, found.size - 1) * error)
    return {"mean": rounded(float(found.mean())), "half_width": rounded(half)}


def estimated(quantity: str, values: Sequence[float]) -> dict[str, float]:
    """The estimate of a quantity as two columns of a row, its name and that with `_half_width`."""
    found = estimate(values)
    return {quantity: found["mean"], f"{quantity}_half_width": found["half_width"]}


def shown_estimate(mean: float, half_width: float, form: str = ".1f") -> str:
    """An estimate as people read it: "5.0 ± 0.3", or the mean alone where no interval is known."""
    text = format(mean, form)
    return text if np.isnan(half_width) else f"{text} ± {format(half_width, form.lstrip('+'))}"
