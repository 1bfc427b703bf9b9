r"""Similarity of jobs by what is known when they start, and predictions from similar ones.

The logarithm of a quantity is predicted by a Gaussian process over the traits *x* of jobs,
logarithms that are known at submission or after the first pass:

.. math:: \kappa(a, b) = f_{ab} \exp(-\tfrac12 \overline{(x_a - x_b)^2} / \ell^2)  (1)

with the mean over the traits that are known of both jobs, and *f* = 1 in one family of models and
`OTHER_FAMILY` otherwise. A job without a like has the mean of all, with a wide interval.

References
----------
Rasmussen and Williams, "Gaussian Processes for Machine Learning", MIT Press 2006, chapter 2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.goodput.throughput_model import gradient_time

if TYPE_CHECKING:
    from goodalloc.models.goodput.model import BatchLimits
    from goodalloc.models.goodput.throughput_model import ThroughputParameters
    from goodalloc.models.support.array_types import Floats

LENGTH = 2.0
"""Length scale of (1): traits whose ratio is e² count as far."""

OTHER_FAMILY = 0.5
"""Correlation of jobs with the same traits and another or an unknown family of models."""

USUAL_DEVIATION = 1.0
"""Deviation of the logarithms (1) before jobs tell it; counts as much as one job."""

NOISE = 0.1
"""Deviation of a logarithm between two measurements of the same job."""


class Traits(NamedTuple):
    """Traits of a job that are known at its submission or after its first pass.

    Attributes
    ----------
    initial, maximum, atomic_maximum
        Batch limits in examples, as in `BatchLimits`.
    seconds_per_example
        Gradient time of a pass with the largest batch of a GPU, over its examples.
    model_parameters
        Number of parameters of the model; None if unknown.
    family
        Family of models, such as ``"transformer"``; empty if unknown.
    """

    initial: float
    maximum: float
    atomic_maximum: float
    seconds_per_example: float
    model_parameters: float | None = None
    family: str = ""


class LogPrediction(NamedTuple):
    """Mean and standard deviation of a predicted logarithm."""

    mean: float
    deviation: float

    def at(self, deviations: float) -> float:
        """Return the quantity that many standard deviations above its median."""
        return math.exp(self.mean + deviations * self.deviation)


def traits_of(
    limits: BatchLimits,
    parameters: ThroughputParameters,
    model_parameters: float | None = None,
    family: str = "",
) -> Traits:
    """Return the traits of a job from its batch limits and the fit to its first passes.

    Parameters
    ----------
    limits, parameters
        Batch limits, and fitted throughput parameters.
    model_parameters, family
        As in `Traits`.

    Examples
    --------
    >>> from goodalloc.data.applications import load_profile
    >>> from goodalloc.models.goodput import traits_of
    >>> profile = load_profile("bert")
    >>> traits_of(profile.batch, profile.throughput, family="transformer").initial
    12.0
    """
    most = float(limits.atomic_maximum)
    return Traits(
        initial=float(limits.initial),
        maximum=float(limits.maximum),
        atomic_maximum=most,
        seconds_per_example=float(gradient_time(parameters, most)) / most,
        model_parameters=model_parameters,
        family=family,
    )


def similarity(one: Traits, other: Traits, length: float = LENGTH) -> float:
    """Return the correlation (1) of two jobs, in (0, 1].

    Parameters
    ----------
    one, other
        Traits of the jobs.
    length
        Length scale; infinite for jobs that are all alike but for their families.

    Examples
    --------
    >>> from goodalloc.models.goodput import Traits, similarity
    >>> job = Traits(128, 4096, 1024, 7e-4, family="convolution")
    >>> similarity(job, job), similarity(job, job._replace(family="transformer"))
    (1.0, 0.5)
    """
    pairs = [
        (ours, theirs)
        for ours, theirs in zip(one[:-1], other[:-1], strict=True)
        if ours is not None and theirs is not None
    ]
    differences = [math.log(float(ours) / float(theirs)) for ours, theirs in pairs]
    distance = sum(value * value for value in differences) / (len(pairs) * length**2)
    family = 1.0 if one.family and one.family == other.family else OTHER_FAMILY
    return (1.0 if one == other else family) * math.exp(-0.5 * distance)


def predict_logarithm(
    like: Floats, among: Floats, known: Floats, usual_deviation: float = USUAL_DEVIATION
) -> LogPrediction:
    """Return the posterior of a Gaussian process at a job, from the values of others.

    Parameters
    ----------
    like
        Correlations with the other jobs, shape (jobs,).
    among
        Correlations among them, shape (jobs, jobs).
    known
        Their values, shape (jobs,); at least one.
    usual_deviation
        Deviation of the values before they are known, which counts as much as one of them.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.goodput import predict_logarithm
    >>> among = np.array([[1.0, 0.1], [0.1, 1.0]])
    >>> found = predict_logarithm(np.array([1.0, 0.1]), among, np.array([-3.0, -1.0]))
    >>> round(found.mean, 1), found.deviation < 0.3  # a job like the first
    (-3.0, True)
    """
    count = len(known)
    centre = float(np.mean(known))
    variance = (usual_deviation**2 + float(np.sum((known - centre) ** 2))) / count
    solved = np.linalg.solve(
        variance * among + NOISE**2 * np.eye(count),
        np.stack([known - centre, variance * like], axis=1),
    )
    weights = variance * like
    mean = centre + float(weights @ solved[:, 0])
    rest = max(variance - float(weights @ solved[:, 1]), 0.0)
    # The centre is uncertain where the others do not determine the value.
    return LogPrediction(mean, math.sqrt(rest * (1.0 + 1.0 / count) + NOISE**2))
