r"""Finish-time fairness: slowdown of a job by sharing a cluster (Themis).

A job that was submitted :math:`t_j` seconds ago has :math:`w_j` of :math:`W_j` steps remaining and
makes :math:`v_j(K)` of them a second on *K* GPUs, packed onto nodes. With *N* active jobs on *G*
GPUs,

.. math::

    \rho_j(K) = \frac{T^{\text{shared}}_j(K)}{T^{\text{alone}}_j}, \qquad
    T^{\text{shared}}_j(K) = t_j + \frac{w_j}{v_j(K)}, \qquad
    T^{\text{alone}}_j = \frac{W_j}{v_j(G / N)}.                                              (1)

At most 1 says that sharing costs it nothing. The ratio is the paper's; how its parts are estimated
is a documented reading: :math:`v_j` is linear between whole numbers of GPUs, so that below the
fewest that the job can run on time is shared out, and never falls, because a job may leave GPUs
idle; of more GPUs than it can use a share leaves the rest to others. A job that gets nothing now
waits for *z* seconds and goes on with its share,

.. math:: T^{\text{shared}}_j(0) = t_j + z + \frac{w_j}{v_j(G / N)},                          (2)

and one that is better off so leaves the GPUs that it gets idle. With :math:`z = \infty` a job
without GPUs never ends. What a job bids for GPUs is

.. math:: V_j(K) = 1 / \rho_j(K).                                                             (3)

References
----------
Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020.
    https://www.usenix.org/conference/nsdi20/presentation/mahajan
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.validation import as_numbers, require_all, require_number

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.support.array_types import Floats


class Progress(NamedTuple):
    """Progress of a job, and its speeds.

    Attributes
    ----------
    elapsed
        Seconds since it was submitted.
    remaining, whole
        Remaining steps, and steps of the whole training.
    speeds
        Steps per second on 0, 1, … GPUs, up to as many as it can use; 0 first.
    """

    elapsed: float
    remaining: float
    whole: float
    speeds: Float[Floats, " gpus"]


def speed_of_share(speeds: Floats, share: float) -> float:
    """Return the steps per second on a possibly fractional number of GPUs.

    Parameters
    ----------
    speeds
        As of `Progress`.
    share
        GPUs; more than the job can use are as good as those.
    """
    usable = np.maximum.accumulate(speeds)
    knots = np.flatnonzero(usable > 0)
    return float(np.interp(share, np.append(0, knots), np.append(0.0, usable[knots])))


def finish_time_fairness(
    progress: Progress, share: float, wait: float = math.inf
) -> Float[Floats, " gpus"]:
    """Return the fairness (1) of a job on 0, 1, … GPUs, which never rises.

    Parameters
    ----------
    progress
        The job.
    share
        GPUs of an equal share, *G / N*.
    wait
        Seconds to the next chance of a job that gets nothing, *z* of (2); infinite for never.

    Raises
    ------
    ValueError
        If a time, number of steps or speed is negative or not finite, `remaining` exceeds `whole`,
        `whole` or `share` is 0, or `speeds` are not 0 on no GPU and positive on some.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import Progress, finish_time_fairness
    >>> progress = Progress(0.0, remaining=100.0, whole=100.0, speeds=np.array([0.0, 1.0, 2.0]))
    >>> finish_time_fairness(progress, share=1.0)
    array([inf, 1. , 0.5])
    """
    _check(progress, share, wait)
    elapsed, remaining, whole, speeds = progress
    alone = speed_of_share(speeds, share)
    times = np.full(len(speeds), elapsed)
    if remaining > 0:
        with np.errstate(divide="ignore", over="ignore"):
            times = elapsed + remaining / np.maximum.accumulate(np.asarray(speeds, dtype=float))
        times[0] = elapsed + wait + remaining / alone
    return np.asarray(np.minimum.accumulate(times) * (alone / whole))


def valuations(fairness: Float[Floats, ...]) -> Float[Floats, ...]:
    """Return the bids (3): the inverse of the fairness, 0 where that is infinite.

    Parameters
    ----------
    fairness
        Above 0, any shape.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import valuations
    >>> valuations(np.array([np.inf, 1.0, 0.5]))
    array([0., 1., 2.])
    """
    return np.asarray(1.0 / fairness)


def _check(progress: Progress, share: float, wait: float) -> None:
    item = "Finish-time fairness"
    elapsed, remaining, whole, given = progress
    require_number(f"{item}: elapsed", elapsed, 0.0)
    require_number(f"{item}: remaining", remaining, 0.0)
    require_number(f"{item}: whole", whole, 0.0, strict=True)
    require_number(f"{item}: share", share, 0.0, strict=True)
    require_number(f"{item}: wait", wait, 0.0, finite=False)
    speeds = as_numbers(item, "speeds", given)
    if remaining > whole:
        raise ValueError(f"{item}: remaining is {remaining:g}; expected at most whole, {whole:g}.")
    if speeds.ndim != 1 or speeds.size < 2:
        raise ValueError(
            f"{item}: speeds have the shape {speeds.shape}; expected one for 0, 1, … GPUs."
        )
    require_all(
        np.isfinite(speeds) & (speeds >= 0), item, "speed", speeds, "a finite number from 0"
    )
    if speeds[0] != 0 or not (speeds > 0).any():
        raise ValueError(
            f"{item}: speeds are {speeds.tolist()}; expected 0 on no GPU and more on some."
        )
