"""Statement of a fit of throughput parameters: observations, bounds and penalties.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.1. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float
    from numpy.typing import ArrayLike

    from goodalloc.models.support.array_types import Array, Flags, Floats


LARGEST_VALUE = 1e30
"""An observation with a number above this, or a time below its inverse, is not usable."""

LOG_CEILING = 140.0
"""Largest logarithm of a parameter: stands for infinity and keeps every product finite."""

MEASURED_SHARE, MEASURED_GROWTH, MEASURED_GAMMA = 0.3, 0.1, 3.0
"""The second start: alpha's share of the measured compute time, beta over alpha, gamma."""

LEAST_WAIT = 1e-3
"""Least synchronisation time of the second start, over the step time."""

CONFIGURATION = ("nodes", "replicas", "atomic_batch_size")
MEASUREMENT = ("log_gradient_time", "log_step_time", "weight")

LEAST_OBSERVATIONS, FEW_JOBS, LEAST_JOBS, JOBS_FACTOR = 8, 4, 64, 4
"""Padded sizes: doubles of the least observations, few jobs, or fourfolds of the least jobs."""


@dataclass(frozen=True, slots=True)
class FitOptions:
    """Start, bounds and priors of a fit; the defaults are those of Pollux.

    Attributes
    ----------
    start_alpha, start_beta, start_gamma
        Start of the search (which also starts from the means of the measurements).
    least_time
        Least value of every alpha and beta, at which unseen regimes are fixed, in seconds.
    gamma_minimum, gamma_maximum
        Bounds on gamma.
    gamma_weight
        Weight of (gamma - gamma_minimum)^2.
    retrogression_weight
        Weight of (beta / alpha)^2 of synchronisation, on one node and on several.
    single_batch_share
        alpha_grad over the mean compute time where only one batch size was seen.
    unseen_node_factor
        Least ratio of synchronisation on several nodes to that on one, if the former is unseen.
    smoothing
        Final smoothing of the two roots (in units of the loss).
    tolerance
        A search ends when iterations gain less than this part of the loss.
    iterations
        Limit on the iterations from each start.
    """

    start_alpha: float = 0.1
    start_beta: float = 0.01
    start_gamma: float = 1.001
    least_time: float = 1e-8
    gamma_minimum: float = 1.0
    gamma_maximum: float = 10.0
    gamma_weight: float = 1e-3
    retrogression_weight: float = 1e-2
    single_batch_share: float = 0.5
    unseen_node_factor: float = 1.1
    smoothing: float = 1e-8
    tolerance: float = 1e-9
    iterations: int = 200

    def __post_init__(self) -> None:
        """Validate the options."""
        for name in ("start_alpha", "start_beta", "least_time", "single_batch_share", "smoothing"):
            require_number(f"fit options: {name}", getattr(self, name), 0.0, strict=True)
        for name in ("gamma_weight", "retrogression_weight", "unseen_node_factor", "tolerance"):
            require_number(f"fit options: {name}", getattr(self, name), 0.0)
        require_number("fit options: gamma_minimum", self.gamma_minimum, 1.0)
        require_number("fit options: gamma_maximum", self.gamma_maximum, self.gamma_minimum)
        require_number("fit options: start_gamma", self.start_gamma, self.gamma_minimum)
        require_count("fit options: iterations", self.iterations, 1)


class Observations(NamedTuple):
    """Measured steps of many jobs; arrays of shape (jobs, observations), padded.

    Attributes
    ----------
    nodes, replicas
        N and K of the allocation.
    atomic_batch_size
        m, examples per replica and pass.
    gradient_time, step_time
        Seconds of a pass without synchronisation, and of one with it.
    valid
        False for padding.
    """

    nodes: Float[Floats, "jobs observations"]
    replicas: Float[Floats, "jobs observations"]
    atomic_batch_size: Float[Floats, "jobs observations"]
    gradient_time: Float[Floats, "jobs observations"]
    step_time: Float[Floats, "jobs observations"]
    valid: Bool[Flags, "jobs observations"] = np.array(True)


