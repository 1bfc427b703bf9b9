r"""Value of units to a job by SLAQ: the fall of its loss in the next interval.

With *k* steps done and :math:`r(a)` steps a second on *a* units, *T* seconds are worth

.. math:: g(a) = \frac{\hat l(k) - \hat l(k + r(a) T)}{\Delta},                                (1)

where :math:`\hat l` is extrapolated (`losses/extrapolation.py`) and :math:`\Delta` makes jobs
comparable. The paper normalises by the largest change seen so far; a documented reading: the
largest fall from one measured loss to the next. The other one offered is the first loss.

Of fewer than four losses no curve is made. The loss is then believed to fall at every measurement
as far as it ever did, down to 0; and by :math:`\Delta` itself where there are no two losses: a new
job is worth most. A loss that only rises, or stays, is worth nothing.

References
----------
Zhang et al., "SLAQ: Quality-Driven Scheduling for Distributed Machine Learning", SoCC 2017.
    doi:10.1145/3127479.3127490
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from goodalloc.models.losses.extrapolation import extrapolate
from goodalloc.models.support.validation import (
    as_numbers,
    require_all,
    require_choice,
    require_number,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from goodalloc.models.support.array_types import Floats


#: Unit of falls of the loss.
NormalisedBy = Literal["largest_fall", "first_loss"]

#: Number of latest losses that count, and weight of each over that of the next.
WINDOW, DECAY = 40, 0.9

#: Losses from which on curves are fitted: as many as the first law has coefficients.
FEWEST = 4


class LossHistory(NamedTuple):
    """Known losses of a job.

    Attributes
    ----------
    first, every
        Step of the first measurement, and steps between measurements.
    losses
        Measured losses, NaN where missing or a spike; of shape (measurements,).
    done
        Completed steps.
    """

    first: float
    every: float
    losses: Float[Floats, " measurements"]
    done: float


def loss_reductions(
    histories: Sequence[LossHistory],
    ahead: Float[Floats, "jobs choices"],
    normalised_by: NormalisedBy = "largest_fall",
) -> Floats:
    """Return the normalised fall (1) for every job and number of steps.

    Parameters
    ----------
    histories
        Losses of every job.
    ahead
        Steps of the interval for every choice of units; shape (jobs, choices).
    normalised_by
        Definition of :math:`\\Delta`.

    Raises
    ------
    ValueError
        If `normalised_by` is unknown, `ahead` is negative or has no row for each job, a history has
        a negative number or loss, or its `every` is not above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.losses import LossHistory, loss_reductions
    >>> history = LossHistory(first=10.0, every=10.0, losses=np.array([4.0, 3.0]), done=20.0)
    >>> loss_reductions([history], np.array([[0.0, 10.0, 20.0]]))
    array([[0., 1., 2.]])
    """
    require_choice("Losses: normalised_by", normalised_by, get_args(NormalisedBy))
    steps = as_numbers("Losses", "ahead", ahead).astype(float)
    if steps.ndim != 2 or len(steps) != len(histories):
        raise ValueError(
            f"Losses: ahead has shape {steps.shape}; expected a row for each of "
            f"{len(histories)} jobs."
        )
    require_all(np.isfinite(steps) & (steps >= 0), "Losses", "ahead", steps, "0 or more")
    if not histories:
        return np.asarray(steps)
    for number, history in enumerate(histories):
        _check(f"Losses of job {number}", history)
    every = np.array([history.every for history in histories])[:, None]
    known = [history.losses[~np.isnan(history.losses)] for history in histories]
    counts = np.array([losses.size for losses in known])[:, None]
    fall = np.array([_largest_fall(losses) for losses in known])[:, None]
    first, last = (
        np.array([losses[end] if losses.size else 0.0 for losses in known])[:, None]
        for end in (0, -1)
    )
    unit = fall if normalised_by == "largest_fall" else first
    straight = np.minimum(fall * steps / every, last)
    falls = np.where(counts < FEWEST, straight, _fitted_falls(histories, steps))
    gains = np.divide(falls, unit, out=np.zeros_like(steps), where=unit > 0)
    return np.asarray(np.where(counts < 2, steps / every, gains))


def _check(item: str, history: LossHistory) -> None:
    """Validate a history."""
    require_number(f"{item}: first", history.first, 0.0)
    require_number(f"{item}: every", history.every, 0.0, strict=True)
    require_number(f"{item}: done", history.done, 0.0)
    above = np.isnan(history.losses) | ((history.losses >= 0) & np.isfinite(history.losses))
    require_all(above, item, "losses", history.losses, "a finite number of at least 0, or NaN")


def _largest_fall(losses: Floats) -> float:
    return float(max(-np.diff(losses).min(initial=0.0), 0.0))


def _fitted_falls(histories: Sequence[LossHistory], ahead: Floats) -> Floats:
    """Return the falls of the loss by fitted curves, where there are enough losses."""
    steps = np.zeros((len(histories), WINDOW))
    losses, weight = np.ones_like(steps), np.zeros_like(steps)
    ages = DECAY ** np.arange(WINDOW - 1.0, -1.0, -1.0)
    for row, history in enumerate(histories):
        last = history.losses[-WINDOW:]
        begin, measured = len(history.losses) - len(last), ~np.isnan(last)
        if not measured.any():
            weight[row, -1] = 1.0  # the curve of this job is not used
            continue
        place = slice(WINDOW - len(last), WINDOW)
        steps[row, place] = history.first + history.every * np.arange(
            begin, len(history.losses), dtype=float
        )
        losses[row, place] = np.where(measured, last, 1.0)
        weight[row, place] = np.where(measured, ages[place], 0.0)
    curves = extrapolate(steps, losses, weight)
    done = np.maximum(np.array([history.done for history in histories]), curves.first)[:, None]
    return np.asarray(np.maximum(curves.loss(done) - curves.loss(done + ahead), 0.0))
