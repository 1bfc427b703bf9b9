r"""Extrapolation of losses by the two laws of section 4 of SLAQ.

Algorithms converge sublinearly, as gradient descent does, or linearly, as quasi-Newton methods do:

.. math:: l(k) = \frac{1}{a k^2 + b k + c} + d,                                                (1)
.. math:: l(k) = \mu^{k - b} + c, \qquad 0 < \mu < 1.                                          (2)

Both are fitted to the losses of the last steps with weights that fall exponentially with their age,
and the one of least weighted squares is taken. How the paper fits could not be read; a documented
reading: for every asymptote *d* of a grid :math:`1 / (l - d)` is linear in *a*, *b*, *c*, and for
every :math:`\mu` of a grid the loss is linear in :math:`\mu^{-b}` and *c*, so that least squares
have a closed form, no search can fail, and the curves of many jobs are fitted at once. Errors of
:math:`1 / (l - d)` count :math:`(l - d)^4` as much, as they do in the loss. With *k* counted from
the first of these steps the coefficients are at least 0, so that no curve rises, and no asymptote
is below 0.

References
----------
Zhang et al., "SLAQ: Quality-Driven Scheduling for Distributed Machine Learning", SoCC 2017, section
    4. doi:10.1145/3127479.3127490
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Bool, Float
    from numpy.typing import NDArray

    from goodalloc.models.support.array_types import Flags, Floats


#: Where asymptotes may be, below the least loss in units of what the losses fall; and how fast a
#: loss may fall, in units of the time over which it is known. First and last of a geometric grid.
BELOW, FASTER = (1e-2, 1e2), (5e-2, 5e1)

#: Points of a grid; of each finer one around the best so far, and how many of these there are.
GRID, FINER, ROUNDS = 12, 7, 3

#: Least distance to the asymptote, and to that of a straight line, and weight of the assumption
#: that no coefficient is infinite.
CLOSEST, RIDGE = 1e-6, 1e-12

#: Which of c, b, a are not 0: every law (1) of these is tried.
SHAPES = ((0, 1, 2), (0, 1), (0, 2), (0,))


class Extrapolation(NamedTuple):
    """Fitted curve of each of many jobs; every entry of shape (jobs,).

    Attributes
    ----------
    first, span
        First of the fitted steps, and the number of steps that they span.
    low, height
        Least loss, and range of the losses; in these units the curve is

            ``1 / (square u^2 + slope u + level) - below``, or, where `linear`,
            ``top exp(-rate u) + floor``, with ``u = (step - first) / span``.
    square, slope, level, below, top, rate, floor
        Coefficients.
    linear
        Whether it is law (2).
    """

    first: Float[Floats, " jobs"]
    span: Float[Floats, " jobs"]
    low: Float[Floats, " jobs"]
    height: Float[Floats, " jobs"]
    square: Float[Floats, " jobs"]
    slope: Float[Floats, " jobs"]
    level: Float[Floats, " jobs"]
    below: Float[Floats, " jobs"]
    top: Float[Floats, " jobs"]
    rate: Float[Floats, " jobs"]
    floor: Float[Floats, " jobs"]
    linear: Bool[Flags, " jobs"]

    def loss(self, steps: Float[Floats, "jobs steps"]) -> Float[Floats, "jobs steps"]:
        """Return the losses after `steps` steps.

        Parameters
        ----------
        steps
            Shape (jobs, steps); not before the first that the curve was fitted to.
        """
        curve = Extrapolation._make(part[:, None] for part in self)
        u = (steps - curve.first) / curve.span
        sublinear = 1.0 / (curve.square * u**2 + curve.slope * u + curve.level) - curve.below
        linear = curve.top * np.exp(-curve.rate * u) + curve.floor
        return curve.low + curve.height * np.where(curve.linear, linear, sublinear)


def extrapolate(
    steps: Float[Floats, "jobs losses"],
    losses: Float[Floats, "jobs losses"],
    weight: Float[Floats, "jobs losses"],
) -> Extrapolation:
    """Fit both laws to the losses of every job, and take the better one.

    Parameters
    ----------
    steps, losses
        Shape (jobs, losses), losses at least 0.
    weight
        Weight of each loss, 0 for missing ones; at least one of each job is above 0.
    """
    known = weight > 0
    first, last = _least(steps, known), -_least(-steps, known)
    low, high = _least(losses, known), -_least(-losses, known)
    span = np.where(last > first, last - first, 1.0)
    height = np.where(high > low, high - low, 1.0)
    u = np.where(known, (steps - first[:, None]) / span[:, None], 0.0)
    y = np.where(known, (losses - low[:, None]) / height[:, None], 0.0)
    deepest = np.maximum(low / height, CLOSEST)

    def sublinear(below: Floats) -> tuple[Floats, Floats]:
        return _sublinear(u, y, weight, np.clip(below, CLOSEST, deepest[:, None]))

    def linear(rate: Floats) -> tuple[Floats, Floats]:
        return _linear(u, y, weight, rate, -deepest[:, None])

    cost, (square, slope, level, below) = _best(sublinear, BELOW, len(u))
    other, (top, rate, floor) = _best(linear, FASTER, len(u))
    return Extrapolation(
        first=first,
        span=span,
        low=low,
        height=height,
        square=square,
        slope=slope,
        level=level,
        below=below,
        top=top,
        rate=rate,
        floor=floor,
        linear=other < cost,
    )


def _least(values: Floats, known: NDArray[np.bool_]) -> Floats:
    return np.asarray(np.where(known, values, np.inf).min(axis=1))


def _best(
    law: Callable[[Floats], tuple[Floats, Floats]], ends: tuple[float, float], jobs: int
) -> tuple[Floats, Floats]:
    """Return the least weighted squares over a grid and over finer ones around the best.

    Costs of shape (jobs,), and coefficients of shape (coefficients, jobs).
    """
    grid = np.broadcast_to(np.geomspace(*ends, GRID), (jobs, GRID))
    step = (ends[1] / ends[0]) ** (1.0 / (GRID - 1))
    cost, found = law(grid)
    for _ in range(ROUNDS):
        best = np.take_along_axis(grid, np.argmin(cost, axis=1)[:, None], axis=1)
        grid = best * step ** np.linspace(-1.0, 1.0, FINER)
        cost, found = law(grid)
        step **= 2.0 / (FINER - 1)
    chosen = np.argmin(cost, axis=1)[:, None]
    return (
        np.take_along_axis(cost, chosen, axis=1)[:, 0],
        np.take_along_axis(found, chosen[None], axis=2)[..., 0],
    )


def _sublinear(u: Floats, y: Floats, weight: Floats, below: Floats) -> tuple[Floats, Floats]:
    """Fit law (1) for every asymptote: costs (jobs, grid), coefficients (4, jobs, grid)."""
    above = y[:, None, :] + below[..., None]
    counts = weight[:, None, :] * above**4
    powers = u[None] ** np.arange(5)[:, None, None]
    moments = np.einsum("jgw,pjw->jgp", counts, powers)
    target = np.einsum("jgw,pjw->jgp", counts / above, powers[:3])
    lowest = np.full(below.shape, np.inf)
    found = np.zeros((*below.shape, 3))
    for shape in SHAPES:
        which = np.array(shape)
        matrix = moments[..., which[:, None] + which]
        ridge = RIDGE * np.trace(matrix, axis1=-2, axis2=-1)[..., None, None] * np.eye(which.size)
        solved = np.linalg.solve(matrix + ridge, target[..., which, None])[..., 0]
        value = np.einsum("jgi,jgik,jgk->jg", solved, matrix, solved)
        value -= 2.0 * np.einsum("jgi,jgi->jg", solved, target[..., which])
        better = (solved >= 0).all(axis=-1) & (solved[..., 0] > 0) & (value < lowest)
        lowest = np.where(better, value, lowest)
        filled = np.zeros_like(found)
        filled[..., which] = solved
        found = np.where(better[..., None], filled, found)
    level, slope, square = np.moveaxis(found, -1, 0)
    quadratic = np.einsum("jgp,pjw->jgw", found, powers[:3])
    fitted = 1.0 / np.maximum(quadratic, CLOSEST**2) - below[..., None]
    cost = np.einsum("jw,jgw->jg", weight, (fitted - y[:, None, :]) ** 2)
    return cost, np.stack([square, slope, level, below])


def _linear(
    u: Floats, y: Floats, weight: Floats, rate: Floats, deepest: Floats
) -> tuple[Floats, Floats]:
    """Fit law (2) for every rate: costs (jobs, grid), coefficients (3, jobs, grid)."""
    falling = np.exp(-rate[..., None] * u[:, None, :])
    share = weight / weight.sum(axis=1, keepdims=True)

    def mean(values: Floats) -> Floats:
        return np.asarray(np.einsum("jw,jgw->jg", share, values))

    height, square = mean(falling), mean(falling**2)
    level = np.einsum("jw,jw->j", share, y)[:, None]
    product = mean(falling * y[:, None, :])
    spread = np.maximum(square - height**2, RIDGE)
    top = np.maximum(product - height * level, 0.0) / spread
    floor = level - top * height
    deep = floor < deepest
    top = np.where(deep, np.maximum(product - deepest * height, 0.0) / square, top)
    floor = np.where(deep, deepest, floor)
    fitted = top[..., None] * falling + floor[..., None]
    cost = np.einsum("jw,jgw->jg", weight, (fitted - y[:, None, :]) ** 2)
    return cost, np.stack([top, np.broadcast_to(rate, top.shape), floor])
