"""Statistics of benchmarks and predictions: geometric mean, performance profile, RMSLE.

References
----------
T. Achterberg, "Constraint Integer Programming", appendix A.3, 2007.
    https://doi.org/10.14279/depositonce-1634
E. D. Dolan, J. J. Moré, "Benchmarking optimization software with performance profiles",
    Mathematical Programming 91, 2002. https://doi.org/10.1007/s101070100263
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.validation import require_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike

    from goodalloc.models.support.array_types import Floats


def rmsle(predicted: ArrayLike, measured: ArrayLike) -> float:
    r"""Return the root mean squared logarithmic error.

    It is :math:`(\mathrm{mean} \log^2 (\hat T / T))^{1/2}` of predictions and measurements.

    Parameters
    ----------
    predicted, measured
        Arrays of one shape, above 0.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import rmsle
    >>> round(rmsle([2.0, 1.0], [1.0, 2.0]), 4)  # log 2
    0.6931
    """
    ratio = np.asarray(predicted, dtype=float) / np.asarray(measured, dtype=float)
    return float(np.sqrt(np.mean(np.log(ratio) ** 2)))


def shifted_geometric_mean(values: Iterable[float], shift: float) -> float:
    """Return the shifted geometric mean, ``exp(mean(log(value + shift))) - shift``.

    Parameters
    ----------
    values
        Numbers of at least 0, in the unit of `shift`.
    shift
        Magnitude below which differences have little influence; above 0.

    Raises
    ------
    ValueError
        If there are no values, or one is negative or not finite, or `shift` <= 0.
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
    """Step function: the share of runs, 0 to 1, with a value of at most `value`."""

    value: Floats
    share: Floats


def share_within(values: ArrayLike) -> Profile:
    """Return the share of runs within each value; failed runs are infinite or NaN.

    Raises
    ------
    ValueError
        If there are no values.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import share_within
    >>> profile = share_within([0.1, 0.1, 0.3, float("nan")])
    >>> profile.value.tolist(), profile.share.tolist()
    ([0.1, 0.3], [0.5, 0.75])
    """
    array = np.asarray(values, dtype=float).ravel()
    if not array.size:
        raise ValueError("Profile: got no values; expected at least one.")
    finite = np.sort(array[np.isfinite(array)])
    steps, counts = np.unique(finite, return_counts=True)
    return Profile(steps, np.cumsum(counts) / array.size)


def performance_profile(costs: Sequence[Sequence[float]] | Floats) -> list[Profile]:
    """Return the performance profile of every solver.

    For each problem the cost of a solver is divided by that of the best one; the profile of a
    solver is the share of problems on which this ratio is at most a given value.

    Parameters
    ----------
    costs
        Times, say, of shape (problems, solvers), above 0; infinite or NaN where a solver failed.

    Raises
    ------
    ValueError
        If a cost is not above 0 or the table is not two-dimensional.
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
