r"""Synchronisation times that a job has not measured, predicted from similar jobs.

A job of Pollux takes synchronisation that it never saw for cheap, and explores (section 4.1). Jobs
that were measured before tell more. With :math:`T` the gradient time of a pass with the largest
batch of a GPU, which the first measurement gives, the logarithms

.. math::
    y_l = \log(\alpha_l / T), \quad y_n = \log(\alpha_n / T), \quad
    y_{n \mid l} = \log(\alpha_n / \alpha_l)  (1)

depend little on the speed of the GPUs, and so do those of :math:`\beta / \alpha` and
:math:`\gamma`. Each is predicted from the jobs that measured it, by their similarity
(`models/goodput/job_similarity.py`). Where synchronisation on one node is known already,
:math:`y_n` or :math:`y_{n \mid l}` is taken, whichever is predicted more sharply.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 4.1. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.goodput.job_similarity import (
    LENGTH,
    predict_logarithm,
    similarity,
)
from goodalloc.models.goodput.throughput_model import ThroughputParameters, gradient_time
from goodalloc.models.support.validation import require_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goodalloc.models.goodput.job_similarity import (
        LogPrediction,
        Traits,
    )


LEAST_RATIO = 1e-3
"""Floor under ratios whose logarithm is taken."""


OPTIMISM = 1.0
"""Standard deviations by which assumed synchronisation times lie below their mean: errors on this
side are found out by measurements, those on the other side are not."""

SHARP = 0.5
"""Deviation of a predicted logarithm up to which a job need not explore: a 95 % interval of a
factor of e either way."""


class Regimes(NamedTuple):
    """Synchronisation that a job has measured.

    Attributes
    ----------
    local, node
        Whether on one node, and on several.
    local_growth, node_growth
        Whether its growth with the replicas: with more than two.
    """

    local: bool = False
    local_growth: bool = False
    node: bool = False
    node_growth: bool = False


class Experience(NamedTuple):
    """Traits, fitted parameters, measured regimes and most measured replicas of a job."""

    traits: Traits
    parameters: ThroughputParameters
    regimes: Regimes
    replicas: int


class Completed(NamedTuple):
    """Throughput parameters of which some are predicted.

    Attributes
    ----------
    parameters
        The parameters.
    deviation
        Greatest standard deviation of the logarithm of a predicted synchronisation time; 0 if all
        were measured.
    """

    parameters: ThroughputParameters
    deviation: float


class Foresight(NamedTuple):
    """Assumptions of a job where it has not measured.

    Attributes
    ----------
    parameters
        Throughput parameters.
    reach
        Replicas that similar jobs measured, if these tell enough to go there at once; else 0.
    """

    parameters: ThroughputParameters
    reach: int


#: Quantity of a job; None if it has not measured it.
Value = Callable[[Experience], "float | None"]


def measured_regimes(configurations: Iterable[tuple[int, int, int]]) -> Regimes:
    """Return the regimes among measured (nodes, replicas, atomic batch size).

    Examples
    --------
    >>> from goodalloc.models.goodput import measured_regimes
    >>> measured_regimes([(1, 1, 32), (1, 2, 32), (2, 8, 32)])
    Regimes(local=True, local_growth=False, node=True, node_growth=True)
    """
    pairs = {(nodes > 1, replicas) for nodes, replicas, _ in configurations}
    return Regimes(
        local=any(not several and replicas > 1 for several, replicas in pairs),
        local_growth=any(not several and replicas > 2 for several, replicas in pairs),
        node=any(several for several, _ in pairs),
        node_growth=any(several and replicas > 2 for several, replicas in pairs),
    )


def foresee(
    parameters: ThroughputParameters,
    regimes: Regimes,
    traits: Traits,
    experiences: Sequence[Experience],
) -> Foresight:
    """Return what a job assumes where it has not measured: optimistic predictions, if sharp.

    Parameters
    ----------
    parameters, regimes, traits, experiences
        As in `complete`.

    Examples
    --------
    >>> from goodalloc.data.applications import load_profile
    >>> from goodalloc.models.goodput import foresee, measured_regimes, traits_of
    >>> profile = load_profile("bert")
    >>> traits = traits_of(profile.batch, profile.throughput)
    >>> alone = measured_regimes([(1, 1, 12)])  # and nobody has experience
    >>> foresee(profile.throughput, alone, traits, ()).reach
    0
    """
    if not experiences:
        return Foresight(parameters, 0)
    completed = complete(parameters, regimes, traits, experiences, -OPTIMISM)
    sharp = completed.deviation <= SHARP
    reach = max(one.replicas for one in experiences) if sharp else 0
    return Foresight(completed.parameters, reach)


def complete(
    parameters: ThroughputParameters,
    regimes: Regimes,
    traits: Traits,
    experiences: Sequence[Experience],
    deviations: float = 0.0,
    length: float = LENGTH,
) -> Completed:
    """Return the parameters of a job with predictions where it has not measured.

    Parameters
    ----------
    parameters, regimes, traits
        Parameters fitted to its own measurements, the regimes of these, and its traits.
    experiences
        Jobs that were measured before; a regime that none of them has stays as it is.
    deviations
        Standard deviations by which predicted times lie above their mean: negative for optimism,
        ±1.96 for the ends of a 95 % interval.
    length
        Length scale of the similarity.

    Raises
    ------
    ValueError
        If `deviations` is not finite, or `length` is not above 0.

    Examples
    --------
    >>> from goodalloc.models.goodput import Experience, Regimes, Traits, complete
    >>> from goodalloc.models.goodput import ThroughputParameters
    >>> traits = Traits(128, 4096, 1000, 1e-3)
    >>> slow = ThroughputParameters(0.0, 1e-3, 0.1, 0.01, 0.5, 0.01, gamma=2.0)
    >>> known = Experience(traits, slow, Regimes(True, True, True, True), 16)
    >>> alone = ThroughputParameters(0.0, 2e-3, 1e-8, 1e-8, 1e-8, 1e-8, gamma=1.0)
    >>> found = complete(alone, Regimes(), traits._replace(seconds_per_example=2e-3), [known])
    >>> round(found.parameters.alpha_node, 2)  # twice as slow in everything
    1.0
    """
    require_number("Deviations", deviations)
    require_number("Length", length, minimum=0.0, finite=False, strict=True)

    def predict(value: Value) -> LogPrediction | None:
        return _predict(value, traits, experiences, length)

    unknown = [0.0]
    found = {name: float(number) for name, number in parameters._asdict().items()}
    seconds = float(gradient_time(parameters, traits.atomic_maximum))
    alone = predict(_local_over_gradient)
    if not regimes.local and alone is not None:
        found["alpha_local"] = seconds * alone.at(deviations)
        unknown.append(alone.deviation)
    ways = [(seconds, predict(_node_over_gradient))]
    if regimes.local:
        ways.append((found["alpha_local"], predict(_node_over_local)))
    likely = [(unit, way) for unit, way in ways if way is not None]
    if not regimes.node and likely:
        unit, way = min(likely, key=lambda one: one[1].deviation)
        found["alpha_node"] = unit * way.at(deviations)
        unknown.append(way.deviation)
    for regime, seen in (("local", regimes.local_growth), ("node", regimes.node_growth)):
        growth = predict(_growth_of(regime))
        if not seen and growth is not None:
            found[f"beta_{regime}"] = found[f"alpha_{regime}"] * growth.at(0.0)
    overlap = predict(_overlap)
    if not (regimes.local or regimes.node) and overlap is not None:
        found["gamma"] = max(overlap.at(0.0), 1.0)
    return Completed(ThroughputParameters(**found), max(unknown))


def _predict(
    value: Value, traits: Traits, experiences: Sequence[Experience], length: float
) -> LogPrediction | None:
    """Return the predicted logarithm of a quantity; None if no job has measured it."""
    known = [(one.traits, found) for one in experiences if (found := value(one)) is not None]
    if not known:
        return None
    jobs, values = zip(*known, strict=True)
    return predict_logarithm(
        np.array([similarity(traits, job, length) for job in jobs]),
        np.array([[similarity(one, other, length) for other in jobs] for one in jobs]),
        np.log(np.maximum(values, LEAST_RATIO)),
    )


def _gradient_seconds(one: Experience) -> float:
    return float(gradient_time(one.parameters, one.traits.atomic_maximum))


def _local_over_gradient(one: Experience) -> float | None:
    seen = one.regimes.local
    return float(one.parameters.alpha_local) / _gradient_seconds(one) if seen else None


def _node_over_gradient(one: Experience) -> float | None:
    seen = one.regimes.node
    return float(one.parameters.alpha_node) / _gradient_seconds(one) if seen else None


def _node_over_local(one: Experience) -> float | None:
    seen = one.regimes.local and one.regimes.node
    return float(one.parameters.alpha_node / one.parameters.alpha_local) if seen else None


def _overlap(one: Experience) -> float | None:
    return float(one.parameters.gamma) if one.regimes.local or one.regimes.node else None


def _growth_of(regime: str) -> Value:
    """Return the function that gives beta / alpha of a job in a regime."""

    def growth(one: Experience) -> float | None:
        alpha, beta = (
            float(getattr(one.parameters, f"{part}_{regime}")) for part in ("alpha", "beta")
        )
        return beta / alpha if getattr(one.regimes, f"{regime}_growth") else None

    return growth
