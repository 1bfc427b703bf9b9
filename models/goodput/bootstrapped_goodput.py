r"""Throughput models of GPU types that a job has hardly run on: Sia's bootstrap.

On every type a job is profiled on a single GPU; a model of several GPUs is there only for types on
which it has run so. For any other type *t* take the first type *s* that has a model and scale it by
the best throughputs on one GPU:

.. math:: \mathrm{throughput}_t(N, K, m) = \frac{R_t}{R_s} \, \mathrm{throughput}_s(N, K, m).  (1)

That the first type is taken, not the likeliest, is the artifact's doing; so is that (1) scales
synchronisation by the speed of the GPUs, as if a faster one came with a faster network.

References
----------
Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling", SOSP
    2023. doi:10.1145/3600006.3613175
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.models.goodput.throughput_model import ThroughputParameters, throughput
from goodalloc.models.support.validation import require_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.goodput.model import BatchLimits


def best_on_one_gpu(parameters: ThroughputParameters, batch: BatchLimits) -> float:
    """Return the best throughput on one GPU, in examples per second.

    It is reached at the largest atomic batch size: throughput on one GPU grows with it.
    """
    return float(throughput(parameters, 1, 1, batch.atomic_maximum, 0))


def bootstrap(
    fitted: Mapping[str, ThroughputParameters], one_gpu: Mapping[str, float]
) -> dict[str, ThroughputParameters]:
    """Return throughput parameters on every profiled type, by equation (1) where none are fitted.

    Step time is homogeneous in the six durations of `ThroughputParameters`, so dividing them by the
    ratio of the throughputs scales the throughput of every placement and batch size alike (but for
    the 1e-8 s that stand for no synchronisation on one GPU).

    Parameters
    ----------
    fitted
        Parameters by type of GPU, where the job has run on several; the first is scaled for all
        that lack one. Empty for a job that never ran.
    one_gpu
        By type, the best throughput on one GPU in examples per second (`best_on_one_gpu`).

    Returns
    -------
    dict
        In the order of `one_gpu`; empty where nothing is fitted, since then no type is better known
        than another.

    Raises
    ------
    ValueError
        If a throughput is no positive number, or a type is fitted that was not profiled.

    Examples
    --------
    >>> from goodalloc.models.goodput import ThroughputParameters, bootstrap
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> bootstrap({"slow": parameters}, {"slow": 10.0, "fast": 20.0})["fast"].alpha_grad
    0.05
    """
    for name, rate in one_gpu.items():
        require_number(f"Type '{name}': throughput on one GPU", rate, minimum=0.0, strict=True)
    for name in fitted:
        if name not in one_gpu:
            known = ", ".join(one_gpu) or "none"
            raise ValueError(f"Type '{name}' is fitted but not profiled; expected one of {known}.")
    if not fitted:
        return {}
    first = next(iter(fitted))
    return {
        name: fitted[name] if name in fitted else faster(fitted[first], rate / one_gpu[first])
        for name, rate in one_gpu.items()
    }


def faster(parameters: ThroughputParameters, ratio: float) -> ThroughputParameters:
    """Return the parameters of a job that is `ratio` times as fast in every part."""
    durations = ThroughputParameters(*(value / ratio for value in parameters))
    return durations._replace(gamma=parameters.gamma)
