r"""Fit throughput parameters to the parts of steps that a profiler tells apart.

A whole step says little about its parts: many :math:`(T_{sync}, \gamma)` have the same
:math:`(T_{grad}^\gamma + T_{sync}^\gamma)^{1/\gamma}`, the time of a step in Pollux (OSDI'21,
section 3.2). A profiler sees the synchronisation itself and how much of it is hidden, so that each
configuration identifies both. With the residuals, of configuration *i*,

.. math::
    r^{grad}_i = \log \hat T_{grad} / T_{grad}, \quad r^{step}_i = \log \hat T / T, \quad
    r^{sync}_i = \log \hat T_{sync} / T_{sync}, \quad
    r^{hidden}_i = \hat h - h, \quad h = (T_{grad} + T_{sync} - T) / T_{sync},  (1)

the fit minimises the sum of their squares, each over :math:`\tau^2 + e_i^2`, and the priors of
Pollux. :math:`e_i` is the standard error of the measurement. :math:`\tau`, one of each kind of
residual, is how far the model itself is off. It is estimated from the residuals of the fit before,
and weighs as much as those of `PRIOR_COUNT` configurations before anything is known.

Two terms that Pollux's formula lacks are optional. The update by the optimiser is part of
:math:`T_{grad}` there, and may have a time of its own; and replicas on one machine may slow each
other down by a part :math:`\kappa`, as on cores that share caches and memory:

.. math::
    T = s T_g + (T_g^\gamma + T_{sync}^\gamma)^{1/\gamma} + T_{update}, \qquad
    T_g = T_{grad} (1 + \kappa \, [K > N]).  (2)

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, sections 3.2 and 4.1. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import least_squares

from goodalloc.models.fitting.problem import (
    FitOptions,
    Observations,
    state_problem,
    usable_observations,
)
from goodalloc.models.goodput.throughput_model import (
    ThroughputParameters,
    gradient_time,
    overlap,
    synchronisation_time,
)

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.support.array_types import Flags, Floats

#: How far the model is off before anything is known, and for how many configurations that counts.
PRIOR_SPREAD, PRIOR_COUNT = 0.1, 2.0

#: Fits in turn, each with the spreads that the one before left.
ROUNDS = 4

#: Distance from its bounds at which a search starts, and the most contention.
MARGIN, MOST_CONTENTION = 1e-9, 10.0

#: Kinds of residuals, in the order of (1).
KINDS = ("gradient", "step", "synchronisation", "hidden")


class StepObservations(NamedTuple):
    """Measured steps of one job and their parts; arrays of shape (configurations,).

    Attributes
    ----------
    nodes, replicas
        N and K of the allocation.
    atomic_batch_size
        m, examples per replica and pass.
    accumulation_steps
        s, passes before the one that synchronises.
    pass_time, update_time, step_time
        Seconds of a pass without synchronisation, of an update and of a step.
    pass_error, step_error
        Relative standard errors of passes and steps.
    synchronisation_time
        Seconds in which gradients are averaged; NaN where they are not known.
    hidden
        Part of it that is hidden behind computation, 0 to 1; NaN where it is not known.
    synchronisation_error, hidden_error
        Relative standard error of the former; standard error of the latter.
    """

    nodes: Float[Floats, " configurations"]
    replicas: Float[Floats, " configurations"]
    atomic_batch_size: Float[Floats, " configurations"]
    accumulation_steps: Float[Floats, " configurations"]
    pass_time: Float[Floats, " configurations"]
    update_time: Float[Floats, " configurations"]
    step_time: Float[Floats, " configurations"]
    pass_error: Float[Floats, " configurations"]
    step_error: Float[Floats, " configurations"]
    synchronisation_time: Float[Floats, " configurations"]
    hidden: Float[Floats, " configurations"]
    synchronisation_error: Float[Floats, " configurations"]
    hidden_error: Float[Floats, " configurations"]

    def select(self, mask: Flags) -> StepObservations:
        """Return the configurations of a mask of shape (configurations,)."""
        return StepObservations(*(column[mask] for column in self))

    def without_parts(self) -> StepObservations:
        """Return the same steps, of whose parts nothing is known."""
        unknown = np.full(len(self.nodes), np.nan)
        return self._replace(synchronisation_time=unknown, hidden=unknown)

    def gradient_time(self, *, update_apart: bool) -> Floats:
        """Return seconds of a pass, with its share of the update unless that is apart."""
        if update_apart:
            return self.pass_time
        return self.pass_time + self.update_time / (self.accumulation_steps + 1.0)

    def observations(self, *, update_apart: bool) -> Observations:
        """Return the steps as Pollux's agent sees them, without accumulated passes."""
        gradient = self.gradient_time(update_apart=update_apart)
        last = self.step_time - self.accumulation_steps * gradient
        if update_apart:
            last = last - self.update_time
        columns = (self.nodes, self.replicas, self.atomic_batch_size, gradient, last)
        arrays = [np.asarray(column, dtype=float)[None] for column in columns]
        return Observations._make([*arrays, arrays[-1] > 0.0])


