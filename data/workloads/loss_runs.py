r"""Seeded losses of training jobs, some of which follow a law and some of which do not.

The loss falls from a first value towards an asymptote. The user names a target a little above that,
which the loss reaches after as many steps as the job takes. It is measured after every epoch, with
noise, and now and then as a spike. Three kinds:

- *lawful*: by the law :math:`l(k) = 1 / (b_0 k + b_1) + b_2` of Optimus (EuroSys'18), so that its
  end can be predicted once enough is known;
- *stepwise*: two to four such curves one after the other, each to an asymptote of its own, as where
  the learning rate drops: until the last has begun, the end seems to be never;
- *stopped*: by the law, but its user ends it long before the loss is what she wanted, as in a
  search for hyper-parameters.

AITurbo's records (`aiturbo_jobs.py`) have no losses over time, only that unpredictable jobs end
with a higher loss, and sooner; that half of them are of either kind is ours.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args
from zlib import crc32

import numpy as np

from goodalloc.models.losses.loss_curve import LossCurve
from goodalloc.models.losses.loss_forecast import MOST_EPOCHS, LossRun
from goodalloc.models.support.validation import require_choice, require_number

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Floats

#: How a loss falls.
Course = Literal["lawful", "stepwise", "stopped"]

#: Epochs of a job, of the 100 that are allowed: from and to.
EPOCHS = (30.0, 90.0)

#: The first loss, and the asymptote as a part of it: from and to.
START, ASYMPTOTE = (2.0, 8.0), (0.05, 0.4)

#: What is left of the fall at the end, and at the end of a curve that is followed by another.
LEFT, LEFT_BETWEEN = (0.03, 0.15), (0.05, 0.3)

#: Curves of a stepwise course, and between which parts of the run they change.
CURVES, CHANGES = (2, 4), (0.2, 0.9)

#: How many times the steps of a stopped job it would have needed: from and to.
TOO_EARLY = (1.5, 10.0)

#: How often a loss is a spike, and how high: times the loss, from and to.
SPIKES, HEIGHT = 0.02, (1.2, 2.0)


def draw_losses(
    random: np.random.Generator, steps: float, course: Course, *, noise: float = 0.005
) -> LossRun:
    """Draw the losses of a job.

    Parameters
    ----------
    random
        Source of all random numbers.
    steps
        Number of steps after which the job ends.
    course
        How its loss falls.
    noise
        Standard deviation of the logarithm of a measured loss.

    Raises
    ------
    ValueError
        If a number is out of range, or `course` is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.data.workloads import draw_losses
    >>> run = draw_losses(np.random.default_rng(0), steps=100.0, course="lawful")
    >>> type(run).__name__
    'LossRun'
    """
    require_number("Losses: steps", steps, 0.0, strict=True)
    require_choice("Losses: course", course, get_args(Course))
    require_number("Losses: noise", noise, 0.0)
    epochs = random.uniform(*EPOCHS)
    start = random.uniform(*START)
    asymptote = start * random.uniform(*ASYMPTOTE)
    left = random.uniform(*LEFT)
    last = steps
    if course == "stopped":
        last *= float(np.exp(random.uniform(*np.log(TOO_EARLY))))
    if course == "stepwise":
        number = int(random.integers(CURVES[0], CURVES[1] + 1))
        changes = np.sort(random.uniform(*CHANGES, number - 1)) * steps
        between = random.uniform(*LEFT_BETWEEN, number - 1)
        floors = start - (start - asymptote) * np.sort(random.uniform(0.2, 0.8, number - 1))
    else:
        changes, between, floors = np.zeros(0), np.zeros(0), np.zeros(0)
    measured = steps / epochs * np.arange(1.0, np.floor(epochs) + 1.0)
    losses, target = _course(
        measured, start, [*changes, last], [*floors, asymptote], [*between, left]
    )
    losses = losses * np.exp(noise * random.standard_normal(losses.size))
    spiked = random.random(losses.size) < SPIKES
    losses = np.where(spiked, losses * random.uniform(*HEIGHT, losses.size), losses)
    return LossRun(steps / epochs, tuple(losses.tolist()), target, MOST_EPOCHS)


@lru_cache(maxsize=4096)
def losses_of(name: str, application: str, steps: float) -> LossRun:
    """Return the losses of a job, which depend on its name and its length only.

    Its target is reached exactly when its training ends.

    Parameters
    ----------
    name, application
        From these they are drawn.
    steps
        After which the job ends.
    """
    seed = [crc32(text.encode()) for text in (name, application)]
    return draw_losses(np.random.default_rng(seed), steps, "lawful")


def _course(
    steps: Floats, start: float, ends: list[float], floors: list[float], left: list[float]
) -> tuple[Floats, float]:
    """Return the losses at these steps, and the loss after the last.

    Every curve begins with the loss at which the one before it ended; at its own end there is so
    much left of its fall to its floor.
    """
    losses, begin = np.zeros(steps.size), 0.0
    for end, floor, part in zip(ends, floors, left, strict=True):
        height = start - floor
        curve = LossCurve((1.0 / part - 1.0) / height / (end - begin), 1.0 / height, floor)
        inside = steps > begin
        losses[inside] = curve.loss(steps[inside] - begin)
        start, begin = float(curve.loss(end - begin)), end
    return losses, start
