r"""Seconds of a step of fully sharded data-parallel training of a language model.

A pass forward and backward over *m* sequences of *S* tokens on each GPU computes

.. math:: F = 6 N \, m S + A, \qquad A = a \, m S^2                                        (1)

operations, with the *N* parameters, and *a* for attention (12 times layers times width). On *n*
nodes of GPUs of one type it takes

.. math:: T = (c + r z + b \log_2 n) \, F + d A + o                                         (2)

seconds: *c* an operation, *r* more where activations are computed again (z = 1), *b* more on twice
as many nodes, *d* more for attention, which uses a GPU less well, *o* for each pass. The five are
not negative and fitted for every type, to relative errors. Optimiser and data are part of *o*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float

    from goodalloc.models.support.array_types import Floats

#: GPUs of a node.
GPUS_PER_NODE = 8


class LanguageModel(NamedTuple):
    """Size of a language model.

    Attributes
    ----------
    parameters
        N of equation (1).
    attention
        a of equation (1): operations of attention a token and token of context.
    """

    parameters: float
    attention: float


class ShardedPass(NamedTuple):
    """Pass of a training on some GPUs.

    Attributes
    ----------
    model
        The language model.
    gpu_type, gpus
        Type and number of GPUs, whole nodes of eight.
    tokens
        Tokens of a sequence, S.
    sequences
        Sequences on each GPU, m.
    recomputes
        Whether activations are computed again.
    """

    model: LanguageModel
    gpu_type: str
    gpus: int
    tokens: int
    sequences: int
    recomputes: bool = False

    @property
    def attention(self) -> float:
        """Operations of attention on each GPU, A of equation (1)."""
        return self.model.attention * self.sequences * self.tokens**2

    @property
    def operations(self) -> float:
        """Operations on each GPU, F of equation (1)."""
        return 6.0 * self.model.parameters * self.sequences * self.tokens + self.attention


class PassCoefficients(NamedTuple):
    """Coefficients of equation (2) for a type of GPU.

    Attributes
    ----------
    compute
        c: seconds an operation.
    recompute, spread, attention
        r, b and d: more seconds an operation where activations are computed again, for a doubling
        of the nodes, and for one of attention.
    overhead
        o: seconds a pass.
    """

    compute: float
    recompute: float
    spread: float
    attention: float
    overhead: float


@dataclass(frozen=True)
class ShardedTimes:
    """Fitted seconds of passes.

    Parameters
    ----------
    coefficients
        Coefficients by type of GPU.

    Raises
    ------
    ValueError
        If a coefficient is negative or no number.

    Examples
    --------
    >>> from goodalloc.models.plans.sharded_training import (
    ...     LanguageModel,
    ...     PassCoefficients,
    ...     ShardedPass,
    ...     ShardedTimes,
    ... )
    >>> times = ShardedTimes({"a100": PassCoefficients(5e-15, 1e-15, 1e-16, 0.0, 0.1)})
    >>> small = LanguageModel(parameters=1e9, attention=0.0)
    >>> round(times.seconds(ShardedPass(small, "a100", 16, 2048, 8)), 3)
    0.601
    """

    coefficients: Mapping[str, PassCoefficients]

    def __post_init__(self) -> None:
        for gpu_type, found in self.coefficients.items():
            for name, value in found._asdict().items():
                require_number(f"GPU type '{gpu_type}': {name}", value, minimum=0.0)

    def seconds(self, one: ShardedPass) -> float:
        """Return the seconds of a pass, equation (2).

        Raises
        ------
        ValueError
            If the type is unknown, or the GPUs are no whole nodes.
        """
        if one.gpu_type not in self.coefficients:
            raise ValueError(
                f"GPU type '{one.gpu_type}' is unknown; expected one of "
                f"{', '.join(self.coefficients)}."
            )
        return float(_features(one) @ np.array(self.coefficients[one.gpu_type]))


def _features(one: ShardedPass) -> Float[Floats, " coefficients"]:
    """Return what the coefficients of equation (2) multiply."""
    require_count("Pass: GPUs", one.gpus, minimum=GPUS_PER_NODE)
    if one.gpus % GPUS_PER_NODE:
        raise ValueError(f"Pass: GPUs is {one.gpus}; expected a multiple of {GPUS_PER_NODE}.")
    nodes = one.gpus // GPUS_PER_NODE
    operations = one.operations
    again, apart = operations * one.recomputes, operations * math.log2(nodes)
    return np.array([operations, again, apart, one.attention, 1.0])


def fit_sharded_times(passes: Sequence[ShardedPass], seconds: Sequence[float]) -> ShardedTimes:
    """Fit the coefficients of every type to measured passes, by least squares of relative errors.

    Parameters
    ----------
    passes, seconds
        Passes, and the seconds that they took.

    Raises
    ------
    ValueError
        If there is no pass, or a time is not positive.
    """
    from scipy.optimize import nnls

    if not passes:
        raise ValueError("Passes: there are none; expected some.")
    for taken in seconds:
        require_number("Pass: seconds", taken, minimum=0.0, strict=True)
    found = {}
    for gpu_type in dict.fromkeys(one.gpu_type for one in passes):
        chosen = [index for index, one in enumerate(passes) if one.gpu_type == gpu_type]
        relative = np.stack([_features(passes[index]) / seconds[index] for index in chosen])
        scale = np.maximum(np.abs(relative).max(axis=0), np.finfo(float).tiny)
        solution, _ = nnls(relative / scale, np.ones(len(chosen)))
        found[gpu_type] = PassCoefficients(*(solution / scale).tolist())
    return ShardedTimes(found)
