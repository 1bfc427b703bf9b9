"""Fit of the loss curve of Optimus to the losses measured so far.

The law (`models/losses/loss_curve.py`) holds for smooth curves, and better late than early. So, as
Optimus does, spikes are ignored, and recent points count more: of three segments of the points, its
code (github.com/pengyanghua/optimus, commit 8c43920) assumes for each a quarter of the deviation of
the one before. How the paper defines a spike could not be read; here it is a loss further from the
median of its neighbours than noise explains. Of spikes that come in groups, or last, the fit itself
takes little notice: residuals count by Cauchy's loss, in units of their median.

References
----------
Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters", EuroSys
    2018. doi:10.1145/3190508.3190517
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.losses.loss_curve import LossCurve, LossCurveFit, curves_through, loss_slopes
from goodalloc.models.support.validation import (
    as_numbers,
    require_all,
    require_count,
    require_number,
)

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from numpy.typing import ArrayLike

    from goodalloc.models.support.array_types import Flags, Floats


#: Fewest different steps: one more than coefficients.
FEWEST_STEPS = 4

#: Segments of the points, and the factor between the deviations assumed in two of them.
SEGMENTS, EMPHASIS = 3, 4.0

#: A spike is this many median deviations from the median of its neighbours, and by this part of it.
SPIKE_DEVIATIONS, SPIKE_PART = 5.0, 0.01

#: Neighbours on either side.
NEIGHBOURS = 2

#: Standard deviations in a median absolute deviation, and the scale at which Cauchy's loss is 95 %
#: as efficient as least squares where the noise is normal.
PER_MEDIAN, CAUCHY_SCALE = 1.4826, 2.385

#: Where the middle of a curve to start from may be, as parts of the points; and of how many points
#: medians are taken, where there are fewer points than the number behind.
MIDDLES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7)
GROUPS = ((1, 8), (3, 24), (5, math.inf))

#: Noise that is always assumed, as a part of the median loss.
LEAST_NOISE = 1e-7

#: How often, at most, the noise is estimated from the fit and the fit made anew; no more where it
#: changes by less than this part.
ROUNDS, SETTLED = 6, 1e-3

#: Least and largest coefficients in units of the data, and how often a fit evaluates the curve.
TINY, HUGE, EVALUATIONS = 1e-9, 1e9, 60

#: Weight of the assumption that nothing is infinitely uncertain, least mean curvature of the loss
#: where most residuals are large, and how closely a point is followed at most.
RIDGE, LEAST_CURVATURE, MOST_FOLLOWED = 1e-12, 0.1, 0.99


def fit_loss_curve(
    steps: ArrayLike, losses: ArrayLike, *, segments: int = SEGMENTS, emphasis: float = EMPHASIS
) -> LossCurveFit:
    """Fit a curve to measured losses.

    Parameters
    ----------
    steps, losses
        Of shape (measurements,), in any order; steps at least 0, losses above 0.
    segments
        Parts of equal size into which the points are cut, in the order of their steps.
    emphasis
        Deviation assumed in a segment over that in the next; 1 makes all points equal.

    Raises
    ------
    ValueError
        If the shapes differ, there are fewer than four different steps, a step is negative, a loss
        is not above 0, `segments` is below 1, or `emphasis` is below 1.
    """
    step, loss = _checked(steps, losses)
    require_count("Loss curve: segments", segments, 1)
    require_number("Loss curve: emphasis", emphasis, 1.0)
    kept = ~spikes(loss)
    if np.unique(step[kept]).size < FEWEST_STEPS:
        kept[:] = True
    length, height = float(step.max()), float(np.median(loss[kept]))
    x, y = step[kept] / length, loss[kept] / height
    later = np.arange(x.size) * segments // x.size - (segments - 1)
    weight = np.power(float(emphasis), 2.0 * later).astype(np.float64)
    found, scale = _start(x, y, weight), math.inf
    for _ in range(ROUNDS):  # the noise is known only when the curve is
        noise = PER_MEDIAN * float(np.median(np.abs(_losses(found, x) - y)))
        before, scale = scale, CAUCHY_SCALE * max(noise, LEAST_NOISE)
        if abs(scale - before) <= SETTLED * scale:
            break
        found = _refine(found, x, y, weight, scale)
    unit = np.array([1.0 / (length * height), 1.0 / height, height])
    curve = LossCurve(*(found * unit).tolist())
    return LossCurveFit(
        curve=curve,
        covariance=_covariance(found, x, y, weight, scale) * np.outer(unit, unit),
        freedom=max(float(weight.sum() ** 2 / (weight**2).sum()) - 3.0, 1.0),
        first=float(step[kept][0]),
        last=length,
        error=float(np.median(np.abs(curve.loss(step) / loss - 1.0))),
        spikes=int(np.count_nonzero(~kept)),
    )


def _checked(steps: ArrayLike, losses: ArrayLike) -> tuple[Floats, Floats]:
    """Validate steps and losses, and sort both by step."""
    step, loss = (
        as_numbers("Loss curve", name, values).astype(float)
        for name, values in (("steps", steps), ("losses", losses))
    )
    if step.ndim != 1 or step.shape != loss.shape:
        raise ValueError(
            f"Loss curve: steps have shape {step.shape} and losses {loss.shape}; expected two "
            "lists of one length."
        )
    require_all(np.isfinite(step) & (step >= 0), "Loss curve", "steps", step, "0 or more")
    above = np.isfinite(loss) & (loss > 0)
    require_all(above, "Loss curve", "losses", loss, "a finite number above 0")
    different = np.unique(step).size
    if different < FEWEST_STEPS:
        raise ValueError(
            f"Loss curve: {different} different steps; expected at least {FEWEST_STEPS}."
        )
    order = np.argsort(step, kind="stable")
    return step[order], loss[order]


def spikes(losses: Float[Floats, " measurements"]) -> Bool[Flags, " measurements"]:
    """Return the flags of losses that are too far from the median of their neighbours.

    The losses are in the order of their steps. At the ends there are fewer neighbours, as many on
    either side, so that a curve that only falls has no spike. Where it is steep, neighbours of a
    spike may go with it.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.losses import spikes
    >>> np.flatnonzero(spikes(np.array([4.0, 4.0, 4.0, 9.0, 4.0, 4.0, 4.0])))
    array([3])
    """
    size = losses.size
    median = losses.copy()
    for reach in range(1, NEIGHBOURS + 1):
        if size > 2 * reach:
            windows = np.lib.stride_tricks.sliding_window_view(losses, 2 * reach + 1)
            median[reach : size - reach] = np.median(windows, axis=1)
    away = np.abs(losses - median)
    usual = PER_MEDIAN * np.median(away)
    return np.asarray(away > np.maximum(SPIKE_DEVIATIONS * usual, SPIKE_PART * median))


def _losses(found: Floats, x: Floats) -> Floats:
    return np.asarray(LossCurve(*found).loss(x))


def _start(x: Floats, y: Floats, weight: Floats) -> Floats:
    """Return the best of the curves through medians of first, middle and last points."""
    size = next(size for size, most in GROUPS if x.size < most)
    best, least = np.array([1.0, 1.0, 0.0]), np.inf
    for part in MIDDLES:
        middle = min(max(int(part * x.size) - size // 2, 1), x.size - size - 1)
        groups = [slice(begin, begin + size) for begin in (0, middle, x.size - size)]
        steps, losses = (np.array([np.median(v[g]) for g in groups]) for v in (x, y))
        if not steps[0] < steps[1] < steps[2]:
            continue
        found = np.concatenate(curves_through(steps, losses[np.newaxis]))
        cost = float((np.sqrt(weight) * np.abs(_losses(found, x) - y)).sum())
        if cost < least:
            best, least = found, cost
    return best


def _refine(found: Floats, x: Floats, y: Floats, weight: Floats, scale: float) -> Floats:
    """Return the coefficients of least weighted Cauchy loss of residuals over `scale`."""
    from scipy.optimize import least_squares

    def loss(square: Floats) -> Floats:
        part = 1.0 / (1.0 + square)
        return np.stack([weight * np.log1p(square), weight * part, -weight * part**2])

    least, most = np.array([0.0, TINY, 0.0]), np.array([HUGE, HUGE, y.max()])
    begin = np.clip(found, least + TINY, most * (1.0 - TINY))
    with np.errstate(over="ignore", invalid="ignore"):  # where the points say next to nothing
        solution = least_squares(
            lambda b: (_losses(b, x) - y) / scale,
            begin,
            jac=lambda b: loss_slopes(LossCurve(*b), x) / scale,
            bounds=(least, most),
            loss=loss,
            x_scale=np.maximum(begin, 0.1),
            xtol=1e-12,
            ftol=1e-12,
            gtol=1e-12,
            max_nfev=EVALUATIONS,
        )
    return np.asarray(solution.x) if np.isfinite(solution.x).all() else begin


def _covariance(found: Floats, x: Floats, y: Floats, weight: Floats, scale: float) -> Floats:
    """Return the covariance of the coefficients by the sandwich estimator.

    It rests on the actual residuals, whatever the noise; those of points that the fit
    follows closely are made up for (as HC3 does in linear regression).
    """
    residual = _losses(found, x) - y
    square = (residual / scale) ** 2
    slopes = loss_slopes(LossCurve(*found), x)
    curvature = max(float(np.mean((1.0 - square) / (1.0 + square) ** 2)), LEAST_CURVATURE)
    bread = curvature * slopes.T @ (weight[:, np.newaxis] * slopes)
    inverse = np.linalg.inv(bread + RIDGE * np.trace(bread) * np.eye(3))
    follows = curvature * weight * np.einsum("ij,jk,ik->i", slopes, inverse, slopes)
    left = weight * residual / (1.0 + square) / (1.0 - np.minimum(follows, MOST_FOLLOWED))
    scores = slopes * left[:, np.newaxis]
    return np.asarray(inverse @ (scores.T @ scores) @ inverse)
