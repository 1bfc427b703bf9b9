r"""heSRPT: the least total flow time of jobs that share servers with a power-law speedup.

All *n* jobs are there from the start, of sizes :math:`x_1 \ge \dots \ge x_n` (seconds on one
server), and *N* servers may be divided among them at will; *k* of them speed a job up by
:math:`s(k) = k^p`, *0 < p < 1*. While *m* jobs remain the optimal shares are

.. math::

    \theta_i = \Bigl(\frac{Z_i}{Z_m}\Bigr)^q - \Bigl(\frac{Z_{i-1}}{Z_m}\Bigr)^q, \quad
    i \le m, \qquad Z_i = \sum_{k \le i} w_k, \quad q = \frac{1}{1-p},                        (1)

with *w* = 1 for flow time, where :math:`Z_i / Z_m = i / m`, and *w* = 1 / *x* for the slowdown
(Berg, Vesilo and Harchol-Balter, heSRPT, Performance Evaluation 2020, arXiv 1903.09346). The
smallest job has the most, every job has some, and sizes matter by their order only: shares change
when a job ends, and in no other moment. The weighted total of the flow times is

.. math:: \sum_i x_i \Delta_i, \qquad \Delta_i = N^{-p} \bigl(Z_i^q - Z_{i-1}^q\bigr)^{1/q}.  (2)

Why: suppose that the least total of any jobs is linear in their sizes, as (2) without the values of
:math:`\Delta`. In a moment of *m* jobs it falls by :math:`Z_m`, so that Bellman's equation asks for
:math:`\max_\theta \sum_{i \le m} \Delta_i (N \theta_i)^p = Z_m`. The maximum has
:math:`\theta_i \propto \Delta_i^q` and is :math:`N^p (\sum_i \Delta_i^q)^{1/q}`; equal to
:math:`Z_m` for every *m*, that gives first (2), then (1). Since :math:`\Delta` ascends where *w*
does (*q* > 1), (2) pairs large with small, and no other order of the jobs is less.

With *p* near 1 all servers go to the smallest job (SRPT), with *p* near 0 all have equally many
(EQUI).

References
----------
Berg et al., "heSRPT: Parallel scheduling to minimize mean slowdown", Performance Evaluation 2020.
    doi:10.1016/j.peva.2020.102147
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.tolerances import ROUNDING
from goodalloc.models.support.validation import as_numbers, require_all, require_number

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy.typing import ArrayLike

    from goodalloc.models.support.array_types import Floats


def hesrpt_shares(jobs: int, power: float) -> Float[Floats, " jobs"]:
    """Return the shares (1) for flow time, from the largest job to the smallest.

    Examples
    --------
    >>> from goodalloc.models.classical import hesrpt_shares
    >>> hesrpt_shares(2, power=0.5)
    array([0.25, 0.75])
    """
    return weighted_shares(np.ones(jobs), power)


def weighted_shares(weights: ArrayLike, power: float) -> Float[Floats, " jobs"]:
    """Return the weighted shares (1) of the remaining jobs, from the largest to the smallest.

    Parameters
    ----------
    weights
        Of the same jobs, not descending.
    power
        *p* of the speedup.

    Raises
    ------
    ValueError
        If the power is not between 0 and 1, or a weight is not above 0 or descends.
    """
    exponent = _exponent(power)
    before = _weights_before(weights)
    return np.diff((before / before[-1]) ** exponent)


def least_flow_time(
    sizes: ArrayLike, servers: float, power: float, weights: ArrayLike | None = None
) -> float:
    """Return the least total (2) of the jobs' flow times, in the seconds of their sizes.

    Parameters
    ----------
    sizes
        Seconds on one server, above 0, in any order; shape (jobs,).
    servers
        *N*, above 0.
    power
        *p* of the speedup.
    weights
        Of the jobs, 1 if not given; none may be smaller than that of a larger job.

    Raises
    ------
    ValueError
        If `servers` or a size is not above 0, `power` is not between 0 and 1, or a larger job has
        the larger weight.

    Examples
    --------
    >>> from goodalloc.models.classical import least_flow_time
    >>> least_flow_time([4.0], servers=4.0, power=0.5)
    2.0
    """
    require_number("Servers", servers, minimum=0.0, strict=True)
    exponent = _exponent(power)
    size = as_numbers("Jobs", "sizes", sizes).astype(float)
    if size.ndim != 1 or not size.size:
        raise ValueError(f"Jobs: sizes have shape {size.shape}; expected one a job.")
    require_all(np.isfinite(size) & (size > 0), "Job", "size", size, "finite seconds above 0")
    weight = np.ones(size.size) if weights is None else as_numbers("Jobs", "weights", weights)
    if weight.shape != size.shape:
        raise ValueError(f"Jobs: weights have shape {weight.shape}; expected {size.shape}.")
    order = np.lexsort((weight, -size))
    before = _weights_before(weight[order])
    steps = np.diff((before / before[-1]) ** exponent) ** (1.0 / exponent)
    return float(before[-1] * (size[order] @ steps) / servers**power)


def _exponent(power: float) -> float:
    """Return q of (1)."""
    require_number("Speedup: power", power, minimum=0.0, strict=True)
    if power >= 1.0:
        raise ValueError(f"Speedup: power is {power}; expected a number between 0 and 1.")
    return float(1.0 / (1.0 - power))


def _weights_before(weights: ArrayLike) -> Float[Floats, " bounds"]:
    """Return the partial sums Z of (1), from 0; shape (jobs + 1,)."""
    weight = as_numbers("Jobs", "weights", weights).astype(float)
    if weight.ndim != 1 or not weight.size:
        raise ValueError(f"Jobs: weights have shape {weight.shape}; expected one a job.")
    require_all(np.isfinite(weight) & (weight > 0), "Job", "weight", weight, "a number above 0")
    ascends = np.diff(weight, prepend=weight[0]) >= -ROUNDING * weight
    require_all(ascends, "Job", "weight", weight, "no less than that of a larger job")
    return np.concatenate([[0.0], np.cumsum(weight)])
