"""Statistics of benchmarks and predictions: geometric mean, performance profile, RMSLE."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.validation import require_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike

    from goodalloc.models.support.array_types import Floats


def rmsle(predicted: ArrayLike, measured: ArrayLike) -> float:
    r"""Root of the mean squared logarithm: :math:`(\mathrm{mean} \log^2 (\hat T / T))^{1/2}`.

    Parameters
    ----------
    predicted, measured
        Of one shape, above 0.
    """
    ratio = np.asarray(predicted, dtype=float) / np.asarray(measured, dtype=float)
    return float(np.sqrt(np.mean(np.log(ratio) ** 2)))


def shifted_geometric_mean(values: Iterable[float], shift: float) -> float:
    """``exp(mean(log(value + shift))) - shift`` [1]_.

    Parameters
    ----------
    values
        Numbers of at least 0, in the unit of `shift`.
    shift
        Differences well below it do not count; above 0.

    Raises
    ------
    ValueError
        If there are no values, or one is negative or not finite.

    References
    ----------
    .. [1] T. Achterberg, *Constraint Integer Programming*, appendix A.3, 2007,
       https://doi.org/10.14279/depositonce-1634.
    """
    require_number("Shifted geometric mean: shift", shift, minimum=0.0, strict=True)
    array = np.fromiter(values, dtype=float)
    if not array.size:
        raise ValueError("Shifted geometric mean: got no values; expected at least one.")
    bad = array[~(np.isfinite(array) & (array >= 0))]
    if bad.size:
        raise ValueError(
            f"Shifted geometric mean: a value is {bad[0]}; expected finite numbers of at least 0."
        )
    return float(np.exp(np.mean(np.log(array + shift))) - shift)


class Profile(NamedTuple):
    """A step function: the share of runs, 0 to 1, whose value is at most `value`."""

    value: Floats
    share: Floats


def share_within(values: ArrayLike) -> Profile:
    """The share of runs within each value; failed runs are infinite or NaN and never counted."""
    array = np.asarray(values, dtype=float).ravel()
    if not array.size:
        raise ValueError("Profile: got no values; expected at least one.")
    finite = np.sort(array[np.isfinite(array)])
    steps, counts = np.unique(finite, return_counts=True)
    return Profile(steps, np.cumsum(counts) / array.size)


def performance_profile(costs: Sequence[Sequence[float]] | Floats) -> list[Profile]:
    """Performance profile of every solver [1]_.

    For each problem the cost of a solver is divided by that of the best one; the profile of a
    solver is the share of problems on which this ratio is at most a given value.

    Parameters
    ----------
    costs
        Shape (problems, solvers): times or the like, above 0; infinite or NaN where a solver
        failed.

    Raises
    ------
    ValueError
        If a cost is not above 0 or the table is not two-dimensional.

    References
    ----------
    .. [1] E. D. Dolan, J. J. Moré, Benchmarking optimization software with performance profiles,
       Mathematical Programming 91, 2002, https://doi.org/10.1007/s101070100263.
    """
    table = np.asarray(costs, dtype=float)
    if table.ndim != 2 or not table.size:
        raise ValueError(
            f"Performance profile: costs have shape {table.shape}; expected problems by solvers."
        )
    table = np.where(np.isnan(table), np.inf, table)
    if (table <= 0).any():
        raise ValueError(
            f"Performance profile: a cost is {table[table <= 0][0]}; expected numbers above 0."
        )
    best = table.min(axis=1, keepdims=True)
    ratios = table / np.where(np.isfinite(best), best, 1.0)
    return [share_within(column) for column in ratios.T]