class StepFit(NamedTuple):
    """Fitted parameters of (2).

    Attributes
    ----------
    parameters
        Throughput parameters of Pollux.
    update
        Seconds of an update; 0 where it is part of the passes.
    contention
        Part by which replicas on one machine slow each other down; 0 without that term.
    spread
        How far the model is off, by kind of residual (`KINDS`), shape (4,); empty for
        Pollux's own fit.
    """

    parameters: ThroughputParameters
    update: float = 0.0
    contention: float = 0.0
    spread: Float[Floats, " kinds"] = np.zeros(0)

    def times(
        self, nodes: Floats, replicas: Floats, atomic_batch_size: Floats, accumulation_steps: Floats
    ) -> StepTimes:
        """Return the seconds (2) of configurations, arrays of one shape."""
        slower = 1.0 + self.contention * (replicas > nodes)
        gradient: Floats = np.asarray(
            gradient_time(self.parameters, atomic_batch_size), dtype=float
        )
        passes = gradient * slower
        waiting = np.asarray(synchronisation_time(self.parameters, nodes, replicas))
        last = np.asarray(overlap(passes, waiting, np.log(waiting), self.parameters.gamma).time)
        steps = accumulation_steps * passes + last + self.update
        return StepTimes(passes, steps, waiting, (passes + waiting - last) / waiting)


class StepTimes(NamedTuple):
    """Predicted seconds of passes, steps and synchronisation, and its part that is hidden."""

    passes: Floats
    steps: Floats
    synchronisation: Floats
    hidden: Floats


def fit_step_parts(
    steps: StepObservations,
    *,
    update_apart: bool = False,
    contention: bool = False,
    options: FitOptions | None = None,
) -> StepFit:
    """Fit the throughput parameters of one job to steps and to what is known of their parts.

    Parameters
    ----------
    steps
        Measured steps.
    update_apart, contention
        Whether the update, and replicas that slow each other down, have a term of their own.
    options
        Bounds and priors; those of Pollux if None.

    Raises
    ------
    ValueError
        If there is no usable observation, or a count is below 1 or not whole.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.fitting import StepObservations, fit_step_parts
    >>> one, two = np.ones(2), np.array([1.0, 2.0])
    >>> steps = StepObservations(
    ...     nodes=one, replicas=two, atomic_batch_size=16 * two, accumulation_steps=0 * one,
    ...     pass_time=0.1 * two, update_time=0.0 * one, step_time=np.array([0.1, 0.25]),
    ...     pass_error=0.01 * one, step_error=0.01 * one,
    ...     synchronisation_time=np.array([np.nan, 0.1]), hidden=np.array([np.nan, 0.5]),
    ...     synchronisation_error=0.1 * one, hidden_error=0.1 * one,
    ... )
    >>> round(fit_step_parts(steps).parameters.alpha_local, 2)
    0.1
    """
    options = FitOptions() if options is None else options
    whole = usable_observations(steps.observations(update_apart=update_apart))
    problem, seen_several = state_problem(whole, options)
    # coordinates: those of Pollux's fit, then the contention
    together = bool((steps.replicas > steps.nodes).any() and (steps.replicas == steps.nodes).any())
    free = np.append(np.asarray(problem.free[0], dtype=bool), contention and together)
    lower = np.append(problem.lower[0], 0.0)
    upper = np.append(problem.upper[0], MOST_CONTENTION)
    starts = [np.append(start, 0.0) for start in np.asarray(problem.starts[0])]
    gradient = steps.gradient_time(update_apart=update_apart)
    update = float(np.mean(steps.update_time)) if update_apart else 0.0

    def residuals(point: Floats) -> tuple[Floats, Floats]:
        return _residuals(_fit_at(point, update), gradient, steps)

    def weighted(moved: Floats, base: Floats, spread: Floats) -> Floats:
        point = _moved(base, free, moved)
        found, errors = residuals(point)
        known = (found / np.sqrt(spread[:, None] ** 2 + errors**2))[np.isfinite(found)]
        # as heavy as in Pollux's loss, a sum of roots in place of squares
        weight = np.sqrt(2.0 * len(steps.nodes) / spread[KINDS.index("step")])
        return np.concatenate([known, weight * _priors(point, options)])

    def search(start: Floats, spread: Floats) -> tuple[float, Floats]:
        inside = np.clip(start, lower + MARGIN, upper - MARGIN)[free]
        bounds = (lower[free], upper[free])
        found = least_squares(weighted, inside, bounds=bounds, args=(start, spread))
        return float(found.cost), _moved(start, free, found.x)

    spread, best = np.full(len(KINDS), PRIOR_SPREAD), starts[0]
    for _ in range(ROUNDS):
        _, best = min((search(start, spread) for start in starts), key=lambda one: one[0])
        starts, spread = [best], _spread(residuals(best)[0])
    found = _fit_at(best, update)
    priced = _priced(found.parameters, options, seen_several=bool(seen_several[0]))
    return found._replace(parameters=priced, spread=spread)


