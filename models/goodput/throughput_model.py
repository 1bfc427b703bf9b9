"""Throughput of data-parallel training: section 3.2 of Pollux.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 3.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goodalloc.models.support.namespace import namespace

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Array, Numbers

ONE_REPLICA_SYNCHRONISATION = 1e-8 * (1.0 + 1e-8)
"""Seconds a single replica spends synchronising: the published stand-in for zero."""

REPLICA_FLOOR = 1e-8
"""Least value of `K - 2` in the synchronisation time, as published (keeps its slope in use)."""

TINY_SECONDS = 1e-300
"""Floor under a duration whose logarithm is taken."""


class ThroughputParameters(NamedTuple):
    """Seven parameters of the throughput model, each a float or an array of one shape.

    Attributes
    ----------
    alpha_grad, beta_grad
        Gradient computation: seconds, and seconds per example.
    alpha_local, beta_local
        Synchronisation within one node: seconds, and seconds per replica beyond the second.
    alpha_node, beta_node
        Synchronisation across several nodes, in the same units.
    gamma
        Overlap of the two, at least 1: 1 is none, infinity is full overlap.

    Examples
    --------
    >>> from goodalloc.models.goodput import ThroughputParameters
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> parameters.alpha_node
    0.2
    """

    alpha_grad: Numbers
    beta_grad: Numbers
    alpha_local: Numbers
    beta_local: Numbers
    alpha_node: Numbers
    beta_node: Numbers
    gamma: Numbers


class Overlap(NamedTuple):
    r"""Duration of a pass that computes and synchronises at once, and its two parts.

    Attributes
    ----------
    time
        :math:`(T_g^\gamma + T_s^\gamma)^{1/\gamma}` in seconds.
    gradient_share, synchronisation_share
        :math:`T_g^\gamma` and :math:`T_s^\gamma` over their sum; they add up to 1.
    """

    time: Array
    gradient_share: Array
    synchronisation_share: Array


def gradient_time(parameters: ThroughputParameters, atomic_batch_size: Numbers) -> Numbers:
    """Return the seconds of one forward and backward pass: alpha_grad + beta_grad m.

    Examples
    --------
    >>> from goodalloc.models.goodput import ThroughputParameters, gradient_time
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> gradient_time(parameters, 10)
    0.2
    """
    return parameters.alpha_grad + parameters.beta_grad * atomic_batch_size


def synchronisation_time(
    parameters: ThroughputParameters, nodes: Numbers, replicas: Numbers
) -> Array:
    """Return the seconds to average gradients: about 0 for K = 1, else alpha + beta max(K - 2, 0).

    Parameters
    ----------
    parameters
        Throughput parameters.
    nodes, replicas
        N and K; N matters only through "one node" or "several".

    Examples
    --------
    >>> from goodalloc.models.goodput import ThroughputParameters, synchronisation_time
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> round(float(synchronisation_time(parameters, 2, 4)), 6)
    0.22
    """
    xp = namespace(parameters, nodes, replicas)
    several = xp.asarray(nodes) > 1
    alpha = xp.where(several, parameters.alpha_node, parameters.alpha_local)
    beta = xp.where(several, parameters.beta_node, parameters.beta_local)
    time = alpha + beta * xp.maximum(xp.asarray(replicas) - 2.0, REPLICA_FLOOR)
    seconds: Array = xp.where(xp.asarray(replicas) > 1, time, ONE_REPLICA_SYNCHRONISATION)
    return seconds


def overlap(
    gradient: Numbers, synchronisation: Numbers, log_synchronisation: Numbers, gamma: Numbers
) -> Overlap:
    """Combine gradient and synchronisation time, stably for any gamma.

    The larger of the two is taken out of the root, so nothing overflows; the two shares, from
    which every derivative follows, cost no further transcendental function.

    Parameters
    ----------
    gradient, synchronisation
        Seconds; `gradient` is positive.
    log_synchronisation
        Natural logarithm of `synchronisation` (floored), which does not change with the batch.
    gamma
        Exponent of the overlap, at least 1.

    Examples
    --------
    >>> import math
    >>> from goodalloc.models.goodput import overlap
    >>> round(float(overlap(0.3, 0.4, math.log(0.4), gamma=2.0).time), 6)
    0.5
    """
    xp = namespace(gradient, synchronisation, log_synchronisation, gamma)
    logit = gamma * (log_synchronisation - xp.log(gradient))
    smaller = xp.exp(-xp.abs(logit))
    inverse = 1.0 / (1.0 + smaller)
    minor = smaller * inverse
    waits = logit > 0.0
    time = xp.maximum(gradient, synchronisation) * xp.exp(xp.log1p(smaller) / gamma)
    return Overlap(time, xp.where(waits, minor, inverse), xp.where(waits, inverse, minor))


def step_time(
    parameters: ThroughputParameters,
    nodes: Numbers,
    replicas: Numbers,
    atomic_batch_size: Numbers,
    accumulation_steps: Numbers,
) -> Array:
    r"""Return the seconds of one optimiser step.

    .. math:: T = s T_g + (T_g^\gamma + T_s^\gamma)^{1/\gamma}

    with s accumulation passes that do not synchronise, then one that does.

    Parameters
    ----------
    parameters
        Throughput parameters.
    nodes, replicas
        N and K of the allocation.
    atomic_batch_size
        m, examples per replica and pass.
    accumulation_steps
        s, the extra passes; 0 for none.

    Examples
    --------
    >>> from goodalloc.models.goodput import ThroughputParameters, step_time
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> round(float(step_time(parameters, 1, 2, 10, 1)), 6)
    0.45
    """
    xp = namespace(parameters, nodes, replicas, atomic_batch_size, accumulation_steps)
    gradient: Array = xp.maximum(gradient_time(parameters, atomic_batch_size), TINY_SECONDS)
    synchronisation = synchronisation_time(parameters, nodes, replicas)
    log_synchronisation = xp.log(xp.maximum(synchronisation, TINY_SECONDS))
    last = overlap(gradient, synchronisation, log_synchronisation, parameters.gamma).time
    return accumulation_steps * gradient + last


def throughput(
    parameters: ThroughputParameters,
    nodes: Numbers,
    replicas: Numbers,
    atomic_batch_size: Numbers,
    accumulation_steps: Numbers,
) -> Array:
    """Return the examples per second: K m (s + 1) / T.

    Examples
    --------
    >>> from goodalloc.models.goodput import ThroughputParameters, throughput
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> round(float(throughput(parameters, 1, 2, 10, 0)), 6)
    80.0
    """
    total = replicas * atomic_batch_size * (accumulation_steps + 1.0)
    return total / step_time(parameters, nodes, replicas, atomic_batch_size, accumulation_steps)
