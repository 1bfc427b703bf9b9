"""Fit of the step time of parameter-server training, and design of the measurements.

Optimus (EuroSys'18) fits its coefficients by non-negative least squares; here the errors are
relative, so that a step of 0.1 s counts as much as one of 60 s, and one that was measured too long
by whatever factor is off by at most 1. A step is linear in the coefficients
(`models/parameter_servers/step_time.py`), so the fit is a convex program with one minimum, solved
exactly.

Optimus profiles a job on 8 to 10 configurations. Its code (github.com/pengyanghua/optimus, commit
8c43920) draws numbers of servers from 1 to 10, and takes as many workers, which cannot tell a load
of w / p from a constant; `design_points` chooses configurations that tell all coefficients apart.

References
----------
Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters", EuroSys
    2018. doi:10.1145/3190508.3190517
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.parameter_servers.step_time import (
    PsStepTime,
    StepTimeCoefficients,
    optimus_terms,
    step_time_loads,
)
from goodalloc.models.support.validation import (
    as_numbers,
    require_all,
    require_choice,
    require_count,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int

    from goodalloc.models.parameter_servers.configuration import PsConfiguration
    from goodalloc.models.parameter_servers.step_time_form import StepTimeForm
    from goodalloc.models.support.array_types import Floats, Indices, Numbers


#: Prior knowledge of a coefficient before any measurement, as a part of a measurement: enough
#: to compare designs of fewer points than coefficients, and no more.
PRIOR = 1e-3


class StepTimeFit(NamedTuple):
    """Fitted step-time model.

    Attributes
    ----------
    parameters
        Fitted model; coefficients that were not fitted are 0.
    relative_errors
        Fitted / measured - 1 of every measurement, of shape (measurements,).
    """

    parameters: PsStepTime
    relative_errors: Float[Floats, " measurements"]


def default_terms(form: StepTimeForm) -> tuple[str, ...]:
    """Return the terms that measurements with equal cores, GPUs and bandwidth identify.

    Those of Optimus, and the update where its load is 1 / p: w / p is also that of push and pull,
    and a constant is part of the passes.

    Examples
    --------
    >>> from goodalloc.models.parameter_servers import StepTimeForm, default_terms
    >>> default_terms(StepTimeForm())
    ('per_example', 'compute', 'transfer', 'worker', 'server')
    """
    update = ("update",) if form.update_load == "averaged" else ()
    return optimus_terms(synchronous=form.synchronous) + update


def fit_step_time(
    form: StepTimeForm,
    configuration: PsConfiguration,
    batch_size: Numbers,
    seconds: Numbers,
    terms: Sequence[str] | None = None,
    bandwidth: Numbers = 1.0,
) -> StepTimeFit:
    """Fit non-negative coefficients by least squared relative error.

    Parameters
    ----------
    form
        Parameters that are not fitted.
    configuration
        Measured configurations, as arrays of shape (measurements,).
    batch_size, bandwidth
        As of `seconds_per_step`, a number or one a measurement.
    seconds
        Measured seconds of a step, of shape (measurements,).
    terms
        Names of the coefficients to fit; `default_terms` if None.

    Raises
    ------
    ValueError
        If there are fewer measurements than coefficients (Optimus needs five, four of an
        asynchronous job), a time is not above 0, a term is unknown, or a configuration is invalid
        or does not train.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.parameter_servers import PsConfiguration, StepTimeForm, fit_step_time
    >>> grid = PsConfiguration(*(axis.ravel() for axis in np.mgrid[1:5, 1:5]))
    >>> seconds = 0.32 / grid.workers + 0.1 * grid.workers / grid.servers
    >>> fit = fit_step_time(StepTimeForm(), grid, 32, seconds)
    >>> round(fit.parameters.coefficients.transfer, 6)
    0.1
    """
    loads, columns = _loads(form, configuration, batch_size, terms, bandwidth)
    measured = as_numbers("Fit", "seconds", seconds).astype(float)
    if measured.shape != loads.shape[:1]:
        raise ValueError(
            f"Fit: seconds have shape {measured.shape}; expected {loads.shape[:1]}, one a "
            "configuration."
        )
    above = np.isfinite(measured) & (measured > 0)
    require_all(above, "Fit", "seconds", measured, "a finite number above 0")
    if len(measured) < len(columns):
        raise ValueError(
            f"Fit: {len(measured)} measurements; expected at least {len(columns)} for "
            f"{', '.join(columns)}."
        )
    found = _non_negative(loads / measured[:, np.newaxis])
    parameters = PsStepTime(
        StepTimeCoefficients(**dict(zip(columns, found.tolist(), strict=True))), form
    )
    return StepTimeFit(parameters, loads @ found / measured - 1.0)


def _loads(
    form: StepTimeForm,
    configuration: PsConfiguration,
    batch_size: Numbers,
    terms: Sequence[str] | None,
    bandwidth: Numbers,
) -> tuple[Floats, tuple[str, ...]]:
    """Return the factors of some coefficients, (measurements, coefficients), and their names."""
    columns = default_terms(form) if terms is None else tuple(dict.fromkeys(terms))
    for term in columns:
        require_choice("Fit: term", term, StepTimeCoefficients._fields)
    if not columns:
        raise ValueError("Fit: no terms; expected at least one.")
    loads = step_time_loads(form, configuration, batch_size, bandwidth)
    if loads.trains.ndim != 1:
        raise ValueError(f"Fit: configurations have shape {loads.trains.shape}; expected a list.")
    words = "a configuration on which the job trains"
    require_all(loads.trains, "Fit", "workers", configuration.workers, words)
    return loads.matrix[:, [StepTimeCoefficients._fields.index(t) for t in columns]], columns


def _non_negative(matrix: Floats) -> Floats:
    """Return the non-negative weights of the columns whose sum is nearest to 1 in every row."""
    from scipy.optimize import nnls

    scale = np.abs(matrix).max(axis=0)
    scale[scale == 0] = 1.0
    found, _ = nnls(matrix / scale, np.ones(len(matrix)))
    return np.asarray(found / scale)


def design_points(
    form: StepTimeForm,
    configuration: PsConfiguration,
    batch_size: Numbers,
    points: int,
    terms: Sequence[str] | None = None,
) -> Int[Indices, " points"]:
    """Choose configurations to measure by a greedy D-optimal design.

    Each is the one that most reduces the volume of the uncertainty about the coefficients, if all
    terms had equal weight on average. The choice is deterministic and needs no data of the job.

    Parameters
    ----------
    form, batch_size, terms
        As of `fit_step_time`.
    configuration
        Candidates to measure, as arrays of shape (candidates,).
    points
        Number of configurations to choose.

    Returns
    -------
    ndarray
        Indices of different candidates in the order in which to measure them, of shape (points,).

    Raises
    ------
    ValueError
        If `points` is below 1 or above the number of candidates, a term is unknown, or a
        candidate is invalid or does not train.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.parameter_servers import PsConfiguration, StepTimeForm, design_points
    >>> grid = PsConfiguration(*(axis.ravel() for axis in np.mgrid[1:5, 1:5]))
    >>> len(set(design_points(StepTimeForm(), grid, 32, points=5).tolist()))
    5
    """
    loads, _ = _loads(form, configuration, batch_size, terms, 1.0)
    require_count("Design: points", points, 1, len(loads))
    mean = loads.mean(axis=0)
    rows = loads / np.where(mean > 0, mean, 1.0)
    rows /= rows.sum(axis=1, keepdims=True)
    spread = np.sqrt((rows**2).mean(axis=0))
    rows /= np.where(spread > 0, spread, 1.0)
    uncertainty = np.eye(rows.shape[1]) / PRIOR
    left = np.ones(len(rows), dtype=bool)
    chosen = []
    for _ in range(points):
        gain = np.einsum("ij,jk,ik->i", rows, uncertainty, rows)
        best = int(np.argmax(np.where(left, gain, -1.0)))
        chosen.append(best)
        left[best] = False
        learnt = uncertainty @ rows[best]
        uncertainty -= np.outer(learnt, learnt) / (1.0 + gain[best])
    return np.array(chosen, dtype=np.int64)