class Problem(NamedTuple):
    """Fitting problem of one job; with a leading axis, of many jobs.

    Attributes
    ----------
    nodes, replicas, atomic_batch_size
        Observed configurations, of shape (observations,).
    log_gradient_time, log_step_time
        Logarithms of the observed seconds.
    weight
        One over the number of observations, 0 for padding.
    free, lower, upper
        Flags of the coordinates that may move, out of seven, and their bounds.
    starts
        Coordinates to start from, of shape (starts, 7).
    """

    nodes: Array
    replicas: Array
    atomic_batch_size: Array
    log_gradient_time: Array
    log_step_time: Array
    weight: Array
    free: Array
    lower: Array
    upper: Array
    starts: Array


class Settings(NamedTuple):
    """Numbers that all jobs share: weights of the priors, and criteria for stopping."""

    gamma_minimum: Array
    gamma_weight: Array
    retrogression_weight: Array
    smoothing: Array
    tolerance: Array
    iterations: Array


class Found(NamedTuple):
    """Best point of each start, of shape (jobs, starts, 7), with its exact loss."""

    point: Array
    loss: Array
    iterations: Array
    converged: Array


def pad_observations(jobs: Sequence[ArrayLike]) -> Observations:
    """Stack the observations of jobs that have different numbers of them.

    Parameters
    ----------
    jobs
        One table of shape (observations, 5) a job; the columns are those of `Observations`.

    Raises
    ------
    ValueError
        If a table has another shape.

    Examples
    --------
    >>> from goodalloc.models.fitting import pad_observations
    >>> one, two = [[1, 1, 16, 0.2, 0.2]], [[1, 1, 16, 0.2, 0.2], [1, 2, 16, 0.2, 0.3]]
    >>> pad_observations([one, two]).valid
    array([[ True, False],
           [ True,  True]])
    """
    tables = [np.asarray(job, dtype=float) for job in jobs]
    for index, table in enumerate(tables):
        if table.ndim != 2 or table.shape[1] != 5:
            raise ValueError(
                f"job {index}: observations of shape {table.shape}; expected (observations, 5)."
            )
    padded = np.ones((len(tables), max((len(table) for table in tables), default=0), 5))
    valid = np.zeros(padded.shape[:2], dtype=bool)
    for index, table in enumerate(tables):
        padded[index, : len(table)] = table
        valid[index, : len(table)] = True
    return Observations._make([*np.moveaxis(padded, 2, 0), valid])


def usable_observations(observations: Observations) -> Observations:
    """Return the observations as arrays with only usable ones valid, the others set to 1."""
    arrays = [np.asarray(array, dtype=float) for array in observations[:5]]
    shape = arrays[0].shape
    if len(shape) != 2 or any(array.shape != shape for array in arrays):
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(f"observations have shapes {shapes}; expected (jobs, observations) alike.")
    with np.errstate(invalid="ignore"):
        valid = np.broadcast_to(np.asarray(observations.valid, dtype=bool), shape).copy()
        for array in arrays:
            valid &= (array > 0.0) & (array <= LARGEST_VALUE)
        for array in arrays[3:]:
            valid &= array >= 1.0 / LARGEST_VALUE
    if not valid.any(axis=1).all():
        job = int(np.flatnonzero(~valid.any(axis=1))[0])
        raise ValueError(
            f"job {job}: no usable observation among {shape[1]}; expected one or more."
        )
    nodes, replicas, *times = (np.where(valid, array, 1.0) for array in arrays)
    whole = (nodes == np.floor(nodes)) & (replicas == np.floor(replicas))
    if not (whole & (nodes <= replicas)).all():
        job, index = (int(i) for i in np.argwhere(~(whole & (nodes <= replicas)))[0])
        raise ValueError(
            f"job {job}, observation {index}: {replicas[job, index]:g} replicas on "
            f"{nodes[job, index]:g} nodes; expected whole numbers and a replica or more on each."
        )
    return Observations._make([nodes, replicas, *times, valid])