def _moved(base: Floats, free: Flags, values: Floats) -> Floats:
    """Return a point with other values in its free coordinates."""
    point = base.copy()
    point[free] = values
    return point


def _fit_at(point: Floats, update: float) -> StepFit:
    """Return the fit at a point: logarithms of the six times, gamma, and the contention."""
    *times, gamma, contention = map(float, point)
    parameters = ThroughputParameters._make([*map(math.exp, times), gamma])
    return StepFit(parameters, update, contention)


def _residuals(fit: StepFit, gradient: Floats, steps: StepObservations) -> tuple[Floats, Floats]:
    """Return the residuals (1) and their standard errors, each of shape (kinds, configurations)."""
    times = fit.times(
        steps.nodes, steps.replicas, steps.atomic_batch_size, steps.accumulation_steps
    )
    residuals = np.stack(
        [
            np.log(times.passes / gradient),
            np.log(times.steps / steps.step_time),
            np.log(times.synchronisation / steps.synchronisation_time),
            times.hidden - steps.hidden,
        ]
    )
    errors = np.stack(
        [steps.pass_error, steps.step_error, steps.synchronisation_error, steps.hidden_error]
    )
    return residuals, np.where(np.isfinite(errors), errors, 0.0)


def _spread(residuals: Floats) -> Floats:
    """Return how far the model is off, by kind, after the residuals of a fit."""
    known = np.isfinite(residuals)
    squares = np.where(known, residuals, 0.0) ** 2
    total = PRIOR_COUNT * PRIOR_SPREAD**2 + squares.sum(axis=1)
    spread: Floats = np.sqrt(total / (PRIOR_COUNT + known.sum(axis=1)))
    return spread


def _priors(point: Floats, options: FitOptions) -> Floats:
    """Return the roots of Pollux's priors: on gamma, and on synchronisation that grows."""
    growth = np.exp([point[3] - point[2], point[5] - point[4]])
    gamma = point[6]
    return np.array(
        [
            *(np.sqrt(options.retrogression_weight) * growth),
            np.sqrt(options.gamma_weight) * (gamma - options.gamma_minimum),
        ]
    )


def _priced(
    parameters: ThroughputParameters, options: FitOptions, *, seen_several: bool
) -> ThroughputParameters:
    """Return the parameters; several nodes, if unseen, cost more than one node."""
    if seen_several:
        return parameters
    dearer = options.unseen_node_factor
    return parameters._replace(
        alpha_node=max(parameters.alpha_node, dearer * parameters.alpha_local),
        beta_node=max(parameters.beta_node, dearer * parameters.beta_local),
    )
