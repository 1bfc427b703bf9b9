"""Goodput, the product of throughput and statistical efficiency: section 3 of Pollux.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 3. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.goodput.statistical_efficiency import GradientStatistics, efficiency
from goodalloc.models.goodput.throughput_model import throughput
from goodalloc.models.support.namespace import namespace
from goodalloc.models.support.validation import LARGEST_COUNT, as_numbers, require_all

if TYPE_CHECKING:
    from goodalloc.models.goodput.throughput_model import ThroughputParameters
    from goodalloc.models.support.array_types import Array, Numbers

#: Largest throughput parameter, gradient statistic and batch size: far beyond any that was ever
#: measured (10^9 seconds are thirty years), and far from overflowing.
LARGEST = {"throughput": 1e9, "gradient": 1e100, "batch": float(LARGEST_COUNT)}

#: Least seconds of a pass, for the same reason.
SHORTEST_PASS = 1e-12


class BatchLimits(NamedTuple):
    """Limits of a job's batch size, each a whole number of examples or an array of them.

    Attributes
    ----------
    initial
        M0, the least total batch size and the one whose learning rate the user tuned.
    maximum
        M_max, the largest total batch size.
    atomic_minimum, atomic_maximum
        Bounds on m, the examples per replica and pass.
    accumulation
        Whether a step may accumulate several passes.
    """

    initial: Numbers
    maximum: Numbers
    atomic_minimum: Numbers
    atomic_maximum: Numbers
    accumulation: Numbers = True


def only_batch_size(batch_size: int) -> BatchLimits:
    """Return limits that allow one total batch size."""
    return BatchLimits(batch_size, batch_size, 1, batch_size, True)


class GoodputModel(NamedTuple):
    """Parameters of goodput besides the allocation; arrays in it stand for many jobs.

    Examples
    --------
    >>> from goodalloc.models.goodput import BatchLimits, GoodputModel, GradientStatistics
    >>> from goodalloc.models.goodput import ThroughputParameters
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> limits = BatchLimits(100, 1000, 10, 100)
    >>> model = GoodputModel(parameters, GradientStatistics(1.0, 3.0), limits)
    >>> model.by_throughput().gradient
    GradientStatistics(square=0.0, variance=1.0)
    """

    throughput: ThroughputParameters
    gradient: GradientStatistics
    batch: BatchLimits

    def by_throughput(self) -> GoodputModel:
        """Return the model without statistical efficiency, whose goodput is throughput.

        With noise alone every batch size is efficient; without accumulation, that gains nothing.
        """
        return self._replace(
            gradient=GradientStatistics(0.0, 1.0), batch=self.batch._replace(accumulation=False)
        )


def goodput(
    model: GoodputModel,
    nodes: Numbers,
    replicas: Numbers,
    atomic_batch_size: Numbers,
    accumulation_steps: Numbers,
) -> Array:
    """Return throughput times efficiency, in examples per second worth of M0.

    The batch limits, apart from M0, play no part: the m and s that are best within them are found
    by `best_batch_size` of `models/goodput/batch_size.py`. Zero where there is no replica or more
    nodes than replicas.

    Parameters
    ----------
    model
        Goodput model, one or many; every argument broadcasts against the others.
    nodes, replicas
        N and K of the allocation.
    atomic_batch_size, accumulation_steps
        m (examples) and s.

    Examples
    --------
    >>> from goodalloc.models.goodput import BatchLimits, GoodputModel, GradientStatistics
    >>> from goodalloc.models.goodput import ThroughputParameters, goodput
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> limits = BatchLimits(100, 1000, 10, 100)
    >>> model = GoodputModel(parameters, GradientStatistics(1.0, 3.0), limits)
    >>> round(float(goodput(model, 1, 2, 50, 0)), 2)  # 100 examples in 0.65 seconds
    153.85
    """
    xp = namespace(model, nodes, replicas, atomic_batch_size, accumulation_steps)
    present = (xp.asarray(replicas) >= 1) & (xp.asarray(nodes) <= xp.asarray(replicas))
    count = xp.maximum(xp.asarray(replicas, dtype=float), 1.0)
    batch = count * atomic_batch_size * (accumulation_steps + 1.0)
    rate = throughput(model.throughput, nodes, count, atomic_batch_size, accumulation_steps)
    progress = rate * efficiency(model.gradient, model.batch.initial, batch)
    result: Array = xp.where(present, progress, 0.0)
    return result


def validate(model: GoodputModel, name: str = "goodput model") -> GoodputModel:
    """Validate every number of a model and return the model unchanged.

    Parameters
    ----------
    model
        One model or a stack of many.
    name
        Name of the model in a message, for instance "job 'bert-7'".

    Raises
    ------
    ValueError
        On a NaN or infinite number, a negative time or statistic, one beyond `LARGEST`, a job
        whose pass takes no time, gamma below 1, or batch limits that are not whole, not positive
        or out of order.

    Examples
    --------
    >>> from goodalloc.models.goodput import BatchLimits, GoodputModel, GradientStatistics
    >>> from goodalloc.models.goodput import ThroughputParameters, validate
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> limits = BatchLimits(100, 1000, 10, 100)
    >>> model = GoodputModel(parameters, GradientStatistics(1.0, 3.0), limits)
    >>> validate(model) is model
    True
    """
    if plainly_in_order(model):
        return model
    for part, largest in LARGEST.items():
        group = getattr(model, part)
        for field, value in zip(group._fields, group, strict=True):
            require_all(
                np.isfinite(as_numbers(name, field, value)), name, field, value, "a finite number"
            )
            require_all(np.asarray(value) >= 0.0, name, field, value, "0 or more")
            require_all(np.asarray(value) <= largest, name, field, value, f"at most {largest:.10g}")
    parameters, batch = model.throughput, model.batch
    require_all(np.asarray(parameters.gamma) >= 1.0, name, "gamma", parameters.gamma, "1 or more")
    unit = np.add(parameters.alpha_grad, parameters.beta_grad)
    words = f"a positive time, at least {SHORTEST_PASS:g} seconds"
    require_all(unit >= SHORTEST_PASS, name, "alpha_grad + beta_grad", unit, words)
    for field in ("initial", "maximum", "atomic_minimum", "atomic_maximum"):
        value = np.asarray(getattr(batch, field), dtype=float)
        whole = np.isfinite(value) & (value >= 1.0) & (np.floor(value) == value)
        given = getattr(batch, field)
        require_all(whole, name, field, given, "a whole number of examples, 1 or more")
    flag = np.isin(batch.accumulation, (0, 1))
    require_all(flag, name, "accumulation", batch.accumulation, "true or false")
    for low, high in (
        ("initial", "maximum"),
        ("atomic_minimum", "atomic_maximum"),
        ("atomic_minimum", "maximum"),
    ):
        bound, value = getattr(batch, high), getattr(batch, low)
        ordered = np.asarray(value) <= np.asarray(bound)
        require_all(ordered, name, low, value, f"at most {high}", bound=bound)
    return model


def plainly_in_order(model: GoodputModel) -> bool:
    """Return True if a model is of plain numbers and valid; a fast, sufficient test.

    False is inconclusive: numbers of other types, arrays, or an invalid value.

    Examples
    --------
    >>> from goodalloc.models.goodput import BatchLimits, GoodputModel, GradientStatistics
    >>> from goodalloc.models.goodput import ThroughputParameters, plainly_in_order
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> limits = BatchLimits(100, 1000, 10, 100)
    >>> model = GoodputModel(parameters, GradientStatistics(1.0, 3.0), limits)
    >>> plainly_in_order(model)
    True
    """
    parameters, _, batch = model
    for part, largest in LARGEST.items():
        group = getattr(model, part)
        if not all(isinstance(value, float | int) and 0.0 <= value <= largest for value in group):
            return False
    examples = (batch.initial, batch.maximum, batch.atomic_minimum, batch.atomic_maximum)
    return bool(
        parameters.gamma >= 1.0
        and parameters.alpha_grad + parameters.beta_grad >= SHORTEST_PASS
        and all(size >= 1 and size == int(size) for size in examples)
        and batch.initial <= batch.maximum
        and batch.atomic_minimum <= min(batch.atomic_maximum, batch.maximum)
        and batch.accumulation in (0, 1)
    )
