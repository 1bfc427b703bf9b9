"""Fit throughput parameters to measured step times: Pollux (OSDI'21), section 4.1.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.1. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.fitting.problem import FitOptions as FitOptions
from goodalloc.models.fitting.problem import pad_observations as pad_observations
from goodalloc.models.fitting.problem import (
    pad_problem,
    settings_of,
    state_problem,
    usable_observations,
)
from goodalloc.models.goodput.throughput_model import ThroughputParameters, gradient_time, step_time

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from goodalloc.models.fitting.problem import Observations as Observations
    from goodalloc.models.support.array_types import Flags, Floats, Indices, Numbers


CPU_LANES, ACCELERATOR_LANES = 64, 8192
"""Number of fits to advance side by side."""


class RelativeError(NamedTuple):
    """Median and mean of |predicted / observed - 1|, each of shape (jobs,)."""

    median: Float[Floats, " jobs"]
    mean: Float[Floats, " jobs"]


class Fit(NamedTuple):
    """Fitted parameters and how well they fit; arrays of shape (jobs,).

    Attributes
    ----------
    parameters
        Throughput parameters.
    loss
        Loss of the fit (before unseen synchronisation on several nodes is priced).
    gradient_error, step_error
        Relative errors of the two observed times.
    iterations
        Iterations of the best search.
    converged
        Whether that search ended before its limit.
    """

    parameters: ThroughputParameters
    loss: Float[Floats, " jobs"]
    gradient_error: RelativeError
    step_error: RelativeError
    iterations: Int[Indices, " jobs"]
    converged: Bool[Flags, " jobs"]


def fit_throughput(observations: Observations, options: FitOptions | None = None) -> Fit:
    r"""Fit the throughput parameters of many jobs in one compiled call.

    .. math:: \min\; \mathrm{rms}(\Delta \log T_g) + \mathrm{rms}(\Delta \log T)
        + w_\gamma (\gamma - 1)^2 + w_r [(\beta_l / \alpha_l)^2 + (\beta_n / \alpha_n)^2]

    Regimes that a job has not tried yet are fixed so that they look cheap, which is how Pollux
    explores: synchronisation on one node or on several is free until seen, and does not grow with
    the replicas until more than two were seen.

    Parameters
    ----------
    observations
        Measured steps. Those with a NaN, infinite or non-positive number are ignored.
    options
        Start, bounds and priors; those of Pollux if None.

    Raises
    ------
    ValueError
        If the shapes differ, a count is below 1 or not whole, or a job has no usable observation.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.fitting import fit_throughput, pad_observations
    >>> table = np.array([[1, 1, 16, 0.2, 0.2], [1, 1, 32, 0.3, 0.3]])
    >>> fit = fit_throughput(pad_observations([table]))
    >>> bool(fit.step_error.median[0] < 0.1)
    True
    """
    import jax

    from goodalloc.models.fitting.search import search

    options = FitOptions() if options is None else options
    observations = usable_observations(observations)
    problem, seen_several = state_problem(observations, options)
    padded, jobs = pad_problem(problem), len(problem.nodes)
    lanes = CPU_LANES if jax.default_backend() == "cpu" else ACCELERATOR_LANES
    with jax.enable_x64(True):
        searched = search(
            padded, np.int64(jobs), settings_of(options), min(lanes, padded.starts[..., 0].size)
        )
        point, loss, iterations, converged = (np.asarray(leaf)[:jobs] for leaf in searched)
    best = np.argmin(loss, axis=1)
    row = np.arange(jobs)
    parameters = _parameters(point[row, best], seen_several, options)
    errors = _errors(parameters, observations)
    return Fit(
        parameters,
        loss[row, best],
        *errors,
        iterations[row, best],
        converged[row, best],
    )


def _parameters(point: Floats, seen_several: Flags, options: FitOptions) -> ThroughputParameters:
    """Return the parameters at a point; several nodes, if unseen, cost more than one node."""
    fitted = ThroughputParameters._make([*np.exp(point[:, :-1]).T, point[:, -1]])

    def price(node: Numbers, local: Numbers) -> Floats:
        dearer: Floats = np.maximum(node, options.unseen_node_factor * local)
        return np.where(seen_several, node, dearer)

    return fitted._replace(
        alpha_node=price(fitted.alpha_node, fitted.alpha_local),
        beta_node=price(fitted.beta_node, fitted.beta_local),
    )


def _errors(
    parameters: ThroughputParameters, observations: Observations
) -> tuple[RelativeError, RelativeError]:
    """Return the relative errors of the pass without synchronisation and of the step."""
    nodes, replicas, atomic, gradient, step, valid = observations
    columns = ThroughputParameters(*(np.asarray(value)[:, None] for value in parameters))
    predicted = (
        (gradient_time(columns, atomic), gradient),
        (step_time(columns, nodes, replicas, atomic, 0.0), step),
    )

    def summarise(estimate: Numbers, measured: Floats) -> RelativeError:
        error = np.where(valid, np.abs(estimate / measured - 1.0), np.nan)
        return RelativeError(np.nanmedian(error, axis=1), np.nanmean(error, axis=1))

    first, second = (summarise(*pair) for pair in predicted)
    return first, second


#: A scheduler refits all the time: it stops sooner than the fit of a profile.
ONLINE = FitOptions(smoothing=1e-5, tolerance=1e-6)
