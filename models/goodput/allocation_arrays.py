"""Arrays of allocations with all quantities that determine their best batch sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goodalloc.models.goodput.throughput_model import TINY_SECONDS, synchronisation_time
from goodalloc.models.support.namespace import namespace

if TYPE_CHECKING:
    from goodalloc.models.goodput.model import GoodputModel
    from goodalloc.models.support.array_types import Array, Numbers


class BatchSize(NamedTuple):
    """Batch sizes and their goodput, an array each.

    Attributes
    ----------
    goodput
        Examples per second worth of M0; 0 where no batch size is feasible.
    atomic
        m, examples per replica and pass; 0 where nothing is feasible.
    accumulation_steps
        s, extra passes per step.
    """

    goodput: Array
    atomic: Array
    accumulation_steps: Array


class Lanes(NamedTuple):
    """Allocations of one shape, with the quantities that do not depend on the batch size.

    `noise` and `signal` are A and B of goodput = M / ((A + B M) T): the variance over the sum of
    variance and square, and the square over that sum and M0. The other names are those of the
    models, `alpha` and `beta` belonging to the gradient's computation.
    """

    alpha: Numbers
    beta: Numbers
    gamma: Numbers
    synchronisation: Array
    log_synchronisation: Array
    noise: Array
    signal: Array
    replicas: Array
    initial: Numbers
    maximum: Numbers
    atomic_minimum: Numbers
    atomic_maximum: Numbers
    accumulation: Array | bool
    allowed: Array | bool


def prepare_lanes(model: GoodputModel, nodes: Numbers, replicas: Numbers) -> Lanes:
    """Compute the lanes of a model and its allocations, all of one shape and in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.goodput import BatchLimits, GoodputModel, GradientStatistics
    >>> from goodalloc.models.goodput import ThroughputParameters, prepare_lanes, stack_models
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> limits = BatchLimits(100, 1000, 10, 100)
    >>> model = GoodputModel(parameters, GradientStatistics(1.0, 3.0), limits)
    >>> lanes = prepare_lanes(stack_models([model]), np.array([1.0]), np.array([2.0]))
    >>> lanes.synchronisation
    array([0.05])
    """
    xp = namespace(model, nodes, replicas)
    parameters, gradient, batch = model
    allowed = (replicas >= 1.0) & (nodes >= 1.0) & (nodes <= replicas)
    synchronisation = synchronisation_time(parameters, nodes, replicas)
    total = gradient.variance + gradient.square
    moving = total > 0.0
    scale = xp.where(moving, total, 1.0)
    return Lanes(
        alpha=parameters.alpha_grad,
        beta=parameters.beta_grad,
        gamma=parameters.gamma,
        synchronisation=synchronisation,
        log_synchronisation=xp.log(xp.maximum(synchronisation, TINY_SECONDS)),
        noise=xp.where(moving, gradient.variance / scale, 0.0),
        # without any gradient the gain is 1, as if there were no noise
        signal=xp.where(moving, gradient.square / scale, 1.0) / batch.initial,
        replicas=xp.where(allowed, replicas, 1.0),
        initial=batch.initial,
        maximum=batch.maximum,
        atomic_minimum=batch.atomic_minimum,
        atomic_maximum=batch.atomic_maximum,
        accumulation=batch.accumulation > 0.0,
        allowed=allowed,
    )
