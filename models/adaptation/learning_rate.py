r"""Scaling of the learning rate with the batch size: a factor on the rate tuned for M0.

With :math:`S = M / M_0` the factor is

- constant: 1;
- linear: :math:`S` (Goyal et al., arXiv:1706.02677);
- square-root: :math:`\sqrt S`, which Pollux uses with Adam and AdamW (OSDI'21, section 5.2);
- adascale: the gain :math:`r = (\sigma^2 + \mu^2) / (\sigma^2 / S + \mu^2)` (Johnson et al.,
  ICML'20), which Pollux uses with SGD; :math:`\sigma^2` and :math:`\mu^2` are variance and square
  of the gradient statistics.

For :math:`S \ge 1`, :math:`1 \le r \le S`; and :math:`r / S` is Pollux's efficiency. Whatever the
rule, a step at M is worth :math:`r` steps at M0 (*scale-invariant steps*), in which schedules of
the learning rate are to be counted.

References
----------
Johnson et al., "AdaScale SGD: A User-Friendly Algorithm for Distributed Training", ICML 2020.

Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 5.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from goodalloc.models.goodput.statistical_efficiency import GradientStatistics, adascale_gain
from goodalloc.models.support.validation import require_choice, require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Callable

    LearningRateRule: TypeAlias = Callable[[GradientStatistics, float], float]
    """The factor, from the gradient statistics and S."""


def _adascale(gradient: GradientStatistics, scale: float) -> float:
    return float(adascale_gain(gradient, 1.0, scale))


#: Rules by name.
LEARNING_RATE_RULES: dict[str, LearningRateRule] = {
    "constant": lambda gradient, scale: 1.0,
    "linear": lambda gradient, scale: scale,
    "square-root": lambda gradient, scale: math.sqrt(scale),
    "adascale": _adascale,
}


def learning_rate_factor(
    rule: str, gradient: GradientStatistics | None, initial: int, batch: int
) -> float:
    """Return the factor on the learning rate tuned for M0 in a step at M.

    Parameters
    ----------
    rule
        One of `LEARNING_RATE_RULES`.
    gradient
        Gradient statistics; None before there are any, when AdaScale's factor is 1.
    initial, batch
        M0 and M in examples.

    Raises
    ------
    ValueError
        If the rule is unknown, a batch size is not a count, or a statistic is negative.

    Examples
    --------
    >>> from goodalloc.models.adaptation import learning_rate_factor
    >>> learning_rate_factor("square-root", None, initial=100, batch=400)
    2.0
    """
    require_choice("Learning rate: rule", rule, tuple(LEARNING_RATE_RULES))
    require_count("Learning rate: initial", initial, 1)
    require_count("Learning rate: batch", batch, 1)
    if gradient is None:
        gradient = GradientStatistics(0.0, 0.0)
    require_number("Learning rate: square", gradient.square, 0.0)
    require_number("Learning rate: variance", gradient.variance, 0.0)
    return LEARNING_RATE_RULES[rule](gradient, batch / initial)