def settings_of(options: FitOptions) -> Settings:
    """Return the numbers that the search needs of the options."""
    *numbers, iterations = (getattr(options, name) for name in Settings._fields)
    return Settings._make([*map(np.float64, numbers), np.int64(iterations)])


def _mean(values: Floats, mask: Flags, default: float) -> Floats:
    """Return the mean over the observations in a mask, or a default where there is none."""
    count = mask.sum(axis=1)
    total: Floats = np.where(mask, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), default)


def state_problem(observations: Observations, options: FitOptions) -> tuple[Problem, Flags]:
    """State the fit of each job, and say which have seen several nodes."""
    nodes, replicas, atomic, gradient, step, valid = observations
    several: Flags = np.asarray(valid & (nodes > 1))
    one = valid & (nodes == 1) & (replicas > 1)
    grown = (valid & (replicas > 2)).any(axis=1)
    least = np.where(valid, atomic, np.inf).min(axis=1, initial=np.inf)
    varied = least < np.where(valid, atomic, 0.0).max(axis=1, initial=0.0)
    seen_one: Flags = np.asarray(one.any(axis=1))
    seen_several: Flags = np.asarray(several.any(axis=1))
    true = np.ones(len(valid), dtype=bool)
    free = np.stack(
        [varied, true, seen_one, seen_one & grown, seen_several, seen_several & grown, true], axis=1
    )
    mean = _mean(gradient, valid, 1.0)
    fixed = np.full(free.shape, options.least_time)
    fixed[:, 0] = options.single_batch_share * mean
    wait = np.maximum(step - gradient, LEAST_WAIT * step)
    local, node = (_mean(wait, mask, options.least_time) for mask in (one, several))
    measured = np.stack(
        [
            MEASURED_SHARE * mean,
            (1.0 - MEASURED_SHARE) * mean / _mean(atomic, valid, 1.0),
            local,
            MEASURED_GROWTH * local,
            node,
            MEASURED_GROWTH * node,
            np.full(len(valid), MEASURED_GAMMA),
        ],
        axis=1,
    )
    published = np.array([options.start_alpha, options.start_beta] * 3 + [options.start_gamma])
    lower = np.log(np.where(free, options.least_time, fixed))
    upper = np.where(free, LOG_CEILING, lower)
    lower[:, -1], upper[:, -1] = options.gamma_minimum, options.gamma_maximum
    starts = np.stack([np.broadcast_to(published, free.shape), measured], axis=1)
    starts[..., :-1] = np.log(starts[..., :-1])
    starts = np.clip(starts, lower[:, None], upper[:, None])
    weight = valid / valid.sum(axis=1, keepdims=True)
    problem = Problem(
        nodes=nodes,
        replicas=replicas,
        atomic_batch_size=atomic,
        log_gradient_time=np.log(gradient),
        log_step_time=np.log(step),
        weight=weight,
        free=free,
        lower=lower,
        upper=upper,
        starts=starts,
    )
    return problem, seen_several


def pad_problem(problem: Problem) -> Problem:
    """Pad jobs and observations to few different sizes, each of which is compiled once."""
    shape = problem.nodes.shape
    jobs, observations = FEW_JOBS if shape[0] <= FEW_JOBS else LEAST_JOBS, LEAST_OBSERVATIONS
    while jobs < shape[0]:
        jobs *= JOBS_FACTOR
    while observations < shape[1]:
        observations *= 2

    def widen(name: str, array: Array) -> Array:
        extra = [(0, jobs - array.shape[0])] + [(0, 0)] * (array.ndim - 1)
        if name in CONFIGURATION or name in MEASUREMENT:
            extra[1] = (0, observations - array.shape[1])
        return np.pad(array, extra, constant_values=1 if name in CONFIGURATION else 0)

    return Problem(*map(widen, Problem._fields, problem))
